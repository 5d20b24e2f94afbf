//! `run`: repeats every variant until a number of trials, a failure, an interval width or the time limit is reached.

use super::cases::{case_bounds, compare_cases, compares_cases};
use crate::blocks::step_in_block;
use crate::{Policy, Step, StopRule, Verdict, nothing_counts, trials_without_known_failure};
use provoke_model::{ExpectedResult, StopLimits, VariantId};
use provoke_state::{State, Tally};
use provoke_stats::{Interval, real};

/// Repeats every variant, in turn, until its own stop rule is met.
pub struct RepeatPolicy;

impl Policy for RepeatPolicy {
    fn next_step(&self, state: &State) -> Step {
        let open: Vec<VariantId> = state
            .all_tallies()
            .filter(|(id, tally)| state.is_testable(*id) && !reached_limit(state, tally))
            .map(|(id, _)| id)
            .collect();
        if open.is_empty() {
            return Step::Done;
        }
        let is_wanted = |id: &VariantId| {
            state
                .stop
                .trials
                .is_none_or(|trials| state.expected_trials(*id) < trials)
        };
        step_in_block(state, open.into_iter().filter(is_wanted))
    }

    fn verdict_of(&self, state: &State) -> Verdict {
        let failures: u64 = state.all_tallies().map(|(_, tally)| tally.failures).sum();
        if nothing_counts(state) {
            return Verdict::CouldNotTest;
        }
        match state.goal.expect {
            ExpectedResult::MaxRate(millionths) => {
                compare_with_allowed(state, f64::from(millionths) / 1e6)
            }
            // An interrupted run has not shown the absence of failures.
            _ if failures > 0 => Verdict::Failing,
            _ if !state.stage.is_finished() || trials_without_known_failure(state) > 0 => {
                Verdict::Undecided
            }
            _ => Verdict::Clean,
        }
    }

    fn stop_rule(&self, state: &State, variant: VariantId) -> StopRule {
        stop_rule(state, state.tally_of(variant))
    }

    fn remaining_trials(&self, state: &State) -> Option<u64> {
        let variants = state.trials.variants.len() as u64;
        let trial_limit = state.stop.trials?.saturating_mul(variants);
        Some(trial_limit.saturating_sub(state.completed_trials()))
    }
}

/// Returns the bounds of the failure rate of a variant that a maximum rate is compared with. Each holds at the confidence
/// level: only one of them decides. A single variant above the limit is enough for a failure, so the lower bounds of all
/// variants together hold at that level.
pub(super) fn rate_bounds(state: &State, rule: StopRule, tally: &Tally) -> Interval {
    let (k, n) = (tally.failures, tally.counted_trials());
    let alpha = state.goal.alpha.to_probability();
    let lower_alpha = alpha / real(state.trials.variants.len().max(1) as u64);
    rule.one_sided_bounds(k, n, lower_alpha, alpha)
}

/// Compares the rate of every variant with the allowed rate.
fn compare_with_allowed(state: &State, allowed: f64) -> Verdict {
    if compares_cases(&state.trials) {
        let bounds = state.all_tallies().flat_map(|(_, tally)| {
            case_bounds(
                stop_rule(state, tally),
                tally,
                state.goal.alpha.to_probability(),
            )
        });
        return compare_cases(&bounds.collect::<Vec<_>>(), allowed);
    }
    let intervals: Vec<Interval> = state
        .all_tallies()
        .map(|(_, tally)| rate_bounds(state, stop_rule(state, tally), tally))
        .collect();
    if intervals.iter().any(|interval| interval.lo > allowed) {
        Verdict::AboveMaxRate
    } else if intervals.iter().all(|interval| interval.hi <= allowed) {
        Verdict::BelowMaxRate
    } else {
        Verdict::Undecided
    }
}

/// Returns why the trials of a variant ended.
fn stop_rule(state: &State, tally: &Tally) -> StopRule {
    let StopLimits {
        trials, failures, ..
    } = state.stop;
    if failures.is_some_and(|failures| tally.failures >= failures) {
        StopRule::KthFailure
    } else if is_narrow_enough(state, tally) || is_decided(state, tally) {
        StopRule::Decision
    } else if trials.is_some_and(|trials| tally.finished_trials() >= trials) {
        StopRule::at_the_limit(state)
    } else {
        StopRule::from_outside(state)
    }
}

fn reached_limit(state: &State, tally: &Tally) -> bool {
    !matches!(stop_rule(state, tally), StopRule::Time | StopRule::User)
}

/// Returns whether the comparison with the maximum rate is decided. If a number of trials is planned, all of them run.
fn is_decided(state: &State, tally: &Tally) -> bool {
    let stop = &state.stop;
    let ExpectedResult::MaxRate(millionths) = state.goal.expect else {
        return false;
    };
    if stop.trials.is_some() || stop.failures.is_some() || stop.width.is_some() {
        return false;
    }
    let allowed = f64::from(millionths) / 1e6;
    if compares_cases(&state.trials) {
        let alpha = state.goal.alpha.to_probability();
        let bounds = case_bounds(StopRule::Decision, tally, alpha);
        return compare_cases(&bounds, allowed) != Verdict::Undecided;
    }
    let rate = rate_bounds(state, StopRule::Decision, tally);
    rate.lo > allowed || rate.hi <= allowed
}

fn is_narrow_enough(state: &State, tally: &Tally) -> bool {
    let Some(width) = state.stop.width else {
        return false;
    };
    let interval = StopRule::Decision.interval(
        tally.failures,
        tally.counted_trials(),
        state.goal.alpha.to_probability(),
    );
    interval.width() <= f64::from(width) / 1e6
}
