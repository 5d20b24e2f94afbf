use provoke_stats::growth::{Point, measure_growth};

use super::chance::{Chance, share};

/// Returns a normal variable, by the Box-Muller transform.
fn normal(chance: &mut Chance) -> f64 {
    let radius = (-2.0 * (1.0 - chance.uniform()).ln()).sqrt();
    radius * (std::f64::consts::TAU * chance.uniform()).cos()
}

/// Returns noise of standard deviation 1 whose neighbours are correlated, around a level for each trial.
fn series(chance: &mut Chance, n: u32, correlation: f64, level: impl Fn(f64) -> f64) -> Vec<Point> {
    let mut noise = normal(chance);
    let mut next = || {
        let old = noise;
        noise = correlation * old + (1.0 - correlation * correlation).sqrt() * normal(chance);
        old
    };
    let at = (1..=n).map(f64::from);
    at.map(|x| (x, level(x) + next())).collect()
}

/// Returns the share of warnings, as one of `tested` quantities, and its random error.
fn alarms(
    chance: &mut Chance,
    trials: u32,
    tested: usize,
    mut make: impl FnMut(&mut Chance) -> Vec<Point>,
) -> (f64, f64) {
    let warns = |_: &u32| {
        measure_growth(&make(chance), 0.05).is_some_and(|found| found.warns_among(tested))
    };
    let hits = (0..trials).filter(warns).count();
    let nominal = 0.01 / f64::from(u32::try_from(tested).unwrap());
    share(u32::try_from(hits).unwrap(), trials, nominal)
}

#[test]
fn noise_is_rarely_called_growth() {
    let mut chance = Chance::new(31);
    for n in [20, 50, 150] {
        let found = alarms(&mut chance, 1000, 1, |chance| {
            series(chance, n, 0.0, |_| 0.0)
        });
        assert!(found.0 <= 0.01 + found.1, "{n} points: {found:?}");
    }
}

#[test]
fn noise_of_few_distinct_values_is_rarely_called_growth() {
    let mut chance = Chance::new(32);
    let found = alarms(&mut chance, 1000, 1, |chance| {
        let mut points = series(chance, 100, 0.0, |_| 0.0);
        for point in &mut points {
            point.1 = point.1.round();
        }
        points
    });
    assert!(found.0 <= 0.01 + found.1, "{found:?}");
}

/// The correlation is estimated from the same few points, so the estimate is a little too small.
#[test]
fn correlated_noise_raises_few_more_false_alarms() {
    let mut chance = Chance::new(33);
    for correlation in [0.3, 0.6, 0.9] {
        let found = alarms(&mut chance, 500, 1, |chance| {
            series(chance, 150, correlation, |_| 0.0)
        });
        assert!(found.0 <= 0.06, "{correlation}: {found:?}");
    }
}

#[test]
fn a_warm_up_is_rarely_called_growth() {
    let mut chance = Chance::new(34);
    for height in [5.0, 20.0, 100.0] {
        for share in [0.05, 0.1, 0.2, 0.3] {
            let found = alarms(&mut chance, 200, 4, |chance| {
                series(chance, 200, 0.0, |x| -height * (-x / (share * 200.0)).exp())
            });
            assert!(found.0 <= 0.06, "{height} sd, {share}: {found:?}");
        }
    }
}

#[test]
fn steady_growth_is_found() {
    let mut chance = Chance::new(35);
    for (n, correlation, least) in [(100, 0.0, 0.8), (200, 0.0, 0.99), (300, 0.6, 0.9)] {
        let found = alarms(&mut chance, 150, 4, |chance| {
            series(chance, n, correlation, |x| 0.05 * x)
        });
        assert!(found.0 >= least, "{n} points, {correlation}: {found:?}");
    }
}

#[test]
fn steady_growth_after_a_warm_up_is_found() {
    let mut chance = Chance::new(36);
    let found = alarms(&mut chance, 150, 4, |chance| {
        series(chance, 200, 0.0, |x| 0.05 * x - 20.0 * (-x / 8.0).exp())
    });
    assert!(found.0 >= 0.95, "{found:?}");
}

#[test]
fn the_interval_contains_the_true_growth_about_as_often_as_promised() {
    let mut chance = Chance::new(37);
    for (correlation, promised) in [(0.0, 0.95), (0.6, 0.93)] {
        let held = (0..500).filter(|_| {
            let points = series(&mut chance, 200, correlation, |x| 0.05 * x);
            let slope = measure_growth(&points, 0.05).unwrap().slope;
            slope.low <= 0.05 && 0.05 <= slope.high
        });
        let (held, error) = share(u32::try_from(held.count()).unwrap(), 500, promised);
        assert!(held >= promised - error, "{correlation}: {held}");
    }
}
