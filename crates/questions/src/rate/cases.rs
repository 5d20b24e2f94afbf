//! Compares the failure rate of each test of a suite with the allowed rate.
//!
//! The bounds of all tests hold together at the confidence level: each has the level of one test after Bonferroni.

use crate::{StopRule, Verdict};
use provoke_model::TrialsPlan;
use provoke_state::Tally;
use provoke_stats::{Interval, real};

/// The bounds of the failure rate of one test.
#[derive(Clone, Copy, Debug)]
pub(super) struct CaseBounds {
    /// The number of the test in the run.
    pub(super) number: u32,
    /// Trials in which it failed.
    pub(super) failures: u64,
    /// Trials in which it passed or failed.
    pub(super) trials: u64,
    /// The bounds.
    pub(super) rate: Interval,
}

/// Returns whether each test is compared with the allowed rate, and not each trial.
pub(super) fn compares_cases(trials: &TrialsPlan) -> bool {
    trials.cases.is_some() && trials.rules.searched_cases().next().is_none()
}

/// Returns the bounds of every test of a variant that a trial has planned.
pub(super) fn case_bounds(rule: StopRule, tally: &Tally, alpha: f64) -> Vec<CaseBounds> {
    let planned = |case: &&provoke_state::CaseCounts| case.planned_trials() > 0;
    let tests = tally.suite.cases.iter().filter(planned).count();
    let alpha = alpha / real(tests.max(1) as u64);
    let numbered = (0..).zip(&tally.suite.cases);
    numbered
        .filter(|(_, case)| planned(case) && !case.is_always_skipped())
        .map(|(number, case)| {
            let (failures, trials) = (case.failures(), case.counted_trials());
            let rate = if rule.is_planned() {
                rule.one_sided_bounds(failures, trials, alpha, alpha)
            } else {
                rule.interval(failures, trials, alpha)
            };
            CaseBounds {
                number,
                failures,
                trials,
                rate,
            }
        })
        .collect()
}

/// Compares the tests of a variant with the allowed rate.
pub(super) fn compare_cases(bounds: &[CaseBounds], allowed: f64) -> Verdict {
    if bounds.iter().any(|bounds| bounds.rate.lo > allowed) {
        Verdict::AboveMaxRate
    } else if !bounds.is_empty() && bounds.iter().all(|bounds| bounds.rate.hi <= allowed) {
        Verdict::BelowMaxRate
    } else {
        Verdict::Undecided
    }
}
