//! Tests whether the failure rate changes during a run.

use super::convert::{real, whole};
use super::special::normal_two_sided;

/// The distance from 0 at which a standard normal score is called a finding (1 % two-sided).
const NOTABLE: f64 = 2.58;

/// How far the failures shift to the end or the beginning of an observation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Trend {
    /// Number of failures in the score.
    pub failures: u64,
    /// Laplace's score: above 0 the failures come late, below 0 early.
    pub u: f64,
    /// The probability of a score this far from 0 at a constant rate.
    pub p_value: f64,
}

impl Trend {
    /// Returns whether the rate should be called an average over a change: |u| above 2.58 with at least four failures.
    ///
    /// Late failures suggest a leak, early ones a warm-up.
    pub fn warns(&self) -> bool {
        self.failures >= 4 && self.u.abs() > NOTABLE
    }

    /// Returns the trend if `effect` failures are worth one, because they clump.
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

/// Returns Laplace's trend score of `k` failures at a mean position in an observation from 0 to `horizon`.
///
/// u = (mean - T/2) / (T sqrt(1/(12 k))): at a constant rate the positions are uniform, and u is close to standard
/// normal from four failures on. Positions may be times, or run numbers counted from the middle of each run (i - 1/2
/// for the i-th of T runs).
///
/// A failure that ended the observation must be left out of `k` and of the mean, because its position was not random.
/// Returns `None` without a failure or without a horizon.
pub fn laplace_trend(k: u64, mean_position: f64, horizon: f64) -> Option<Trend> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_in_the_middle_show_no_trend() {
        let trend = laplace_trend(10, 50.0, 100.0).unwrap();
        assert!(trend.u.abs() < 1e-12 && trend.p_value > 0.999);
        assert!(!trend.warns());
    }

    #[test]
    fn late_failures_have_a_positive_score() {
        let trend = laplace_trend(4, 87.5, 100.0).unwrap();
        assert!(trend.u > 2.58 && trend.warns());
        let early = laplace_trend(4, 12.5, 100.0).unwrap();
        assert!(early.u < -2.58 && early.warns());
    }

    #[test]
    fn three_failures_never_warn() {
        assert!(!laplace_trend(3, 99.9, 100.0).unwrap().warns());
    }

    #[test]
    fn without_failures_or_time_there_is_no_trend() {
        assert_eq!(laplace_trend(0, 0.0, 100.0), None);
        assert_eq!(laplace_trend(5, 0.0, 0.0), None);
    }
}
