//! Measures searches with several concurrent runs: rounds and runs.

use provoke_stats::search::{BatchOptions, Bisection};

use super::bisect::{cell, is_found, setup};
use super::chance::{means, share};

/// All slots are filled again when all runs of the round have ended.
pub(crate) fn rounds(trials: u64) {
    for (clean, p) in [
        (false, 1.0),
        (false, 0.5),
        (false, 0.1),
        (true, 0.5),
        (true, 0.1),
    ] {
        for free in [1, 4, 16, 64] {
            let truth = cell(64, p, 0.0);
            let setup = setup(clean, 0.0);
            let [rounds, runs, wrong] = means(0, trials, |chance| {
                let culprit = 1 + chance.below(truth.n);
                let mut search = Bisection::new(truth.n, &setup.model, None);
                let (failures, baseline) = chance.baseline(p);
                search.observe_many(truth.n, failures, baseline);
                let (mut rounds, mut runs) = (0, 0);
                loop {
                    let slots = BatchOptions {
                        free,
                        in_flight: &[],
                        built: &[],
                        builds: usize::MAX,
                        seed: rounds,
                    };
                    let chosen = search.choose_batch(&setup.stop, &slots);
                    if chosen.is_empty() {
                        break;
                    }
                    rounds += 1;
                    runs += chosen.len();
                    for version in chosen {
                        search.observe_run(version, chance.fails(truth.rate(version, culprit)));
                    }
                }
                let wrong = share(!is_found(&search, &setup.stop, culprit));
                [rounds as f64, runs as f64, wrong]
            });
            println!(
                "clean {clean:<5} p {p:<4} at once {free:>2}: rounds {rounds:>6.1} runs {runs:>6.1} err {wrong:.3} ({trials} trials)"
            );
        }
    }
}
