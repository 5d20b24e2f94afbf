//! `run`: repeat every variant until a number, a failure, a width or the time is reached.

use super::blocks::next_in_block;
use super::{Policy, Step, StopRule, Verdict};
use crate::model::{Expect, Stop, VariantId, Void};
use crate::state::{State, Tally};
use crate::stats::{Interval, clopper_pearson, confidence_sequence};

/// Repeats every variant, in turn, until its own stop rule is met.
pub struct Repeat;

impl Policy for Repeat {
    fn next(&self, state: &State) -> Step {
        let open = state
            .tallies()
            .filter(|(id, tally)| state.is_testable(*id) && !reached(state, tally));
        let open: Vec<VariantId> = open.map(|(id, _)| id).collect();
        if open.is_empty() {
            return Step::Done;
        }
        if state.budget_spent {
            return if state.unsettled() {
                Step::Wait
            } else {
                Step::Done
            };
        }
        let wanted = |id: &VariantId| {
            state
                .plan
                .stop
                .trials
                .is_none_or(|trials| state.underway(*id) < trials)
        };
        let next = next_in_block(state, open.into_iter().filter(wanted));
        next.map_or(Step::Wait, Step::Launch)
    }

    fn verdict(&self, state: &State) -> Verdict {
        let trials: u64 = state.tallies().map(|(_, tally)| tally.trials()).sum();
        let failures: u64 = state.tallies().map(|(_, tally)| tally.failures).sum();
        if trials == 0 {
            return Verdict::CouldNotTest;
        }
        match state.plan.expect {
            Expect::MaxRate(millionths) => against(state, f64::from(millionths) / 1e6),
            // A run that was broken off has not shown that there is no failure.
            Expect::Pass | Expect::Fail if failures > 0 => Verdict::Failing,
            Expect::Pass | Expect::Fail if !state.finished || untold(state) > 0 => {
                Verdict::Undecided
            }
            Expect::Pass | Expect::Fail => Verdict::Clean,
        }
    }

    fn total(&self, state: &State) -> Option<u64> {
        let variants = state.plan.variants.len() as u64;
        let trials = state.plan.stop.trials?;
        Some(
            trials
                .saturating_mul(variants)
                .saturating_add(state.plan.warmup),
        )
    }
}

/// Returns how many trials failed of what may or may not be the bug looked for.
pub fn untold(state: &State) -> u64 {
    let void = state.tallies().map(|(_, tally)| &tally.void);
    void.filter_map(|void| void.get(&Void::Untold)).sum()
}

/// Compares the rate of every variant with the one that is allowed.
fn against(state: &State, allowed: f64) -> Verdict {
    let intervals: Vec<Interval> = state
        .tallies()
        .map(|(_, tally)| interval(state, tally))
        .collect();
    if intervals.iter().any(|interval| interval.lo > allowed) {
        Verdict::AboveMaxRate
    } else if intervals.iter().all(|interval| interval.hi <= allowed) {
        Verdict::BelowMaxRate
    } else {
        Verdict::Undecided
    }
}

/// Returns the two-sided interval that the way the trials ended allows.
pub fn interval(state: &State, tally: &Tally) -> Interval {
    let (k, n, alpha) = (tally.failures, tally.trials(), state.plan.alpha.value());
    match stop_rule(state, tally) {
        StopRule::PlannedN | StopRule::KthFailure => clopper_pearson(k, n, alpha),
        StopRule::Decision | StopRule::Time | StopRule::User => confidence_sequence(k, n, alpha),
    }
}

/// Returns why the trials of a variant came to an end.
pub fn stop_rule(state: &State, tally: &Tally) -> StopRule {
    let Stop {
        trials, failures, ..
    } = state.plan.stop;
    if failures.is_some_and(|failures| tally.failures >= failures) {
        StopRule::KthFailure
    } else if narrow(state, tally) {
        StopRule::Decision
    } else if trials.is_some_and(|trials| tally.ran() >= trials) {
        StopRule::PlannedN
    } else if state.budget_spent && state.stopped.is_none() {
        StopRule::Time
    } else {
        StopRule::User
    }
}

fn reached(state: &State, tally: &Tally) -> bool {
    !matches!(stop_rule(state, tally), StopRule::Time | StopRule::User)
}

fn narrow(state: &State, tally: &Tally) -> bool {
    let Some(width) = state.plan.stop.width else {
        return false;
    };
    let interval = confidence_sequence(tally.failures, tally.trials(), state.plan.alpha.value());
    interval.width() <= f64::from(width) / 1e6
}
