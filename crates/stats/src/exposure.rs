//! Estimates the exposure between failures, for runs with different exposure.
//!
//! Exposure can be seconds, requests or bytes. The model is a constant rate per unit of exposure; [`super::trend`]
//! checks this assumption.

use super::convert::real;
use super::special::gamma_quantile;

/// The mean exposure between failures.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Mtbf {
    /// Exposure per failure as counted; `None` without a failure.
    pub estimate: Option<f64>,
    /// The lower end of the two-sided interval.
    pub low: f64,
    /// The upper end of the two-sided interval; `None` means without limit.
    pub high: Option<f64>,
    /// Lower end of the one-sided interval, which has all of alpha on one side. Reports show it if nothing failed.
    pub low_one_sided: f64,
}

/// Returns the mean exposure between failures after `k` failures in a total `exposure`.
///
/// Assumes that the length of the observation was planned, so that the number of failures is Poisson. The ends are the
/// exposure divided by Gamma quantiles, 1-alpha/2 of shape k+1 below and alpha/2 of shape k above (half of the
/// chi-square quantiles of the textbooks). Without a failure the one-sided end is exposure/3.0 at 95 %.
pub fn mtbf(k: u64, exposure: f64, alpha: f64) -> Mtbf {
    debug_assert!(exposure >= 0.0 && alpha > 0.0 && alpha < 1.0);
    let upper_bound = |tail: f64| {
        if k == 0 {
            -tail.ln()
        } else {
            gamma_quantile(real(k) + 1.0, 1.0 - tail)
        }
    };
    Mtbf {
        estimate: (k > 0).then(|| exposure / real(k)),
        low: exposure / upper_bound(alpha / 2.0),
        high: (k > 0).then(|| exposure / gamma_quantile(real(k), alpha / 2.0)),
        low_one_sided: exposure / upper_bound(alpha),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_failure_the_interval_has_only_a_lower_end() {
        let seen = mtbf(0, 300.0, 0.05);
        assert_eq!((seen.estimate, seen.high), (None, None));
        assert!((seen.low_one_sided - 300.0 / 20.0_f64.ln()).abs() < 1e-9);
        assert!(seen.low < seen.low_one_sided);
    }

    #[test]
    fn the_estimate_lies_between_the_ends() {
        for k in [1, 2, 10, 1000, 1_000_000] {
            let seen = mtbf(k, 1e6, 0.05);
            let estimate = seen.estimate.unwrap();
            assert!(seen.low < estimate && estimate < seen.high.unwrap(), "{k}");
            assert!(seen.low < seen.low_one_sided, "{k}");
        }
    }

    #[test]
    fn without_exposure_the_lower_ends_are_zero() {
        let seen = mtbf(0, 0.0, 0.05);
        assert!(seen.low <= 0.0 && seen.low_one_sided <= 0.0);
    }

    #[test]
    fn many_failures_narrow_the_interval() {
        let seen = mtbf(1_000_000, 1e6, 0.05);
        // 1.96 standard errors, each one in a thousand.
        assert!((seen.low - 0.998_04).abs() < 1e-4);
        assert!((seen.high.unwrap() - 1.001_96).abs() < 1e-4);
    }
}
