use rand::{Rng as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;

use super::*;

fn batches(counts: &[(u32, u32)]) -> Batches {
    counts.iter().copied().collect()
}

#[test]
fn dependence_is_unknown_without_two_batches_and_two_outcomes() {
    assert_eq!(Batches::new().measure_dependence(), None);
    assert_eq!(batches(&[(8, 3)]).measure_dependence(), None);
    assert_eq!(batches(&[(8, 0), (8, 0)]).measure_dependence(), None);
    assert_eq!(batches(&[(8, 8), (4, 4)]).measure_dependence(), None);
}

#[test]
fn a_batch_without_runs_is_left_out() {
    assert_eq!(batches(&[(0, 0), (8, 1)]), batches(&[(8, 1)]));
}

#[test]
fn equal_batches_are_kept_as_one_entry() {
    let seen: Batches = (0..1000).map(|i| (8, i % 2)).collect();
    assert_eq!(seen.counts.len(), 2);
    assert_eq!(
        (seen.batch_count(), seen.run_count(), seen.failure_count()),
        (1000, 8000, 500)
    );
}

#[test]
fn batches_of_one_run_show_no_dependence() {
    let seen: Batches = (0..100).map(|i| (1, u32::from(i < 10))).collect();
    let dependence = seen.measure_dependence().unwrap();
    assert_eq!(dependence.icc, None);
    assert!(dependence.p_value >= 1.0 && dependence.design_effect <= 1.0);
}

#[test]
fn batches_that_fail_as_a_whole_have_correlation_one() {
    let seen: Batches = (0..20).map(|i| (16, if i < 3 { 16 } else { 0 })).collect();
    let dependence = seen.measure_dependence().unwrap();
    assert!((dependence.icc.unwrap() - 1.0).abs() < 1e-12);
    assert!((dependence.design_effect - 16.0).abs() < 1e-9);
    assert!(dependence.warns());
    assert_eq!(dependence.method, Method::Permutation { draws: 2000 });
    assert!((dependence.p_value - 1.0 / 2001.0).abs() < 1e-12);
}

#[test]
fn three_batches_or_two_failures_never_warn() {
    let three = batches(&[(16, 16), (16, 0), (16, 0)])
        .measure_dependence()
        .unwrap();
    assert!(three.p_value < 0.01 && !three.warns());
    let mut few = Batches::new();
    few.extend((0..500).map(|i| (2, if i == 0 { 2 } else { 0 })));
    let few = few.measure_dependence().unwrap();
    assert!(few.p_value < 0.01 && !few.warns());
}

#[test]
fn failures_and_passes_give_the_same_dependence() {
    let mostly_failing: Batches = (0..30).map(|i| (10, 9 - i % 3)).collect();
    let mostly_passing: Batches = (0..30).map(|i| (10, 1 + i % 3)).collect();
    let (left, right) = (
        mostly_failing.measure_dependence().unwrap(),
        mostly_passing.measure_dependence().unwrap(),
    );
    assert!((left.statistic - right.statistic).abs() < 1e-9);
    assert!((left.p_value - right.p_value).abs() < 1e-12);
    assert!((left.icc.unwrap() - right.icc.unwrap()).abs() < 1e-12);
}

#[test]
fn random_deals_agree_with_the_exact_enumeration() {
    // Within three standard errors of 2000 deals, or of 50 hits.
    for counts in [
        &[(8, 4), (8, 0), (8, 0), (8, 4)][..],
        &[(8, 2), (8, 1), (8, 0), (8, 1), (5, 0)],
        &[(3, 2), (9, 1), (20, 1), (4, 2)],
    ] {
        let seen = batches(counts);
        let sizes = seen.batch_sizes();
        let square_sum = seen.real_sum_of(|n, f| f * f / n);
        let exact = enumerate::p_value(&sizes, seen.failure_count(), square_sum).unwrap();
        let urn = permute::Urn::new(&sizes, seen.failure_count()).unwrap();
        let (dealt, draws) = urn.p_value(square_sum);
        let error = (exact * (1.0 - exact) / f64::from(draws)).sqrt() + 1.0 / 2001.0;
        assert!(
            (dealt - exact).abs() < 3.5 * error,
            "{dealt}, exact {exact}"
        );
    }
}

#[test]
fn the_approximation_agrees_with_random_deals() {
    let mut rng = Pcg64Mcg::seed_from_u64(11);
    for (size, count, p, lean) in [
        (8_u32, 1500_u32, 0.1, 0.015),
        (8, 1500, 0.5, 0.0),
        (16, 600, 0.1, 0.02),
        (2, 4000, 0.3, 0.04),
        (200, 40, 0.2, 0.02),
    ] {
        // Every other batch leans to one side, which changes the p-value.
        let seen: Batches = (0..count)
            .map(|i| {
                let rate = if i % 2 == 0 { p + lean } else { p - lean };
                let fails = |_: &u32| f64::from(rng.next_u32()) < rate * f64::from(u32::MAX);
                let failures = (0..size).filter(fails).count();
                (size, u32::try_from(failures).unwrap())
            })
            .collect();
        let found = seen.measure_dependence().unwrap();
        let Method::Permutation { draws } = found.method else {
            panic!("{found:?}");
        };
        let near = approximate::p_value(&seen.batch_sizes(), seen.failure_count(), found.statistic);
        let error = (near * (1.0 - near) / f64::from(draws)).sqrt();
        assert!(
            (near - found.p_value).abs() < 4.0 * error + 0.005,
            "{count} batches of {size}: {near}, dealt {found:?}"
        );
    }
}

#[test]
fn a_million_trials_with_many_failures_are_approximated() {
    let seen: Batches = (0..62_500)
        .map(|i| (16, 1 + u32::from(i % 5 < 3)))
        .collect();
    let dependence = seen.measure_dependence().unwrap();
    assert_eq!(dependence.method, Method::Approximate);
    assert!(dependence.p_value > 0.999, "spread too evenly to clump");
    let clumped: Batches = (0..62_500)
        .map(|i| (16, 5 * u32::from(i % 4 == 0)))
        .collect();
    assert!(clumped.measure_dependence().unwrap().warns());
}
