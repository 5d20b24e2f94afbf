//! Executor of trials, which cannot fail: every error is part of the observation.

mod around;
mod attached;
mod cores;
mod door;
mod evidence;
mod fake;
mod image;
mod lane;
mod life;
mod local;

pub use cores::{KeptCores, remove_cores};
pub use evidence::STORY;
pub use fake::Fake;
pub use local::Local;

use crate::model::{Lane, Observation, Trial, VariantId, VariantPlan};
use std::path::PathBuf;
use std::pin::Pin;
use tokio::sync::watch;

/// Runs trials.
pub trait Executor: Send + Sync + 'static {
    /// Learns of a variant that is not in the plan it began with.
    fn learn(&self, _: VariantId, _: &VariantPlan) {}

    /// Makes a variant, which it knows, before its first trial.
    fn make(&self, _: VariantId, _: watch::Receiver<Halt>) -> Answer<Made> {
        Box::pin(std::future::ready(Made::Ready { build: None }))
    }

    /// Removes variants that need too much space, and returns them. Variants of trials that run are
    /// not removed.
    fn make_room(&self) -> Vec<VariantId> {
        Vec::new()
    }

    /// Runs a trial in its lane until nothing of it is left, or until it is halted. The variant is
    /// not removed from the call on, even before the answer is awaited.
    fn run(&self, trial: Trial, halt: watch::Receiver<Halt>) -> Answer<Observation>;

    /// Keeps the output of the trial that ran last in a lane.
    fn keep(&self, lane: Lane, folder: PathBuf) -> Answer<()>;
}

/// What came of making a variant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Made {
    /// It can be tried.
    Ready {
        /// A name for its artifacts, the same where they are identical.
        build: Option<String>,
    },
    /// It cannot be tried: why.
    Failed(String),
    /// The machine did not do it, which says nothing of the variant: why.
    Broken(String),
    /// It was halted.
    Halted,
}

/// What an executor promises.
pub type Answer<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Whether trials that are under way may go on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Halt {
    /// They may.
    #[default]
    No,
    /// They hang: their time is over.
    TimedOut,
    /// They are asked to end, and killed after the grace.
    Gently,
    /// The same, but the stacks of their threads are taken first.
    Inspect,
    /// They are killed.
    Now,
}
