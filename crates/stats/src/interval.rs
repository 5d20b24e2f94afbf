//! Confidence intervals for a failure rate after `k` failures in `n` runs.
//!
//! The right interval depends on why the run ended:
//!
//! * the number of runs, or of failures, was fixed before: [`clopper_pearson`];
//! * anything else (a live number, a user's Ctrl-C, a time budget): [`confidence_sequence`], which is valid at all
//!   times, so that the choice of the moment cannot make it wrong;
//! * a bound alone, stated before the first run: [`upper_one_sided`].
//!
//! `alpha` is one minus the confidence everywhere: 0.05 for 95 %.
//!
//! Counts up to ten million are computed directly, to a relative 1e-8 or better. Above [`LARGEST_N`] both counts are
//! scaled down to ten million runs with the same share of failures: the interval is then wider than necessary, never
//! narrower.

use std::f64::consts::{LN_2, PI};

use super::convert::real;
use super::special::{LN_SMALLEST, beta_quantile, bisect_logarithm, ln_beta};

/// Number of runs above which an interval no longer gets narrower.
pub const LARGEST_N: f64 = 1e7;

/// A range of failure rates, both ends included.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// The lowest rate that the counts do not exclude.
    pub lo: f64,
    /// The highest rate that the counts do not exclude.
    pub hi: f64,
}

impl Interval {
    /// The interval without information: every rate is possible.
    pub const WHOLE: Self = Self { lo: 0.0, hi: 1.0 };

    /// Returns the lowest and the highest rate.
    pub fn ends(self) -> [f64; 2] {
        [self.lo, self.hi]
    }

    /// Returns the distance between the two ends.
    pub fn width(self) -> f64 {
        self.hi - self.lo
    }

    /// Returns whether `rate` lies between the ends, or on one of them.
    pub fn contains(self, rate: f64) -> bool {
        self.lo <= rate && rate <= self.hi
    }
}

/// Returns the Clopper-Pearson interval of `k` failures in `n` runs.
///
/// It consists of the rates at which neither "`k` or more" nor "`k` or fewer" failures would be rarer than alpha/2. Its
/// ends are Beta quantiles: alpha/2 of Beta(k, n-k+1) below, 1-alpha/2 of Beta(k+1, n-k) above. Its coverage is at
/// least 1-alpha at every rate if `n` was fixed beforehand, and also if the run was to stop at its `k`-th failure.
/// Without runs it is the whole range.
pub fn clopper_pearson(k: u64, n: u64, alpha: f64) -> Interval {
    clopper_pearson_effective(k, n, 1.0, alpha)
}

/// Returns the Clopper-Pearson interval with both counts divided by `design_effect`.
///
/// Runs that fail together carry less information than their number suggests; a design effect of 4 means that four of
/// them are worth one independent run. See [`super::dependence`]. Values below 1 count as 1.
pub fn clopper_pearson_effective(k: u64, n: u64, design_effect: f64, alpha: f64) -> Interval {
    match effective_counts(k, n, design_effect) {
        Some((k, n)) => Interval {
            lo: lower_end(k, n, alpha / 2.0),
            hi: upper_end(k, n, alpha / 2.0),
        },
        None => Interval::WHOLE,
    }
}

/// Returns the upper bound of the rate with confidence 1-alpha, after `k` failures in `n` runs.
///
/// Without a failure this is 1-alpha^(1/n), which is about 3/n at 95 %. It spends all of alpha on one side, so it is
/// lower than the upper end of [`clopper_pearson`]. A report that states this bound after no failure and the two-sided
/// interval otherwise is right in only 93 % of cases at some rates, so use it only in statements that are fixed
/// beforehand.
pub fn upper_one_sided(k: u64, n: u64, alpha: f64) -> f64 {
    effective_counts(k, n, 1.0).map_or(1.0, |(k, n)| upper_end(k, n, alpha))
}

/// Returns the lower bound of the rate with confidence 1-alpha, after `k` failures in `n` runs.
pub fn lower_one_sided(k: u64, n: u64, alpha: f64) -> f64 {
    effective_counts(k, n, 1.0).map_or(0.0, |(k, n)| lower_end(k, n, alpha))
}

/// Returns the interval of `k` failures in `n` runs that may be checked after every run.
///
/// With probability 1-alpha it contains the true rate at *all* moments of an endless run, so it is valid whatever ended
/// the run. The price is width: about 1.5 times Clopper-Pearson.
///
/// A rate p stays in the interval as long as the Beta(1/2, 1/2)-mixed likelihood of the counts is less than 1/alpha
/// times their likelihood at p. Under p that ratio is a nonnegative martingale that starts at 1, and such a martingale
/// ever reaches 1/alpha with probability alpha at most.
pub fn confidence_sequence(k: u64, n: u64, alpha: f64) -> Interval {
    confidence_sequence_effective(k, n, 1.0, alpha)
}

/// Returns the any-time interval with both counts divided by `design_effect`.
///
/// The design effect is an estimate, so the any-time coverage becomes approximate.
pub fn confidence_sequence_effective(k: u64, n: u64, design_effect: f64, alpha: f64) -> Interval {
    debug_assert!(alpha > 0.0 && alpha < 1.0);
    let Some((k, n)) = effective_counts(k, n, design_effect) else {
        return Interval::WHOLE;
    };
    Interval {
        lo: lowest_unrefuted(k, n, alpha).0,
        hi: lowest_unrefuted(n - k, n, alpha).1,
    }
}

/// Returns the intersection of the any-time intervals at several moments of a run, with the failures and the runs at each
/// of them, the present ones last.
///
/// All of these intervals contain the true rate together with probability 1-alpha, so their intersection does, too. It is
/// narrower than the last interval. The moments must not depend on the outcomes. If the rate changed, the
/// intersection may be empty: then the last interval is returned. An end of the intersection may lie inside the exact
/// interval of the last counts; it is moved there, because no reader believes an interval that promises more and is
/// narrower.
pub fn running_interval(
    counts: impl IntoIterator<Item = (u64, u64)>,
    design_effect: f64,
    alpha: f64,
) -> Interval {
    let mut last = Interval::WHOLE;
    let mut exact = Interval::WHOLE;
    let mut common = Interval::WHOLE;
    for (k, n) in counts {
        last = confidence_sequence_effective(k, n, design_effect, alpha);
        exact = clopper_pearson_effective(k, n, design_effect, alpha);
        common = Interval {
            lo: common.lo.max(last.lo),
            hi: common.hi.min(last.hi),
        };
    }
    if common.lo > common.hi {
        return last;
    }
    Interval {
        lo: common.lo.min(exact.lo),
        hi: common.hi.max(exact.hi),
    }
}

/// Divides the counts by the design effect and scales them down to [`LARGEST_N`].
fn effective_counts(k: u64, n: u64, design_effect: f64) -> Option<(f64, f64)> {
    debug_assert!(k <= n, "{k} failures in {n} runs");
    if n == 0 {
        return None;
    }
    let k = real(k.min(n));
    let n = real(n);
    let divisor = design_effect.max(1.0).max(n / LARGEST_N);
    Some((k / divisor, n / divisor))
}

/// Solves P(at least k failures | p) = tail for p.
pub(super) fn lower_end(k: f64, n: f64, tail: f64) -> f64 {
    debug_assert!(tail > 0.0 && tail < 1.0);
    if k <= 0.0 {
        0.0
    } else if k >= n {
        (tail.ln() / n).exp()
    } else {
        beta_quantile(k, n - k + 1.0, tail)
    }
}

/// Solves P(at most k failures | p) = tail for p.
pub(super) fn upper_end(k: f64, n: f64, tail: f64) -> f64 {
    debug_assert!(tail > 0.0 && tail < 1.0);
    if k <= 0.0 {
        -(tail.ln() / n).exp_m1()
    } else if k >= n {
        1.0
    } else {
        beta_quantile(k + 1.0, n - k, 1.0 - tail)
    }
}

/// Returns whether the mixture is at least 1/alpha times as likely as the rate `p`.
fn is_refuted(k: f64, n: f64, alpha: f64, p: f64) -> bool {
    let passes = n - k;
    // B(1/2, 1/2) is pi.
    let mut log_ratio = ln_beta(0.5 + k, 0.5 + passes) - PI.ln();
    if k > 0.0 {
        log_ratio -= k * p.ln();
    }
    if passes > 0.0 {
        log_ratio -= passes * (-p).ln_1p();
    }
    log_ratio >= -alpha.ln()
}

/// Returns the lower end of the confidence sequence and its distance from 1.
///
/// The log ratio is convex in p with its minimum at `k/n`, so there is exactly one such point below `k/n`. The
/// bisection uses the smaller of p and 1-p, to keep its digits.
fn lowest_unrefuted(k: f64, n: f64, alpha: f64) -> (f64, f64) {
    if k <= 0.0 {
        return (0.0, 1.0);
    }
    let estimate = k / n;
    if estimate > 0.5 && is_refuted(k, n, alpha, 0.5) {
        let passes = n - k; // the same point, in terms of the passes
        let low = if passes > 0.0 {
            (passes / n).ln()
        } else {
            LN_SMALLEST
        };
        let q = bisect_logarithm(low, -LN_2, |q| !is_refuted(passes, n, alpha, q));
        return (1.0 - q, q);
    }
    let p = bisect_logarithm(LN_SMALLEST, estimate.min(0.5).ln(), |p| {
        is_refuted(k, n, alpha, p)
    });
    (p, 1.0 - p)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_runs_the_interval_is_the_whole_range() {
        assert_eq!(clopper_pearson(0, 0, 0.05), Interval::WHOLE);
        assert_eq!(confidence_sequence(0, 0, 0.05), Interval::WHOLE);
        assert!(upper_one_sided(0, 0, 0.05).total_cmp(&1.0).is_eq());
        assert!(lower_one_sided(0, 0, 0.05).total_cmp(&0.0).is_eq());
    }

    #[test]
    fn zero_failures_give_the_one_sided_bound() {
        let bound = upper_one_sided(0, 427, 0.05);
        assert!((bound - (1.0 - 0.05_f64.powf(1.0 / 427.0))).abs() < 1e-14);
        assert!(bound < clopper_pearson(0, 427, 0.05).hi);
    }

    #[test]
    fn the_interval_reaches_zero_or_one_only_for_extreme_counts() {
        for n in [1, 2, 30, 10_000_000] {
            let none = clopper_pearson(0, n, 0.05);
            let all = clopper_pearson(n, n, 0.05);
            assert!(none.lo <= 0.0 && none.hi < 1.0, "{n}: {none:?}");
            assert!(all.lo > 0.0 && all.hi >= 1.0, "{n}: {all:?}");
        }
        let one = clopper_pearson(1, 2, 0.05);
        assert!(one.lo > 0.0 && one.hi < 1.0);
    }

    #[test]
    fn exchanging_failures_and_passes_mirrors_the_interval() {
        for (k, n) in [(0, 7), (1, 10), (3, 30), (427, 9000), (1, 1_000_000)] {
            for interval in [clopper_pearson, confidence_sequence] {
                let (seen, mirrored) = (interval(k, n, 0.05), interval(n - k, n, 0.05));
                assert!((seen.lo - (1.0 - mirrored.hi)).abs() < 1e-12, "{k}/{n}");
                assert!((seen.hi - (1.0 - mirrored.lo)).abs() < 1e-12, "{k}/{n}");
            }
        }
    }

    #[test]
    fn intervals_of_rare_failures_are_precise() {
        // At tiny rates the ends are Poisson ends: 0.0253178 and 5.5716434 failures for one observed.
        let interval = clopper_pearson(1, 10_000_000, 0.05);
        assert!((interval.lo * 1e7 / 0.025_317_808 - 1.0).abs() < 1e-6);
        assert!((interval.hi * 1e7 / 5.571_643_4 - 1.0).abs() < 1e-6);
        let live = confidence_sequence(0, 10_000_000, 0.05);
        assert!(live.lo <= 0.0 && live.hi > 5e-7 && live.hi < 2e-6);
    }

    #[test]
    fn intervals_above_the_largest_count_remain_conservative() {
        let at = clopper_pearson(1_000_000, 10_000_000, 0.05);
        let above = clopper_pearson(100_000_000, 1_000_000_000, 0.05);
        assert_eq!(at, above);
        let rare = clopper_pearson(1, 1_000_000_000, 0.05);
        assert!(rare.hi > 5.5e-9, "true upper end is 5.57e-9");
        assert!(rare.lo < 2.6e-11, "true lower end is 2.53e-11");
    }

    #[test]
    fn a_design_effect_above_one_widens_the_interval() {
        let plain = clopper_pearson(40, 400, 0.05);
        assert_eq!(plain, clopper_pearson_effective(40, 400, 1.0, 0.05));
        assert_eq!(plain, clopper_pearson_effective(40, 400, 0.2, 0.05));
        assert_eq!(
            clopper_pearson_effective(40, 400, 4.0, 0.05),
            clopper_pearson(10, 100, 0.05)
        );
        let live = confidence_sequence_effective(40, 400, 4.0, 0.05);
        assert!(live.width() > confidence_sequence(40, 400, 0.05).width());
    }

    #[test]
    fn the_any_time_interval_contains_the_fixed_interval() {
        for (k, n) in [(0, 1), (0, 30), (1, 30), (3, 30), (29, 30), (100, 1000)] {
            let fixed = clopper_pearson(k, n, 0.05);
            let live = confidence_sequence(k, n, 0.05);
            assert!(live.lo <= fixed.lo && live.hi >= fixed.hi, "{k}/{n}");
        }
    }
}
