//! Calculates an interval for the difference between the failure rates of two variants.

use super::interval::{Interval, confidence_sequence};

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

#[cfg(test)]
mod tests {
    use super::*;

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
