//! Chooses the interval of a failure rate: why trials ended determines which one is valid.

use provoke_state::{State, Tally};
use provoke_stats::{
    Interval, bounds_at_any_time, clopper_pearson, clopper_pearson_effective, confidence_sequence,
    lower_one_sided, running_interval, upper_one_sided,
};

/// Moments at which the interval of an unplanned run is taken: more make it hardly narrower.
const MOMENTS: usize = 32;

/// Why the trials of a variant ended: this determines the valid interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum StopRule {
    /// All planned trials ran.
    PlannedN,
    /// The requested number of failures was seen.
    KthFailure,
    /// The question is answered, or the interval is as narrow as requested.
    Decision,
    /// The limit of trials was reached; the results might have ended the run earlier.
    Spent,
    /// The time limit was reached.
    Time,
    /// The user stopped the run, or it is still running.
    User,
}

impl StopRule {
    /// Returns whether the design was fixed beforehand, so that exact intervals are valid.
    pub fn is_planned(self) -> bool {
        matches!(self, Self::PlannedN | Self::KthFailure)
    }

    /// Returns the two-sided interval of a failure rate that is valid under this rule.
    pub fn interval(self, failures: u64, trials: u64, alpha: f64) -> Interval {
        if self.is_planned() {
            clopper_pearson(failures, trials, alpha)
        } else {
            confidence_sequence(failures, trials, alpha)
        }
    }

    /// Returns the upper bound of a failure rate after a planned number of trials; it may be too low with this probability.
    pub fn planned_upper_bound(failures: u64, trials: u64, alpha: f64) -> f64 {
        upper_one_sided(failures, trials, alpha)
    }

    /// Returns the two-sided interval after a planned number of trials if failures come in clumps of this effect.
    pub fn planned_interval(
        failures: u64,
        trials: u64,
        design_effect: f64,
        alpha: f64,
    ) -> Interval {
        clopper_pearson_effective(failures, trials, design_effect, alpha)
    }

    /// Returns bounds of a failure rate, each of which may be wrong with its own probability.
    pub(super) fn one_sided_bounds(
        self,
        failures: u64,
        trials: u64,
        lower_alpha: f64,
        upper_alpha: f64,
    ) -> Interval {
        if self.is_planned() {
            Interval {
                lo: lower_one_sided(failures, trials, lower_alpha),
                hi: upper_one_sided(failures, trials, upper_alpha),
            }
        } else {
            Interval {
                lo: bounds_at_any_time(failures, trials, lower_alpha).lo,
                hi: bounds_at_any_time(failures, trials, upper_alpha).hi,
            }
        }
    }

    /// Returns why trials end if the planned number has run.
    pub(super) fn at_the_limit(state: &State) -> Self {
        if state.stop.changed {
            Self::Spent
        } else {
            Self::PlannedN
        }
    }

    /// Returns why trials end if no rule of the question ended them.
    pub(super) fn from_outside(state: &State) -> Self {
        if state.stage.is_budget_spent() && state.stage.stop_cause().is_none() {
            Self::Time
        } else {
            Self::User
        }
    }
}

/// Returns the two-sided interval of the rate of a variant. Unless the design was fixed, it holds at all moments of the run
/// together, so it is narrower than [`StopRule::interval`].
pub(crate) fn rate_interval(rule: StopRule, tally: &Tally, alpha: f64) -> Interval {
    if rule.is_planned() {
        rule.interval(tally.failures, tally.counted_trials(), alpha)
    } else {
        interval_at_any_time(tally, 1.0, alpha)
    }
}

/// Returns the interval of the failure rate that holds at all moments of a run together.
pub fn interval_at_any_time(tally: &Tally, design_effect: f64, alpha: f64) -> Interval {
    let moments = tally.rate_series.counts_over_time(MOMENTS);
    running_interval(moments, design_effect, alpha)
}
