use provoke_stats::laplace_trend;

use super::chance::{Chance, share};

/// Runs `n` trials whose rate changes linearly from `from` to `to`, and returns the positions of the failures.
fn positions(chance: &mut Chance, n: u32, from: f64, to: f64) -> Vec<f64> {
    (0..n)
        .filter_map(|run| {
            let at = (f64::from(run) + 0.5) / f64::from(n);
            chance.fails(from + (to - from) * at).then_some(at)
        })
        .collect()
}

fn warns(positions: &[f64]) -> bool {
    let k = u32::try_from(positions.len()).unwrap();
    let mean = positions.iter().sum::<f64>() / f64::from(k.max(1));
    laplace_trend(k.into(), mean, 1.0).is_some_and(|trend| trend.warns())
}

#[test]
fn a_constant_rate_rarely_causes_a_trend_warning() {
    const TRIALS: u32 = 4000;
    let mut chance = Chance::new(3);
    for (n, p) in [(100, 0.05), (300, 0.05), (300, 0.3)] {
        let alarms = (0..TRIALS)
            .filter(|_| warns(&positions(&mut chance, n, p, p)))
            .count();
        let (alarms, error) = share(u32::try_from(alarms).unwrap(), TRIALS, 0.01);
        assert!(alarms <= 0.01 + error, "{n} runs, p {p}: {alarms}");
    }
}

#[test]
fn leaving_out_the_last_failure_corrects_a_stop_at_a_failure() {
    const TRIALS: u32 = 4000;
    let mut chance = Chance::new(4);
    let (mut without, mut with) = (0, 0);
    for _ in 0..TRIALS {
        let (mut seen, mut run) = (Vec::new(), 0.0);
        while seen.len() < 5 {
            run += 1.0;
            if chance.fails(0.01) {
                seen.push(run - 0.5);
            }
        }
        let last = seen.pop().unwrap();
        let horizon = last - 0.5;
        let scaled: Vec<f64> = seen.iter().map(|at| at / horizon).collect();
        without += u32::from(warns(&scaled));
        let scaled: Vec<f64> = seen.iter().chain([&last]).map(|at| at / run).collect();
        with += u32::from(warns(&scaled));
    }
    let (without, error) = share(without, TRIALS, 0.01);
    assert!(without <= 0.01 + error, "left out: {without}");
    let (with, _) = share(with, TRIALS, 0.01);
    assert!(
        with > 0.01 + error,
        "kept: {with}, leaving it out would be idle"
    );
}

#[test]
fn a_rising_rate_is_found() {
    let mut chance = Chance::new(6);
    let found = (0..500)
        .filter(|_| warns(&positions(&mut chance, 300, 0.0, 0.2)))
        .count();
    assert!(found > 350, "{found} of 500");
}
