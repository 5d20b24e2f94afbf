//! Seeded random numbers, and means over many seeds.

use std::thread;

use rand::{Rng as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;

pub(crate) struct Chance(Pcg64Mcg);

impl Chance {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Pcg64Mcg::seed_from_u64(seed))
    }

    pub(crate) fn uniform(&mut self) -> f64 {
        f64::from(self.0.next_u32()) / 4_294_967_296.0
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.uniform() * n as f64) as usize
    }

    pub(crate) fn fails(&mut self, rate: f64) -> bool {
        self.uniform() < rate
    }

    /// Returns an index drawn by weight.
    pub(crate) fn drawn(&mut self, weights: &[f64]) -> usize {
        let mut left = self.uniform() * weights.iter().sum::<f64>();
        let found = weights.iter().position(|weight| {
            left -= weight;
            left < 0.0
        });
        found.unwrap_or(weights.len() - 1)
    }

    /// Returns `size` items of 0..n, in order.
    pub(crate) fn things(&mut self, n: usize, size: usize) -> Vec<usize> {
        let mut things: Vec<usize> = Vec::new();
        while things.len() < size {
            let thing = self.below(n);
            if !things.contains(&thing) {
                things.push(thing);
            }
        }
        things.sort_unstable();
        things
    }

    /// Returns the failures and the runs of a baseline: five failures, or ten of ten.
    pub(crate) fn baseline(&mut self, rate: f64) -> (u64, u64) {
        let (mut failures, mut runs) = (0, 0);
        while failures < 5 || (failures == runs && runs < 10) {
            runs += 1;
            failures += u64::from(self.fails(rate));
        }
        (failures, runs)
    }
}

/// Returns the mean results of an experiment with the seeds `from`, `from` + 1, ..., on two threads.
pub(crate) fn means<const K: usize>(
    from: u64,
    trials: u64,
    one: impl Fn(&mut Chance) -> [f64; K] + Sync,
) -> [f64; K] {
    let half = |first: u64| {
        let mut sums = [0.0; K];
        for seed in (first..from + trials).step_by(2) {
            for (sum, value) in sums.iter_mut().zip(one(&mut Chance::new(seed))) {
                *sum += value;
            }
        }
        sums
    };
    let halves = thread::scope(|scope| {
        let second = scope.spawn(|| half(from + 1));
        [half(from), second.join().expect("no experiment panics")]
    });
    std::array::from_fn(|i| (halves[0][i] + halves[1][i]) / trials as f64)
}

/// Returns 1 for true and 0 for false.
pub(crate) fn share(is: bool) -> f64 {
    f64::from(u8::from(is))
}
