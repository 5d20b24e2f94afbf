//! Decides which trial to launch next, and when the question is answered.
//!
//! A policy is pure: it reads only the [`State`], and keeps no data that the state cannot restore. So a run is resumed
//! by folding its journal and asking the same policy again.

use super::{StopRule, next_extra_step};
use provoke_model::{HoldPlan, VariantChoice, VariantId};
use provoke_state::State;
use provoke_words::document::Tone;
use std::time::Duration;

/// A trial that holds threads to explore schedules.
#[derive(Clone, Debug)]
pub struct HeldTrial {
    /// Its holds.
    pub plan: HoldPlan,
    /// Time after which it is stopped; `None` for that of plain trials. If it is stopped earlier than a plain trial, and
    /// one of its threads can continue, it does not count as hung.
    pub timeout: Option<Duration>,
}

/// Decides which trials are launched, and when the question is answered.
pub trait Policy: Send + Sync {
    /// Returns the next step if a slot is free.
    fn next_step(&self, state: &State) -> Step;

    /// Returns what the next trial does with its threads to explore schedules; `None` for a plain trial.
    fn next_held_trial(&self, _: &State) -> Option<HeldTrial> {
        None
    }

    /// Returns a variant to prepare for later, if nothing can be launched.
    fn step_ahead(&self, _: &State) -> Option<Step> {
        None
    }

    /// Returns whether no further trial is launched: the question is answered or, after that, the evidence is captured.
    fn is_done(&self, state: &State) -> bool {
        if state.stage.runs_extra_trials() {
            next_extra_step(state) == Step::Done
        } else {
            self.next_step(state) == Step::Done
        }
    }

    /// Returns the answer that the trials give.
    fn verdict_of(&self, state: &State) -> Verdict;

    /// Returns why the trials of a variant ended.
    fn stop_rule(&self, state: &State, variant: VariantId) -> StopRule;

    /// Returns the number of remaining trials if none of them fails, if it is known.
    fn remaining_trials(&self, _: &State) -> Option<u64> {
        None
    }
}

/// The next step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Choose this from the plan's space: it becomes a variant.
    Choose(VariantChoice),
    /// Prepare this variant, in parallel with the trials.
    Make(VariantId),
    /// Use the setting of this variant for the search.
    Use(VariantId),
    /// Run a trial of this variant.
    Launch(VariantId),
    /// Wait for running trials.
    Wait,
    /// The question is answered.
    Done,
}

impl Step {
    /// Ends the launches; running trials are still waited for.
    pub(super) fn wait_or_done(state: &State) -> Self {
        if state.has_open_trials() {
            Self::Wait
        } else {
            Self::Done
        }
    }

    /// Launches a trial of the only variant within the limits of trials and of time.
    pub(super) fn launch_only_variant(state: &State) -> Self {
        let launched = state.next_id().0 - 1;
        let is_spent = state.stop.trials.is_some_and(|trials| launched >= trials);
        if state.stage.is_budget_spent() || is_spent {
            return Self::wait_or_done(state);
        }
        Self::Launch(VariantId(0))
    }
}

/// The answer to the question that was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// No trial showed the bug.
    Clean,
    /// Trials showed the bug.
    Failing,
    /// The whole interval is at or below the allowed rate.
    BelowMaxRate,
    /// The whole interval is above the allowed rate.
    AboveMaxRate,
    /// The bug is fixed: an unchanged program would rarely pass this many trials.
    Fixed,
    /// The bug was seen again.
    NotFixed,
    /// Some variants fail more often than others.
    Different,
    /// No difference was found, although a difference of the stated size would have been.
    NoDifference,
    /// The search found the answer.
    Found,
    /// The searched range does not contain it.
    NotThere,
    /// The trials so far do not answer the question.
    Undecided,
    /// All trials were inconclusive.
    CouldNotTest,
}

impl Verdict {
    /// Returns what it means for the user.
    pub fn tone(self) -> Tone {
        match self {
            Self::BelowMaxRate | Self::Fixed | Self::Clean | Self::NoDifference | Self::Found => {
                Tone::Good
            }
            Self::AboveMaxRate | Self::NotFixed | Self::Different | Self::Failing => Tone::Bad,
            Self::NotThere | Self::Undecided | Self::CouldNotTest => Tone::Open,
        }
    }
}

/// Returns the number of failed trials that may or may not be the bug.
pub fn trials_without_known_failure(state: &State) -> u64 {
    state
        .all_tallies()
        .map(|(_, tally)| tally.trials_without_known_failure())
        .sum()
}

/// Returns whether no trial was conclusive about the bug.
pub(super) fn nothing_counts(state: &State) -> bool {
    state
        .all_tallies()
        .all(|(_, tally)| tally.counted_trials() == 0)
}
