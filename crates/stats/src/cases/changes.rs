//! Changes of the failure rates of many cases since a baseline.

use super::counts::CaseCounts;
use crate::convert::real;
use crate::fisher::fisher;

/// The counts of one case before and after a change.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CasePair {
    /// In the baseline.
    pub before: CaseCounts,
    /// Now.
    pub after: CaseCounts,
}

/// The evidence that a case fails at another rate than before.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CaseChange {
    /// P-value of "it fails more often now".
    pub p_worse: f64,
    /// The same, corrected for the number of cases: among the cases with at most this value, this share at most has not
    /// become worse, on average.
    pub q_worse: f64,
    /// P-value of "it fails less often now".
    pub p_better: f64,
    /// The same, corrected.
    pub q_better: f64,
}

/// Compares each case with its baseline: Fisher's exact test for each, corrected by Benjamini and Hochberg.
///
/// A case without trials on one side has the p-value 1. List cases that are new or vanished separately, and leave them
/// out here.
pub fn changed_cases(pairs: &[CasePair]) -> Vec<CaseChange> {
    let p_values = |is_worse: bool| -> Vec<f64> {
        let side = |pair: &CasePair| {
            let (more, less) = if is_worse {
                (pair.after, pair.before)
            } else {
                (pair.before, pair.after)
            };
            fisher(more.failures, more.trials, less.failures, less.trials).greater
        };
        pairs.iter().map(side).collect()
    };
    let (worse, better) = (p_values(true), p_values(false));
    let (q_worse, q_better) = (benjamini_hochberg(&worse), benjamini_hochberg(&better));
    (0..pairs.len())
        .map(|index| CaseChange {
            p_worse: worse[index],
            q_worse: q_worse[index],
            p_better: better[index],
            q_better: q_better[index],
        })
        .collect()
}

/// Corrects p-values by the method of Benjamini and Hochberg, in the same order.
///
/// Of the hypotheses with a corrected value of at most q, the share q at most is true, on average.
pub fn benjamini_hochberg(p_values: &[f64]) -> Vec<f64> {
    corrected_among(p_values, p_values.len() as u64)
}

/// Corrects p-values if `tests` hypotheses were tested, and the others have the p-value 1.
pub(super) fn corrected_among(p_values: &[f64], tests: u64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|a, b| p_values[*a].total_cmp(&p_values[*b]));
    let mut corrected = vec![1.0; p_values.len()];
    let mut smallest: f64 = 1.0;
    for (rank, index) in order.into_iter().enumerate().rev() {
        let share = real(tests) / real(rank as u64 + 1);
        smallest = smallest.min(p_values[index] * share);
        corrected[index] = smallest;
    }
    corrected
}
