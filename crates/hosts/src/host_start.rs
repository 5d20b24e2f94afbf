//! Starts a worker on a host, and lets the host join the run when it is ready.

use super::HostError;
use super::binary::OwnBinary;
use super::connection::WorkerReceiver;
use super::host_pool::{HostPool, HostStanding, HostStep};
use super::launch::start_worker;
use super::limits::ReplyLimits;
use super::remote_host::RemoteHost;
use super::waiting::AwaitedHosts;
use super::wire::{WorkerGreeting, WorkerOrder, WorkerTask};
use provoke_exec::{PreparationResult, StopUrgency};
use provoke_model::{HostFacts, JoinedHost, SlotId};
use provoke_transports::Launch;
use std::path::PathBuf;
use std::sync::{Arc, Mutex as Register};
use tokio::net::UnixStream;
use tokio::sync::watch;
use tracing::Instrument as _;

/// What all hosts of a run need to start.
pub(super) struct HostStarter {
    pub(super) binary: OwnBinary,
    pub(super) task: WorkerTask,
    /// Facts that the user or the transport gives, by host.
    pub(super) facts: HostFacts,
    /// Number of parallel trials on each host.
    pub(super) slots: u32,
    /// Directory of the trials here.
    pub(super) trials: PathBuf,
    pub(super) limits: Arc<Register<ReplyLimits>>,
    pub(super) pool: Arc<Register<HostPool>>,
    pub(super) awaited: AwaitedHosts,
}

impl HostStarter {
    /// Starts a host. Returns whether it has joined: if the run ends before, it does not join.
    pub(super) async fn start_host(
        &self,
        index: u32,
        launch: &Launch,
        mut halt: watch::Receiver<StopUrgency>,
    ) -> Result<bool, HostError> {
        let span = tracing::info_span!(target: "host", "host", index);
        let connected = async {
            tracing::debug!(target: "host", "start a worker");
            let connection = start_worker(launch, &self.binary).await?;
            tracing::debug!(target: "host", "send the task");
            connection.begin(&self.task).await
        };
        let connected = connected.instrument(span);
        let halted = halt.clone();
        let started = tokio::select! {
            started = connected => started,
            _ = halt.wait_for(|urgency| *urgency != StopUrgency::No) => return Ok(false),
        };
        let joined = match started {
            Ok((receiver, writer, greeting)) => {
                let started = (receiver, writer, greeting);
                self.join_run(index, started, halted).await
            }
            Err(error) => Err(error),
        };
        self.awaited.remove(index);
        joined
    }

    /// Does the steps of the other hosts, and joins the run.
    async fn join_run(
        &self,
        index: u32,
        (mut receiver, writer, greeting): (WorkerReceiver, UnixStream, WorkerGreeting),
        halt: watch::Receiver<StopUrgency>,
    ) -> Result<bool, HostError> {
        let standing = Arc::new(Register::new(HostStanding::default()));
        let there = PathBuf::from(greeting.trials.as_os_str());
        let (name, report_loss) = {
            let mut pool = self.pool.lock().expect("no panic");
            let name = pool.reserve_name(&receiver.host);
            (name, pool.loss_reporter(&standing))
        };
        receiver.host.clone_from(&name);
        let mut survey = greeting.survey;
        for (fact, value) in self.facts.get(&name).into_iter().flatten() {
            survey.set_given(fact, value);
        }
        let joined = JoinedHost {
            destination: name.clone(),
            machine: greeting.machine.with_short_texts(),
            survey,
            first_slot: SlotId(index * self.slots),
            slots: self.slots,
        };
        // From now on, both sides send messages, while other hosts may still start.
        let folders = (there, self.trials.clone());
        let limits = Arc::clone(&self.limits);
        let host = RemoteHost::start(receiver, writer, limits, folders, report_loss);
        let mut done = 0;
        loop {
            let step = {
                let mut pool = self.pool.lock().expect("no panic");
                if *halt.borrow() != StopUrgency::No {
                    // The cleanup runs there, too.
                    pool.add_without_trials(index, host);
                    return Ok(false);
                }
                let Some(step) = pool.next_step(&mut done) else {
                    let joined = pool.join(index, host, &standing, joined, greeting.boot_id);
                    return match joined {
                        Ok(()) => Ok(true),
                        Err(reason) => Err(HostError::new(&name, reason)),
                    };
                };
                step
            };
            tracing::debug!(target: "host", index, done, "do a step of the other hosts");
            let failed = do_step(&host, step.clone(), halt.clone()).await;
            let mut pool = self.pool.lock().expect("no panic");
            if let Err(reason) = failed
                && pool.has_step(&step)
            {
                pool.add_without_trials(index, host);
                return Err(HostError::new(&name, reason));
            }
        }
    }
}

/// Does a step on a host. A lost host does nothing, and a halted step has not failed.
async fn do_step(
    host: &RemoteHost,
    step: HostStep,
    halt: watch::Receiver<StopUrgency>,
) -> Result<(), String> {
    let halted = halt.clone();
    let failed = match step {
        HostStep::Learn(id, variant) => {
            host.send_order(WorkerOrder::Learn(id, variant));
            None
        }
        HostStep::Make(id) => match host.make_variant(id, halt).await {
            Some(PreparationResult::Failed(reason) | PreparationResult::Broken(reason)) => {
                let reason = reason.lines().next().unwrap_or_default();
                Some(format!("it cannot prepare a variant: {reason}"))
            }
            Some(PreparationResult::Ready { .. } | PreparationResult::Halted) | None => None,
        },
        HostStep::Hook(variant, command) => match host.run_hook(variant, command, halt).await {
            Ok(None) => None,
            Ok(Some(failed)) => Some(format!("`setup` failed: {}", failed.ending)),
            Err(error) => Some(format!("`setup` cannot run: {error}")),
        },
    };
    let is_halted = *halted.borrow() != StopUrgency::No;
    match failed {
        Some(reason) if !is_halted => Err(reason),
        _ => Ok(()),
    }
}
