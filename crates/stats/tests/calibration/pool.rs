//! Tests how often an ineffective fix is called FIXED if several runs count together, for several ways in which the
//! runs arose.

use provoke_stats::{clean_runs_needed, pool};

use super::chance::{Chance, binomial, negative_binomial};

const ALPHA: f64 = 0.05;

/// Returns the probability that an unchanged program passes the clean runs that these runs require.
fn passes(p: f64, named: (u64, u64), others: &[(u64, u64)]) -> f64 {
    let all = pool(named, others);
    clean_runs_needed(all.failures, all.trials, ALPHA).map_or(0.0, |clean| power(1.0 - p, clean))
}

/// Returns the same probability if only the named run counts.
fn passes_alone(p: f64, (failures, trials): (u64, u64)) -> f64 {
    clean_runs_needed(failures, trials, ALPHA).map_or(0.0, |clean| power(1.0 - p, clean))
}

fn power(base: f64, exponent: u64) -> f64 {
    i32::try_from(exponent).map_or(0.0, |exponent| base.powi(exponent))
}

/// Two runs of planned lengths; the named one failed.
fn two_planned(p: f64, named: u32, other: u32) -> f64 {
    let (ours, theirs) = (binomial(named, p), binomial(other, p));
    let wrong: f64 = (1..=named)
        .flat_map(|k| (0..=other).map(move |l| (k, l)))
        .map(|(k, l)| {
            let weight = ours[k as usize] * theirs[l as usize];
            weight * passes(p, (k.into(), named.into()), &[(l.into(), other.into())])
        })
        .sum();
    wrong / (1.0 - ours[0])
}

/// The named run ends with its k-th failure; another has a planned length.
fn until_failures_and_planned(p: f64, k: u32, other: u32) -> f64 {
    let theirs = binomial(other, p);
    negative_binomial(k, p)
        .into_iter()
        .flat_map(|(n, weight)| (0..=other).map(move |l| (n, l, weight)))
        .map(|(n, l, weight)| {
            let weight = weight * theirs[l as usize];
            weight * passes(p, (k.into(), n.into()), &[(l.into(), other.into())])
        })
        .sum()
}

/// Runs of one length are repeated until one of them fails, which is then named. Returns the probability with all runs,
/// and with the named run alone.
fn repeated_until_one_fails(p: f64, length: u32) -> [f64; 2] {
    let weights = binomial(length, p);
    let clean = weights[0];
    let mut wrong = [0.0; 2];
    let mut before = 1.0;
    let mut trials = 0;
    while before > 1e-6 {
        for k in 1..=length {
            let weight = before * weights[k as usize];
            if weight > 1e-9 {
                let named = (k.into(), length.into());
                // Runs without a failure count like a single run with all their trials.
                wrong[0] += weight * passes(p, named, &[(0, trials)]);
                wrong[1] += weight * passes_alone(p, named);
            }
        }
        before *= clean;
        trials += u64::from(length);
    }
    wrong
}

/// Returns the means over seeded histories: with all runs, and with the named run alone.
fn simulated(
    p: f64,
    histories: u32,
    seed: u64,
    one: impl Fn(&mut Chance) -> Option<History>,
) -> [f64; 2] {
    let mut chance = Chance::new(seed);
    let (mut wrong, mut count) = ([0.0; 2], 0.0);
    for _ in 0..histories {
        if let Some((named, others)) = one(&mut chance) {
            wrong[0] += passes(p, named, &others);
            wrong[1] += passes_alone(p, named);
            count += 1.0;
        }
    }
    wrong.map(|sum| sum / count)
}

fn failures(chance: &mut Chance, p: f64, length: u64) -> u64 {
    (0..length).map(|_| u64::from(chance.fails(p))).sum()
}

/// A run that is named, and the others.
type History = ((u64, u64), Vec<(u64, u64)>);

#[test]
fn runs_of_planned_lengths_keep_the_promise() {
    for p in [0.5, 0.3, 0.1] {
        for (named, other) in [(10, 10), (10, 30), (30, 10), (30, 30), (30, 100)] {
            let wrong = two_planned(p, named, other);
            assert!(wrong <= ALPHA, "p {p}, {named} and {other}: {wrong}");
        }
    }
    // Rarer failures occur in few histories; among all named runs, few are wrong.
    for p in [0.03, 0.01, 0.003] {
        for (named, other) in [(10, 30), (30, 30), (30, 10)] {
            let seen = 1.0 - binomial(named, p)[0];
            let wrong = two_planned(p, named, other) * seen;
            assert!(wrong <= ALPHA / 2.0, "p {p}, {named} and {other}: {wrong}");
        }
    }
}

#[test]
fn a_run_that_ended_at_a_failure_keeps_the_promise_with_another_run() {
    for p in [0.5, 0.3, 0.1] {
        for (k, other) in [(1, 10), (1, 30), (3, 10), (3, 30)] {
            let wrong = until_failures_and_planned(p, k, other);
            assert!(wrong <= ALPHA, "p {p}, {k} failures, {other}: {wrong}");
        }
    }
}

#[test]
fn repeating_a_run_until_it_fails_keeps_the_promise() {
    for p in [0.5, 0.1, 0.03, 0.01] {
        for length in [3, 10, 30] {
            let [together, _] = repeated_until_one_fails(p, length);
            assert!(together <= ALPHA, "p {p}, {length}: {together}");
        }
    }
    // With the last run alone, most answers would be wrong.
    let [_, alone] = repeated_until_one_fails(0.01, 3);
    assert!(alone > 0.5, "{alone}");
}

#[test]
fn naming_the_run_with_most_failures_keeps_the_promise() {
    for (p, runs, length) in [(0.3, 20, 10), (0.1, 5, 30), (0.1, 20, 10), (0.03, 20, 10)] {
        let [together, alone] = simulated(p, 300, 7, |chance| {
            let mut all: Vec<(u64, u64)> = (0..runs)
                .map(|_| (failures(chance, p, length), length))
                .collect();
            all.sort_unstable();
            let named = all.pop()?;
            (named.0 > 0).then_some((named, all))
        });
        assert!(together <= ALPHA, "p {p}, {runs} of {length}: {together}");
        assert!(alone > 1.5 * ALPHA, "p {p}, {runs} of {length}: {alone}");
    }
}

#[test]
fn runs_until_their_first_failure_keep_the_promise() {
    for (p, runs) in [(0.5, 5), (0.1, 5), (0.1, 20), (0.01, 5)] {
        let [together, alone] = simulated(p, 300, 8, |chance| {
            let mut all: Vec<(u64, u64)> =
                (0..runs).map(|_| (1, chance.first_failure(p))).collect();
            // The shortest run is named: it failed after the fewest trials.
            all.sort_unstable_by_key(|(_, trials)| std::cmp::Reverse(*trials));
            Some((all.pop()?, all))
        });
        assert!(together <= ALPHA, "p {p}, {runs}: {together}");
        assert!(alone > ALPHA || p > 0.3, "p {p}, {runs}: {alone}");
    }
}

#[test]
fn repeating_a_run_until_it_fails_often_slightly_exceeds_the_error() {
    let p = 0.03;
    let [together, alone] = simulated(p, 500, 9, |chance| {
        let mut others = Vec::new();
        loop {
            let named = (failures(chance, p, 30), 30);
            if named.0 >= 3 {
                return Some((named, others));
            }
            others.push(named);
        }
    });
    assert!((0.05..0.08).contains(&together), "{together}");
    assert!(alone > 0.2, "{alone}");
}
