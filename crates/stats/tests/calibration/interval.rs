use provoke_stats::{
    Interval, clopper_pearson, confidence_sequence, mtbf, running_interval, upper_one_sided,
};

use super::chance::{Chance, binomial, negative_binomial, rates, share};

const ALPHA: f64 = 0.05;
/// Tolerance for rounding in sums over all outcomes.
const ROUNDING: f64 = 1e-9;

type Method = fn(u64, u64, f64) -> Interval;

/// Returns the smallest and the mean coverage over the rates.
fn coverage_over_rates(n: u32, method: Method) -> (f64, f64) {
    let intervals: Vec<Interval> = (0..=u64::from(n))
        .map(|k| method(k, n.into(), ALPHA))
        .collect();
    let coverages: Vec<f64> = rates()
        .map(|p| {
            let weights = binomial(n, p);
            let covered = weights.iter().zip(&intervals);
            covered
                .filter(|(_, interval)| interval.contains(p))
                .map(|(weight, _)| weight)
                .sum()
        })
        .collect();
    let count = f64::from(u32::try_from(coverages.len()).unwrap());
    (
        coverages.iter().copied().fold(1.0, f64::min),
        coverages.iter().sum::<f64>() / count,
    )
}

#[test]
fn clopper_pearson_covers_every_rate_at_a_fixed_number_of_runs() {
    for n in [1, 2, 5, 10, 30, 100, 427] {
        let (least, mean) = coverage_over_rates(n, clopper_pearson);
        assert!(least >= 1.0 - ALPHA - ROUNDING, "n {n}: least {least}");
        assert!(mean < 1.0, "n {n}: mean {mean}, suspiciously wide");
    }
}

#[test]
fn the_mean_coverage_of_clopper_pearson_is_near_the_nominal_one() {
    // With many runs the coverage comes down to the nominal one.
    let (least, mean) = coverage_over_rates(427, clopper_pearson);
    assert!(least < 0.952 && mean < 0.962, "least {least}, mean {mean}");
}

#[test]
fn clopper_pearson_covers_when_stopped_at_the_kth_failure() {
    for k in [1, 3, 5] {
        for p in [0.9, 0.5, 0.1, 0.03] {
            let covered: f64 = negative_binomial(k, p)
                .into_iter()
                .filter(|&(n, _)| clopper_pearson(k.into(), n.into(), ALPHA).contains(p))
                .map(|(_, weight)| weight)
                .sum();
            assert!(covered >= 1.0 - ALPHA - ROUNDING, "k {k}, p {p}: {covered}");
        }
    }
}

#[test]
fn the_reciprocal_of_the_first_failing_run_overstates_the_rate() {
    // After stopping at the first failure, the share is biased, so no percentage is printed. E[1/N] = -p ln p / (1-p).
    for (p, factor) in [(0.5, 1.386), (0.1, 2.558), (0.03, 3.615)] {
        let mean: f64 = negative_binomial(1, p)
            .into_iter()
            .map(|(n, weight)| weight / f64::from(n))
            .sum();
        assert!((mean / p - factor).abs() < 0.001, "p {p}: {}", mean / p);
    }
}

#[test]
fn the_zero_failure_bound_is_wrong_in_at_most_5_percent() {
    for n in [1, 10, 59, 427, 3000] {
        let bound = upper_one_sided(0, n, ALPHA);
        let unseen = (1.0 - bound).powi(i32::try_from(n).unwrap());
        assert!((unseen - ALPHA).abs() < 1e-9, "n {n}: {unseen}");
    }
    // The same after any number of failures, at every rate.
    for n in [10_u32, 100] {
        let bounds: Vec<f64> = (0..=n)
            .map(|k| upper_one_sided(k.into(), n.into(), ALPHA))
            .collect();
        for p in rates() {
            let weights = binomial(n, p);
            let wrong: f64 = weights
                .iter()
                .zip(&bounds)
                .filter(|(_, bound)| **bound < p)
                .map(|(weight, _)| weight)
                .sum();
            assert!(wrong <= ALPHA + ROUNDING, "n {n}, p {p}: {wrong}");
        }
    }
}

/// Returns the probability that an interval ever excludes the true rate if it is checked after every run. It is exact:
/// the distribution of the failures of all histories without an exclusion so far is updated run by run.
fn ever_excludes(p: f64, runs: u32, method: Method) -> f64 {
    let mut alive = vec![1.0]; // by number of failures, starting at `first`
    let mut first = 0_u32;
    for n in 1..=runs {
        let mut next = vec![0.0; alive.len() + 1];
        for (i, weight) in alive.iter().enumerate() {
            next[i] += weight * (1.0 - p);
            next[i + 1] += weight * p;
        }
        // The counts that do not exclude p are consecutive, so the search starts from both ends.
        let excluded = |k: usize| {
            let k = first + u32::try_from(k).unwrap();
            !method(k.into(), n.into(), ALPHA).contains(p)
        };
        let low = (0..next.len()).take_while(|&k| excluded(k)).count();
        let high = (low..next.len()).rev().take_while(|&k| excluded(k)).count();
        next.truncate(next.len() - high);
        next.drain(..low);
        first += u32::try_from(low).unwrap();
        alive = next;
    }
    1.0 - alive.iter().sum::<f64>()
}

#[test]
fn the_confidence_sequence_keeps_its_promise_when_checked_after_every_run() {
    for p in [0.5, 0.1, 0.03, 0.01] {
        let wrong = ever_excludes(p, 1000, confidence_sequence);
        assert!(wrong <= ALPHA, "p {p}: {wrong}");
    }
}

#[test]
fn the_intersection_of_any_time_intervals_is_narrower_and_keeps_the_promise() {
    const RUNS: u32 = 400;
    let mut chance = Chance::new(12);
    for (p, narrower) in [(0.5, 0.94), (0.1, 0.96), (0.01, 1.0)] {
        let (mut wrong, mut width, mut last_width) = (0, 0.0, 0.0);
        for _ in 0..RUNS {
            let mut counts = Vec::new();
            let mut failures = 0;
            for trial in 1..=320_u64 {
                failures += u64::from(chance.fails(p));
                if trial % 10 == 0 {
                    counts.push((failures, trial));
                }
            }
            let interval = running_interval(counts, 1.0, ALPHA);
            wrong += u32::from(!interval.contains(p));
            width += interval.width();
            last_width += confidence_sequence(failures, 320, ALPHA).width();
        }
        let (wrong, _) = share(wrong, RUNS, ALPHA);
        assert!(wrong <= ALPHA, "p {p}: {wrong}");
        assert!(
            width <= narrower * last_width,
            "p {p}: {}",
            width / last_width
        );
    }
}

#[test]
fn clopper_pearson_exceeds_its_error_when_checked_after_every_run() {
    // The test above can fail: the fixed interval exceeds the limit many times over.
    for (p, least) in [(0.5, 0.40), (0.1, 0.32), (0.03, 0.25)] {
        let wrong = ever_excludes(p, 1000, clopper_pearson);
        assert!(wrong > least, "p {p}: {wrong}");
    }
}

/// Runs one slot until `budget` seconds are over; a run that is cut off does not count.
fn run_until_out_of_time(
    chance: &mut Chance,
    p: f64,
    budget: f64,
    pass: f64,
    fail: f64,
) -> (u64, u64) {
    let (mut k, mut n, mut time) = (0, 0, 0.0);
    loop {
        let failed = chance.fails(p);
        time += if failed { fail } else { pass };
        if time > budget {
            return (k, n);
        }
        n += 1;
        k += u64::from(failed);
    }
}

#[test]
fn the_confidence_sequence_keeps_its_promise_under_a_time_budget() {
    // Hangs last a hundred passes, crashes a tenth of a pass; the counts depend on the outcomes.
    const TRIALS: u32 = 1000;
    let mut chance = Chance::new(1);
    for (p, fail) in [(0.05, 10.0), (0.05, 0.01), (0.3, 10.0), (0.3, 0.01)] {
        for budget in [5.0, 12.0, 30.0] {
            let wrong = (0..TRIALS)
                .filter(|_| {
                    let (k, n) = run_until_out_of_time(&mut chance, p, budget, 0.1, fail);
                    !confidence_sequence(k, n, ALPHA).contains(p)
                })
                .count();
            let (wrong, error) = share(u32::try_from(wrong).unwrap(), TRIALS, ALPHA);
            assert!(
                wrong <= ALPHA + error,
                "p {p}, failing takes {fail} s, budget {budget} s: {wrong}"
            );
        }
    }
}

#[test]
fn the_interval_of_the_mean_time_between_failures_has_its_coverage() {
    // Failures of a Poisson process with mean 1 in an observation of planned length, computed exactly.
    for length in [0.5, 3.0, 20.0, 100.0_f64] {
        let mut weight = (-length).exp();
        let (mut two_sided, mut one_sided, mut total) = (0.0, 0.0, 0.0);
        for k in 0..400_u32 {
            let seen = mtbf(k.into(), length, ALPHA);
            if seen.low <= 1.0 && seen.high.is_none_or(|high| 1.0 <= high) {
                two_sided += weight;
            }
            if seen.low_one_sided <= 1.0 {
                one_sided += weight;
            }
            total += weight;
            weight *= length / f64::from(k + 1);
        }
        assert!((total - 1.0).abs() < ROUNDING, "{length}: {total}");
        let least = 1.0 - ALPHA - ROUNDING;
        assert!(two_sided >= least, "{length}: {two_sided}");
        assert!(one_sided >= least, "{length}: {one_sided}");
    }
}
