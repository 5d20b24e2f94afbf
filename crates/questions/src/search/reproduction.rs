//! Reproduces the failure before a search, together with earlier runs of the failing variant.

use super::searched_failure::{FailureCensus, SearchedFailure};
use provoke_model::{EarlierTrials, Failure, Goal, TrialsPlan};
use provoke_state::State;
use provoke_stats::fisher;

/// Required failures of the failing variant before the search begins.
pub(super) const FAILURES: u64 = 3;

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
    /// The failure that the search looks for.
    pub searched_failure: SearchedFailure,
    /// Required failures if earlier runs count.
    failures_again: u64,
}

impl Reproduction {
    /// Begins a search, which needs `failures_again` failures if earlier runs count.
    pub(crate) fn new(goal: &Goal, trials: &TrialsPlan, failures_again: u64) -> Self {
        Self {
            earlier_use: match earlier_trials(goal) {
                Some(earlier) if earlier.trials > 0 => EarlierUse::Open,
                _ => EarlierUse::Nothing,
            },
            searched_failure: SearchedFailure::new(goal, trials),
            failures_again,
        }
    }

    /// Returns the reproduction of a search; `None` for any other question.
    pub fn of_state(state: &State) -> Option<&Self> {
        state.learned()
    }

    /// Returns the progress of reproducing the failure.
    pub fn progress(&self, state: &State) -> ReproductionProgress {
        let Some(question) = state.goal.question.as_search() else {
            return ReproductionProgress::No;
        };
        let tally = state.tally_of(State::FAILING);
        let needed = self.failures_needed();
        let failures = match self.searched_failure {
            SearchedFailure::Open => FailureCensus::of_tally(tally)
                .most_frequent()
                .map_or(0, |(count, _)| count.min(needed.saturating_sub(1))),
            _ => tally.failures,
        };
        if failures >= needed {
            ReproductionProgress::Yes
        } else if !state.is_testable(State::FAILING)
            || tally.finished_trials() >= question.reproduce
        {
            ReproductionProgress::No
        } else {
            ReproductionProgress::NotYet(needed - failures)
        }
    }

    /// Returns whether the failure that the search looks for is still to be chosen.
    pub(crate) fn awaits_failure(&self) -> bool {
        self.searched_failure == SearchedFailure::Open
    }

    /// Chooses the failure that the search looks for, as soon as it has occurred often enough. Returns whether it was chosen
    /// now.
    pub(crate) fn choose_failure(&mut self, state: &State) -> bool {
        let Some(question) = state.goal.question.as_search() else {
            return false;
        };
        if !self.awaits_failure() || state.undecided_raise().is_some() {
            return false;
        }
        // Under a setting, other failures may be more frequent than the one for which the setting was chosen.
        let natural_census = FailureCensus::of_tally(state.tally_of(state.shows_the_bug()));
        let natural_failure = natural_census.most_frequent();
        if state.shows_the_bug() != State::FAILING
            && let Some((_, failure)) = natural_failure
        {
            self.searched_failure = failure;
            return true;
        }
        let tally = state.tally_of(State::FAILING);
        let census = FailureCensus::of_tally(tally);
        let Some((count, failure)) = census.most_frequent() else {
            return false;
        };
        let is_earlier_one =
            earlier_trials(&state.goal).is_some_and(|earlier| failure.covers_all(&earlier.failed));
        let needed = if is_earlier_one {
            self.failures_needed()
        } else {
            FAILURES
        };
        let is_last_chance = tally.finished_trials() >= question.reproduce;
        let chosen = if count >= needed {
            Some(failure)
        } else {
            census.kind_of_different(needed, is_last_chance)
        };
        match chosen {
            Some(failure) => {
                self.searched_failure = failure;
                true
            }
            None => false,
        }
    }

    /// Returns whether a failure is the one that the search looks for.
    pub(crate) fn is_searched(&self, state: &State, failure: &Failure) -> bool {
        // Before a setting is chosen, each of them may show the failure.
        state.undecided_raise().is_some() || self.searched_failure.covers(failure)
    }

    /// Returns the required number of failures of the failing variant.
    pub fn failures_needed(&self) -> u64 {
        match self.earlier_use {
            EarlierUse::Open | EarlierUse::Counted => self.failures_again,
            _ => FAILURES,
        }
    }

    /// Returns the failures and trials that count for earlier runs; 0 if these do not count.
    pub fn counted_earlier(&self, goal: &Goal) -> (u64, u64) {
        match self.earlier_use {
            EarlierUse::Counted => with_earlier(goal, 0, 0),
            _ => (0, 0),
        }
    }

    /// Decides whether earlier runs count, as soon as the failing variant has failed again: then the earlier failures
    /// were of the same kind, at a rate that may be the same. Returns whether this was decided now.
    pub(crate) fn decide_earlier(&mut self, state: &State) -> bool {
        let tally = state.tally_of(State::FAILING);
        let Some(earlier) = earlier_trials(&state.goal) else {
            return false;
        };
        if self.earlier_use != EarlierUse::Open || tally.failures < self.failures_needed() {
            return false;
        }
        let is_same = self.searched_failure.covers_all(&earlier.failed);
        let p_value = rate_change(tally.failures, tally.counted_trials(), earlier);
        self.earlier_use = if !is_same {
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
        goal: &Goal,
        failures: u64,
        trials: u64,
    ) -> Option<(u64, u64)> {
        let counted = self.counted_earlier(goal);
        let p_value = rate_change(
            failures.saturating_sub(counted.0),
            trials.saturating_sub(counted.1),
            earlier_trials(goal)?,
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

fn earlier_trials(goal: &Goal) -> Option<&EarlierTrials> {
    goal.question.as_search()?.earlier.as_ref()
}

/// Returns the probability of such a difference from the earlier rate at one rate.
fn rate_change(failures: u64, trials: u64, earlier: &EarlierTrials) -> f64 {
    fisher(failures, trials, earlier.failures, earlier.trials).two_sided
}

/// Adds the failures and trials of earlier runs, scaled to the maximum number of failures that count.
fn with_earlier(goal: &Goal, failures: u64, trials: u64) -> (u64, u64) {
    earlier_trials(goal).map_or((failures, trials), |earlier| {
        let counted = earlier.failures.min(MAX_EARLIER_FAILURES);
        let of_trials = match earlier.failures {
            0 => earlier.trials,
            trials => earlier.trials.saturating_mul(counted) / trials,
        };
        (failures + counted, trials + of_trials)
    })
}
