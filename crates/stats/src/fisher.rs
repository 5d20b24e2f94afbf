//! Fisher's exact test for two counted rates.
//!
//! It is for two counts whose sizes did not depend on the outcomes, and for a single test. Repeated after every run it
//! is wrong in up to a quarter of cases; next to a decision of [`super::EProcess`] it only describes the final counts.

use super::convert::{count_up, real};

/// Two tables count as equally likely if their probabilities differ by at most this share, which rounding may cause.
const TIE: f64 = 1e-7;

/// The p-values of Fisher's exact test.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fisher {
    /// The probability of a split of the failures that is at most as likely as the observed one.
    pub two_sided: f64,
    /// The probability of a split of the failures that is at most as likely as the observed one.
    pub greater: f64,
}

/// Returns the p-values of `k1` failures in `n1` runs against `k2` in `n2`.
///
/// If both sides have the same rate, every distribution of the failures over the runs is equally likely. The weights of
/// the splits are computed from the ratio of neighbours, outward from the likeliest split until they vanish, so the
/// time grows with the square root of the runs.
pub fn fisher(k1: u64, n1: u64, k2: u64, n2: u64) -> Fisher {
    debug_assert!(k1 <= n1 && k2 <= n2, "{k1}/{n1}, {k2}/{n2}");
    let (k1, k2) = (k1.min(n1), k2.min(n2));
    let failures = k1 + k2;
    let (min, max) = (failures.saturating_sub(n2), failures.min(n1));
    // Returns the ratio of the probabilities of `k + 1` and `k` failures on the first side.
    let step = |k: u64| {
        let passes = real(n2 - (failures - k)) + 1.0;
        real(n1 - k) / real(k + 1) * (real(failures - k) / passes)
    };
    let likeliest = real(failures + 1) * ((real(n1) + 1.0) / (real(n1) + real(n2) + 2.0));
    let middle = count_up(likeliest.floor()).clamp(min, max);

    let mut weights = vec![(middle, 1.0)];
    let mut weight = 1.0;
    for k in middle..max {
        weight *= step(k);
        if weight <= 0.0 {
            break;
        }
        weights.push((k + 1, weight));
    }
    weight = 1.0;
    for k in (min..middle).rev() {
        weight /= step(k);
        if weight <= 0.0 {
            break;
        }
        weights.push((k, weight));
    }
    // Summed in ascending order, to keep the digits of small weights.
    weights.sort_by(|left, right| left.1.total_cmp(&right.1));

    let sum = |counts: &dyn Fn(u64, f64) -> bool| -> f64 {
        let counted = weights.iter().filter(|&&(k, weight)| counts(k, weight));
        counted.map(|(_, weight)| weight).sum()
    };
    let observed = weights
        .iter()
        .find(|(k, _)| *k == k1)
        .map_or(0.0, |(_, weight)| *weight);
    let total = sum(&|_, _| true);
    Fisher {
        two_sided: (sum(&|_, weight| weight <= observed * (1.0 + TIE)) / total).min(1.0),
        greater: (sum(&|k, _| k >= k1) / total).min(1.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_evidence_the_p_values_are_one() {
        for (k1, n1, k2, n2) in [(0, 0, 0, 0), (0, 10, 0, 7), (10, 10, 7, 7), (3, 9, 0, 0)] {
            let test = fisher(k1, n1, k2, n2);
            assert!(test.two_sided >= 1.0, "{k1}/{n1}, {k2}/{n2}: {test:?}");
            assert!(test.greater >= 1.0, "{k1}/{n1}, {k2}/{n2}: {test:?}");
        }
    }

    #[test]
    fn exchanging_the_sides_keeps_the_two_sided_p_value() {
        for (k1, n1, k2, n2) in [(3, 30, 0, 50), (10, 100, 1, 90), (7, 9, 4, 40)] {
            let (there, back) = (fisher(k1, n1, k2, n2), fisher(k2, n2, k1, n1));
            assert!((there.two_sided / back.two_sided - 1.0).abs() < 1e-12);
            // Both tests include the observed split, so the two sum to at least 1.
            assert!(there.greater + back.greater >= 1.0);
        }
    }

    #[test]
    fn against_clean_runs_the_test_equals_the_rule_for_a_fix() {
        for (k0, n0, m) in [(3, 30, 50), (1, 10, 190), (100, 1000, 29), (5, 5, 5)] {
            let rule = super::super::unchanged_p_value_effective(k0, n0, m, 1.0);
            let test = fisher(k0, n0, 0, m);
            assert!((test.greater / rule - 1.0).abs() < 1e-10, "{k0}/{n0}, {m}");
        }
    }

    #[test]
    fn a_million_runs_agree_with_the_normal_test() {
        // At such counts the test equals the normal one with continuity correction.
        let test = fisher(100_500, 1_000_000, 99_500, 1_000_000);
        let z = (1000.0 - 1.0) / (2e6_f64 * 0.1 * 0.9).sqrt();
        let normal = super::super::special::normal_two_sided(z);
        assert!((test.two_sided / normal - 1.0).abs() < 1e-3, "{test:?}");
        let apart = fisher(500_000, 1_000_000, 0, 1_000_000);
        assert!(apart.two_sided < 1e-300 && apart.greater < 1e-300);
        let half = fisher(500_000, 1_000_000, 500_000, 1_000_000);
        assert!(half.two_sided > 0.999_999 && half.greater > 0.5);
    }
}
