//! Compares a failure rate with a limit, after every run.
//!
//! The evidence that the rate is below the limit is the likelihood of the counts at the rates below it, averaged with the
//! density of Beta(1/2, 1/2) there, relative to their likelihood at the limit. If the rate is at the limit or above it,
//! this ratio shrinks on average with every run. So it ever reaches 1/alpha with probability alpha at most (Ville),
//! however often it is checked. The evidence that the rate is above the limit is the mirror image.
//!
//! Only one of the two can be wrong, so each has the whole error level. With the two-sided interval of
//! [`super::confidence_sequence`], a decision takes half as many runs again, or twice as many.

use std::f64::consts::FRAC_PI_2;

use super::convert::real;
use super::interval::{Interval, LARGEST_N};
use super::special::{LN_SMALLEST, beta_share, bisect_logarithm, ln_beta};

/// Returns the lower and the upper bound of the failure rate, after `k` failures in `n` runs. Each holds at all moments
/// together with confidence 1-alpha: the rates outside of them have evidence of 1/alpha against them.
pub fn bounds_at_any_time(k: u64, n: u64, alpha: f64) -> Interval {
    debug_assert!(alpha > 0.0 && alpha < 1.0 && k <= n);
    if n == 0 {
        return Interval::WHOLE;
    }
    let (k, n) = scaled(k, n);
    Interval {
        lo: 1.0 - upper_bound(n - k, k, alpha),
        hi: upper_bound(k, n - k, alpha),
    }
}

/// Returns the smallest limit that the rate is known to be below.
fn upper_bound(failures: f64, passes: f64, alpha: f64) -> f64 {
    if passes <= 0.0 {
        return 1.0;
    }
    let share = failures / (failures + passes);
    let enough = -alpha.ln();
    let limit_of = |part: f64| 1.0 - (1.0 - share) * part;
    let part = bisect_logarithm(LN_SMALLEST, 0.0, |part| {
        ln_evidence(failures, passes, limit_of(part)) >= enough
    });
    limit_of(part)
}

/// Returns the logarithm of the evidence for a rate below the limit.
fn ln_evidence(failures: f64, passes: f64, limit: f64) -> f64 {
    if limit <= 0.0 || limit >= 1.0 {
        return if limit >= 1.0 && passes > 0.0 {
            f64::INFINITY
        } else {
            f64::NEG_INFINITY
        };
    }
    // The share of the arcsine distribution below the limit has a closed form.
    let prior_share = limit.sqrt().asin() / FRAC_PI_2;
    let (a, b) = (failures + 0.5, passes + 0.5);
    let ln_mixture =
        ln_beta(a, b) + beta_share(a, b, limit).ln() - ln_beta(0.5, 0.5) - prior_share.ln();
    let at_limit = failures * limit.ln() + passes * (-limit).ln_1p();
    ln_mixture - at_limit
}

/// Scales the counts down to [`LARGEST_N`].
fn scaled(k: u64, n: u64) -> (f64, f64) {
    debug_assert!(k <= n, "{k} failures in {n} runs");
    let divisor = (real(n) / LARGEST_N).max(1.0);
    (real(k.min(n)) / divisor, real(n) / divisor)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the natural logarithm of the evidence that the failure rate is below a limit.
    fn ln_evidence_below(k: u64, n: u64, limit: f64) -> f64 {
        let (k, n) = scaled(k, n);
        ln_evidence(k, n - k, limit)
    }

    fn ln_evidence_above(k: u64, n: u64, limit: f64) -> f64 {
        let (k, n) = scaled(k, n);
        ln_evidence(n - k, k, 1.0 - limit)
    }

    fn passes_needed(limit: f64) -> u64 {
        (1..1000)
            .find(|n| ln_evidence_below(0, *n, limit) >= 20_f64.ln())
            .unwrap()
    }

    #[test]
    fn a_program_without_failures_needs_little_more_than_a_planned_number_of_runs() {
        // Planned, it takes 29 and 299 runs; with the two-sided interval, 53 and 680.
        assert_eq!(passes_needed(0.1), 36);
        assert_eq!(passes_needed(0.01), 377);
    }

    #[test]
    fn the_bounds_are_the_limits_at_which_the_evidence_is_enough() {
        for (k, n) in [(0, 50), (3, 50), (25, 50), (47, 50), (50, 50), (4, 100_000)] {
            let bounds = bounds_at_any_time(k, n, 0.05);
            assert!(bounds.lo <= real(k) / real(n) && real(k) / real(n) <= bounds.hi);
            if bounds.hi < 1.0 {
                let evidence = ln_evidence_below(k, n, bounds.hi);
                assert!(
                    (evidence - 20_f64.ln()).abs() < 1e-6,
                    "{k}/{n}: {bounds:?}, {evidence}"
                );
            }
            if bounds.lo > 0.0 {
                let evidence = ln_evidence_above(k, n, bounds.lo);
                assert!(
                    (evidence - 20_f64.ln()).abs() < 1e-6,
                    "{k}/{n}: {bounds:?}, {evidence}"
                );
            }
        }
        assert_eq!(bounds_at_any_time(0, 0, 0.05), Interval::WHOLE);
    }

    #[test]
    fn both_sides_mirror_each_other() {
        let below = ln_evidence_below(3, 40, 0.2);
        assert!((below - ln_evidence_above(37, 40, 0.8)).abs() < 1e-12);
        // Evidence for one side is none for the other.
        assert!(below > 0.0 && ln_evidence_above(3, 40, 0.2) < 0.0);
    }

    /// Computes the exact probability that a run at the limit ever has enough evidence within `n` runs.
    fn ever_wrong(limit: f64, n: u64, evidence: fn(u64, u64, f64) -> f64) -> f64 {
        let mut open = vec![1.0];
        let mut wrong = 0.0;
        for runs in 1..=n {
            let mut next = vec![0.0; open.len() + 1];
            for (k, probability) in open.iter().enumerate() {
                next[k] += probability * (1.0 - limit);
                next[k + 1] += probability * limit;
            }
            for (k, probability) in (0..).zip(&mut next) {
                if evidence(k, runs, limit) >= 20_f64.ln() {
                    wrong += std::mem::take(probability);
                }
            }
            open = next;
        }
        wrong
    }

    #[test]
    fn a_program_at_the_limit_is_seldom_misjudged_however_often_it_is_checked() {
        for limit in [0.02, 0.1, 0.4] {
            for evidence in [ln_evidence_below, ln_evidence_above] {
                let wrong = ever_wrong(limit, 400, evidence);
                assert!(wrong > 0.005 && wrong <= 0.05, "{limit}: {wrong}");
            }
        }
    }
}
