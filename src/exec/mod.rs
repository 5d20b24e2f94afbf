//! Runs one trial, and cannot fail: whatever goes wrong is something that was seen.

mod around;
mod evidence;
mod fake;
mod lane;
mod local;

pub use evidence::STORY;
pub use fake::Fake;
pub use local::Local;

use crate::model::{Lane, Observation, Trial};
use std::path::PathBuf;
use std::pin::Pin;
use tokio::sync::watch;

/// Runs trials.
pub trait Executor: Send + Sync + 'static {
    /// Runs a trial in its lane until nothing of it is left, or until it is halted.
    fn run(&self, trial: Trial, halt: watch::Receiver<Halt>) -> Answer<Observation>;

    /// Keeps the output of the trial that ran last in a lane.
    fn keep(&self, lane: Lane, folder: PathBuf) -> Answer<()>;
}

/// What an executor promises.
pub type Answer<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Whether trials that are under way may go on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Halt {
    /// They may.
    #[default]
    No,
    /// They are asked to end, and killed after the grace.
    Gently,
    /// They are killed.
    Now,
}
