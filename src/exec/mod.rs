//! Executor of trials, which cannot fail: every error is part of the observation.

mod attached;
mod core_search;
mod engine_proxy;
mod evidence;
mod fake;
mod hold_names;
mod image;
mod kept_cores;
mod local;
mod service;
mod slot_handle;
mod usage;

pub use evidence::STORY;
pub use fake::FakeExecutor;
pub use kept_cores::{KeptCores, remove_cores};
pub use local::LocalExecutor;

use crate::model::{Observation, SlotId, Trial, VariantId, VariantPlan};
use std::path::PathBuf;
use std::pin::Pin;
use tokio::sync::watch;

/// Runs trials.
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

    /// Keeps the output of the trial that ran last in a slot.
    fn keep_output(&self, lane: SlotId, folder: PathBuf) -> ExecutorFuture<()>;
}

/// Result of preparing a variant.
#[derive(Clone, Debug, PartialEq, Eq)]
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

/// Future that an executor returns.
pub type ExecutorFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// How urgently running trials must end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
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
