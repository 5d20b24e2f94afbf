//! Calculates how many clean runs confirm a fix of a measured failure rate.
//!
//! The rule: measure the broken side first (`k0` failures in `n0` runs), then run the fixed side until it fails or has
//! passed [`clean_runs_needed`] times in a row. The test is made once, at the end, so no correction for early looks is
//! needed.
//!
//! If nothing had changed, all `n0 + m` runs would be of one kind, and the probability that all `k0` failures fell into
//! the first `n0` of them can be counted: it is the product over i = 0..k0-1 of (n0-i)/(n0+m-i). The product needs no
//! estimate of the rate, so it is correct where the usual "(1-k0/n0)^m is small" is not. It is also the one-sided
//! Fisher test of `k0/n0` against `0/m`.

use super::convert::{count_up, real, whole};
use super::plan::first_true;
use super::special::ln_rising;

/// A probability whose logarithm is below this is zero in floating point.
const LN_ZERO: f64 = -745.2;

/// Returns how many clean runs on the fixed side show at level `alpha` that something changed.
///
/// This is the smallest m with a p-value at or below alpha. An exact tie is enough: after one failure in
/// one run, 19 clean runs make exactly 5 %. Returns `None` if `k0` is 0, because a failure that was never reproduced
/// cannot be confirmed as fixed, and if the number does not fit 64 bits.
///
/// [`clean_runs_to_exclude_half`] also excludes a fix that only halves the rate.
pub fn clean_runs_needed(k0: u64, n0: u64, alpha: f64) -> Option<u64> {
    clean_runs_needed_effective(k0, n0, 1.0, alpha)
}

/// Returns the probability that `m` clean runs follow `k0` failures in `n0` runs if the program is unchanged and
/// `effect` runs are worth one independent run.
///
/// All three counts are divided by the design effect (see [`super::dependence`]), and the product is extended to
/// fractional counts as a ratio of gamma functions. An effect of 1 or less changes nothing. The effect is
/// an estimate, so the p-value is also an estimate.
pub fn unchanged_p_value_effective(k0: u64, n0: u64, m: u64, effect: f64) -> f64 {
    ln_unchanged_effective(k0, n0, m, effect).exp()
}

/// Returns how many clean runs show at level `alpha` that something changed, if `effect` runs are worth one independent
/// run.
///
/// This is the smallest m with [`unchanged_p_value_effective`] at or below alpha. An effect of 1 or less gives
/// [`clean_runs_needed`]; `None` has the same meaning in both. The result grows faster than the effect, because the
/// baseline becomes weaker as well: a baseline of 3/30 needs 50 clean runs, and 188 if two runs are worth one.
pub fn clean_runs_needed_effective(k0: u64, n0: u64, effect: f64, alpha: f64) -> Option<u64> {
    debug_assert!(alpha > 0.0 && alpha < 1.0);
    if k0 == 0 {
        return None;
    }
    let limit = alpha.ln() + 1e-12;
    let enough = |m| ln_unchanged_effective(k0, n0, m, effect) <= limit;
    first_true(u64::MAX - n0, enough)
}

/// Returns how many clean runs exclude at level `alpha` a fix that only halves the rate, if `effect` runs are worth one
/// independent run.
///
/// A failure at half the rate takes about twice as many runs to appear, so this is about twice [`clean_runs_needed`].
/// The exact factor is ln(1-p)/ln(1-p/2), with p a little below the measured rate: after that many runs, a halved rate
/// stays clean with the same probability as the full rate after the runs needed. A test at alpha squared instead would
/// cost far more after a weak baseline (185 runs instead of 103 after 3/30, 3990 instead of 390 after 1/10), and would
/// not be enough if nearly every run fails.
pub fn clean_runs_to_exclude_half(k0: u64, n0: u64, effect: f64, alpha: f64) -> Option<u64> {
    let needed = clean_runs_needed_effective(k0, n0, effect, alpha)?;
    let rate = real(k0) / (real(n0) + 1.0);
    let times = (-rate).ln_1p() / (-rate / 2.0).ln_1p();
    Some(count_up(real(needed) * times))
}

/// Returns the mean number of runs until the fixed side is decided, if it fails at the rate `p`: until its first
/// failure, or `m` clean runs.
pub fn confirm_mean_runs(p: f64, m: u64) -> f64 {
    if p <= 0.0 {
        real(m)
    } else if p >= 1.0 {
        real(m.min(1))
    } else {
        -(real(m) * (-p).ln_1p()).exp_m1() / p
    }
}

/// A stronger baseline that saves runs; see [`worth_more_failures`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MoreFailures {
    /// The failures that the baseline should have.
    pub failures: u64,
    /// Approximate number of additional baseline runs.
    pub trials: u64,
    /// Approximate number of runs saved, over baseline and clean runs together.
    pub saves: u64,
}

/// Upper limit of the failures recommended for a baseline: more failures never save enough clean runs at the usual
/// levels.
const MAX_FAILURES: u64 = 8;

/// Returns the number of failures that the baseline should reach before the fix is tried.
///
/// Assumes that failures keep coming at the measured rate. Returns `None` if no larger baseline saves at least a tenth
/// of the clean runs that the present baseline requires, or if there is no failure yet.
pub fn worth_more_failures(k0: u64, n0: u64, alpha: f64) -> Option<MoreFailures> {
    let as_it_stands = clean_runs_needed(k0, n0, alpha)?;
    let advice = (k0 + 1..=MAX_FAILURES)
        .filter_map(|failures| {
            let runs = whole(real(failures) * (real(n0) / real(k0)));
            let trials = runs.saturating_sub(n0);
            let total = clean_runs_needed(failures, runs, alpha)?.checked_add(trials)?;
            Some(MoreFailures {
                failures,
                trials,
                saves: as_it_stands.checked_sub(total)?,
            })
        })
        // Of equal savings, the one with the fewest failures.
        .min_by_key(|advice| u64::MAX - advice.saves)?;
    (advice.saves >= as_it_stands.div_ceil(10)).then_some(advice)
}

/// Returns the number of baseline failures that minimizes the total cost of confirming at this level.
///
/// A baseline of k failures and the clean runs that it requires together take about k/p * alpha^(-1/k) runs. The
/// minimum is near ln(1/alpha): 3 at 5 %, 5 at 1 %.
pub fn cheapest_baseline(alpha: f64) -> u64 {
    debug_assert!(alpha > 0.0 && alpha < 1.0);
    super::convert::count_up((-alpha.ln()).round()).max(1)
}

/// Returns the logarithm of the probability that `m` clean runs follow `k0` failures in `n0` runs if the program is
/// unchanged. It is 0 when `k0` is 0: clean runs after a baseline without a failure show no change.
///
/// The product equals a second one with failures and clean runs exchanged, over j = 1..m of (n0-k0+j)/(n0+j). The
/// shorter of the two is summed. Near the number of clean runs needed, the shorter one has at most about sqrt(3 n0)
/// factors, so a million baseline runs cost under two thousand logarithms.
fn ln_unchanged(k0: u64, n0: u64, m: u64) -> f64 {
    debug_assert!(k0 <= n0, "{k0} failures in {n0} runs");
    let k0 = k0.min(n0);
    let (few, many) = (k0.min(m), k0.max(m));
    // Factor i of the shorter product is 1 - many/(n0 + m - i) or 1 - many/(n0 + j): in both cases
    // the denominators are the `few` numbers that end with n0 + m, or that begin with n0 + 1.
    let first = if k0 <= m {
        n0.saturating_add(m) - few
    } else {
        n0
    };
    let mut sum = 0.0;
    for i in 1..=few {
        sum += (-real(many) / real(first + i)).ln_1p();
        if sum < LN_ZERO {
            return f64::NEG_INFINITY;
        }
    }
    sum
}

/// Returns the logarithm of [`unchanged_p_value_effective`].
fn ln_unchanged_effective(k0: u64, n0: u64, m: u64, effect: f64) -> f64 {
    debug_assert!(effect.is_finite(), "a design effect of {effect}");
    if effect <= 1.0 {
        return ln_unchanged(k0, n0, m);
    }
    debug_assert!(k0 <= n0, "{k0} failures in {n0} runs");
    let failures = real(k0.min(n0)) / effect;
    let passes = real(n0 - k0.min(n0)) / effect + 1.0;
    ln_rising(passes, failures) - ln_rising(passes + real(m) / effect, failures)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unchanged_p_value(k0: u64, n0: u64, m: u64) -> f64 {
        ln_unchanged(k0, n0, m).exp()
    }

    /// Computes the formula as the module's documentation writes it.
    fn plain_product(k0: u64, n0: u64, m: u64) -> f64 {
        (0..k0)
            .map(|i| real(n0 - i) / real(n0 + m - i))
            .product::<f64>()
    }

    #[test]
    fn both_forms_of_the_product_agree() {
        for (k0, n0, m) in [
            (1, 1, 19),
            (3, 30, 50),
            (50, 60, 4),
            (30, 300, 30),
            (7, 7, 7),
        ] {
            let expected = plain_product(k0, n0, m);
            let got = unchanged_p_value(k0, n0, m);
            assert!((got / expected - 1.0).abs() < 1e-12, "{k0}/{n0}, {m}");
        }
    }

    #[test]
    fn nothing_is_confirmed_without_a_failure() {
        assert_eq!(clean_runs_needed(0, 100, 0.05), None);
        assert_eq!(clean_runs_needed(0, 0, 0.05), None);
        assert!(unchanged_p_value(0, 100, 1000) >= 1.0);
        assert!(unchanged_p_value(3, 30, 0) >= 1.0);
    }

    #[test]
    fn an_exact_tie_is_enough() {
        assert_eq!(clean_runs_needed(1, 1, 0.05), Some(19));
        assert_eq!(clean_runs_needed(1, 1, 0.01), Some(99));
        // One failure in n0 runs: n0/(n0+m) = alpha at m = 19 n0, whatever n0 is.
        assert_eq!(clean_runs_needed(1, 1_000_000, 0.05), Some(19_000_000));
        assert_eq!(
            clean_runs_needed(1, 1_000_000_007, 0.05),
            Some(19_000_000_133)
        );
    }

    #[test]
    fn the_number_of_clean_runs_is_the_smallest_sufficient_one() {
        for (k0, n0) in [(1, 10), (2, 9), (3, 30), (40, 41), (500, 100_000)] {
            let m = clean_runs_needed(k0, n0, 0.05).unwrap();
            assert!(unchanged_p_value(k0, n0, m) <= 0.05 * (1.0 + 1e-11));
            assert!(unchanged_p_value(k0, n0, m - 1) > 0.05);
        }
    }

    #[test]
    fn a_million_baseline_runs_are_computed_quickly() {
        for k0 in [1, 3, 1000, 1732, 100_000, 500_000, 1_000_000] {
            let m = clean_runs_needed(k0, 1_000_000, 0.05).unwrap();
            let known = 0.05_f64.ln() / (-(real(k0) / 1e6 - 1e-9)).ln_1p();
            assert!(real(m) + 1.0 >= known.floor(), "{k0}: {m}");
        }
        assert_eq!(clean_runs_needed(1_000_000, 1_000_000, 0.05), Some(1));
        assert!(unchanged_p_value(1_000_000, 2_000_000, 1_000_000) <= 0.0);
    }

    #[test]
    fn a_number_beyond_64_bits_is_none() {
        assert_eq!(clean_runs_needed(1, u64::MAX / 2, 0.05), None);
    }

    #[test]
    fn a_design_effect_of_one_changes_nothing() {
        for (k0, n0, m) in [(1, 1, 19), (3, 30, 50), (40, 41, 3), (500, 100_000, 600)] {
            let plain = ln_unchanged(k0, n0, m);
            let nearly = ln_unchanged_effective(k0, n0, m, 1.0 + 1e-15);
            assert!((plain - nearly).abs() < 1e-9, "{k0}/{n0}, {m}: {nearly}");
            for effect in [1.0, 0.3] {
                let same = unchanged_p_value_effective(k0, n0, m, effect);
                assert!(same.total_cmp(&unchanged_p_value(k0, n0, m)).is_eq());
                let needed = clean_runs_needed_effective(k0, n0, effect, 0.05);
                assert_eq!(needed, clean_runs_needed(k0, n0, 0.05));
            }
        }
        assert_eq!(clean_runs_needed_effective(0, 30, 2.0, 0.05), None);
    }

    #[test]
    fn a_whole_design_effect_equals_the_plain_rule_with_fewer_runs() {
        for (k0, n0, m) in [(1, 10, 190), (3, 30, 50), (10, 100, 34), (1, 1, 19)] {
            let plain = unchanged_p_value(k0, n0, m);
            let fourfold = unchanged_p_value_effective(4 * k0, 4 * n0, 4 * m, 4.0);
            assert!((fourfold / plain - 1.0).abs() < 1e-9, "{k0}/{n0}, {m}");
        }
        assert_eq!(clean_runs_needed_effective(12, 120, 4.0, 0.05), Some(199));
        assert_eq!(clean_runs_needed_effective(3, 30, 2.0, 0.05), Some(188));
    }

    #[test]
    fn a_larger_design_effect_needs_more_clean_runs() {
        for (k0, n0) in [(1, 10), (3, 30), (30, 30), (100, 1000)] {
            let mut least = 0;
            for effect in [1.0, 1.3, 2.0, 4.5] {
                let needed = clean_runs_needed_effective(k0, n0, effect, 0.05).unwrap();
                assert!(needed >= least, "{k0}/{n0}, {effect}: {needed}");
                least = needed;
                let at = |m| unchanged_p_value_effective(k0, n0, m, effect);
                assert!(at(needed) <= 0.05 * (1.0 + 1e-11) && at(needed - 1) > 0.05);
                assert!((0..400).all(|m| at(m + 1) < at(m)), "{k0}/{n0}, {effect}");
            }
        }
    }

    #[test]
    fn excluding_a_halved_rate_needs_twice_as_many_clean_runs() {
        for (k0, n0, plain, half) in [
            (1, 10, 190, 390),
            (3, 30, 50, 103),
            (10, 100, 34, 70),
            (100, 1000, 29, 60),
        ] {
            assert_eq!(clean_runs_needed(k0, n0, 0.05), Some(plain));
            assert_eq!(clean_runs_to_exclude_half(k0, n0, 1.0, 0.05), Some(half));
        }
        assert_eq!(clean_runs_to_exclude_half(0, 10, 1.0, 0.05), None);
        assert_eq!(clean_runs_to_exclude_half(30, 30, 1.0, 0.05), Some(6));
        assert!(clean_runs_to_exclude_half(3, 30, 2.0, 0.05) > Some(2 * 188));
    }

    #[test]
    fn a_baseline_with_few_failures_should_be_extended() {
        let advice = worth_more_failures(1, 10, 0.05).unwrap();
        assert_eq!((advice.failures, advice.trials), (3, 20));
        assert_eq!(advice.saves, 190 - 50 - 20);
        assert!(worth_more_failures(2, 20, 0.05).is_some());
        assert_eq!(worth_more_failures(3, 30, 0.05), None);
        assert_eq!(worth_more_failures(10, 100, 0.05), None);
        assert_eq!(worth_more_failures(0, 100, 0.05), None);
        assert!(worth_more_failures(3, 30, 0.01).unwrap().failures > 3);
        // If every run fails, hardly any run can be saved; numbers that are too large give no advice.
        assert_eq!(worth_more_failures(4, 4, 0.05), None);
        assert_eq!(worth_more_failures(1, u64::MAX / 4, 0.05), None);
    }

    #[test]
    fn the_mean_number_of_runs_is_at_most_the_needed_clean_runs() {
        assert!((confirm_mean_runs(0.0, 29) - 29.0).abs() < 1e-12);
        assert!((confirm_mean_runs(1.0, 29) - 1.0).abs() < 1e-12);
        assert!((confirm_mean_runs(0.5, 5) - 1.9375).abs() < 1e-12);
        assert!(confirm_mean_runs(0.1, 0) <= 0.0 && confirm_mean_runs(1.0, 0) <= 0.0);
    }
}
