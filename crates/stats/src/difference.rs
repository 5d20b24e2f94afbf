//! Compares two failure rates: an interval for their difference, and the probability of the counts if there is none.

use super::convert::{real, whole};
use super::fisher::fisher;
use super::interval::{
    Interval, clopper_pearson_effective, confidence_sequence, confidence_sequence_effective,
};
use super::plan::first_true;

/// Returns the interval of the second rate minus the first, after (failures, runs) of each.
///
/// It lies in [-1, 1] and is valid at all times, whatever ended the runs: each rate has its any-time interval at
/// alpha/2, and with probability 1-alpha both contain their rate. This is stricter than necessary, so the interval is
/// wider than the test of [`super::EProcess`] needs: it may still contain 0 after that test has found a difference.
pub fn difference(a: (u64, u64), b: (u64, u64), alpha: f64) -> Interval {
    let first = confidence_sequence(a.0, a.1, alpha / 2.0);
    let second = confidence_sequence(b.0, b.1, alpha / 2.0);
    Interval {
        lo: second.lo - first.hi,
        hi: second.hi - first.lo,
    }
}

/// The counts of a run that is compared with another run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ComparedCounts {
    /// Trials that failed.
    pub failures: u64,
    /// All trials.
    pub trials: u64,
    /// Whether the end of the run was planned. A run that was stopped may have ended because of its results.
    pub is_planned: bool,
}

impl ComparedCounts {
    /// Returns the interval that holds for the way in which the run ended.
    fn interval(self, design_effect: f64, alpha: f64) -> Interval {
        let interval = if self.is_planned {
            clopper_pearson_effective
        } else {
            confidence_sequence_effective
        };
        interval(self.failures, self.trials, design_effect, alpha)
    }
}

/// Returns the probability of counts that differ at least this much, if both runs fail at the same rate.
///
/// `design_effect` is the number of trials that are worth one independent trial. It must be the larger one of the two
/// runs: if they fail at the same rate, their failures clump alike, and the run with fewer failures rarely shows it.
///
/// If both ends were planned, this is Fisher's exact test of the divided counts. Otherwise it is the smallest alpha for
/// which the intervals of both rates, at alpha/2 each, do not overlap; the interval of a run that was stopped holds for
/// any stop.
pub fn chance_of_difference(runs: [ComparedCounts; 2], design_effect: f64) -> f64 {
    let [first, second] = runs;
    if first.is_planned && second.is_planned {
        let divide = |count: u64| whole(real(count) / design_effect.max(1.0));
        let [(k1, n1), (k2, n2)] = runs.map(|run| (divide(run.failures), divide(run.trials)));
        return fisher(k1, n1, k2, n2).two_sided;
    }
    let are_apart = |alpha: f64| {
        let [first, second] = runs.map(|run| run.interval(design_effect, alpha / 2.0));
        first.hi < second.lo || second.hi < first.lo
    };
    if !are_apart(MOST_ALPHA) {
        return 1.0;
    }
    if are_apart(SMALLEST_CHANCE) {
        return SMALLEST_CHANCE;
    }
    let (mut apart, mut overlap) = (MOST_ALPHA, SMALLEST_CHANCE);
    for _ in 0..40 {
        let middle = (apart * overlap).sqrt();
        if are_apart(middle) {
            apart = middle;
        } else {
            overlap = middle;
        }
    }
    apart
}

/// Returns how many failures of the second run would make its rate differ at this level: the most below the rate of the
/// first run, and the fewest above it.
pub fn significant_failures(
    runs: [ComparedCounts; 2],
    design_effect: f64,
    level: f64,
) -> [Option<u64>; 2] {
    let [first, second] = runs;
    let differs = |failures: u64| {
        let second = ComparedCounts { failures, ..second };
        chance_of_difference([first, second], design_effect) <= level
    };
    let share = real(first.failures) / real(first.trials.max(1));
    let equal = whole(real(second.trials) * share).min(second.trials);
    let below = first_true(equal, |fewer| differs(equal - fewer.min(equal)));
    let above = first_true(second.trials - equal, |more| {
        differs((equal + more).min(second.trials))
    });
    [
        below.map(|fewer| equal - fewer.min(equal)),
        above.map(|more| equal + more),
    ]
}

/// The smallest probability that [`chance_of_difference`] calculates for a run that was stopped.
const SMALLEST_CHANCE: f64 = 1e-12;
/// An interval needs an alpha below 1.
const MOST_ALPHA: f64 = 0.999;

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(failures: u64, trials: u64, is_planned: bool) -> ComparedCounts {
        ComparedCounts {
            failures,
            trials,
            is_planned,
        }
    }

    #[test]
    fn a_clump_counts_as_one_failure() {
        let runs = [counts(10, 200, true), counts(0, 200, true)];
        let independent = chance_of_difference(runs, 1.0);
        assert!((independent - 0.001_7).abs() < 1e-4, "{independent}");
        assert!(chance_of_difference(runs, 10.0) > 0.9);
    }

    #[test]
    fn a_stopped_run_needs_more_evidence() {
        let planned = [counts(20, 100, true), counts(5, 100, true)];
        let stopped = [counts(20, 100, true), counts(5, 100, false)];
        let (planned, stopped) = (
            chance_of_difference(planned, 1.0),
            chance_of_difference(stopped, 1.0),
        );
        assert!(planned < 0.01 && stopped > 2.0 * planned, "{stopped}");
        let apart = [counts(900, 1000, false), counts(0, 1000, false)];
        assert!(chance_of_difference(apart, 1.0) <= SMALLEST_CHANCE);
        let equal = [counts(3, 10, false), counts(3, 10, true)];
        assert!(chance_of_difference(equal, 1.0) >= 1.0);
    }

    #[test]
    fn the_nearest_counts_that_differ_are_found() {
        let nearest = |first, second| significant_failures([first, second], 1.0, 0.05);
        let runs = [counts(5, 20, true), counts(6, 20, true)];
        assert_eq!(nearest(runs[0], runs[1]), [Some(0), Some(13)]);
        let chance = |k| chance_of_difference([runs[0], counts(k, 20, true)], 1.0);
        assert!(chance(13) <= 0.05 && chance(12) > 0.05);
        assert_eq!(nearest(counts(50, 100, true), runs[1]), [Some(4), Some(16)]);
        assert_eq!(
            nearest(counts(0, 3, true), counts(0, 3, true)),
            [None, None]
        );
        assert_eq!(
            nearest(counts(0, 0, true), counts(0, 0, true)),
            [None, None]
        );
    }

    #[test]
    fn without_runs_the_interval_contains_every_difference() {
        let none = difference((0, 0), (0, 0), 0.05);
        assert!(none.lo <= -1.0 && none.hi >= 1.0);
    }

    #[test]
    fn the_interval_contains_the_observed_difference_and_is_symmetric() {
        for (a, b) in [((3, 30), (0, 50)), ((50, 100), (49, 90)), ((0, 9), (9, 9))] {
            let rate = |(k, n): (u32, u32)| f64::from(k) / f64::from(n);
            let wide = |(k, n): (u32, u32)| (u64::from(k), u64::from(n));
            let seen = difference(wide(a), wide(b), 0.05);
            assert!(seen.contains(rate(b) - rate(a)));
            let turned = difference(wide(b), wide(a), 0.05);
            assert!((seen.lo + turned.hi).abs() < 1e-12);
            assert!((seen.hi + turned.lo).abs() < 1e-12);
        }
    }

    #[test]
    fn many_runs_exclude_a_difference_of_zero() {
        assert!(difference((100, 1000), (200, 1000), 0.05).lo > 0.0);
        assert!(difference((100, 1000), (110, 1000), 0.05).contains(0.0));
    }
}
