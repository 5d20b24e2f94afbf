//! Tests whether a quantity grows from trial to trial, and estimates by how much.
//!
//! Growth differs from a warm-up by *when* it happens. A cache that fills, a pool that opens its connections, an
//! allocator that finds its size: all of these grow early and then stay constant. So only the second half of the series
//! is tested, and its slope is compared with the slope before it, without the very beginning: a series that has slowed
//! down to less than half of that slope is still in its warm-up.
//!
//! Only the order of the values decides ([`mann_kendall`]), and the slope is a median ([`theil_sen_slope`]), so neither a spike nor
//! the shape of the noise matters. Correlated neighbours do matter: they are worth fewer points, and the test becomes
//! weaker accordingly.

use super::convert::real;
use super::special::{normal_above, normal_quantile};

/// Minimum number of points: with fewer, the second half is too short for the normal approximation.
pub const FEWEST: usize = 20;
/// Accepted probability of a false alarm for all quantities together.
const NOTABLE: f64 = 0.01;
/// Growth that has slowed down to less than this share is a warm-up.
const STEADY: f64 = 0.5;
/// Upper limit of the correlation between neighbours; larger values are reduced to it.
const ALIKE: f64 = 0.98;

/// A position, in trials, and the value seen there.
pub type Point = (f64, f64);

/// The Mann-Kendall test of a trend.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Kendall {
    /// Number of pairs with a larger later value, minus the number of pairs with a smaller one.
    pub s: f64,
    /// Standard deviation of `s` if every order of the values is equally likely.
    pub sigma: f64,
}

/// A slope and the interval for it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Slope {
    /// The median of the slopes between any two points.
    pub middle: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// Growth in the second half of a series.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Growth {
    /// Growth per trial.
    pub slope: Slope,
    /// The probability of a growth this steady if there is none.
    pub p_value: f64,
    /// Whether the quantity grew much faster before.
    pub slows: bool,
}

impl Kendall {
    /// Returns the probability of an upward trend at least this clear if there is none.
    pub fn p_greater(&self) -> f64 {
        if self.sigma <= 0.0 {
            return 1.0;
        }
        // The score is discrete; half a step is the continuity correction.
        let corrected = if self.s.abs() < 0.5 {
            0.0
        } else {
            self.s - self.s.signum()
        };
        normal_above(corrected / self.sigma)
    }
}

impl Growth {
    /// Returns whether this is reported as growth, if `tested` quantities were tested.
    ///
    /// The interval must be above 0 as well: after a single jump the ranks show a trend, but most pairs of points have
    /// the same value.
    pub fn warns_among(&self, tested: usize) -> bool {
        let share = NOTABLE / real(tested.max(1) as u64);
        self.p_value <= share && self.slope.low > 0.0 && !self.slows
    }
}

/// Returns the Mann-Kendall score of values in their order; ties reduce its standard deviation.
pub fn mann_kendall(values: &[f64]) -> Kendall {
    let mut s = 0.0;
    for (index, early) in values.iter().enumerate() {
        for late in &values[index + 1..] {
            s += match late.total_cmp(early) {
                std::cmp::Ordering::Less => -1.0,
                std::cmp::Ordering::Equal => 0.0,
                std::cmp::Ordering::Greater => 1.0,
            };
        }
    }
    let spread = |n: f64| n * (n - 1.0) * (2.0 * n + 5.0);
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let equal = sorted.chunk_by(|a, b| a.total_cmp(b).is_eq());
    let lost: f64 = equal.map(|group| spread(real(group.len() as u64))).sum();
    let variance = (spread(real(values.len() as u64)) - lost) / 18.0;
    Kendall {
        s,
        sigma: variance.max(0.0).sqrt(),
    }
}

/// Returns the Theil-Sen slope of points at ascending positions, with the interval that the standard deviation `sigma`
/// of the Mann-Kendall score gives.
///
/// A slope is in the interval if the values minus that slope would show no trend (Sen 1968). So the ends are slopes
/// between two points, a certain number of ranks away from the median. Returns `None` for fewer than two points.
pub fn theil_sen_slope(points: &[Point], sigma: f64, alpha: f64) -> Option<Slope> {
    let pairs = points.iter().enumerate().flat_map(|(index, (x0, y0))| {
        let later = points[index + 1..].iter();
        later.map(move |(x1, y1)| (y1 - y0) / (x1 - x0))
    });
    let mut slopes: Vec<f64> = pairs.collect();
    if slopes.is_empty() {
        return None;
    }
    slopes.sort_by(f64::total_cmp);
    let n = slopes.len();
    let reach = normal_quantile(alpha) * sigma;
    let rank_below = ((real(n as u64) - reach) / 2.0).round_ties_even();
    // Ranks start at 0; the interval leaves out the same number of slopes below and above.
    let rank = to_rank(rank_below - 1.0);
    Some(Slope {
        middle: f64::midpoint(slopes[(n - 1) / 2], slopes[n / 2]),
        low: slopes[rank.min(n - 1)],
        high: slopes[(n - 1).saturating_sub(rank)],
    })
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a whole number; the cast turns what is below 0 into 0"
)]
fn to_rank(whole: f64) -> usize {
    whole as usize
}

/// Returns the growth in the second half of a series with ascending positions; `alpha` is for the interval. Returns
/// `None` for fewer than [`FEWEST`] points.
pub fn measure_growth(points: &[Point], alpha: f64) -> Option<Growth> {
    if points.len() < FEWEST {
        return None;
    }
    let (early, late) = points.split_at(points.len() / 2);
    // The first eighth is left out, so that a short start phase does not hide growth that continues.
    let before = &early[early.len() / 4..];
    let values: Vec<f64> = late.iter().map(|point| point.1).collect();
    let mut test = mann_kendall(&values);
    let slope = theil_sen_slope(late, test.sigma, alpha)?;
    test.sigma *= effective_points(late, slope.middle).sqrt();
    let slope = theil_sen_slope(late, test.sigma, alpha)?;
    let before = theil_sen_slope(before, 0.0, alpha)?.middle;
    Some(Growth {
        slope,
        p_value: test.p_greater(),
        slows: slope.middle < STEADY * before,
    })
}

/// Returns how many points are worth one, from the correlation of neighbours around the line.
///
/// With a correlation r of neighbours that fades as r, r², r³ ..., a mean of n values has the variance of a mean of n
/// (1-r)/(1+r) independent ones; the same is nearly true of the score of a trend.
fn effective_points(points: &[Point], slope: f64) -> f64 {
    let residuals: Vec<f64> = points.iter().map(|(x, y)| y - slope * x).collect();
    let mean = residuals.iter().sum::<f64>() / real(residuals.len() as u64);
    let off = |value: &f64| value - mean;
    let total: f64 = residuals.iter().map(|value| off(value).powi(2)).sum();
    let neighbours: f64 = residuals
        .windows(2)
        .map(|two| off(&two[0]) * off(&two[1]))
        .sum();
    // If all points are on the line, up to rounding, no noise is left that could be correlated.
    let scale: f64 = residuals.iter().map(|value| value.powi(2)).sum();
    if total <= 1e-18 * scale {
        return 1.0;
    }
    let alike = (neighbours / total).clamp(0.0, ALIKE);
    (1.0 + alike) / (1.0 - alike)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(count: u32, value: impl Fn(f64) -> f64) -> Vec<Point> {
        let at = (1..=count).map(f64::from);
        at.map(|x| (x, value(x))).collect()
    }

    #[test]
    fn a_linear_rise_is_growth_with_its_exact_slope() {
        let found = measure_growth(&series(40, |x| 20.0 + 0.5 * x), 0.05).unwrap();
        let Slope { middle, low, high } = found.slope;
        assert!(
            [middle, low, high]
                .iter()
                .all(|end| (end - 0.5).abs() < 1e-12)
        );
        assert!(found.warns_among(4) && found.p_value < 1e-6, "{found:?}");
    }

    #[test]
    fn falling_and_constant_series_are_not_growth() {
        assert!(
            !measure_growth(&series(40, |x| -x), 0.05)
                .unwrap()
                .warns_among(1)
        );
        let rest = measure_growth(&series(40, |_| 7.0), 0.05).unwrap();
        assert!(!rest.warns_among(1));
        assert!((rest.p_value - 1.0).abs() < 1e-12 && rest.slope.middle.abs() < 1e-12);
    }

    #[test]
    fn a_single_jump_is_not_growth() {
        for at in [35.0, 40.0, 45.0, 50.0, 55.0] {
            let jump = series(60, |x| if x < at { 100.0 } else { 108.0 });
            assert!(
                !measure_growth(&jump, 0.05).unwrap().warns_among(1),
                "at {at}"
            );
        }
    }

    #[test]
    fn a_staircase_of_many_steps_is_growth() {
        let stair = series(120, |x| (x / 10.0).floor());
        assert!(measure_growth(&stair, 0.05).unwrap().warns_among(4));
    }

    #[test]
    fn growth_that_ends_or_slows_down_is_a_warm_up() {
        let full = series(80, |x| x.min(40.0));
        assert!(!measure_growth(&full, 0.05).unwrap().warns_among(1));
        let slowing = measure_growth(&series(80, |x| -(-x / 20.0).exp()), 0.05).unwrap();
        assert!(slowing.slows && !slowing.warns_among(1));
    }

    #[test]
    fn growth_after_a_warm_up_is_growth() {
        let both = series(80, |x| x.min(10.0) * 10.0 + 0.1 * x);
        assert!(measure_growth(&both, 0.05).unwrap().warns_among(4));
    }

    #[test]
    fn fewer_than_twenty_points_give_no_result() {
        assert_eq!(measure_growth(&series(19, |x| x), 0.05), None);
        assert_eq!(theil_sen_slope(&series(1, |x| x), 1.0, 0.05), None);
    }
}
