//! How many clean runs make a fix believable.
//!
//! The rule: measure the broken side first (`k0` failures in `n0` runs), then run the fixed side
//! until it fails or has passed [`clean_runs_needed`] times in a row. There is one look, at the
//! end, so nothing has to be corrected for looking early.
//!
//! If nothing had changed, all `n0 + m` runs would be of one kind, and the chance that all
//! `k0` failures fell into the first `n0` of them is a matter of counting: the product over
//! i = 0..k0-1 of (n0-i)/(n0+m-i). It needs no estimate of the rate, which is why it holds where
//! the usual "(1-k0/n0)^m is small" does not. It is also the one-sided Fisher test
//! of `k0/n0` against `0/m`.

use super::convert::real;
use super::plan::first_true;

/// Below this logarithm a probability is zero in floating point.
const LN_ZERO: f64 = -745.2;

/// Returns the probability that `m` clean runs follow `k0` failures in `n0` runs if the program is
/// unchanged.
///
/// One when `k0` is 0: clean runs after clean runs say nothing about a change.
pub fn unchanged_p_value(k0: u64, n0: u64, m: u64) -> f64 {
    ln_unchanged(k0, n0, m).exp()
}

/// Returns how many clean runs on the fixed side show at level `alpha` that something changed.
///
/// The smallest m with [`unchanged_p_value`] at or below alpha, where an exact tie (one failure in
/// one run: 19 clean ones make exactly 5 %) counts as enough. `None` if `k0` is 0: there is nothing
/// to confirm before the failure has been reproduced; and `None` where the number would not fit 64
/// bits.
///
/// To exclude at the same level a fix that only halves the rate, ask for alpha squared.
pub fn clean_runs_needed(k0: u64, n0: u64, alpha: f64) -> Option<u64> {
    debug_assert!(alpha > 0.0 && alpha < 1.0);
    if k0 == 0 {
        return None;
    }
    let limit = alpha.ln() + 1e-12;
    first_true(u64::MAX - n0, |m| ln_unchanged(k0, n0, m) <= limit)
}

/// Returns the probability that a fix which only halves the rate passes `m` clean runs.
///
/// The rate is taken as `k0/n0`; this is a figure for the reader, not a test.
pub fn halved_rate_passes(k0: u64, n0: u64, m: u64) -> f64 {
    debug_assert!(k0 <= n0);
    if n0 == 0 {
        return 1.0;
    }
    let halved = real(k0) / real(n0) / 2.0;
    (real(m) * (-halved).ln_1p()).exp()
}

/// Returns the logarithm of [`unchanged_p_value`].
///
/// The product has a twin with the roles of failures and clean runs exchanged, over j = 1..m of
/// (n0-k0+j)/(n0+j); the shorter one is summed. Near the number of clean runs needed, the shorter
/// one has about sqrt(3 n0) factors at most, so a million baseline runs cost under two thousand
/// logarithms.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The formula as it is written in the module's description.
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
    fn the_number_is_the_smallest_that_suffices() {
        for (k0, n0) in [(1, 10), (2, 9), (3, 30), (40, 41), (500, 100_000)] {
            let m = clean_runs_needed(k0, n0, 0.05).unwrap();
            assert!(unchanged_p_value(k0, n0, m) <= 0.05 * (1.0 + 1e-11));
            assert!(unchanged_p_value(k0, n0, m - 1) > 0.05);
        }
    }

    #[test]
    fn a_million_baseline_runs_are_answered_at_once() {
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
    fn a_halved_rate_passes_about_every_fourth_time() {
        let chance = halved_rate_passes(3, 30, 29);
        assert!((chance - 0.95_f64.powi(29)).abs() < 1e-12);
        assert!(halved_rate_passes(0, 0, 5) >= 1.0);
    }
}
