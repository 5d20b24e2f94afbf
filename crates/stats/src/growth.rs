//! Tests whether a quantity grows from trial to trial, and estimates by how much.
//!
//! Growth is told from warming up by *when* it happens. A cache that fills, a pool that opens its
//! connections, an allocator that finds its size: all of these grow early and then rest. So only
//! the second half of what was seen is tested, and its slope is compared with what came before,
//! the very beginning aside: what has slowed down to less than half of that still warms up.
//!
//! The order of the values alone decides ([`mann_kendall`]), and the slope is a median ([`sen`]),
//! so neither a spike nor the shape of the noise matters. Neighbours that resemble each other do:
//! they are worth fewer points, and the test is made weaker by as much.

use super::convert::real;
use super::special::{normal_above, normal_quantile};

/// Fewer points say nothing: their second half would be too short for the normal law.
pub const FEWEST: usize = 20;
/// The chance of a false alarm that is accepted for all quantities together.
const NOTABLE: f64 = 0.01;
/// Growth that has slowed down to less than this share is a warm-up.
const STEADY: f64 = 0.5;
/// Neighbours that resemble each other more than this are taken to resemble each other so much.
const ALIKE: f64 = 0.98;

/// A position, in trials, and the value seen there.
pub type Point = (f64, f64);

/// The Mann-Kendall test of a trend.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Kendall {
    /// Pairs of which the later value is larger, less those of which it is smaller.
    pub s: f64,
    /// Standard deviation of that number if every order of the values is equally likely.
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

/// What the second half of a series says about growth.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Growth {
    /// By how much it grows with each trial.
    pub slope: Slope,
    /// The chance of so steady a growth if there is none.
    pub p_value: f64,
    /// It grew much faster before.
    pub slows: bool,
}

impl Kendall {
    /// Returns the chance of a trend that points up as clearly as this if there is none.
    pub fn p_greater(&self) -> f64 {
        if self.sigma <= 0.0 {
            return 1.0;
        }
        // The score moves in steps; half a step is given to chance.
        let corrected = if self.s.abs() < 0.5 {
            0.0
        } else {
            self.s - self.s.signum()
        };
        normal_above(corrected / self.sigma)
    }
}

impl Growth {
    /// Tells whether it should be called growth, as one of so many quantities that were tested.
    ///
    /// The interval must be above 0, too: of a single jump the ranks see a trend, but most pairs of
    /// points have the same value.
    pub fn warns(&self, tested: usize) -> bool {
        let share = NOTABLE / real(tested.max(1) as u64);
        self.p_value <= share && self.slope.low > 0.0 && !self.slows
    }
}

/// Returns the Mann-Kendall score of values in their order; equal values lower its spread.
pub fn mann_kendall(values: &[f64]) -> Kendall {
    let mut s = 0.0;
    for (place, early) in values.iter().enumerate() {
        for late in &values[place + 1..] {
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

/// Returns the Theil-Sen slope of points at rising positions, with the interval that a spread of
/// `sigma` of the Mann-Kendall score gives it.
///
/// A slope is in the interval if the values, less that slope, would show no trend (Sen 1968). So
/// its ends are slopes between two points, that many ranks away from the median. `None` for fewer
/// than two points.
pub fn sen(points: &[Point], sigma: f64, alpha: f64) -> Option<Slope> {
    let pairs = points.iter().enumerate().flat_map(|(place, (x0, y0))| {
        let later = points[place + 1..].iter();
        later.map(move |(x1, y1)| (y1 - y0) / (x1 - x0))
    });
    let mut slopes: Vec<f64> = pairs.collect();
    if slopes.is_empty() {
        return None;
    }
    slopes.sort_by(f64::total_cmp);
    let n = slopes.len();
    let reach = normal_quantile(alpha) * sigma;
    let below = ((real(n as u64) - reach) / 2.0).round_ties_even();
    // Ranks from 0; the interval has as many slopes left out below it as above.
    let out = rank(below - 1.0);
    Some(Slope {
        middle: f64::midpoint(slopes[(n - 1) / 2], slopes[n / 2]),
        low: slopes[out.min(n - 1)],
        high: slopes[(n - 1).saturating_sub(out)],
    })
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a whole number; the cast turns what is below 0 into 0"
)]
fn rank(whole: f64) -> usize {
    whole as usize
}

/// Returns what the second half of a series of rising positions says about growth; `alpha` is for
/// the interval. `None` for fewer than [`FEWEST`] points.
pub fn growth(points: &[Point], alpha: f64) -> Option<Growth> {
    if points.len() < FEWEST {
        return None;
    }
    let (early, late) = points.split_at(points.len() / 2);
    // What is over after an eighth of the whole does not hide growth that goes on.
    let before = &early[early.len() / 4..];
    let values: Vec<f64> = late.iter().map(|point| point.1).collect();
    let mut test = mann_kendall(&values);
    let slope = sen(late, test.sigma, alpha)?;
    test.sigma *= fewer(late, slope.middle).sqrt();
    let slope = sen(late, test.sigma, alpha)?;
    let before = sen(before, 0.0, alpha)?.middle;
    Some(Growth {
        slope,
        p_value: test.p_greater(),
        slows: slope.middle < STEADY * before,
    })
}

/// Returns how many points are worth one, by the likeness of neighbours around the line.
///
/// With a correlation r of neighbours that fades as r, r², r³ ..., a mean of many has the variance
/// of a mean of (1-r)/(1+r) as many independent ones; the score of a trend, nearly the same.
fn fewer(points: &[Point], slope: f64) -> f64 {
    let around: Vec<f64> = points.iter().map(|(x, y)| y - slope * x).collect();
    let mean = around.iter().sum::<f64>() / real(around.len() as u64);
    let off = |value: &f64| value - mean;
    let all: f64 = around.iter().map(|value| off(value).powi(2)).sum();
    let neighbours: f64 = around
        .windows(2)
        .map(|two| off(&two[0]) * off(&two[1]))
        .sum();
    // Where all is on the line, up to rounding, there is no noise that could resemble itself.
    let scale: f64 = around.iter().map(|value| value.powi(2)).sum();
    if all <= 1e-18 * scale {
        return 1.0;
    }
    let alike = (neighbours / all).clamp(0.0, ALIKE);
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
    fn a_straight_rise_is_growth_of_exactly_its_slope() {
        let found = growth(&series(40, |x| 20.0 + 0.5 * x), 0.05).unwrap();
        let Slope { middle, low, high } = found.slope;
        assert!(
            [middle, low, high]
                .iter()
                .all(|end| (end - 0.5).abs() < 1e-12)
        );
        assert!(found.warns(4) && found.p_value < 1e-6, "{found:?}");
    }

    #[test]
    fn a_fall_and_a_rest_are_no_growth() {
        assert!(!growth(&series(40, |x| -x), 0.05).unwrap().warns(1));
        let rest = growth(&series(40, |_| 7.0), 0.05).unwrap();
        assert!(!rest.warns(1));
        assert!((rest.p_value - 1.0).abs() < 1e-12 && rest.slope.middle.abs() < 1e-12);
    }

    #[test]
    fn a_single_jump_is_no_growth() {
        for at in [35.0, 40.0, 45.0, 50.0, 55.0] {
            let jump = series(60, |x| if x < at { 100.0 } else { 108.0 });
            assert!(!growth(&jump, 0.05).unwrap().warns(1), "at {at}");
        }
    }

    #[test]
    fn a_stair_of_many_steps_is_growth() {
        let stair = series(120, |x| (x / 10.0).floor());
        assert!(growth(&stair, 0.05).unwrap().warns(4));
    }

    #[test]
    fn growth_that_ends_or_slows_down_is_a_warm_up() {
        let full = series(80, |x| x.min(40.0));
        assert!(!growth(&full, 0.05).unwrap().warns(1));
        let slowing = growth(&series(80, |x| -(-x / 20.0).exp()), 0.05).unwrap();
        assert!(slowing.slows && !slowing.warns(1));
    }

    #[test]
    fn growth_after_a_warm_up_is_growth() {
        let both = series(80, |x| x.min(10.0) * 10.0 + 0.1 * x);
        assert!(growth(&both, 0.05).unwrap().warns(4));
    }

    #[test]
    fn few_points_say_nothing() {
        assert_eq!(growth(&series(19, |x| x), 0.05), None);
        assert_eq!(sen(&series(1, |x| x), 1.0, 0.05), None);
    }
}
