//! `run`: repeats every variant until a number of trials, a failure, an interval width or the time limit is reached.

use super::blocks::next_in_block;
use super::{Policy, Step, StopRule, Verdict, interval, nothing_counts, untold};
use crate::model::{Expect, Stop, VariantId};
use crate::state::{State, Tally};
use provoke_stats::{Interval, clopper_pearson, confidence_sequence, upper_one_sided};

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
            return Step::finish(state);
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
        let failures: u64 = state.tallies().map(|(_, tally)| tally.failures).sum();
        if nothing_counts(state) {
            return Verdict::CouldNotTest;
        }
        match state.plan.expect {
            Expect::MaxRate(millionths) => against(state, f64::from(millionths) / 1e6),
            // An interrupted run has not shown the absence of failures.
            Expect::Pass | Expect::Fail if failures > 0 => Verdict::Failing,
            Expect::Pass | Expect::Fail if !state.finished || untold(state) > 0 => {
                Verdict::Undecided
            }
            Expect::Pass | Expect::Fail => Verdict::Clean,
        }
    }

    fn stop_rule(&self, state: &State, variant: VariantId) -> StopRule {
        stop_rule(state, state.tally(variant))
    }

    fn left(&self, state: &State) -> Option<u64> {
        let variants = state.plan.variants.len() as u64;
        let all = state.plan.stop.trials?.saturating_mul(variants);
        Some(all.saturating_sub(state.completed()))
    }
}

/// Returns the bounds of the failure rate that a maximum rate is compared with. Each holds at the confidence level: only
/// one of them decides.
pub fn rate_bounds(rule: StopRule, tally: &Tally, alpha: f64) -> Interval {
    let (k, n) = (tally.failures, tally.trials());
    if rule.is_planned() {
        Interval {
            lo: clopper_pearson(k, n, 2.0 * alpha).lo,
            hi: upper_one_sided(k, n, alpha),
        }
    } else {
        interval(rule, tally, alpha)
    }
}

/// Compares the rate of every variant with the allowed rate.
fn against(state: &State, allowed: f64) -> Verdict {
    let intervals: Vec<Interval> = state
        .tallies()
        .map(|(_, tally)| rate_bounds(stop_rule(state, tally), tally, state.plan.alpha.value()))
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
    let Stop {
        trials, failures, ..
    } = state.plan.stop;
    if failures.is_some_and(|failures| tally.failures >= failures) {
        StopRule::KthFailure
    } else if narrow(state, tally) || is_decided(state, tally) {
        StopRule::Decision
    } else if trials.is_some_and(|trials| tally.ran() >= trials) {
        StopRule::at_the_limit(state)
    } else {
        StopRule::from_outside(state)
    }
}

fn reached(state: &State, tally: &Tally) -> bool {
    !matches!(stop_rule(state, tally), StopRule::Time | StopRule::User)
}

/// Returns whether the comparison with the maximum rate is decided. If a number of trials is planned, all of them run.
fn is_decided(state: &State, tally: &Tally) -> bool {
    let stop = &state.plan.stop;
    let Expect::MaxRate(millionths) = state.plan.expect else {
        return false;
    };
    if stop.trials.is_some() || stop.failures.is_some() || stop.width.is_some() {
        return false;
    }
    let allowed = f64::from(millionths) / 1e6;
    let rate = confidence_sequence(tally.failures, tally.trials(), state.plan.alpha.value());
    rate.lo > allowed || rate.hi <= allowed
}

fn narrow(state: &State, tally: &Tally) -> bool {
    let Some(width) = state.plan.stop.width else {
        return false;
    };
    let interval = confidence_sequence(tally.failures, tally.trials(), state.plan.alpha.value());
    interval.width() <= f64::from(width) / 1e6
}
