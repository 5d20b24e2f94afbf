//! Calculates error levels and costs of a race, which decides which of several variants fail.
//!
//! In a race every variant runs until it fails or has passed enough trials that a variant with the failure rate of the
//! baseline would almost certainly have failed. All variants take turns, and a decided variant leaves. The number of
//! clean trials is [`super::clean_runs_needed`] at the level of [`race_alpha`].
//!
//! The baseline must be independent of the outcomes that are judged by it. If none was measured before, the variant
//! that fails first may serve as the reference, but both sides begin anew at that moment: only later trials of the
//! reference count, and a clean trial of another variant counts only if it was started after that moment. The earlier
//! trials were used to choose the reference; to count them as well nearly doubles the error of a race between two.

use super::convert::real;

/// Returns the level at which each variant of a race is judged, so that *any* wrong "clean" among `k` variants has
/// probability `alpha` at most.
///
/// The level is split over `k - 1` (Bonferroni), which assumes that at least one of the `k` cannot be wrongly called
/// clean: either the reference, which is known to fail and is not judged, or a variant that really is clean. If all `k`
/// are judged by a separate baseline and all may be bad, pass `k + 1`. A single variant has the whole level.
pub fn race_alpha(k: u64, alpha: f64) -> f64 {
    alpha / real(k.saturating_sub(1).max(1))
}

/// Returns the approximate number of runs of a race that measures its own baseline, if one of `k` variants never fails
/// and the others fail at the rate `p`.
///
/// The race has three phases: until one variant fails; until that variant has failed often enough again; until the
/// others have failed or passed often enough. The mean is used for the second phase, so the total is a few per cent
/// off. Infinite if `p` is 0, and if no variant is left that may fail.
pub fn race_runs_measured(p: f64, k: u64, alpha: f64) -> f64 {
    if p <= 0.0 || k < 2 {
        return f64::INFINITY;
    }
    let level = race_alpha(k, alpha);
    let failures = super::cheapest_baseline(level);
    let trials = super::whole(real(failures) / p).max(failures);
    let bad = k - 1;
    let any_fails = super::chance_to_see(p, bad);
    let first = real(k) / any_fails;
    match super::clean_runs_needed(failures, trials, level) {
        Some(clean) => {
            let others = real(bad - 1) * super::confirm_mean_runs(p, clean);
            first + real(trials) + real(clean) + others
        }
        None => f64::INFINITY,
    }
}

/// Returns the approximate number of runs of a race with a separate baseline, if one of `k` variants never fails and
/// the others fail as the baseline did.
pub fn race_runs_against(k0: u64, n0: u64, effect: f64, k: u64, alpha: f64) -> f64 {
    let level = race_alpha(k + 1, alpha);
    match super::clean_runs_needed_effective(k0, n0, effect, level) {
        Some(clean) => {
            let p = real(k0) / real(n0);
            real(clean) + real(k.saturating_sub(1)) * super::confirm_mean_runs(p, clean)
        }
        None => f64::INFINITY,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_near(left: f64, right: f64, relative: f64) {
        assert!(
            (left - right).abs() <= relative * right,
            "{left} is not {right}"
        );
    }

    /// Returns the mean number of runs in a race of `k` variants of which one never fails and the others fail at the known
    /// rate `p`. The clean variant takes m runs; a bad one leaves at its first failure, or after m runs.
    fn race_runs(p: f64, k: u64) -> f64 {
        let m = crate::clean_runs_at_known_rate(p, race_alpha(k, 0.05)).unwrap();
        real(m) + real(k - 1) * crate::confirm_mean_runs(p, m)
    }

    #[test]
    fn the_level_is_divided_by_the_variants_that_may_be_wrong() {
        assert_near(race_alpha(0, 0.05), 0.05, 1e-12);
        assert_near(race_alpha(1, 0.05), 0.05, 1e-12);
        assert_near(race_alpha(2, 0.05), 0.05, 1e-12);
        assert_near(race_alpha(8, 0.05), 0.05 / 7.0, 1e-12);
    }

    #[test]
    fn the_runs_for_one_clean_variant_equal_the_simulated_number() {
        for (k, totals) in [
            (2, [6.9, 38.5, 130.0]),
            (4, [11.9, 68.0, 235.0]),
            (8, [21.9, 117.0, 396.0]),
        ] {
            for (p, total) in [0.5, 0.1, 0.03].into_iter().zip(totals) {
                assert_near(race_runs(p, k), total, 0.03);
            }
        }
        // Simulated: 99, 334 and 147.
        for (p, k, simulated) in [(0.1, 2, 99.0), (0.03, 2, 334.0), (0.1, 4, 147.0)] {
            assert_near(race_runs_measured(p, k, 0.05), simulated, 0.05);
        }
        assert!(race_runs_measured(0.0, 4, 0.05).is_infinite());
        assert!(race_runs_against(3, 30, 1.0, 4, 0.05) > race_runs(0.1, 4));
    }
}
