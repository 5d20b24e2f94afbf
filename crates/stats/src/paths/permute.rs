//! Tests groups of statements against the chance that one of them is as uneven: Westfall and Young's smallest p-values, step by step.

use std::collections::HashMap;

use rand::SeedableRng as _;
use rand::seq::SliceRandom as _;
use rand_pcg::Pcg64Mcg;

use super::trial_set::TrialSet;
use crate::convert::real;

/// Number of permutations: the smallest adjusted p-value is 1/2000.
const DRAWS: u64 = 1999;
/// Number of permutations at least as uneven as the best statement after which nothing can be significant.
const HITS: u64 = 120;
/// A fixed seed, so that the answer is the same on every machine.
const SEED: u64 = 0x0070_6174_6873;
/// Two p-values count as equal if they differ by at most this share, which rounding may cause.
const TIE: f64 = 1e-9;

/// The outcomes of trials, and the blocks of time in which they can be exchanged.
#[derive(Debug)]
pub(super) struct Labels {
    failed: Vec<bool>,
    blocks: Vec<Vec<usize>>,
    /// For each number of trials in which a statement is true, and of failing ones among them, the p-value.
    p_values: Vec<Vec<f64>>,
}

impl Labels {
    /// Takes the outcome and the block of each trial.
    pub(super) fn new(trials: &[(bool, u32)]) -> Self {
        let mut blocks: HashMap<u32, Vec<usize>> = HashMap::new();
        for (trial, (_, block)) in trials.iter().enumerate() {
            blocks.entry(*block).or_default().push(trial);
        }
        let mut blocks: Vec<Vec<usize>> = blocks.into_values().collect();
        blocks.sort_unstable();
        let failed: Vec<bool> = trials.iter().map(|(failed, _)| *failed).collect();
        let failing = failed.iter().filter(|failed| **failed).count();
        Self {
            p_values: one_sided_p_values(failing, failed.len()),
            failed,
            blocks,
        }
    }

    /// Returns the set of failing trials.
    pub(super) fn failing(&self) -> TrialSet {
        TrialSet::new(self.failed.iter().copied())
    }

    /// Returns the p-value of a statement that is true in so many trials, of which so many failed.
    pub(super) fn p_value(&self, trues: usize, failing: usize) -> f64 {
        self.p_values[trues][failing]
    }

    /// Returns whether any outcome could make a statement significant that is true in so many trials.
    pub(super) fn is_testable(&self, trues: usize, error: f64) -> bool {
        let smallest = self.p_values[trues].iter().copied().fold(1.0, f64::min);
        smallest <= error
    }

    /// Returns the smallest number of trials in which a statement must be true to be significant; `None` if none suffices.
    pub(super) fn least_testable(&self, error: f64) -> Option<usize> {
        (0..self.p_values.len()).find(|trues| self.is_testable(*trues, error))
    }

    /// Returns the adjusted p-values of p-values that belong to some of these sets.
    ///
    /// An adjusted p-value is the share of permutations of the outcomes, within the blocks, in which the smallest p-value of
    /// the set and of those with larger p-values is at most as large. Sets with smaller ones do not count: where outcomes are
    /// exchanged among few trials, a set of nearly all failing trials has a small p-value in many permutations.
    pub(super) fn adjust(&self, p_values: &[f64], sets: &[TrialSet]) -> Vec<f64> {
        let mut random = Pcg64Mcg::seed_from_u64(SEED);
        let mut failed = self.failed.clone();
        let sizes: Vec<usize> = sets.iter().map(TrialSet::len).collect();
        let mut order: Vec<usize> = (0..p_values.len()).collect();
        order.sort_by(|a, b| p_values[*a].total_cmp(&p_values[*b]));
        // For each set in this order, the number of permutations with as small a p-value.
        let mut extreme = vec![0_u64; order.len()];
        let mut draws = 0;
        while draws < DRAWS && extreme.first().is_some_and(|hits| *hits < HITS) {
            self.shuffle(&mut failed, &mut random);
            let drawn = TrialSet::new(failed.iter().copied());
            let mut smallest: f64 = 1.0;
            for (count, number) in extreme.iter_mut().zip(&order).rev() {
                let common = sets[*number].count_common(&drawn);
                smallest = smallest.min(self.p_value(sizes[*number], common));
                *count += u64::from(smallest <= p_values[*number] * (1.0 + TIE));
            }
            draws += 1;
        }
        let mut adjusted = vec![1.0; order.len()];
        let mut largest: f64 = 0.0;
        for (count, number) in extreme.into_iter().zip(order) {
            largest = largest.max((real(count) + 1.0) / (real(draws) + 1.0));
            adjusted[number] = largest;
        }
        adjusted
    }

    /// Permutes outcomes within the blocks.
    fn shuffle(&self, failed: &mut [bool], random: &mut Pcg64Mcg) {
        for block in &self.blocks {
            let mut of_block: Vec<bool> = block.iter().map(|trial| failed[*trial]).collect();
            of_block.shuffle(random);
            for (trial, outcome) in block.iter().zip(of_block) {
                failed[*trial] = outcome;
            }
        }
    }
}

/// Returns Fisher's one-sided p-values for all tables with so many failing trials of so many: for each number of trials
/// in which a statement is true, and of failing ones among them.
fn one_sided_p_values(failing: usize, trials: usize) -> Vec<Vec<f64>> {
    let passing = trials - failing;
    let mut ln_factorials = vec![0.0];
    for number in 1..=trials {
        ln_factorials.push(ln_factorials[number - 1] + real(number as u64).ln());
    }
    let ln_choose = |all: usize, chosen: usize| {
        ln_factorials[all] - ln_factorials[chosen] - ln_factorials[all - chosen]
    };
    (0..=trials)
        .map(|trues| {
            let mut p_values = vec![1.0; trues.min(failing) + 1];
            let mut p = 0.0;
            for of_failing in (trues.saturating_sub(passing)..p_values.len()).rev() {
                let ln_ways =
                    ln_choose(failing, of_failing) + ln_choose(passing, trues - of_failing);
                p += (ln_ways - ln_choose(trials, trues)).exp();
                p_values[of_failing] = p.min(1.0);
            }
            p_values
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p_values_are_those_of_fishers_test() {
        for (failing, trials) in [(5, 25), (20, 100), (7, 7), (0, 3)] {
            let p_values = one_sided_p_values(failing, trials);
            for (trues, of_failing) in p_values.iter().enumerate() {
                for (count, p) in of_failing.iter().enumerate() {
                    let passing = trials - failing;
                    if trues - count > passing {
                        continue;
                    }
                    let [k1, n1, k2, n2] =
                        [count, failing, trues - count, passing].map(|count| count as u64);
                    let expected = crate::fisher(k1, n1, k2, n2).greater;
                    assert!(
                        (p / expected - 1.0).abs() < 1e-9,
                        "{count}/{failing} of {trues}"
                    );
                }
            }
        }
    }
}
