//! Counts trials, and measures how strongly two counts differ.

use super::condition::Outcome;
use crate::convert::real;

/// Counted trials and their failures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Trials that failed.
    pub failures: u64,
    /// Trials that failed or passed.
    pub trials: u64,
}

impl Counts {
    /// Adds a trial, unless it was inconclusive.
    pub(super) fn add(&mut self, outcome: Outcome) {
        self.trials += u64::from(outcome != Outcome::NotCounted);
        self.failures += u64::from(outcome == Outcome::Failed);
    }

    /// Returns the sum of two counts.
    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            failures: self.failures + other.failures,
            trials: self.trials + other.trials,
        }
    }

    /// Returns these counts without a part of them.
    pub(super) fn minus(self, part: Self) -> Self {
        Self {
            failures: self.failures - part.failures,
            trials: self.trials - part.trials,
        }
    }

    /// Returns whether some trials failed and some passed.
    pub(super) fn is_mixed(self) -> bool {
        self.failures > 0 && self.failures < self.trials
    }

    /// Returns the failure rate; 0 without trials.
    pub(super) fn rate(self) -> f64 {
        real(self.failures) / real(self.trials.max(1))
    }

    /// Returns the maximum of the log-likelihood.
    fn ln_likelihood(self) -> f64 {
        let term = |count: u64| {
            if count == 0 {
                0.0
            } else {
                real(count) * (real(count) / real(self.trials)).ln()
            }
        };
        term(self.failures) + term(self.trials - self.failures)
    }

    /// Returns the log-likelihood ratio of two rates against a common one: positive if these trials fail more often
    /// than the others, negative if they fail less often.
    pub(super) fn signed_evidence(self, others: Self) -> f64 {
        let ratio =
            self.ln_likelihood() + others.ln_likelihood() - self.plus(others).ln_likelihood();
        ratio.max(0.0).copysign(self.rate() - others.rate())
    }
}
