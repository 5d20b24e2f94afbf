//! Executor whose slots are on other hosts.

use super::binary::OwnBinary;
use super::remote_host::RemoteHost;
use super::wire::{PROTOCOL, WorkerOrder, WorkerTask};
use super::{HostError, launch, slurm, ssh};
use crate::exec::{Executor, ExecutorFuture, HostChange, PreparationResult, StopUrgency};
use crate::model::{
    FailedHook, HostEngine, HostId, HostPlan, JoinedHost, Observation, Plan, SlotId, Text, Trial,
    VariantId, VariantPlan,
};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex as Register};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

/// Runs trials on other hosts, with one worker on each.
pub struct HostsExecutor {
    hosts: Vec<Arc<RemoteHost>>,
    slots: u32,
    changes: Register<Option<mpsc::UnboundedReceiver<HostChange>>>,
}

/// Numbers the hosts in the order in which they are ready.
struct Arrivals {
    next: HostId,
    sender: mpsc::UnboundedSender<HostChange>,
}

impl Arrivals {
    /// Reports a host before anything else about it.
    fn add(
        &mut self,
        joined: JoinedHost,
        start: impl FnOnce(HostId, mpsc::UnboundedSender<HostChange>) -> Arc<RemoteHost>,
    ) -> Arc<RemoteHost> {
        let id = self.next;
        self.next = HostId(id.0 + 1);
        // The receiver is part of the executor.
        let _ = self.sender.send(HostChange::Joined(Box::new(joined)));
        start(id, self.sender.clone())
    }
}

impl HostsExecutor {
    /// Starts a worker on each host. `joined` is the number of hosts that joined the run before, and `trials` the directory
    /// of the trials here.
    pub async fn connect(
        plan: &Plan,
        hosts: &HostPlan,
        joined: u32,
        trials: &Path,
    ) -> Result<Self, HostError> {
        let no_host = |error: io::Error| HostError::new("localhost", error.to_string());
        let binary = Arc::new(OwnBinary::open().map_err(no_host)?);
        let task = Arc::new(WorkerTask {
            protocol: PROTOCOL,
            plan: Box::new(plan_of_worker(plan, hosts)),
        });
        let script = launch::start_script(&binary);
        let launches = match &hosts.engine {
            HostEngine::Ssh(destinations) => ssh::launches(destinations, &script)?,
            HostEngine::Slurm(request) => slurm::launches(request, hosts.slots, &script)?,
        };
        let (sender, changes) = mpsc::unbounded_channel();
        let arrivals = Arc::new(Register::new(Arrivals {
            next: HostId(joined),
            sender,
        }));
        let mut starts = JoinSet::new();
        for (index, launch) in (0..).zip(launches) {
            let (binary, task) = (Arc::clone(&binary), Arc::clone(&task));
            let (arrivals, trials) = (Arc::clone(&arrivals), trials.to_owned());
            let (first_lane, slots) = (SlotId(index * hosts.slots), hosts.slots);
            let named_by_host = matches!(hosts.engine, HostEngine::Slurm(_));
            starts.spawn(async move {
                let connection = launch::start_worker(&launch, &binary).await?;
                let (receiver, writer, greeting) = connection.begin(&task, &binary).await?;
                let there = PathBuf::from(greeting.trials.as_os_str());
                let destination = if named_by_host {
                    greeting.machine.name.clone()
                } else {
                    receiver.host.clone()
                };
                let joined = JoinedHost {
                    destination,
                    machine: greeting.machine,
                    survey: greeting.survey,
                    first_lane,
                    slots,
                };
                // From now on, both sides send messages, while other hosts may still start.
                let host = arrivals
                    .lock()
                    .expect("no panic")
                    .add(joined, |id, changes| {
                        RemoteHost::start(id, receiver, writer, (there, trials), changes)
                    });
                Ok::<_, HostError>((index, host))
            });
        }
        let mut remote_hosts = Vec::new();
        while let Some(start) = starts.join_next().await {
            let start = start.map_err(|error| no_host(io::Error::other(error)))?;
            remote_hosts.push(start?);
        }
        remote_hosts.sort_by_key(|(index, _)| *index);
        let remote_hosts = remote_hosts.into_iter().map(|(_, host)| host).collect();
        Ok(Self {
            hosts: remote_hosts,
            slots: hosts.slots,
            changes: Register::new(Some(changes)),
        })
    }

    /// Returns the host of a slot, and the number of the slot there.
    fn host_of(&self, lane: SlotId) -> (Arc<RemoteHost>, SlotId) {
        let (host, slot) = (lane.0 / self.slots, lane.0 % self.slots);
        (Arc::clone(&self.hosts[host as usize]), SlotId(slot))
    }

    fn send_to_all(&self, order: impl Fn() -> WorkerOrder) {
        for host in &self.hosts {
            host.send_order(order());
        }
    }
}

/// Returns the plan for one worker.
fn plan_of_worker(plan: &Plan, hosts: &HostPlan) -> Plan {
    Plan {
        jobs: hosts.slots,
        hosts: None,
        ..plan.clone()
    }
}

impl Executor for HostsExecutor {
    fn learn_variant(&self, id: VariantId, variant: &VariantPlan) {
        self.send_to_all(|| WorkerOrder::Learn(id, Box::new(variant.clone())));
    }

    fn make_variant(
        &self,
        id: VariantId,
        halt: watch::Receiver<StopUrgency>,
    ) -> ExecutorFuture<PreparationResult> {
        let making = self.hosts.iter().map(|host| {
            let (host, halt) = (Arc::clone(host), halt.clone());
            async move { host.make_variant(id, halt).await }
        });
        let mut making: JoinSet<Option<PreparationResult>> = making.collect();
        Box::pin(async move {
            let (mut ready, mut failed) = (None, None);
            while let Some(made) = making.join_next().await {
                match made {
                    Ok(Some(made @ PreparationResult::Ready { .. })) => {
                        ready.get_or_insert(made);
                    }
                    Ok(Some(other)) => {
                        failed.get_or_insert(other);
                    }
                    // Its trials run on other hosts.
                    Ok(None) => {}
                    Err(error) => {
                        failed.get_or_insert(PreparationResult::Broken(error.to_string()));
                    }
                }
            }
            let no_host = || PreparationResult::Broken("no host is left".to_owned());
            failed.or(ready).unwrap_or_else(no_host)
        })
    }

    fn make_room(&self) -> Vec<VariantId> {
        let mut gone: Vec<VariantId> = Vec::new();
        for host in &self.hosts {
            gone.extend(host.take_removed_variants());
        }
        gone.sort_unstable();
        gone.dedup();
        gone
    }

    fn run_trial(
        &self,
        trial: Trial,
        halt: watch::Receiver<StopUrgency>,
    ) -> ExecutorFuture<Observation> {
        let (host, lane) = self.host_of(trial.lane);
        let trial = Trial { lane, ..trial };
        Box::pin(async move { host.run_trial(trial, halt).await })
    }

    fn keep_output(&self, lane: SlotId, folder: PathBuf, with_cores: bool) -> ExecutorFuture<()> {
        let (host, lane) = self.host_of(lane);
        host.keep_files(lane, folder, with_cores);
        Box::pin(std::future::ready(()))
    }

    fn run_hook(
        &self,
        variant: Option<VariantId>,
        command: &Text,
        halt: watch::Receiver<StopUrgency>,
    ) -> ExecutorFuture<io::Result<Option<FailedHook>>> {
        let running = self.hosts.iter().map(|host| {
            let (host, command, halt) = (Arc::clone(host), command.clone(), halt.clone());
            async move { host.run_hook(variant, command, halt).await }
        });
        let mut running: JoinSet<io::Result<Option<FailedHook>>> = running.collect();
        Box::pin(async move {
            // Each host runs its hook to the end.
            let mut failed = Ok(None);
            while let Some(result) = running.join_next().await {
                let result = result.unwrap_or_else(|error| Err(io::Error::other(error)));
                if !matches!(result, Ok(None)) && matches!(failed, Ok(None)) {
                    failed = result;
                }
            }
            failed
        })
    }

    fn host_changes(&self) -> Option<mpsc::UnboundedReceiver<HostChange>> {
        self.changes.lock().expect("no panic").take()
    }

    fn close(&self) -> ExecutorFuture<Vec<String>> {
        let closing = self.hosts.iter().map(|host| {
            let host = Arc::clone(host);
            async move { host.close().await }
        });
        let mut closing: JoinSet<Vec<String>> = closing.collect();
        Box::pin(async move {
            let mut complaints = Vec::new();
            while let Some(result) = closing.join_next().await {
                complaints.extend(result.unwrap_or_else(|error| vec![error.to_string()]));
            }
            complaints
        })
    }
}
