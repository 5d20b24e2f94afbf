//! What to run next, and what it all means.
//!
//! A policy is pure: it sees the [`State`] and nothing else, and keeps nothing
//! that the state cannot give back. So resuming a run is folding its journal and
//! asking the same policy again.

mod blocks;
mod capture;
mod repeat;

pub use capture::Collect;
pub use repeat::{Repeat, interval, stop_rule, untold};

use crate::model::VariantId;
use crate::state::State;

/// Decides what is launched, and when that is enough.
pub trait Policy: Send + Sync {
    /// Says what to do when a lane is free.
    fn next(&self, state: &State) -> Step;

    /// True when nothing more is launched: the question is answered, or, after that,
    /// the evidence is caught.
    fn is_done(&self, state: &State) -> bool {
        if state.capturing {
            Collect.next(state) == Step::Done
        } else {
            self.next(state) == Step::Done
        }
    }

    /// Says what the trials mean.
    fn verdict(&self, state: &State) -> Verdict;

    /// Says how many trials there will be, where that is known.
    fn total(&self, state: &State) -> Option<u64>;
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Run a trial of this variant.
    Launch(VariantId),
    /// Wait for what is under way.
    Wait,
    /// The question is answered.
    Done,
}

/// The answer to the question that was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// No trial showed the bug.
    Clean,
    /// Trials showed the bug.
    Failing,
    /// The whole interval is at or below the rate that is allowed.
    BelowMaxRate,
    /// The whole interval is above the rate that is allowed.
    AboveMaxRate,
    /// The trials so far do not answer the question.
    Undecided,
    /// Not one trial said anything.
    CouldNotTest,
}

/// Why the trials of a variant came to an end: it decides which interval is honest.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum StopRule {
    /// The number that was planned is reached.
    PlannedN,
    /// The number of failures that was asked for is reached.
    KthFailure,
    /// The interval is as narrow as was asked for.
    Decision,
    /// The time is spent.
    Time,
    /// The user ended it, or is looking while it still runs.
    User,
}
