//! Computes how many more failures of the baseline would save trials in all.

use provoke_model::MeasuredBaseline;
use provoke_stats as stats;
use provoke_words as words;
use serde::Serialize;

/// A longer baseline that saves trials in all.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MoreFailures {
    /// The number of failures that the baseline should have.
    pub failures: u64,
    /// About how many more trials of the unfixed program that takes.
    pub trials: u64,
    /// How many trials that saves in all.
    pub saves: u64,
}

impl MoreFailures {
    /// Returns how many more baseline failures would have reduced the total number of trials.
    pub(super) fn of_baseline(base: &MeasuredBaseline, alpha: f64) -> Option<Self> {
        if base.design_effect() > 1.0 || base.drift.is_some() {
            // More failures may clump as well, or occur at another rate.
            return None;
        }
        stats::worth_more_failures(base.failures, base.trials, alpha).map(Into::into)
    }

    /// Advises to measure the baseline for longer.
    pub(super) fn to_advice(self) -> String {
        format!(
            "cheaper: first run about {} of the unfixed program, until it has {}; this check then needs about {} less",
            words::format_count(self.trials, "more trial"),
            words::format_count(self.failures, "failure"),
            words::format_count(self.trials + self.saves, "trial"),
        )
    }
}

impl From<stats::MoreFailures> for MoreFailures {
    fn from(more_failures: stats::MoreFailures) -> Self {
        Self {
            failures: more_failures.failures,
            trials: more_failures.trials,
            saves: more_failures.saves,
        }
    }
}
