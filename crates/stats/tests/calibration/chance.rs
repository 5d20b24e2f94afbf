//! Exact binomial weights and a seeded random source.

use provoke_stats as stats;
use rand::{Rng as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;

/// Returns the rates of the exact tests: 0.001, then every 0.002 up to 0.5.
pub(super) fn rates() -> impl Iterator<Item = f64> {
    std::iter::once(0.001).chain((1..=250).map(|i| f64::from(i) * 0.002))
}

/// Returns the probabilities of 0..=n failures in `n` runs. They are computed from the ratio of neighbours outward from
/// the largest, without a gamma function.
pub(super) fn binomial(n: u32, p: f64) -> Vec<f64> {
    let size = n as usize + 1;
    if p <= 0.0 || p >= 1.0 {
        let mut weights = vec![0.0; size];
        weights[if p <= 0.0 { 0 } else { size - 1 }] = 1.0;
        return weights;
    }
    let odds = p / (1.0 - p);
    let mode = (0..=n)
        .rfind(|&k| k == 0 || f64::from(n - k + 1) / f64::from(k) * odds >= 1.0)
        .unwrap_or(0);
    let mut weights = vec![0.0; size];
    weights[mode as usize] = 1.0;
    for k in mode + 1..=n {
        let ratio = f64::from(n - k + 1) / f64::from(k) * odds;
        weights[k as usize] = weights[k as usize - 1] * ratio;
    }
    for k in (0..mode).rev() {
        let ratio = f64::from(k + 1) / (f64::from(n - k) * odds);
        weights[k as usize] = weights[k as usize + 1] * ratio;
    }
    let total: f64 = weights.iter().sum();
    weights.into_iter().map(|weight| weight / total).collect()
}

/// Returns the probabilities that the `k`-th failure comes at run k, k+1, ... until less than 1e-12
/// is left.
pub(super) fn negative_binomial(k: u32, p: f64) -> Vec<(u32, f64)> {
    let mut weight = p.powi(i32::try_from(k).expect("a few failures"));
    let mut total = 0.0;
    let mut weights = Vec::new();
    let mut n = k;
    while 1.0 - total > 1e-12 && n < 100_000 {
        weights.push((n, weight));
        total += weight;
        weight *= f64::from(n) / f64::from(n - k + 1) * (1.0 - p);
        n += 1;
    }
    weights
}

/// A seeded random source.
pub(super) struct Chance(Pcg64Mcg);

impl Chance {
    pub(super) fn new(seed: u64) -> Self {
        Self(Pcg64Mcg::seed_from_u64(seed))
    }

    /// Returns a uniform number in [0, 1).
    pub(super) fn uniform(&mut self) -> f64 {
        f64::from(self.0.next_u32()) / 4_294_967_296.0
    }

    pub(super) fn fails(&mut self, p: f64) -> bool {
        self.uniform() < p
    }

    /// Returns the number of the first failing run.
    pub(super) fn first_failure(&mut self, p: f64) -> u64 {
        let runs = (-self.uniform()).ln_1p() / (-p).ln_1p();
        stats::whole(runs.floor()) + 1
    }

    /// Returns the number of runs until this many have failed.
    pub(super) fn runs_until_failures(&mut self, failures: u64, p: f64) -> u64 {
        (0..failures).map(|_| self.first_failure(p)).sum()
    }

    /// Returns the failures in a batch of `n` runs whose rate is Beta distributed around `p` with
    /// this intraclass correlation.
    pub(super) fn clumped(&mut self, n: u32, p: f64, icc: f64) -> u32 {
        (0..n)
            .fold((0, 0), |(run, failures), _| {
                let failed = self.fails(urn(run, failures, p, icc));
                (run + 1, failures + u32::from(failed))
            })
            .1
    }

    /// Returns the number of passing runs of such a batch before its first failure.
    pub(super) fn clumped_clean(&mut self, n: u32, p: f64, icc: f64) -> u32 {
        (0..n)
            .take_while(|&run| !self.fails(urn(run, 0, p, icc)))
            .map(|_| 1)
            .sum()
    }
}

/// Returns the rate of the next run of a batch, drawn by Polya's urn.
fn urn(run: u32, failures: u32, p: f64, icc: f64) -> f64 {
    let weight = if icc > 0.0 { (1.0 - icc) / icc } else { 1e12 };
    (p * weight + f64::from(failures)) / (weight + f64::from(run))
}

/// Returns the share of `hits` in `trials` and two standard errors of a share whose true value is `nominal`.
pub(super) fn share(hits: u32, trials: u32, nominal: f64) -> (f64, f64) {
    let trials = f64::from(trials);
    (
        f64::from(hits) / trials,
        2.0 * (nominal * (1.0 - nominal) / trials).sqrt(),
    )
}
