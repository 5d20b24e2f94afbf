//! Measures searches with weights for the culprits, right and wrong ones.

use provoke_stats::search::hedge_weights;

use super::bisect::{cell, searched, setup};
use super::chance::{Chance, means};

/// Returns weights that vary like the sizes of commits: the logarithm is normal, with this standard deviation.
fn heavy_tailed(n: usize, deviation: f64, chance: &mut Chance) -> Vec<f64> {
    let mut normal = || (0..12).map(|_| chance.uniform()).sum::<f64>() - 6.0;
    (0..n).map(|_| (deviation * normal()).exp()).collect()
}

/// Measures weights by the stacks of an earlier run: a tenth of the commits change a file of the stack. The culprit is
/// one of these in four of five searches, or, if the stack does not point to it, in one of ten.
pub(crate) fn stacks(trials: u64) {
    for (n, p, q, clean) in [
        (64, 0.5, 0.0, true),
        (64, 0.1, 0.0, true),
        (64, 0.5, 0.01, false),
        (1024, 0.1, 0.0, true),
    ] {
        let (truth, setup) = (cell(n, p, q), setup(clean, 0.0));
        let one = |share: Option<f64>| {
            let [runs, wrong, ..] = means(0, trials, |chance| {
                let changes: Vec<bool> = (0..n).map(|_| chance.fails(0.1)).collect();
                let on_the_stack = chance.fails(share.unwrap_or(0.1));
                let first = loop {
                    let first = chance.below(n);
                    let none = changes.iter().all(|change| *change != on_the_stack);
                    if changes[first] == on_the_stack || none {
                        break first;
                    }
                };
                let weights = changes
                    .iter()
                    .map(|change| if *change { 36.0 } else { 1.0 });
                let weights = hedge_weights(&weights.collect::<Vec<f64>>());
                let weights = share.map(|_| weights.as_slice());
                searched(&truth, &setup, weights, 1 + first, chance)
            });
            format!("{runs:>6.1} {wrong:.3}")
        };
        println!(
            "clean {clean:<5} n {n:>4} p {p:<3} q {q:<4}: even weights {}; by the stack, right {}, wrong {} ({trials} trials)",
            one(None),
            one(Some(0.8)),
            one(Some(0.1)),
        );
    }
}

pub(crate) fn weights(trials: u64) {
    for (n, p, q, clean) in [
        (64, 1.0, 0.0, true),
        (64, 0.5, 0.0, true),
        (64, 0.1, 0.0, true),
        (64, 0.5, 0.01, false),
        (1024, 0.5, 0.0, true),
    ] {
        for deviation in [1.0, 2.0, 3.0] {
            let (truth, setup) = (cell(n, p, q), setup(clean, 0.0));
            let one = |right: bool, told: fn(&[f64]) -> Option<Vec<f64>>| {
                let [runs, wrong, ..] = means(0, trials, |chance| {
                    let weights = heavy_tailed(n, deviation, chance);
                    let drawn = if right {
                        chance.drawn(&weights)
                    } else {
                        chance.below(n)
                    };
                    let weights = told(&weights);
                    searched(&truth, &setup, weights.as_deref(), 1 + drawn, chance)
                });
                format!("{runs:>6.1} {wrong:.3}")
            };
            let trusted = |weights: &[f64]| Some(weights.to_vec());
            let half = |weights: &[f64]| Some(hedge_weights(weights));
            println!(
                "clean {clean:<5} n {n:>4} p {p:<3} q {q:<4} deviation {deviation}: even weights {}; right, trusted {}, hedged {}; wrong, trusted {}, hedged {} ({trials} trials)",
                one(true, |_| None),
                one(true, trusted),
                one(true, half),
                one(false, trusted),
                one(false, half),
            );
        }
    }
}
