//! Distribution of the failures among the marked trials, if marks and failures are independent.

use crate::convert::real;

/// Probabilities of `first`, `first + 1`, ... failures among the marked trials.
#[derive(Debug, Clone)]
pub(super) struct FailureSplit {
    first: u64,
    weights: Vec<f64>,
}

impl FailureSplit {
    /// The distribution for `trials` trials, of which `failures` failed and `marked` have the mark.
    pub(super) fn new(trials: u64, failures: u64, marked: u64) -> Self {
        let first = (failures + marked).saturating_sub(trials);
        let last = failures.min(marked);
        // Returns the ratio of the probabilities of `k + 1` and `k`.
        let ratio = |k: u64| {
            real(failures - k) / real(k + 1)
                * (real(marked - k) / real(trials + k + 1 - failures - marked))
        };
        // From the likeliest count outward, so that no weight overflows.
        let mode = (first..last).find(|k| ratio(*k) <= 1.0).unwrap_or(last);
        let mut weights = vec![0.0; usize::try_from(last - first + 1).unwrap_or(1)];
        let index = |k: u64| usize::try_from(k - first).unwrap_or(0);
        weights[index(mode)] = 1.0;
        for k in mode..last {
            weights[index(k + 1)] = weights[index(k)] * ratio(k);
        }
        for k in (first..mode).rev() {
            weights[index(k)] = weights[index(k + 1)] / ratio(k);
        }
        let total: f64 = weights.iter().sum();
        for weight in &mut weights {
            *weight /= total;
        }
        Self { first, weights }
    }

    /// The distribution of the sum of two independent counts.
    pub(super) fn combined(&self, other: &Self) -> Self {
        let mut weights = vec![0.0; self.weights.len() + other.weights.len() - 1];
        for (i, left) in self.weights.iter().enumerate() {
            for (j, right) in other.weights.iter().enumerate() {
                weights[i + j] += left * right;
            }
        }
        Self {
            first: self.first + other.first,
            weights,
        }
    }

    /// Returns the probability of `count` or more.
    pub(super) fn at_least(&self, count: u64) -> f64 {
        let start = usize::try_from(count.saturating_sub(self.first)).unwrap_or(usize::MAX);
        let tail = self.weights.get(start..).unwrap_or_default();
        // Small weights first, to keep their digits.
        tail.iter().rev().sum::<f64>().min(1.0)
    }

    /// Returns the probability of `count` or fewer.
    pub(super) fn at_most(&self, count: u64) -> f64 {
        if count < self.first {
            return 0.0;
        }
        let end = usize::try_from(count - self.first).unwrap_or(usize::MAX);
        let head = &self.weights[..self.weights.len().min(end.saturating_add(1))];
        head.iter().sum::<f64>().min(1.0)
    }

    /// Returns the smallest probability that [`Self::at_least`] can have.
    pub(super) fn smallest_upper_tail(&self) -> f64 {
        self.weights.last().copied().unwrap_or(1.0)
    }

    /// Returns the smallest probability that [`Self::at_most`] can have.
    pub(super) fn smallest_lower_tail(&self) -> f64 {
        self.weights.first().copied().unwrap_or(1.0)
    }
}
