//! Runs a trial of a service that another program starts and restarts.
//!
//! There is no slot. A pidfd of the listening process shows when the process ends and, if the
//! kernel is new enough, how. If the process is in another namespace or on another host, only
//! missing responses show its end.

use super::service::{ServiceContext, ServiceUsage, fill_values, finished_load};
use provoke_exec::StopUrgency;
use provoke_model::{
    ActorObservation, Ending, LoadObservation, Observation, ServiceOwner, Signal, Trial,
    VariantPlan,
};
use provoke_sys::child::WaitStatus;
use provoke_sys::pidfd::Pidfd;
use provoke_sys::process;
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::time::sleep;

/// Interval between searches for a listening process, or for a sign of life.
const PAUSE: Duration = Duration::from_millis(50);
/// Interval between checks of a known process; a check takes a few microseconds.
const BLINK: Duration = Duration::from_millis(2);
/// Consecutive failed connections after which a service without a pidfd counts as ended.
const SILENT: u32 = 20;
/// Time in which a parent usually reaps its child.
const ASKED: Duration = Duration::from_secs(1);

impl ServiceContext {
    /// Waits for a service that another program starts, and puts it under load.
    pub(super) async fn attach_to_service(
        &self,
        trial: &Trial,
        variant: &VariantPlan,
        halt: &mut watch::Receiver<StopUrgency>,
    ) -> Observation {
        let started_at = Instant::now();
        let service = tokio::select! {
            found = self.find_service(trial, variant) => found,
            _ = halt.wait_for(|level| *level != StopUrgency::No) => {
                return Observation { interrupted: true, ..Observation::default() };
            }
        };
        let held_service = match service {
            Ok(held) => held,
            Err(trouble) => {
                let load = LoadObservation {
                    trouble: Some(trouble),
                    ..LoadObservation::default()
                };
                return Observation {
                    load: Some(Box::new(load)),
                    ..Observation::default()
                };
            }
        };
        let pid = held_service.as_ref().map(|(pid, _)| *pid);
        let mut clients = self.start_clients(trial, variant, pid.into_iter().collect());
        let mut sizes = ServiceUsage::of_pids(pid.into_iter().collect());
        let mut dead = false;
        let mut interrupted = false;
        let load = loop {
            tokio::select! {
                load = finished_load(&mut clients) => break load,
                () = self.wait_for_death(trial, variant, held_service.as_ref()), if !dead => {
                    dead = true;
                    clients.report_death(Duration::ZERO);
                }
                () = sizes.wait_for_next(), if !dead => sizes.sample_now(&self.live),
                _ = halt.wait_for(|level| *level != StopUrgency::No), if !interrupted => {
                    interrupted = true;
                    clients.ask_to_end();
                }
            }
        };
        let ending = match held_service {
            Some((pid, pidfd)) if dead => service_ending(pid, &pidfd).await,
            _ => Ending::Stopped,
        };
        let elapsed = started_at.elapsed();
        Observation {
            elapsed,
            actors: vec![ActorObservation {
                pid: pid.unwrap_or_default(),
                ending,
                elapsed,
                ..ActorObservation::default()
            }],
            load: Some(Box::new(LoadObservation {
                sizes: sizes.samples,
                ..load
            })),
            interrupted,
            ..Observation::default()
        }
    }

    /// Waits for a listening process, and opens a pidfd of it.
    async fn find_service(
        &self,
        trial: &Trial,
        variant: &VariantPlan,
    ) -> Result<Option<(i32, Pidfd)>, String> {
        let deadline = Instant::now() + self.load.ready_limit;
        let fill = fill_values(trial, variant);
        loop {
            let owner = match self.load.owner {
                ServiceOwner::Process(pid) if process::process_state(pid).is_some() => Some(pid),
                _ => provoke_load::find_owner(&self.load, &fill).await,
            };
            if let Some(pid) = owner {
                // If the process has ended meanwhile, search again.
                if let Ok(pidfd) = Pidfd::of_process(pid) {
                    return Ok(Some((pid, pidfd)));
                }
            } else if provoke_load::accepts_connections(&self.load, &fill).await {
                return Ok(None);
            }
            if Instant::now() >= deadline {
                return Err(format!("no process listens on {}", self.load.target.base));
            }
            sleep(PAUSE).await;
        }
    }

    /// Waits for the end of the service.
    async fn wait_for_death(
        &self,
        trial: &Trial,
        variant: &VariantPlan,
        held_service: Option<&(i32, Pidfd)>,
    ) {
        if let Some((_, pidfd)) = held_service {
            while !pidfd.has_ended() {
                sleep(BLINK).await;
            }
            return;
        }
        let fill = fill_values(trial, variant);
        let mut silent = 0;
        while silent < SILENT {
            sleep(PAUSE).await;
            let answers = provoke_load::accepts_connections(&self.load, &fill).await;
            silent = if answers { 0 } else { silent + 1 };
        }
    }
}

/// Returns how the process ended, after its parent has reaped it.
async fn service_ending(pid: i32, pidfd: &Pidfd) -> Ending {
    let deadline = Instant::now() + ASKED;
    loop {
        match pidfd.exit_status().or_else(|| process::zombie_status(pid)) {
            Some(WaitStatus::Exited(code)) => return Ending::Exited(code),
            Some(WaitStatus::Signaled(signal, core)) => {
                return Ending::Signaled(Signal(signal), core);
            }
            // The status is unknown; only the clients noticed the end.
            None if Instant::now() >= deadline => return Ending::Stopped,
            None => sleep(Duration::from_millis(5)).await,
        }
    }
}
