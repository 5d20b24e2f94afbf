//! Special functions; the only user of `statrs`.
//!
//! Of `statrs` only `ln_gamma`, `ln_beta`, `beta_reg`, `gamma_lr`, `gamma_ur` and `erfc` are used. Its inverse of the
//! incomplete beta function is not used: for quantiles far down the tail it returns values that are wrong by orders of
//! magnitude. The quantiles are found here by bisection of the logarithm, where the bisection bounds the relative
//! error.

use std::f64::consts::LN_2;

use statrs::function::{beta, erf, gamma};

/// The natural logarithm of about the smallest positive number, where a search may begin.
pub(super) const LN_SMALLEST: f64 = -745.0;

/// Returns the natural logarithm of the beta function.
pub(super) fn ln_beta(a: f64, b: f64) -> f64 {
    beta::ln_beta(a, b)
}

/// Returns the probability that a Beta(a, b) variable is at most `x`.
pub(super) fn beta_share(a: f64, b: f64, x: f64) -> f64 {
    beta::beta_reg(a, b, x)
}

/// Returns the quantile of Beta(a, b) at this probability.
///
/// Closed forms are used if one parameter is 1. A quantile above one half is found as the distance of its mirror image
/// from 1, so that `1 - quantile` keeps its digits.
pub(super) fn beta_quantile(a: f64, b: f64, probability: f64) -> f64 {
    debug_assert!(a > 0.0 && b > 0.0 && probability > 0.0 && probability < 1.0);
    if a.total_cmp(&1.0).is_eq() {
        return -((-probability).ln_1p() / b).exp_m1();
    }
    if b.total_cmp(&1.0).is_eq() {
        return (probability.ln() / a).exp();
    }
    if beta::beta_reg(a, b, 0.5) < probability {
        1.0 - beta_quantile_below_half(b, a, 1.0 - probability)
    } else {
        beta_quantile_below_half(a, b, probability)
    }
}

/// Returns a quantile that is at most one half.
fn beta_quantile_below_half(a: f64, b: f64, probability: f64) -> f64 {
    bisect_logarithm(LN_SMALLEST, -LN_2, |x| {
        beta::beta_reg(a, b, x) < probability
    })
}

/// Returns the quantile at this probability of a Gamma variable of this shape and scale 1.
pub(super) fn gamma_quantile(shape: f64, probability: f64) -> f64 {
    debug_assert!(shape > 0.0 && probability > 0.0 && probability < 1.0);
    if shape.total_cmp(&1.0).is_eq() {
        return -(-probability).ln_1p();
    }
    // The distribution function is at most x^shape / Gamma(shape + 1), hence the lower end.
    let low = (probability.ln() + gamma::ln_gamma(shape + 1.0)) / shape;
    let mut high = shape.ln().max(low) + 1.0;
    while gamma::gamma_lr(shape, high.exp()) < probability {
        high += 1.0;
    }
    bisect_logarithm(low - 1e-9, high, |x| {
        gamma::gamma_lr(shape, x) < probability
    })
}

/// Returns the probability that a Gamma variable of this shape and scale 1 exceeds `x`.
pub(super) fn gamma_tail(shape: f64, x: f64) -> f64 {
    if x <= 0.0 {
        1.0
    } else {
        gamma::gamma_ur(shape, x)
    }
}

/// Returns the probability that a standard normal variable is further from 0 than `z`.
pub(super) fn normal_two_sided(z: f64) -> f64 {
    erf::erfc(z.abs() / std::f64::consts::SQRT_2)
}

/// Returns the probability that a standard normal variable is above `z`.
pub(super) fn normal_above(z: f64) -> f64 {
    0.5 * erf::erfc(z / std::f64::consts::SQRT_2)
}

/// Returns the probability that a standard normal variable is below `z`.
pub(super) fn normal_below(z: f64) -> f64 {
    normal_above(-z)
}

/// Returns the distance from 0 that a standard normal variable exceeds with this probability.
pub(super) fn normal_quantile(probability: f64) -> f64 {
    bisect_logarithm(-30.0, 4.0, |z| normal_two_sided(z) > probability)
}

/// Returns the natural logarithm of the number of ways to choose `k` out of `n`.
pub(super) fn ln_choose(n: f64, k: f64) -> f64 {
    gamma::ln_gamma(n + 1.0) - gamma::ln_gamma(k + 1.0) - gamma::ln_gamma(n - k + 1.0)
}

/// Returns the logarithm of Gamma(x + k) / Gamma(x): of x (x+1) ... (x+k-1) if `k` is whole.
///
/// The difference of two logarithms of the gamma function would lose the digits of their large equal parts. Here the
/// large parts of Stirling's series are subtracted analytically.
pub(super) fn ln_rising(x: f64, k: f64) -> f64 {
    /// From here on the series is exact to 1e-13.
    const LARGE: f64 = 16.0;
    debug_assert!(x > 0.0 && k >= 0.0);
    let (mut x, mut below) = (x, 0.0);
    while x < LARGE {
        below += (k / x).ln_1p();
        x += 1.0;
    }
    let rest = |x: f64| {
        let square = (x * x).recip();
        (1.0 / 12.0 - (1.0 / 360.0 - (1.0 / 1260.0 - square / 1680.0) * square) * square) / x
    };
    let end = x + k;
    k * x.ln() + ((end - 0.5) * (k / x).ln_1p() - k) + (rest(end) - rest(x)) - below
}

/// Finds the point at which `is_below` changes from true to false, by bisecting an interval of logarithms. The result
/// is exact to a relative error of about 1e-14.
pub(super) fn bisect_logarithm(low: f64, high: f64, is_below: impl Fn(f64) -> bool) -> f64 {
    let is_wide = |low: f64, high: f64| {
        let middle = f64::midpoint(low, high);
        high - low > 1e-14 && low < middle && middle < high
    };
    let (low, high) = bisect(low, high, is_wide, |logarithm| !is_below(logarithm.exp()));
    f64::midpoint(low, high).exp()
}

/// Halves an interval while it is wide; returns its ends. `is_far` is false from the near end to some point, and true from
/// there to the far end, which may be the lower one.
pub(super) fn bisect(
    mut near: f64,
    mut far: f64,
    is_wide: impl Fn(f64, f64) -> bool,
    is_far: impl Fn(f64) -> bool,
) -> (f64, f64) {
    while is_wide(near, far) {
        let middle = f64::midpoint(near, far);
        *(if is_far(middle) { &mut far } else { &mut near }) = middle;
    }
    (near, far)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_close(left: f64, right: f64, relative: f64, what: &str) {
        assert!(
            (left - right).abs() <= relative * right.abs(),
            "{what}: {left} is not {right}"
        );
    }

    #[test]
    fn a_beta_quantile_far_in_the_tail_is_precise() {
        // I_x(2, 3) = 6x^2 - 8x^3 + 3x^4.
        for x in [1e-9_f64, 1e-6, 1e-3, 0.2, 0.49, 0.51, 0.9] {
            let probability = x * x * (6.0 - 8.0 * x + 3.0 * x * x);
            assert_close(beta_quantile(2.0, 3.0, probability), x, 1e-11, "x");
        }
    }

    #[test]
    fn closed_forms_agree_with_the_bisection() {
        for (a, b) in [(1.0, 7.0), (7.0, 1.0), (1.0, 4000.0)] {
            for probability in [0.001, 0.025, 0.4] {
                let closed = beta_quantile(a, b, probability);
                let solved = if beta::beta_reg(a, b, 0.5) < probability {
                    1.0 - beta_quantile_below_half(b, a, 1.0 - probability)
                } else {
                    beta_quantile_below_half(a, b, probability)
                };
                assert_close(solved, closed, 1e-11, "quantile");
            }
        }
    }

    #[test]
    fn quantiles_of_mirrored_parameters_add_up_to_one() {
        for (a, b) in [(3.0, 28.0), (28.0, 3.0), (0.5, 0.7), (4000.0, 6001.0)] {
            let sum = beta_quantile(a, b, 0.025) + beta_quantile(b, a, 0.975);
            assert_close(sum, 1.0, 1e-12, "sum");
        }
    }

    #[test]
    fn a_gamma_quantile_of_whole_shape_matches_the_poisson_sum() {
        for shape in [2_u32, 6, 40, 1000] {
            for probability in [0.005, 0.025, 0.5, 0.975] {
                let x = gamma_quantile(f64::from(shape), probability);
                // P(Gamma(shape) > x) = P(Poisson(x) < shape)
                let mut term = -x;
                let mut sum = term.exp();
                for i in 1..shape {
                    term += x.ln() - f64::from(i).ln();
                    sum += term.exp();
                }
                assert_close(1.0 - sum, probability, 1e-9, "probability");
            }
        }
    }

    #[test]
    fn a_rising_product_is_correct_for_any_number_of_factors() {
        for x in [1.0, 1.5, 15.9, 28.0, 1e4, 1e9] {
            for factors in [0_u32, 1, 3, 40] {
                let product: f64 = (0..factors).map(|i| (x + f64::from(i)).ln()).sum();
                let got = ln_rising(x, f64::from(factors));
                assert!((got - product).abs() <= 1e-11, "{x}, {factors}: {got}");
            }
            // Two halves add up to the whole, wherever they begin.
            let halves = ln_rising(x, 0.25) + ln_rising(x + 0.25, 0.75);
            assert!((halves - x.ln()).abs() < 1e-12, "{x}: {halves}");
        }
        let half = ln_rising(1.0, 0.5);
        assert_close(half, gamma::ln_gamma(1.5), 1e-12, "Gamma(3/2)");
    }

    #[test]
    fn the_normal_tail_has_its_textbook_values() {
        assert_close(normal_two_sided(1.959_963_984_540_054), 0.05, 1e-9, "5 %");
        assert_close(
            normal_two_sided(-2.575_829_303_548_901),
            0.01,
            1e-9,
            "1 %, either sign",
        );
        assert_close(normal_above(-1.644_853_626_951_472), 0.95, 1e-9, "upper");
        assert_close(normal_quantile(0.05), 1.959_963_984_540_054, 1e-9, "back");
    }
}
