//! Measures the check for a single boundary.

use provoke_stats::search::{Bisection, Costs, StopConditions};

use super::bisect::{Truth, cell, setup};
use super::chance::Chance;

/// Shows how often the check raises an alarm: with a single boundary, and with a failure that comes and goes.
pub(crate) fn contradictions(trials: u64) {
    for (n, clean, p, q) in [
        (64, true, 0.5, 0.0),
        (64, true, 0.1, 0.0),
        (1024, true, 0.5, 0.0),
        (8, false, 0.5, 0.01),
        (64, false, 0.5, 0.01),
        (64, false, 0.1, 0.01),
        (64, false, 0.1, 0.0),
    ] {
        let truth = cell(n, p, q);
        let (mut alarms, mut gone) = (0_u64, 0_u64);
        let mut after = 0.0;
        for seed in 0..trials {
            let mut chance = Chance::new(seed);
            let culprit = 1 + chance.below(n);
            alarms += u64::from(alarm(&truth, clean, &mut chance, |v| v >= culprit).is_some());
            // Every second version is bad.
            let coming_and_going = |v: usize| v.is_multiple_of(2);
            if let Some(runs) = alarm(&truth, clean, &mut chance, coming_and_going) {
                gone += 1;
                after += runs;
            }
        }
        println!(
            "n {n} clean {clean} p {p} q {q}: alarms {:.4}; if it comes and goes {:.3} after {:.0} runs",
            alarms as f64 / trials as f64,
            gone as f64 / trials as f64,
            after / gone as f64,
        );
    }
}

fn alarm(
    truth: &Truth,
    clean: bool,
    chance: &mut Chance,
    bad: impl Fn(usize) -> bool,
) -> Option<f64> {
    let setup = setup(clean, 2.0);
    let mut search = Bisection::new(truth.n, &setup.model, None);
    let mut failures = 0;
    let mut current = Some(truth.n);
    let mut runs = 0.0;
    while failures < 5 {
        let failed = chance.uniform() < truth.p;
        failures += u64::from(failed);
        search.observe_run(truth.n, failed);
    }
    while runs < 5000.0 {
        let costs = Costs {
            switch: 2.0,
            current,
            ..Costs::RUNS
        };
        let query = search.choose_query(&StopConditions::with_check(0.05), &costs)?;
        let rate = if bad(query.version) { truth.p } else { truth.q };
        search.observe_run(query.version, chance.uniform() < rate);
        current = Some(query.version);
        runs += 1.0;
        if search.find_contradiction().is_some() {
            return Some(runs);
        }
    }
    None
}
