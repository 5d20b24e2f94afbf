//! Tests the coverage of the intervals that a run reports for each way in which a run ends, with the real loop and
//! failures that take ten times longer than passes.

use crate::loop_and_fold::{begin, exited, hash, plan, run};
use provoke_model::Trial;
use provoke_report::{IntervalBasis, Report};
use provoke_state::State;
use std::time::Duration;

const RUNS: u64 = 200;
/// Maximum number of wrong intervals among [`RUNS`]: 5 % plus two standard errors.
const WRONG_AT_MOST: u64 = 16;

/// Simulates one run with its own random outcomes.
fn simulate_run(rule: &str, rate: f64, seed: u64, interrupt: bool) -> State {
    let (_, mut state) = begin(plan(&format!("{rule}\njobs = 3\nseed = {seed}")));
    let script = move |trial: &Trial| {
        #[expect(clippy::cast_precision_loss, reason = "53 bits")]
        let fails = (hash(seed, trial.id.0) as f64) < rate * (1_u64 << 53) as f64;
        let slow = if fails { 10 } else { 1 };
        (
            Duration::from_millis(10 * slow + hash(seed ^ 3, trial.id.0) % 5),
            exited(i32::from(fails)),
        )
    };
    let pause = Duration::from_millis(20 + hash(seed ^ 9, 0) % 600);
    run(&mut state, script, interrupt.then_some(pause));
    state
}

/// Returns the number of runs whose interval did not contain the true rate, and the kind of interval.
fn count_wrong_intervals(rule: &str, rate: f64, interrupt: bool) -> (u64, IntervalBasis) {
    let mut basis = IntervalBasis::Cp;
    let misses = (1..=RUNS).filter(|seed| {
        let state = simulate_run(rule, rate, seed * 7919, interrupt);
        let found = Report::new(&state, true).variants[0].rate;
        basis = found.basis;
        let [lo, hi] = found.interval();
        !(lo..=hi).contains(&rate)
    });
    (misses.count() as u64, basis)
}

#[test]
fn intervals_have_their_coverage_however_the_run_ends() {
    for rate in [0.05, 0.3] {
        for (rule, interrupt, expected) in [
            ("runs = 30", false, IntervalBasis::Cp),
            ("max-fail = 3", false, IntervalBasis::Cp),
            ("runs = 60\nfail-fast = true", false, IntervalBasis::Cp),
            ("width = 0.45", false, IntervalBasis::Cs),
            ("duration = '400ms'", false, IntervalBasis::Cs),
            ("runs = 1000", true, IntervalBasis::Cs),
        ] {
            let (misses, basis) = count_wrong_intervals(rule, rate, interrupt);
            assert_eq!(basis, expected, "{rule}");
            assert!(
                misses <= WRONG_AT_MOST,
                "{rule} at {rate}: {misses} of {RUNS}"
            );
        }
    }
}
