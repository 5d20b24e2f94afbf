//! Executor whose slots are on other hosts.

use super::binary::OwnBinary;
use super::builds::HostBuilds;
use super::host_pool::{HostPool, HostStep};
use super::host_start::HostStarter;
use super::limits::ReplyLimits;
use super::remote_host::RemoteHost;
use super::waiting::AwaitedHosts;
use super::wire::{WorkerOrder, WorkerTask};
use super::{HostError, launch};
use provoke_exec::{
    Executor, ExecutorFuture, HostChange, PreparationResult, StopUrgency, TrialReporter,
    run_one_trial,
};
use provoke_model::{
    FailedHook, HostId, HostPlan, HostRequest, Observation, SlotId, Text, Trial, TrialsPlan,
    VariantId, VariantPlan,
};
use provoke_transports::{HostStarts, find_transport};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::{Arc, Mutex as Register};
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

/// Time for which the first host that is ready waits for others.
const GATHER_FOR: Duration = Duration::from_secs(1);

/// Runs trials on other hosts, with one worker on each.
pub struct HostsExecutor {
    pool: Arc<Register<HostPool>>,
    limits: Arc<Register<ReplyLimits>>,
    slots: u32,
    changes: Register<Option<mpsc::UnboundedReceiver<HostChange>>>,
    /// The hosts that are not ready yet.
    starts: Register<JoinSet<()>>,
    halt_starts: watch::Sender<StopUrgency>,
    /// Builds variants, if they have directories of their own.
    builds: Option<HostBuilds>,
    /// Variants with a `setup`, and whether it has run.
    setups: Arc<Register<BTreeMap<VariantId, bool>>>,
}

impl HostsExecutor {
    /// Starts a worker on each host, and waits until a host is ready; others join the run later. `joined` is the number of
    /// hosts that joined the run before, and `trials` the directory of the trials here. If the wait takes long,
    /// `describe_wait` receives what it waits for.
    pub async fn connect(
        plan: &TrialsPlan,
        hosts: &HostPlan,
        joined: u32,
        trials: &Path,
        mut describe_wait: impl FnMut(String),
    ) -> Result<Self, HostError> {
        let no_host = |error: io::Error| HostError::new("localhost", error.to_string());
        let binary = OwnBinary::open().map_err(no_host)?;
        let variants = (0..).map(VariantId).zip(&plan.variants);
        let setups = variants
            .filter(|(_, variant)| variant.hooks.setup.is_some())
            .map(|(id, _)| (id, false));
        let builds = HostBuilds::start(plan, trials).map_err(no_host)?;
        let (builds, shared_file) = builds.unzip();
        let starts = plan_starts(hosts, &launch::start_script(&binary))?;
        let (sender, changes) = mpsc::unbounded_channel();
        let pool = HostPool::new(HostId(joined), sender);
        let pool = Arc::new(Register::new(pool));
        let limits = Arc::new(Register::new(ReplyLimits::of_plan(plan)));
        let names = (0..).zip(starts.launches.iter().map(|launch| launch.host.clone()));
        let starter = Arc::new(HostStarter {
            binary,
            task: WorkerTask {
                plan: Box::new(plan_of_worker(plan, hosts)),
                shared_file,
            },
            facts: starts.facts,
            slots: hosts.slots,
            trials: trials.to_owned(),
            limits: Arc::clone(&limits),
            pool: Arc::clone(&pool),
            awaited: AwaitedHosts::new(names.collect(), starts.queue),
        });
        let halt_starts = watch::Sender::new(StopUrgency::No);
        let (results, mut first_results) = mpsc::unbounded_channel();
        let mut starting = JoinSet::new();
        for (index, launch) in (0..).zip(starts.launches) {
            let (starter, halt) = (Arc::clone(&starter), halt_starts.subscribe());
            let (results, pool) = (results.clone(), Arc::clone(&pool));
            starting.spawn(async move {
                let result = starter.start_host(index, &launch, halt).await;
                // When the run has begun, a host that cannot start is not an error.
                if let Err(mpsc::error::SendError(Err(error))) = results.send(result) {
                    let pool = pool.lock().expect("no panic");
                    pool.report_missing(error.host, error.reason);
                }
            });
        }
        drop(results);
        {
            let mut described = pin!(starter.awaited.describe_changes(&mut describe_wait));
            let mut begins_at = None;
            loop {
                tokio::select! {
                    biased;
                    result = first_results.recv() => match result {
                        Some(result) => {
                            result?;
                            begins_at.get_or_insert_with(|| Instant::now() + GATHER_FOR);
                        }
                        None => break,
                    },
                    () = sleep_until(begins_at.unwrap_or_else(Instant::now)), if begins_at.is_some() => break,
                    () = &mut described => {}
                }
            }
            first_results.close();
            while let Ok(result) = first_results.try_recv() {
                result?;
            }
        }
        if let Some(text) = starter.awaited.describe().await {
            describe_wait(format!("{text}; the trials begin without them"));
        }
        Ok(Self {
            pool,
            limits,
            slots: hosts.slots,
            changes: Register::new(Some(changes)),
            starts: Register::new(starting),
            halt_starts,
            builds,
            setups: Arc::new(Register::new(setups.collect())),
        })
    }

    /// Returns the host of a slot, and the number of the slot there.
    fn host_of(&self, slot: SlotId) -> (Arc<RemoteHost>, SlotId) {
        let (index, slot_there) = (slot.0 / self.slots, slot.0 % self.slots);
        let pool = self.pool.lock().expect("no panic");
        let host = pool.get(index).expect("only hosts that joined get trials");
        (Arc::clone(host), SlotId(slot_there))
    }

    /// Returns the hosts that do a step now. Others do it before they join.
    fn add_step(&self, step: HostStep) -> Vec<Arc<RemoteHost>> {
        self.pool.lock().expect("no panic").add_step(step)
    }
}

/// Returns how the hosts of a plan run the script.
fn plan_starts(plan: &HostPlan, script: &str) -> Result<HostStarts, HostError> {
    let HostRequest { transport, hosts } = &plan.request;
    let Some(transport) = find_transport(transport) else {
        let reason = "this version of provoke does not have this transport";
        return Err(HostError::new(transport, reason));
    };
    let mut starts = (transport.plan_starts)(hosts, plan.slots, script)?;
    starts.facts.extend(plan.facts.clone());
    Ok(starts)
}

/// Returns the plan for one worker.
fn plan_of_worker(plan: &TrialsPlan, hosts: &HostPlan) -> TrialsPlan {
    TrialsPlan {
        jobs: hosts.slots,
        hosts: None,
        ..plan.clone()
    }
}

impl Executor for HostsExecutor {
    fn learn_variant(&self, id: VariantId, variant: &VariantPlan) {
        self.limits.lock().expect("no panic").learn_variant(variant);
        if variant.hooks.setup.is_some() {
            let mut setups = self.setups.lock().expect("no panic");
            setups.entry(id).or_insert(false);
        }
        if let Some(builds) = &self.builds {
            builds.executor.learn_variant(id, variant);
        }
        for host in self.add_step(HostStep::Learn(id, Box::new(variant.clone()))) {
            host.send_order(WorkerOrder::Learn(id, Box::new(variant.clone())));
        }
    }

    fn make_variant(
        &self,
        id: VariantId,
        halt: watch::Receiver<StopUrgency>,
    ) -> ExecutorFuture<PreparationResult> {
        let building = self.builds.as_ref();
        let building = building.map(|builds| builds.executor.build_variant(id, halt.clone()));
        let (pool, setups) = (Arc::clone(&self.pool), Arc::clone(&self.setups));
        Box::pin(async move {
            let build = match building {
                Some(building) => match building.await {
                    PreparationResult::Ready { build } => build,
                    failed => return failed,
                },
                None => None,
            };
            let hosts = pool.lock().expect("no panic").add_step(HostStep::Make(id));
            let preparing = hosts.into_iter().map(|host| {
                let halt = halt.clone();
                async move { host.make_variant(id, halt).await }
            });
            let mut preparing: JoinSet<Option<PreparationResult>> = preparing.collect();
            let (mut is_ready, mut failed) = (false, None);
            while let Some(made) = preparing.join_next().await {
                match made {
                    Ok(Some(PreparationResult::Ready { .. })) => is_ready = true,
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
            if !is_ready {
                failed.get_or_insert(PreparationResult::Broken("no host is left".to_owned()));
            }
            if let Some(failed) = failed {
                let mut pool = pool.lock().expect("no panic");
                pool.remove_step(&HostStep::Make(id));
                return failed;
            }
            if let Some(has_run) = setups.lock().expect("no panic").get_mut(&id) {
                *has_run = true;
            }
            PreparationResult::Ready { build }
        })
    }

    fn make_room(&self) -> Vec<VariantId> {
        let removed = match &self.builds {
            Some(builds) => builds.executor.make_room(),
            None => Vec::new(),
        };
        let mut pool = self.pool.lock().expect("no panic");
        for id in &removed {
            pool.remove_step(&HostStep::Make(*id));
        }
        removed
    }

    fn run_trial(
        &self,
        trial: Trial,
        halt: watch::Receiver<StopUrgency>,
    ) -> ExecutorFuture<Observation> {
        run_one_trial(self, trial, halt)
    }

    fn run_trials(
        &self,
        mut trials: Vec<Trial>,
        halt: watch::Receiver<StopUrgency>,
        report: TrialReporter,
    ) -> ExecutorFuture<()> {
        let slot = trials.first().map(|trial| trial.slot);
        let (host, slot) = self.host_of(slot.unwrap_or_default());
        for trial in &mut trials {
            trial.slot = slot;
        }
        let variants: BTreeSet<VariantId> = trials.iter().map(|trial| trial.variant).collect();
        let reserve = |builds: &HostBuilds| {
            let reserved = variants
                .iter()
                .map(|id| builds.executor.reserve_variant(*id));
            reserved.collect::<Vec<_>>()
        };
        let reserved = self.builds.as_ref().map(reserve);
        Box::pin(async move {
            host.run_trials(slot, trials, halt, report).await;
            drop(reserved);
        })
    }

    fn keep_output(&self, slot: SlotId, folder: PathBuf, with_cores: bool) -> ExecutorFuture<()> {
        let (host, slot) = self.host_of(slot);
        host.keep_files(slot, folder, with_cores);
        Box::pin(std::future::ready(()))
    }

    fn run_hook(
        &self,
        variant: Option<VariantId>,
        command: &Text,
        halt: watch::Receiver<StopUrgency>,
    ) -> ExecutorFuture<io::Result<Option<FailedHook>>> {
        let step = HostStep::Hook(variant, command.clone());
        let running = self.add_step(step.clone()).into_iter().map(|host| {
            let (command, halt) = (command.clone(), halt.clone());
            async move { host.run_hook(variant, command, halt).await }
        });
        let mut running: JoinSet<io::Result<Option<FailedHook>>> = running.collect();
        let pool = Arc::clone(&self.pool);
        Box::pin(async move {
            // Each host runs its hook to the end.
            let mut failed = Ok(None);
            while let Some(result) = running.join_next().await {
                let result = result.unwrap_or_else(|error| Err(io::Error::other(error)));
                if !matches!(result, Ok(None)) && matches!(failed, Ok(None)) {
                    failed = result;
                }
            }
            if !matches!(failed, Ok(None)) {
                pool.lock().expect("no panic").remove_step(&step);
            }
            failed
        })
    }

    fn set_up(&self) -> Vec<VariantId> {
        let setups = self.setups.lock().expect("no panic");
        let run = setups.iter().filter(|(_, has_run)| **has_run);
        run.map(|(id, _)| *id).collect()
    }

    fn clean_up(&self, folder: &Path, kept: &[VariantId]) {
        if let Some(builds) = &self.builds {
            builds.executor.clean_up(folder, kept);
        }
    }

    fn host_changes(&self) -> Option<mpsc::UnboundedReceiver<HostChange>> {
        self.changes.lock().expect("no panic").take()
    }

    fn stop_starting(&self) -> ExecutorFuture<()> {
        self.halt_starts.send_replace(StopUrgency::Gently);
        let mut starts = std::mem::take(&mut *self.starts.lock().expect("no panic"));
        Box::pin(async move { while starts.join_next().await.is_some() {} })
    }

    fn close(&self) -> ExecutorFuture<Vec<String>> {
        let (stopped, pool) = (self.stop_starting(), Arc::clone(&self.pool));
        let builds = self.builds.as_ref().map(HostBuilds::close);
        Box::pin(async move {
            stopped.await;
            let hosts = pool.lock().expect("no panic").all();
            let closing = hosts
                .into_iter()
                .map(|host| async move { host.close().await });
            let mut closing: JoinSet<Vec<String>> = closing.collect();
            let mut complaints = match builds {
                Some(closed) => closed.await,
                None => Vec::new(),
            };
            while let Some(result) = closing.join_next().await {
                complaints.extend(result.unwrap_or_else(|error| vec![error.to_string()]));
            }
            complaints
        })
    }
}
