//! Does the rate change while we measure it.

use super::convert::{real, whole};
use super::special::normal_two_sided;

/// The distance from 0 at which a standard normal score is called a finding (1 % two-sided).
const NOTABLE: f64 = 2.58;

/// How far the failures lean to the end or the beginning of a watch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Trend {
    /// The number of failures it rests on.
    pub failures: u64,
    /// Laplace's score: above 0 the failures come late, below 0 early.
    pub u: f64,
    /// The probability of a score this far from 0 at a constant rate.
    pub p_value: f64,
}

impl Trend {
    /// Tells whether the rate should be called an average over a change: |u| above 2.58 with at
    /// least four failures.
    ///
    /// Late failures suggest a leak, early ones a warm-up.
    pub fn warns(&self) -> bool {
        self.failures >= 4 && self.u.abs() > NOTABLE
    }

    /// Returns what is left of the trend if `effect` failures are worth one, because they clump.
    #[must_use]
    pub fn of_clumps(self, effect: f64) -> Self {
        let u = self.u / effect.max(1.0).sqrt();
        Self {
            failures: whole(real(self.failures) / effect.max(1.0)),
            u,
            p_value: normal_two_sided(u),
        }
    }
}

/// Returns Laplace's trend score of `k` failures at a mean position on a watch from 0 to `horizon`.
///
/// u = (mean - T/2) / (T sqrt(1/(12 k))): at a constant rate the positions are uniform on the
/// watch, and u is close to standard normal from four failures on. Positions may be times, or run
/// numbers counted from the middle of each run (i - 1/2 for the i-th of T runs).
///
/// A failure that itself ended the watch must be left out of `k` and of the mean, because its
/// position was not free. `None` without a failure or without a horizon.
pub fn laplace(k: u64, mean_position: f64, horizon: f64) -> Option<Trend> {
    if k == 0 || horizon <= 0.0 {
        return None;
    }
    let u = (mean_position / horizon - 0.5) * (12.0 * real(k)).sqrt();
    Some(Trend {
        failures: k,
        u,
        p_value: normal_two_sided(u),
    })
}

/// Whether failures come in clumps, by counting unbroken stretches.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RunsTest {
    /// The score: below 0 failures clump, above 0 they alternate.
    pub z: f64,
    /// The probability of a score this far from 0 in random order.
    pub p_value: f64,
}

/// Returns the Wald-Wolfowitz test of `stretches` unbroken stretches of equal outcome.
///
/// In random order the stretches number 2fg/N + 1 on average, for f failures and g passes, with
/// variance (mean-1)(mean-2)/(N-1). The score is only near normal when both outcomes are plentiful
/// (ten or more), so it is a second line of description. `None` when all outcomes are equal, or
/// when only one order of them is possible.
pub fn runs_test(failures: u64, passes: u64, stretches: u64) -> Option<RunsTest> {
    let all = real(failures) + real(passes);
    let mean = 2.0 * real(failures) * real(passes) / all + 1.0;
    let variance = (mean - 1.0) * (mean - 2.0) / (all - 1.0);
    if failures == 0 || passes == 0 || variance <= 0.0 {
        return None;
    }
    let z = (real(stretches) - mean) / variance.sqrt();
    Some(RunsTest {
        z,
        p_value: normal_two_sided(z),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_in_the_middle_show_no_trend() {
        let trend = laplace(10, 50.0, 100.0).unwrap();
        assert!(trend.u.abs() < 1e-12 && trend.p_value > 0.999);
        assert!(!trend.warns());
    }

    #[test]
    fn late_failures_have_a_positive_score() {
        let trend = laplace(4, 87.5, 100.0).unwrap();
        assert!(trend.u > 2.58 && trend.warns());
        let early = laplace(4, 12.5, 100.0).unwrap();
        assert!(early.u < -2.58 && early.warns());
    }

    #[test]
    fn three_failures_never_warn() {
        assert!(!laplace(3, 99.9, 100.0).unwrap().warns());
    }

    #[test]
    fn nothing_seen_has_no_trend() {
        assert_eq!(laplace(0, 0.0, 100.0), None);
        assert_eq!(laplace(5, 0.0, 0.0), None);
    }

    #[test]
    fn one_clump_of_failures_has_too_few_stretches() {
        let clumped = runs_test(10, 90, 3).unwrap();
        assert!(clumped.z < -2.58 && clumped.p_value < 0.01);
        let mean = runs_test(10, 90, 19).unwrap();
        assert!(mean.p_value > 0.9);
    }

    #[test]
    fn equal_outcomes_have_no_order() {
        assert_eq!(runs_test(0, 10, 1), None);
        assert_eq!(runs_test(10, 0, 1), None);
        assert_eq!(runs_test(0, 0, 0), None);
        assert_eq!(runs_test(1, 1, 2), None);
    }
}
