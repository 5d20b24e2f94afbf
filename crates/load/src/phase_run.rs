//! Runs one phase of a load: the warm-up, or the measured load.

use super::LoadProgress;
use super::clock::{Clock, duration_nanos};
use super::connect::Dialer;
use super::phase::LoadPhase;
use super::probe::Probe;
use super::record::WorkerRecord;
use super::request::Requests;
use super::signal::ClientStop;
use super::target::Target;
use super::thread::spawn_worker;
use super::worker::PhaseShared;
use provoke_model::LoadLimit;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// Clients per thread, until there is a thread for each CPU.
const CLIENTS_A_THREAD: u32 = 512;
/// Interval between checks of the clients.
const LOOK: Duration = Duration::from_millis(20);
/// Interval between checks until all clients have connected.
const QUICK_LOOK: Duration = Duration::from_millis(1);

/// Data of the trial that a phase needs.
pub(super) struct PhaseContext {
    pub(super) requests: Arc<Requests>,
    pub(super) target: Arc<Target>,
    pub(super) dialer: Arc<Dialer>,
    pub(super) probe: Probe,
    pub(super) clock: Clock,
    pub(super) live: Arc<LoadProgress>,
    pub(super) death: watch::Receiver<Option<Instant>>,
    pub(super) halt: watch::Receiver<bool>,
    /// Folder of the rings.
    pub(super) folder: PathBuf,
}

/// Result of a phase.
pub(super) struct PhaseResult {
    pub(super) records: Vec<WorkerRecord>,
    pub(super) rings: Vec<PathBuf>,
    pub(super) began: u64,
    pub(super) ended: u64,
    pub(super) stop: ClientStop,
    /// The service stopped responding, also to a probe.
    pub(super) hung: bool,
}

/// Waits for the crash of the service; never returns if the service does not crash.
pub(super) async fn wait_for_death(death: &mut watch::Receiver<Option<Instant>>) -> Instant {
    if let Ok(died) = death.wait_for(Option::is_some).await
        && let Some(died) = *died
    {
        return died;
    }
    std::future::pending().await // the sender is gone, so the service can no longer crash
}

/// Waits until provoke shuts down; never returns otherwise.
pub(super) async fn wait_for_halt(halt: &mut watch::Receiver<bool>) {
    if halt.wait_for(|halt| *halt).await.is_err() {
        std::future::pending::<()>().await;
    }
}

impl PhaseContext {
    /// Runs a phase to its end or until it is stopped.
    pub(super) async fn run_phase(&mut self, phase: LoadPhase) -> io::Result<PhaseResult> {
        let clients = phase.clients.max(1);
        let hang_after = phase.hang_after;
        let connect_limit = phase.connect_limit;
        let open = phase.rate.zip(Some(phase.amount));
        // At a fixed rate, one worker draws all requests, so that they are in order.
        let workers = if phase.is_open() {
            1
        } else {
            thread_count(clients)
        };
        let (go, went) = watch::channel(None);
        let (stop, stopped) = watch::channel(ClientStop::No);
        let shared = Arc::new(PhaseShared {
            requests: self.requests.clone(),
            target: self.target.clone(),
            dialer: self.dialer.clone(),
            clock: self.clock,
            next: AtomicU64::new(0),
            arrived: AtomicU32::new(0),
            go: went,
            stop: stopped,
            live: self.live.clone(),
            quiet: (0..workers).map(|_| AtomicU64::new(u64::MAX)).collect(),
            phase,
        });
        let mut rings = Vec::new();
        let mut records = Vec::new();
        for index in 0..workers {
            let share = |index: u32| {
                let end = u64::from(clients) * u64::from(index) / u64::from(workers);
                u32::try_from(end).unwrap_or(clients)
            };
            let range = share(index)..share(index + 1);
            let ring = self.folder.join(format!("ring-{index}"));
            rings.push(ring.clone());
            records.push(spawn_worker(&shared, index as usize, range, &ring)?);
        }
        let mut ran = PhaseResult {
            records: Vec::new(),
            rings,
            began: self.clock.nanos_now(),
            ended: 0,
            stop: ClientStop::No,
            hung: false,
        };
        let latest = self.clock.nanos_now()
            + duration_nanos(connect_limit)
            + duration_nanos(Duration::from_secs(1));
        let mut begun = false;
        let mut patient_until = 0;
        let workers_done = async {
            let mut gathered = Vec::new();
            for record in records {
                gathered.push(record.await);
            }
            gathered
        };
        tokio::pin!(workers_done);
        let gathered = loop {
            let pause = tokio::time::sleep(if begun { LOOK } else { QUICK_LOOK });
            tokio::select! {
                gathered = &mut workers_done => break gathered,
                died = wait_for_death(&mut self.death), if ran.stop == ClientStop::No => {
                    ran.stop = ClientStop::Died;
                    ran.ended = self.clock.nanos_at(died);
                    stop.send_replace(ClientStop::Died);
                }
                () = wait_for_halt(&mut self.halt), if ran.stop == ClientStop::No => {
                    ran.stop = ClientStop::Halted;
                    stop.send_replace(ClientStop::Halted);
                }
                () = pause => {}
            }
            let now = self.clock.nanos_now();
            if !begun && (shared.arrived.load(Ordering::Relaxed) >= clients || now > latest) {
                begun = true;
                ran.began = now;
                go.send_replace(Some(now));
            }
            if ran.stop != ClientStop::No {
                continue;
            }
            let quiet = shared
                .quiet
                .iter()
                .map(|quiet| quiet.load(Ordering::Relaxed))
                .min()
                .unwrap_or(u64::MAX)
                .max(patient_until);
            if now.saturating_sub(quiet) >= duration_nanos(hang_after) {
                let answer = tokio::select! {
                    answer = self.probe.ask_status() => answer,
                    died = wait_for_death(&mut self.death) => {
                        ran.ended = self.clock.nanos_at(died);
                        continue; // the loop sees the crash, too
                    }
                    () = wait_for_halt(&mut self.halt) => continue,
                };
                match answer {
                    Ok(_) => patient_until = self.clock.nanos_now(),
                    Err(_) => {
                        ran.stop = ClientStop::Died;
                        ran.hung = true;
                        ran.ended = self.clock.nanos_now();
                        stop.send_replace(ClientStop::Died);
                    }
                }
            }
        };
        if ran.stop != ClientStop::Died {
            ran.ended = self.clock.nanos_now();
        }
        for record in gathered {
            let lost_error = || io::Error::other("a client thread ended unexpectedly");
            ran.records.push(record.map_err(|_| lost_error())??);
        }
        if let (Some((rate, amount)), Some(record)) = (open, ran.records.first_mut())
            && ran.stop != ClientStop::No
        {
            // Count the requests that were due by then but not started.
            let due = rate.due_within(ran.ended.saturating_sub(ran.began));
            let due = match amount {
                LoadLimit::Requests(max) => due.min(max),
                LoadLimit::Time(time) => due.min(rate.due_within(duration_nanos(time))),
            };
            record.not_sent(due.saturating_sub(shared.next.load(Ordering::Relaxed)));
        }
        Ok(ran)
    }
}

/// Returns the number of threads for this number of clients.
fn thread_count(clients: u32) -> u32 {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let max = u32::try_from(processors / 2).unwrap_or(1).max(1);
    clients.div_ceil(CLIENTS_A_THREAD).clamp(1, max)
}
