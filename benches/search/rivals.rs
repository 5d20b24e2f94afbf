//! Measures other rules of bisection, in the same cells.

use super::bisect::{Truth, cell, search, setup};
use super::chance::{Chance, means, share};

/// A fixed test of one version: up to `runs` runs, "bad" after a number of failures, ended as soon as its result is
/// certain.
#[derive(Clone, Copy)]
struct Repeats {
    runs: usize,
    failures: usize,
}

impl Repeats {
    /// Returns the probability of calling a version bad that fails at this rate.
    fn bad(&self, rate: f64) -> f64 {
        let mut counts = vec![0.0; self.failures + 1];
        counts[0] = 1.0;
        for _ in 0..self.runs {
            next(&mut counts, rate);
        }
        counts[self.failures]
    }

    /// Returns the share of wrong bisections of n versions, a power of two: each step tests a good or a bad version
    /// with equal probability.
    fn wrong(&self, truth: &Truth) -> f64 {
        let right = f64::midpoint(self.bad(truth.p), 1.0 - self.bad(truth.q));
        1.0 - right.powf((truth.n as f64).log2())
    }

    /// Returns the mean number of runs of a step.
    fn step(&self, truth: &Truth) -> f64 {
        let one = |rate: f64| {
            let mut counts = vec![0.0; self.failures + 1];
            counts[0] = 1.0;
            let mut mean = 0.0;
            for run in 0..self.runs {
                // Undecided: neither enough failures nor too many passes.
                let possible =
                    |failures: &usize| run - failures.min(&run) <= self.runs - self.failures;
                let open = (0..self.failures.min(run + 1)).filter(possible);
                mean += open.map(|failures| counts[failures]).sum::<f64>();
                next(&mut counts, rate);
            }
            mean
        };
        f64::midpoint(one(truth.p), one(truth.q))
    }

    /// Returns the cheapest test with at most 5 % wrong bisections, which only an oracle knows.
    fn oracle(truth: &Truth) -> Self {
        let most = if truth.q > 0.0 { 30 } else { 1 };
        let fitting = (1..=most).filter_map(|failures| {
            let mut good = vec![0.0; failures + 1];
            let mut bad = good.clone();
            (good[0], bad[0]) = (1.0, 1.0);
            let runs = (1..10_000).find(|_| {
                next(&mut good, truth.q);
                next(&mut bad, truth.p);
                let right = f64::midpoint(bad[failures], 1.0 - good[failures]);
                right.powf((truth.n as f64).log2()) >= 0.95
            })?;
            Some(Self { runs, failures })
        });
        fitting
            .min_by(|a, b| a.step(truth).total_cmp(&b.step(truth)))
            .expect("enough repeats")
    }
}

/// Adds one run; the last count means "this many or more".
fn next(counts: &mut [f64], rate: f64) {
    for failures in (1..counts.len()).rev() {
        let stays = if failures + 1 == counts.len() {
            1.0
        } else {
            1.0 - rate
        };
        counts[failures] = counts[failures] * stays + counts[failures - 1] * rate;
    }
    counts[0] *= 1.0 - rate;
}

/// Runs a classical bisection with this test.
fn repeated(truth: &Truth, test: Repeats, chance: &mut Chance) -> [f64; 2] {
    let culprit = 1 + chance.below(truth.n);
    let (mut good, mut bad, mut runs) = (0, truth.n, 0.0);
    while bad - good > 1 {
        let middle = usize::midpoint(good, bad);
        let rate = truth.rate(middle, culprit);
        let (mut failures, mut passes) = (0, 0);
        while failures < test.failures && passes <= test.runs - test.failures {
            runs += 1.0;
            if chance.fails(rate) {
                failures += 1;
            } else {
                passes += 1;
            }
        }
        if failures == test.failures {
            bad = middle;
        } else {
            good = middle;
        }
    }
    [runs, share(bad != culprit)]
}

/// Shows runs and error of the model of `bisect`, and of plain bisection with repeats that an oracle chooses, which knows
/// both rates.
pub(crate) fn rivals(trials: u64, only: &str) {
    for n in [8, 64, 1024] {
        for q in [0.0, 0.01] {
            for p in [1.0, 0.5, 0.1, 0.03] {
                let truth = cell(n, p, q);
                let name = format!("n {n:>4} p {p:<4} q {q:<4}");
                if !name.contains(only) {
                    continue;
                }
                let test = Repeats::oracle(&truth);
                let [steps, steps_wrong] =
                    means(0, trials, |chance| repeated(&truth, test, chance));
                // A step costs about as many operations as versions were tested.
                let fewer = if n > 64 && p < 0.2 {
                    trials.min(100)
                } else {
                    trials
                };
                let fewer = if q > 0.0 && p < 0.1 {
                    fewer.min(if n > 64 { 20 } else { 100 })
                } else {
                    fewer
                };
                let told = |[runs, wrong, ..]: [f64; 5]| format!("{runs:>7.1} {wrong:.3}");
                let clean = if q > 0.0 {
                    "      -     -".to_owned()
                } else {
                    told(means(0, trials, |chance| {
                        search(&truth, &setup(true, 0.0), chance)
                    }))
                };
                let ours = told(means(0, fewer, |chance| {
                    search(&truth, &setup(false, 0.0), chance)
                }));
                println!(
                    "{name} clean {clean} default {ours} K* {steps:>7.1} {steps_wrong:.3} (exactly {:.3}; {} failures of {}) ({trials}, {fewer} trials)",
                    test.wrong(&truth),
                    test.failures,
                    test.runs,
                );
            }
        }
    }
}
