//! Reproduces the failure before a search, together with earlier runs of the failing variant.

use crate::state::State;
use provoke_model::{EarlierTrials, Failure, Plan, Trial};
use provoke_stats::fisher;

/// Required failures of the failing variant before the search begins; [`ALWAYS`] limits the trials if all of them fail.
const FAILURES: u64 = 3;
/// Number of trials that is enough if every trial fails: the variant may always fail.
const ALWAYS: u64 = 10;

/// Maximum number of earlier failures that count. More of them hardly save a trial, and mislead if the rate has
/// changed.
const MAX_EARLIER_FAILURES: u64 = 10;
/// Earlier runs do not count if the probability of the difference between their rate and the present one is below this.
const ALIKE: f64 = 0.05;

/// Whether earlier runs of the failing variant count.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum EarlierUse {
    /// Earlier runs do not exist.
    Nothing,
    /// Undecided, because the failing variant has not failed yet.
    Open,
    /// They count.
    Counted,
    /// They do not count, because the rate now differs; with the probability of such a difference at one rate.
    RateDiffers(f64),
    /// They do not count, because the variant failed in another way.
    KindDiffers,
}

/// Progress of reproducing the failure, before the search begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReproductionProgress {
    /// At least this many more trials are needed.
    NotYet(u64),
    /// It failed often enough.
    Yes,
    /// It did not fail often enough within the limit, or is not testable.
    No,
}

/// Trials of the failing variant before the search begins.
#[derive(Debug)]
pub struct Reproduction {
    /// Whether earlier runs of the failing variant count.
    pub earlier_use: EarlierUse,
    /// Required failures if earlier runs count.
    failures_again: u64,
}

impl Reproduction {
    /// Begins a search, which needs `failures_again` failures if earlier runs count.
    pub(crate) fn new(plan: &Plan, failures_again: u64) -> Self {
        Self {
            earlier_use: match earlier_trials(plan) {
                Some(earlier) if earlier.trials > 0 => EarlierUse::Open,
                _ => EarlierUse::Nothing,
            },
            failures_again,
        }
    }

    /// Returns the reproduction of a search; `None` for any other question.
    pub fn of_state(state: &State) -> Option<&Self> {
        state.learned()
    }

    /// Returns the progress of reproducing the failure.
    pub fn progress(&self, state: &State) -> ReproductionProgress {
        let Some(question) = state.plan.question.as_search() else {
            return ReproductionProgress::No;
        };
        let tally = state.tally_of(State::FAILING);
        let failures = tally.failures;
        let needed = self.failures_needed();
        let (all_failures, all_trials) = match self.earlier_use {
            EarlierUse::Open | EarlierUse::Counted => {
                with_earlier(&state.plan, failures, tally.counted_trials())
            }
            _ => (failures, tally.counted_trials()),
        };
        let always_fails = all_failures == all_trials;
        let gives_up = tally.finished_trials() >= question.reproduce && failures < needed;
        if failures >= needed && (!always_fails || all_trials >= ALWAYS) {
            ReproductionProgress::Yes
        } else if !state.is_testable(State::FAILING) || gives_up {
            ReproductionProgress::No
        } else if always_fails {
            ReproductionProgress::NotYet(ALWAYS.saturating_sub(all_trials).max(1))
        } else {
            ReproductionProgress::NotYet(needed - failures)
        }
    }

    /// Returns the required number of failures of the failing variant.
    pub fn failures_needed(&self) -> u64 {
        match self.earlier_use {
            EarlierUse::Open | EarlierUse::Counted => self.failures_again,
            _ => FAILURES,
        }
    }

    /// Returns the failures and trials that count for earlier runs; 0 if these do not count.
    pub fn counted_earlier(&self, plan: &Plan) -> (u64, u64) {
        match self.earlier_use {
            EarlierUse::Counted => with_earlier(plan, 0, 0),
            _ => (0, 0),
        }
    }

    /// Decides whether earlier runs count, as soon as the failing variant has failed again: then the earlier failures
    /// were of the same kind, at a rate that may be the same. Returns whether this was decided now.
    pub(crate) fn decide_earlier(&mut self, state: &State) -> bool {
        let tally = state.tally_of(State::FAILING);
        let Some(earlier) = earlier_trials(&state.plan) else {
            return false;
        };
        if self.earlier_use != EarlierUse::Open || tally.failures < self.failures_needed() {
            return false;
        }
        let mut kinds = tally.groups.values().map(|group| group.kind.name());
        let same_kinds = earlier.kinds.is_empty()
            || earlier.kinds.len() == 1 && kinds.all(|kind| earlier.kinds.contains(&kind));
        let p_value = rate_change(tally.failures, tally.counted_trials(), earlier);
        self.earlier_use = if !same_kinds {
            EarlierUse::KindDiffers
        } else if p_value < ALIKE {
            EarlierUse::RateDiffers(p_value)
        } else {
            EarlierUse::Counted
        };
        true
    }

    /// Stops counting earlier runs if the failing variants now fail at another rate: with the earlier runs, they have
    /// failed in `failures` of `trials`. Returns the failures and trials that counted for earlier runs, if they no longer count.
    pub(crate) fn check_earlier(
        &mut self,
        plan: &Plan,
        failures: u64,
        trials: u64,
    ) -> Option<(u64, u64)> {
        let counted = self.counted_earlier(plan);
        let p_value = rate_change(
            failures.saturating_sub(counted.0),
            trials.saturating_sub(counted.1),
            earlier_trials(plan)?,
        );
        if p_value >= ALIKE {
            return None;
        }
        self.earlier_use = EarlierUse::RateDiffers(p_value);
        Some(counted)
    }
}

/// Returns the progress of reproducing the failure of a search.
pub fn reproduction_progress(state: &State) -> ReproductionProgress {
    Reproduction::of_state(state).map_or(ReproductionProgress::No, |reproduction| {
        reproduction.progress(state)
    })
}

fn earlier_trials(plan: &Plan) -> Option<&EarlierTrials> {
    plan.question.as_search()?.earlier.as_ref()
}

/// Returns the probability of such a difference from the earlier rate at one rate.
fn rate_change(failures: u64, trials: u64, earlier: &EarlierTrials) -> f64 {
    fisher(failures, trials, earlier.failures, earlier.trials).two_sided
}

/// Adds the failures and trials of earlier runs, scaled to the maximum number of failures that count.
fn with_earlier(plan: &Plan, failures: u64, trials: u64) -> (u64, u64) {
    earlier_trials(plan).map_or((failures, trials), |earlier| {
        let counted = earlier.failures.min(MAX_EARLIER_FAILURES);
        let of_trials = match earlier.failures {
            0 => earlier.trials,
            trials => earlier.trials.saturating_mul(counted) / trials,
        };
        (failures + counted, trials + of_trials)
    })
}

/// Returns whether a failure is the bug that a search looks for. With neither `any_failure` nor `only`, the bug is
/// limited to the kinds of failure that the failing variant showed: other failures of a variant may come from the items
/// that were left out.
pub(crate) fn is_the_bug(state: &State, trial: &Trial, failure: &Failure) -> bool {
    let example = state.shows_the_bug();
    if trial.variant == example || takes_any_failure(&state.plan) {
        return true;
    }
    let groups = state.tally_of(example).groups.values();
    let bugs = groups.filter(|group| group.is_the_bug);
    let mut kinds = bugs.map(|group| group.kind.name()).peekable();
    kinds.peek().is_none() || kinds.any(|kind| kind == failure.kind.name())
}

/// Returns whether the plan itself defines which failures are the bug.
pub(super) fn takes_any_failure(plan: &Plan) -> bool {
    let search_question = plan.question.as_search();
    search_question.is_none_or(|question| question.any_failure) || !plan.rules.only.is_empty()
}
