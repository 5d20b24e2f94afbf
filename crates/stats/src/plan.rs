//! Calculates how many runs a question needs.

use super::convert::{count_up, real};
use super::interval::{LARGEST_N, lower_end, lower_one_sided, upper_end, upper_one_sided};

/// Tolerance for rounding if a product of probabilities meets its limit exactly.
const TIE: f64 = 1e-12;

/// Returns how many runs show at least one failure with this confidence, if each fails with probability `p`.
///
/// This is the smallest n with 1-(1-p)^n at or above the confidence. Returns `None` if `p` is 0, because no number is
/// enough.
pub fn runs_to_see_one(p: f64, confidence: f64) -> Option<u64> {
    clean_runs_at_known_rate(p, 1.0 - confidence)
}

/// Returns how many clean runs in a row are rarer than `alpha` if the rate is *known* to be `p`.
///
/// This is the smallest n with (1-p)^n at or below alpha: 29 for a rate of 10 % at 95 %. A measured rate is not a known
/// one, and to treat it as known calls an unchanged program fixed up to four times out of ten; use
/// [`super::clean_runs_needed`] in that case. Returns `None` if `p` is 0.
pub fn clean_runs_at_known_rate(p: f64, alpha: f64) -> Option<u64> {
    debug_assert!(alpha > 0.0 && alpha < 1.0);
    if p <= 0.0 {
        None
    } else if p >= 1.0 {
        Some(1)
    } else {
        Some(count_up(alpha.ln() / (-p).ln_1p() * (1.0 - TIE)).max(1))
    }
}

/// Returns the probability that `n` runs show at least one failure, if each fails with probability
/// `p`.
pub fn chance_to_see(p: f64, n: u64) -> f64 {
    if n == 0 || p <= 0.0 {
        0.0
    } else if p >= 1.0 {
        1.0
    } else {
        -(real(n) * (-p).ln_1p()).exp_m1()
    }
}

/// Returns how many runs make the Clopper-Pearson interval no wider than `width`, if failures come exactly at the rate
/// `p`.
///
/// The counts of a real series vary around n times p, so its interval is a little wider or narrower. Returns `None` if
/// this takes more than ten million runs, because intervals of more runs are not computed any narrower.
pub fn runs_for_width(p: f64, width: f64, alpha: f64) -> Option<u64> {
    debug_assert!((0.0..=1.0).contains(&p));
    let narrow_enough = |n: u64| {
        let n = real(n);
        let tail = alpha / 2.0;
        upper_end(n * p, n, tail) - lower_end(n * p, n, tail) <= width
    };
    first_true(count_up(LARGEST_N), narrow_enough)
}

/// Returns how many runs decide with this power whether the rate is at most `allowed`, if it is `p`.
///
/// A lower rate passes if the one-sided upper bound of the counts is at most `allowed`; a higher one fails if the lower
/// bound is above. The power is exact for the returned number. It grows in steps, so that a number up to a few per cent
/// smaller may have this power as well. Returns `None` if `p` is `allowed`, or if it takes more than ten million runs.
pub fn runs_to_check_rate(p: f64, allowed: f64, alpha: f64, power: f64) -> Option<u64> {
    debug_assert!((0.0..=1.0).contains(&p) && (0.0..=1.0).contains(&allowed));
    let passes = |k: u64, n: u64| upper_one_sided(k, n, alpha) <= allowed;
    let fails = |k: u64, n: u64| lower_one_sided(k, n, alpha) > allowed;
    let is_enough = |n: u64| {
        if p < allowed {
            // The most failures that pass are one fewer than the fewest that do not.
            let too_many = first_true(n, |k| !passes(k, n)).unwrap_or(n + 1);
            passes(0, n) && p <= upper_end(real(too_many - 1), real(n), power)
        } else {
            let fewest = first_true(n, |k| fails(k, n));
            fewest.is_some_and(|fewest| p >= lower_end(real(fewest), real(n), power))
        }
    };
    if (p - allowed).abs() <= f64::EPSILON {
        return None;
    }
    first_true(count_up(LARGEST_N), is_enough)
}

/// Finds by doubling and halving the smallest count in 1..=limit for which a condition holds that stays true for all
/// larger counts.
pub fn first_true(limit: u64, is_true: impl Fn(u64) -> bool) -> Option<u64> {
    let mut low = 0; // known to be too small
    let mut high = 1;
    while !is_true(high) {
        if high >= limit {
            return None;
        }
        low = high;
        high = high.saturating_mul(2).min(limit);
    }
    while high - low > 1 {
        let middle = u64::midpoint(low, high);
        if is_true(middle) {
            high = middle;
        } else {
            low = middle;
        }
    }
    Some(high)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_of_zero_has_no_sufficient_number_of_runs() {
        assert_eq!(runs_to_see_one(0.0, 0.95), None);
        assert_eq!(clean_runs_at_known_rate(0.0, 0.05), None);
        assert!(chance_to_see(0.0, u64::MAX) <= 0.0);
    }

    #[test]
    fn a_certain_failure_is_seen_in_one_run() {
        assert_eq!(runs_to_see_one(1.0, 0.999), Some(1));
        assert!(chance_to_see(1.0, 1) >= 1.0);
        assert!(chance_to_see(1.0, 0) <= 0.0);
    }

    #[test]
    fn an_exact_tie_counts_as_enough() {
        assert_eq!(runs_to_see_one(0.5, 0.75), Some(2));
        assert_eq!(runs_to_see_one(0.5, 0.875), Some(3));
        assert_eq!(clean_runs_at_known_rate(0.9, 0.001), Some(3));
    }

    #[test]
    fn the_planned_number_is_the_smallest_that_suffices() {
        for p in [0.9, 0.3, 0.03, 0.001, 1e-7] {
            let n = runs_to_see_one(p, 0.95).unwrap();
            assert!(chance_to_see(p, n) >= 0.95 - 1e-12);
            assert!(chance_to_see(p, n - 1) < 0.95);
        }
    }

    #[test]
    fn the_planned_number_is_the_smallest_that_reaches_the_width() {
        for (p, width) in [(0.5, 0.1), (0.1, 0.05), (0.0, 0.01), (1.0, 0.01)] {
            let n = runs_for_width(p, width, 0.05).unwrap();
            let at = |n: f64| upper_end(n * p, n, 0.025) - lower_end(n * p, n, 0.025);
            assert!(at(real(n)) <= width);
            assert!(at(real(n - 1)) > width);
        }
    }

    /// Returns the exact probability of at most `k` failures.
    fn probability_of_at_most(k: i64, n: u64, p: f64) -> f64 {
        let mut term = (1.0 - p).powf(real(n));
        let mut sum = 0.0;
        for failures in 0..=k {
            sum += term;
            let failures = failures.unsigned_abs();
            term *= real(n - failures) / real(failures + 1) * p / (1.0 - p);
        }
        sum
    }

    #[test]
    fn the_planned_number_checks_a_rate_with_the_wanted_power() {
        // The smallest numbers were computed from sums of binomial probabilities.
        for (p, allowed, smallest) in [
            (0.08, 0.2, 57),
            (0.01, 0.05, 124),
            (0.4, 0.2, 35),
            (0.0, 0.2, 14),
            (1.0, 0.5, 5),
        ] {
            let n = runs_to_check_rate(p, allowed, 0.05, 0.8).unwrap();
            assert!((smallest..=smallest + smallest / 8).contains(&n), "{n}");
            let counts = 0..=i64::try_from(n).unwrap();
            let power = if p < allowed {
                let passing = counts.filter(|k| probability_of_at_most(*k, n, allowed) <= 0.05);
                probability_of_at_most(passing.max().unwrap(), n, p)
            } else {
                let mut failing =
                    counts.filter(|k| 1.0 - probability_of_at_most(*k - 1, n, allowed) <= 0.05);
                1.0 - probability_of_at_most(failing.next().unwrap() - 1, n, p.min(1.0 - 1e-12))
            };
            assert!(power >= 0.8 - 1e-9, "{p} {allowed}: {power} with {n}");
        }
        assert_eq!(runs_to_check_rate(0.2, 0.2, 0.05, 0.8), None);
        assert_eq!(runs_to_check_rate(0.2, 0.200_001, 0.05, 0.8), None);
    }

    #[test]
    fn a_width_that_is_too_small_has_no_plan() {
        assert_eq!(runs_for_width(0.5, 1e-5, 0.05), None);
        assert_eq!(runs_for_width(0.5, 0.0, 0.05), None);
        assert_eq!(runs_for_width(0.5, 1.0, 0.05), Some(1));
    }
}
