//! Defines the executor of trials, which cannot fail: every error is part of the observation.
//!
#![doc = include_str!("../README.md")]

mod fake;
mod kept_cores;

pub use fake::FakeExecutor;
pub use kept_cores::{KeptCores, all_cores, drop_evidence, remove_cores};

use provoke_model::{
    FailedHook, HostId, JoinedHost, Observation, SlotId, Text, Trial, TrialId, VariantId,
    VariantPlan,
};
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use tokio::sync::{mpsc, oneshot, watch};

/// Runs trials, and the hooks around them.
pub trait Executor: Send + Sync + 'static {
    /// Adds a variant that is not in the initial plan.
    fn learn_variant(&self, _: VariantId, _: &VariantPlan) {}

    /// Prepares a known variant before its first trial.
    fn make_variant(
        &self,
        _: VariantId,
        _: watch::Receiver<StopUrgency>,
    ) -> ExecutorFuture<PreparationResult> {
        Box::pin(std::future::ready(PreparationResult::Ready { build: None }))
    }

    /// Removes variants that need too much space, and returns them. Variants of running trials are
    /// not removed.
    fn make_room(&self) -> Vec<VariantId> {
        Vec::new()
    }

    /// Runs a trial in its slot until no process of it is left, or until it is halted.
    ///
    /// The variant is not removed from this call on, even before the future is polled.
    fn run_trial(
        &self,
        trial: Trial,
        halt: watch::Receiver<StopUrgency>,
    ) -> ExecutorFuture<Observation>;

    /// Runs trials in turn in one slot, like [`Executor::run_trial`], and reports each. Ends after the first whose
    /// observation is not plain, so that its output can be kept. The others are not reported.
    fn run_trials(
        &self,
        trials: Vec<Trial>,
        halt: watch::Receiver<StopUrgency>,
        mut report: TrialReporter,
    ) -> ExecutorFuture<()> {
        let trials = trials.into_iter();
        let trials: Vec<_> = trials
            .map(|trial| (trial.id, self.run_trial(trial, halt.clone())))
            .collect();
        Box::pin(async move {
            for (id, running) in trials {
                let observation = running.await;
                let is_plain = observation.is_plain();
                report(id, observation);
                if !is_plain {
                    break;
                }
            }
        })
    }

    /// Keeps the output of the trial that ran last in a slot. Cores on this machine are kept unless they are removed; those
    /// on another host are copied if `with_cores`.
    fn keep_output(&self, slot: SlotId, folder: PathBuf, with_cores: bool) -> ExecutorFuture<()>;

    /// Runs a hook of the run, for one variant or for all, until it ends or is halted. Processes
    /// that it leaves running continue until the end of the run.
    fn run_hook(
        &self,
        _: Option<VariantId>,
        _: &Text,
        _: watch::Receiver<StopUrgency>,
    ) -> ExecutorFuture<io::Result<Option<FailedHook>>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    /// Returns the variants of a search whose `setup` has run.
    fn set_up(&self) -> Vec<VariantId> {
        Vec::new()
    }

    /// Removes the folders that were created for variants below this one, except those in `kept`.
    fn clean_up(&self, _folder: &Path, _kept: &[VariantId]) {}

    /// Returns the hosts that join and that are lost; `None` if all slots are on this machine. Can be called once.
    fn host_changes(&self) -> Option<mpsc::UnboundedReceiver<HostChange>> {
        None
    }

    /// Stops the start of hosts that have not joined yet: no further trial will run.
    fn stop_starting(&self) -> ExecutorFuture<()> {
        Box::pin(std::future::ready(()))
    }

    /// Ends every slot and all processes below the slots. Returns the errors.
    fn close(&self) -> ExecutorFuture<Vec<String>> {
        Box::pin(std::future::ready(Vec::new()))
    }
}

/// Runs one trial by [`Executor::run_trials`].
pub fn run_one_trial(
    executor: &impl Executor,
    trial: Trial,
    halt: watch::Receiver<StopUrgency>,
) -> ExecutorFuture<Observation> {
    let (sender, receiver) = oneshot::channel();
    let mut sender = Some(sender);
    let report = move |_, observation| {
        if let Some(sender) = sender.take() {
            // The caller may have dropped the future.
            let _ = sender.send(observation);
        }
    };
    let running = executor.run_trials(vec![trial], halt, Box::new(report));
    Box::pin(async move {
        running.await;
        receiver.await.unwrap_or_else(|_| Observation {
            lost: Some("it was not run".to_owned()),
            ..Observation::default()
        })
    })
}

/// A change of the hosts on which trials run.
#[derive(Debug)]
pub enum HostChange {
    /// A host is ready for trials.
    Joined(Box<JoinedHost>),
    /// A host does not respond any longer.
    Lost {
        /// Its number.
        host: HostId,
        /// The reason.
        reason: String,
    },
    /// A host cannot start.
    Missing {
        /// Its name.
        name: String,
        /// The reason.
        reason: String,
    },
    /// The user should know this about the hosts.
    Warning(String),
}

/// Result of preparing a variant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PreparationResult {
    /// The variant is ready for trials.
    Ready {
        /// Identifier of its artifacts, equal for identical artifacts.
        build: Option<String>,
    },
    /// The variant cannot be prepared; contains the reason.
    Failed(String),
    /// The machine failed, so the result about the variant is inconclusive; contains the reason.
    Broken(String),
    /// The preparation was halted.
    Halted,
}

/// Called with the observation of each trial, in turn.
pub type TrialReporter = Box<dyn FnMut(TrialId, Observation) + Send>;

/// Future that an executor returns.
pub type ExecutorFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// How urgently running trials must end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopUrgency {
    /// Trials may continue.
    #[default]
    No,
    /// The trials are hung: their time limit has passed.
    TimedOut,
    /// Ask the trials to end, and kill them after the grace period.
    Gently,
    /// Take the stacks of all threads, then end the trials as with `Gently`.
    Inspect,
    /// Kill the trials.
    Now,
}

/// Waits until the halt level is higher than `urgency`.
pub async fn wait_for_raise(
    halt: &mut watch::Receiver<StopUrgency>,
    urgency: StopUrgency,
) -> StopUrgency {
    let level = halt
        .wait_for(|level| *level > urgency)
        .await
        .map(|level| *level);
    match level {
        Ok(level) => level,
        // The sender is gone, so the level cannot change.
        Err(_) => std::future::pending().await,
    }
}
