//! Intervals of the cases that a report selects because they failed.
//!
//! Of 5,000 cases that all fail in 1 % of runs, the top one shows 4 to 6 failures in 50 runs. Its 95 % interval excludes
//! the truth, because it was selected for its high count. Each of m intervals of the level 1 - alpha/m misses with
//! probability alpha/m at most, so with probability 1 - alpha all of them hold at once (Bonferroni). Then any of them
//! holds, whatever it was selected for: the first row, a row that was searched for, all that failed. Nothing is assumed
//! about cases that fail together.
//!
//! Intervals of the level 1 - alpha R/m for R selected cases (Benjamini and Yekutieli 2005) are narrower, but limit
//! only the average over the selected cases. The first row would miss its rate in up to 96 % of suites.

use crate::convert::real;

/// Returns the alpha of each interval, so that the intervals of all cases hold at once.
pub fn selected_alpha(alpha: f64, cases: u64) -> f64 {
    alpha / real(cases.max(1))
}
