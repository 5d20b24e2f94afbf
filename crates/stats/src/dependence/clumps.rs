//! Tests whether failures clump in the order of the trials, and counts the clumps.
//!
//! Trials that run one at a time form no batches, but may still share something: a busy minute of the machine, or a
//! server with a temporary fault. If trials are independent, every way to place the failures among the trials is
//! equally likely. The observed places are tested in two ways:
//!
//! * Are the gaps between consecutive failures shorter than by chance? The statistic is the sum of the logarithms of
//!   the gaps, which a few very short gaps make small. Its p-value comes from random placements with a fixed seed, or
//!   from the normal approximation above a thousand failures.
//! * If a failure ended the run: did all failures come shortly before that end? [`span_p_value`] counts the placements.
//!   With four failures or fewer only this is tested, because so few gaps cannot be short enough.
//!
//! A clump is a stretch of failures with gaps of at most a third of the mean distance between clumps. A clump is worth
//! one failure.

use rand::SeedableRng as _;
use rand_pcg::Pcg64Mcg;

use super::permute::{DRAWS, HITS, SEED, random_below};
use crate::convert::real;
use crate::special::normal_below;

/// Minimum number of failures for a test.
const MIN_FAILURES: usize = 3;

/// Minimum number of failures for the test of the gaps, if the last failure ended the run.
const MIN_GAP_FAILURES: usize = 5;

/// Maximum number of failures that are placed at random.
const MAX_PLACED: u64 = 1000;

/// Failures belong to one clump if the gap between them is at most the mean distance between
/// clumps divided by this number.
const CLOSE: f64 = 3.0;

/// How strongly failures clump in the order of the trials.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Clumps {
    /// Number of failures.
    pub failures: u64,
    /// Number of clumps; a single failure is a clump, too.
    pub clumps: u64,
    /// Probability of places at least this uneven if trials are independent.
    pub p_value: f64,
    /// How many trials are worth one independent trial: the mean over the failures of the size of their clump.
    pub design_effect: f64,
}

/// Finds clumps among failures at these places (ascending, from 1) of `trials` trials.
///
/// `ended_by_failure` means that the last trial is a failure and ended the run, so that its place was not random.
/// Returns `None` for fewer than three failures, or if every trial failed.
pub fn find_clumps(positions: &[u64], trials: u64, ended_by_failure: bool) -> Option<Clumps> {
    let failures = real(positions.len() as u64);
    if positions.len() < MIN_FAILURES || positions.len() as u64 >= trials {
        return None;
    }
    let p_value = match (ended_by_failure, positions.len() < MIN_GAP_FAILURES) {
        (false, _) => gaps_p_value(positions, trials, false),
        (true, true) => span_p_value(positions),
        // With two tests, the smaller p-value is doubled.
        (true, false) => {
            let smaller = span_p_value(positions).min(gaps_p_value(positions, trials, true));
            (2.0 * smaller).min(1.0) // two tests were made
        }
    };
    let sizes = clump_sizes(positions, trials);
    let squares: f64 = sizes.iter().map(|size| real(size * size)).sum();
    Some(Clumps {
        failures: positions.len() as u64,
        clumps: sizes.len() as u64,
        p_value,
        design_effect: squares / failures,
    })
}

/// Returns the probability that a run which ended with its k-th failure has all failures as close to its end as these
/// places, if trials are independent.
///
/// Given the place n of the last failure, the other k-1 are anywhere in the n-1 trials before it. Of all ways to place
/// them, those with the first failure at `f` or later have all k-1 in the n-f trials from there on: C(n-f, k-1) of
/// C(n-1, k-1). Returns 1 for fewer than two failures.
pub fn span_p_value(positions: &[u64]) -> f64 {
    let (Some(first), Some(last)) = (positions.first(), positions.last()) else {
        return 1.0;
    };
    let factors = 0..positions.len() as u64 - 1;
    factors
        .map(|i| real((last - first).saturating_sub(i)) / real(last - 1 - i))
        .product()
}

/// Returns the probability of gaps with at most this sum of logarithms.
fn gaps_p_value(positions: &[u64], trials: u64, ended_by_failure: bool) -> f64 {
    let failures = positions.len() as u64;
    let observed = sum_of_logarithms(positions);
    if failures > MAX_PLACED {
        return normal_p_value(failures, trials, observed);
    }
    let free = failures - u64::from(ended_by_failure);
    let room = trials - u64::from(ended_by_failure);
    let mut rng = Pcg64Mcg::seed_from_u64(SEED);
    let mut placed = Vec::new();
    let mut hits = 0;
    for draw in 1..=DRAWS {
        draw_places(&mut rng, free, room, &mut placed);
        if ended_by_failure {
            placed.push(trials);
        }
        if sum_of_logarithms(&placed) <= observed + 1e-9 {
            hits += 1;
        }
        if hits == HITS {
            return f64::from(hits) / f64::from(draw);
        }
    }
    f64::from(hits + 1) / f64::from(DRAWS + 1)
}

fn sum_of_logarithms(positions: &[u64]) -> f64 {
    let gaps = positions.windows(2).map(|pair| real(pair[1] - pair[0]));
    gaps.map(f64::ln).sum()
}

/// Draws `count` different places out of `room`, in ascending order.
fn draw_places(rng: &mut Pcg64Mcg, count: u64, room: u64, placed: &mut Vec<u64>) {
    placed.clear();
    // If most places are taken, drawing the free ones is cheaper.
    let inverted = count > room / 2;
    let wanted_count = if inverted { room - count } else { count };
    while (placed.len() as u64) < wanted_count {
        placed.extend((placed.len() as u64..wanted_count).map(|_| 1 + random_below(rng, room)));
        placed.sort_unstable();
        placed.dedup();
    }
    if inverted {
        let mut free = placed.iter().copied().peekable();
        let taken = (1..=room).filter(|position| free.next_if_eq(position).is_none());
        *placed = taken.collect();
    }
}

/// Returns the p-value by the normal approximation: gaps of independent trials are geometric, with a fixed sum.
fn normal_p_value(failures: u64, trials: u64, observed: f64) -> f64 {
    let rate = real(failures) / real(trials);
    // Moments of a gap G and its logarithm L.
    let (mut weight, mut remaining) = (rate, 1.0);
    let (mut l, mut ll, mut gl) = (0.0, 0.0, 0.0);
    let mut gap = 1_u64;
    while remaining > 1e-12 {
        let ln = real(gap).ln();
        l += weight * ln;
        ll += weight * ln * ln;
        gl += weight * ln * real(gap);
        remaining -= weight;
        weight *= 1.0 - rate;
        gap += 1;
        if weight < 1e-18 {
            break;
        }
    }
    let mean = 1.0 / rate;
    let spread = (1.0 - rate) / (rate * rate);
    let covariance = gl - mean * l;
    let variance = ll - l * l - covariance * covariance / spread;
    let gaps = real(failures - 1);
    normal_below((observed - gaps * l) / (gaps * variance).sqrt())
}

/// Returns the sizes of the clumps, in order.
fn clump_sizes(positions: &[u64], trials: u64) -> Vec<u64> {
    let mut clumps = positions.len() as u64;
    loop {
        let close = real(trials) / (real(clumps) * CLOSE);
        let mut sizes = vec![1];
        for pair in positions.windows(2) {
            if real(pair[1] - pair[0]) <= close.max(1.0) {
                *sizes.last_mut().expect("it begins with one") += 1;
            } else {
                sizes.push(1);
            }
        }
        let fewer = sizes.len() as u64;
        if fewer >= clumps {
            return sizes;
        }
        clumps = fewer;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn consecutive_failures_are_one_clump() {
        let found = find_clumps(&(121..=130).collect::<Vec<_>>(), 200, false).unwrap();
        assert_eq!((found.failures, found.clumps), (10, 1));
        assert!(found.p_value < 0.001, "{found:?}");
        assert!((found.design_effect - 10.0).abs() < 1e-12);
    }

    #[test]
    fn evenly_spread_failures_are_separate_clumps() {
        let places: Vec<u64> = (1..=10).map(|i| i * 20).collect();
        let found = find_clumps(&places, 200, false).unwrap();
        assert_eq!(found.clumps, 10);
        assert!(
            found.p_value > 0.9 && found.design_effect < 1.1,
            "{found:?}"
        );
    }

    #[test]
    fn few_failures_or_only_failures_give_no_result() {
        assert_eq!(find_clumps(&[7, 8], 100, false), None);
        assert_eq!(find_clumps(&[1, 2, 3], 3, true), None);
        assert_eq!(find_clumps(&[], 0, false), None);
    }

    #[test]
    fn the_span_of_failures_before_the_end_is_counted() {
        // The first two failures may be any pair of the 179 trials before the third; the observed pair is the last one.
        let p = span_p_value(&[178, 179, 180]);
        assert!((p - 1.0 / (179.0 * 178.0 / 2.0)).abs() < 1e-15, "{p}");
        assert!((span_p_value(&[1, 50, 100]) - 1.0).abs() < 1e-12);
        assert!(span_p_value(&[12]) >= 1.0 && span_p_value(&[]) >= 1.0);
        // Counted by enumeration.
        let mut reach = 0;
        let mut all = 0;
        for first in 1..20_u64 {
            for second in first + 1..20 {
                all += 1;
                reach += u32::from(first >= 14 && second < 20);
            }
        }
        let p = span_p_value(&[14, 17, 20]);
        assert!((p - f64::from(reach) / f64::from(all)).abs() < 1e-12, "{p}");
    }

    #[test]
    fn places_are_drawn_evenly_even_if_most_are_taken() {
        let mut rng = Pcg64Mcg::seed_from_u64(3);
        for (count, room) in [(3, 10), (8, 10), (10, 10)] {
            let mut taken = [0_u32; 10];
            let mut placed = Vec::new();
            for _ in 0..2000 {
                draw_places(&mut rng, count, room, &mut placed);
                assert_eq!(placed.len() as u64, count);
                assert!(placed.is_sorted());
                for at in &placed {
                    taken[usize::try_from(*at).unwrap() - 1] += 1;
                }
            }
            let expected = 200.0 * real(count);
            let even = |times: &u32| (f64::from(*times) - expected).abs() < 120.0;
            assert!(taken.iter().all(even), "{count} of {room}: {taken:?}");
        }
    }

    #[test]
    fn the_normal_approximation_agrees_with_random_placements() {
        let mut rng = Pcg64Mcg::seed_from_u64(4);
        for (failures, trials) in [(400, 4000), (400, 1000), (400, 80_000)] {
            for _ in 0..2 {
                let mut places = Vec::new();
                draw_places(&mut rng, failures, trials, &mut places);
                let placed = gaps_p_value(&places, trials, false);
                let normal = normal_p_value(failures, trials, sum_of_logarithms(&places));
                // Random placement stops at fifty hits.
                let error = placed * (1.0 / 50.0_f64).sqrt();
                assert!(
                    (placed - normal).abs() < 3.5 * error + 0.01,
                    "{failures} of {trials}: {placed}, {normal}"
                );
            }
        }
    }
}
