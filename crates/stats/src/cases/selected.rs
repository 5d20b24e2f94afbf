//! Intervals of the cases that a report selects because they failed.
//!
//! Of 5,000 cases that all fail in 1 % of runs, the top one shows 4 to 6 failures in 50 runs. Its 95 % interval excludes
//! the truth, because it was selected for its high count. Benjamini and Yekutieli (2005): if R of m cases are selected,
//! intervals of the level 1 - alpha R/m miss at most the share alpha of the selected cases on average. That holds for
//! independent cases and for cases that fail together, if more failures never remove a case from the selection.

use super::counts::CaseCounts;
use crate::convert::real;
use crate::interval::Interval;

/// Returns the alpha of each interval if `selected` of `cases` cases are shown because of their failures.
pub fn selected_alpha(alpha: f64, selected: u64, cases: u64) -> f64 {
    if selected == 0 || cases <= selected {
        return alpha;
    }
    alpha * real(selected) / real(cases)
}

/// Returns the intervals of the cases that failed at least once; `None` for the others.
///
/// `interval` is the interval of one case by the stopping rule of the run: [`crate::clopper_pearson`] for a fixed number
/// of trials, [`crate::confidence_sequence`] otherwise.
pub fn selected_intervals(
    counts: &[CaseCounts],
    alpha: f64,
    interval: impl Fn(u64, u64, f64) -> Interval,
) -> Vec<Option<Interval>> {
    let count = |holds: fn(&CaseCounts) -> bool| {
        counts.iter().filter(|counts| holds(counts)).count() as u64
    };
    let selected = count(|counts| counts.failures > 0);
    let alpha = selected_alpha(alpha, selected, count(|counts| counts.trials > 0));
    counts
        .iter()
        .map(|counts| {
            (counts.failures > 0).then(|| interval(counts.failures, counts.trials, alpha))
        })
        .collect()
}

/// Returns how many cases could be the one that fails most often: their intervals reach the highest lower end.
pub fn possible_worst(intervals: &[Option<Interval>]) -> usize {
    let selected = || intervals.iter().flatten();
    let highest = selected().map(|interval| interval.lo).fold(0.0, f64::max);
    selected().filter(|interval| interval.hi >= highest).count()
}
