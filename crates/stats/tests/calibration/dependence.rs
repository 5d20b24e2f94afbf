use provoke_stats::{Batches, Method, clopper_pearson, clopper_pearson_effective};

use super::chance::{Chance, share};

fn draw(chance: &mut Chance, batches: u32, runs: u32, p: f64, icc: f64) -> Batches {
    (0..batches)
        .map(|_| (runs, chance.clumped(runs, p, icc)))
        .collect()
}

/// Returns how many of `trials` random sets of batches cause a warning.
fn warnings(trials: u32, batches: u32, runs: u32, p: f64, icc: f64) -> u32 {
    let mut chance = Chance::new(u64::from(batches * 1000 + runs));
    (0..trials)
        .map(|_| {
            let seen = draw(&mut chance, batches, runs, p, icc).measure_dependence();
            u32::from(seen.is_some_and(|dependence| dependence.warns()))
        })
        .sum()
}

#[test]
fn independent_runs_rarely_cause_a_dependence_warning() {
    for (batches, runs, p) in [(20, 16, 0.1), (10, 8, 0.1), (5, 64, 0.1), (40, 4, 0.5)] {
        let (alarms, error) = share(warnings(400, batches, runs, p, 0.0), 400, 0.01);
        assert!(
            alarms <= 0.01 + error,
            "{batches} batches of {runs}, p {p}: {alarms}"
        );
    }
}

#[test]
fn clumping_is_found_at_the_measured_frequency() {
    for (batches, runs, icc, least) in [
        (20, 16, 0.1, 0.55),
        (20, 16, 0.3, 0.92),
        (5, 64, 0.1, 0.65),
        (10, 8, 0.3, 0.37),
    ] {
        let (found, _) = share(warnings(150, batches, runs, 0.1, icc), 150, 0.5);
        assert!(
            found >= least,
            "{batches} batches of {runs}, correlation {icc}: {found}"
        );
    }
}

#[test]
fn the_design_effect_restores_most_of_the_coverage() {
    const TRIALS: u32 = 400;
    let mut chance = Chance::new(5);
    let (mut plain, mut adjusted) = (0, 0);
    for _ in 0..TRIALS {
        let seen = draw(&mut chance, 40, 16, 0.1, 0.2);
        let (k, n) = (seen.failure_count(), seen.run_count());
        let effect = seen.measure_dependence().map_or(1.0, |d| d.design_effect);
        plain += u32::from(clopper_pearson(k, n, 0.05).contains(0.1));
        adjusted += u32::from(clopper_pearson_effective(k, n, effect, 0.05).contains(0.1));
    }
    let (plain, adjusted) = (
        share(plain, TRIALS, 0.05).0,
        share(adjusted, TRIALS, 0.05).0,
    );
    assert!(plain < 0.80, "without it: {plain}");
    assert!(adjusted > 0.90, "with it: {adjusted}");
}

#[test]
fn the_approximation_rarely_raises_false_alarms() {
    // The counts are so large that the p-value is approximated.
    const TRIALS: u32 = 60;
    for (batches, runs) in [(5200, 8), (100, 420)] {
        let mut chance = Chance::new(u64::from(batches));
        let (mut alarms, mut halves) = (0, 0);
        for _ in 0..TRIALS {
            let seen = draw(&mut chance, batches, runs, 0.5, 0.0);
            // In some draws, the failures or passes are just below the twenty thousand that are needed.
            let Some(dependence) = seen.measure_dependence() else {
                continue;
            };
            assert!(seen.failure_count() < 20_001 || dependence.method == Method::Approximate);
            alarms += u32::from(dependence.p_value <= 0.01);
            halves += u32::from(dependence.p_value <= 0.5);
        }
        assert!(alarms <= 3, "{batches} of {runs}: {alarms} of {TRIALS}");
        assert!((18..=42).contains(&halves), "{batches} of {runs}: {halves}");
    }
}

#[test]
fn the_dependence_of_a_million_trials_is_approximated() {
    let mut chance = Chance::new(9);
    let batches = draw(&mut chance, 62_000, 16, 0.1, 0.0);
    let dependence = batches.measure_dependence().unwrap();
    assert_eq!(dependence.runs, 992_000);
    assert_eq!(dependence.method, Method::Approximate);
    assert!(!dependence.warns(), "{dependence:?}");
}
