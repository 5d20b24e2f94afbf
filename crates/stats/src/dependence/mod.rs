//! Tests whether failures clump in batches, which makes an interval too narrow.
//!
//! A batch is a set of runs that share something: one machine, one start of a server, one minute. If the failure rate
//! differs between batches, a hundred runs carry less information than a hundred independent ones, and every interval
//! in this crate is too narrow. [`Batches`] takes the counts. [`Batches::measure_dependence`] returns how strong the clumping
//! is, how likely it is by chance, and by which factor ([`Dependence::design_effect`]) the counts should be divided.
//!
//! The statistic is the chi-square of homogeneity: the sum over batches of (f - n p)^2 / (n p (1-p)), p being the
//! pooled rate. Its p-value is conditional on the total number of failures: if runs are exchangeable, every
//! distribution of the failures over the runs is equally likely. Three files compute the p-value:
//!
//! * `enumerate`: all distributions, if there are few;
//! * `permute`: random distributions with a fixed seed, stopped as soon as the p-value is clearly large;
//! * `approximate`: a Gamma distribution with the exact mean and a close variance, for counts too large to permute.
//!
//! Trials that run one at a time have no batches: [`find_clumps`] tests their order instead.

mod approximate;
mod clumps;
mod enumerate;
mod permute;

use std::collections::BTreeMap;

use super::convert::real;

pub use clumps::{Clumps, find_clumps, span_p_value};

#[cfg(test)]
mod tests;

/// Counts per batch: the number of batches with each pair of runs and failures.
///
/// A million trials in batches of eight take at most 45 entries, so this can be kept for any run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Batches {
    counts: BTreeMap<(u32, u32), u64>,
}

/// Clumping of the same trials in two respects: among parallel trials, and in their order.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Clumping {
    /// Clumping among parallel trials, if there were any.
    pub batches: Option<Dependence>,
    /// Clumping in the order of the trials.
    pub order: Option<Clumps>,
}

impl Clumping {
    /// Probability of any warning if trials are independent, shared by the two tests.
    const LEVEL: f64 = 0.01;

    fn warning_level(&self) -> f64 {
        Self::LEVEL / if self.batches.is_some() { 2.0 } else { 1.0 }
    }

    /// Returns the clumping among parallel trials, if it should be reported.
    pub fn in_batches(&self) -> Option<Dependence> {
        self.batches
            .filter(|dependence| dependence.warns_at(self.warning_level()))
    }

    /// Returns the clumping in the order of the trials, if it should be reported.
    pub fn in_order(&self) -> Option<Clumps> {
        self.order
            .filter(|clumps| clumps.p_value <= self.warning_level())
    }

    /// Returns how many trials are worth one independent trial: 1 without a warning.
    pub fn design_effect(&self) -> f64 {
        let batches = self
            .in_batches()
            .map_or(1.0, |dependence| dependence.design_effect);
        let order = self.in_order().map_or(1.0, |clumps| clumps.design_effect);
        batches.max(order)
    }
}

/// How the p-value of a [`Dependence`] was computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// All distributions of the failures were enumerated.
    Exact,
    /// Random distributions were drawn.
    Permutation {
        /// Number of draws; fewer than 2000 if the answer was clear before.
        draws: u32,
    },
    /// A Gamma law was fitted by its first two moments.
    Approximate,
}

/// How strongly failures clump in batches.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Dependence {
    /// Number of batches.
    pub batches: u64,
    /// Number of runs in the batches.
    pub runs: u64,
    /// Number of failures among the runs.
    pub failures: u64,
    /// The chi-square of homogeneity; about `batches - 1` if runs are independent.
    pub statistic: f64,
    /// The probability of a statistic at least this large if runs are exchangeable.
    ///
    /// Permutation never gives less than 1/2001; an approximate 0 means too small to compute.
    pub p_value: f64,
    /// How the p-value was computed.
    pub method: Method,
    /// The intraclass correlation: 0 for independent runs, 1 if a batch fails as a whole. Chance
    /// can make it negative. `None` if every batch is a single run.
    pub icc: Option<f64>,
    /// How many runs are worth one independent run; never below 1.
    pub design_effect: f64,
}

impl Dependence {
    /// Returns whether the clumping should be reported: p at or below 1 % with at least four batches and three
    /// failures.
    ///
    /// No warning does not prove independence: with fewer than ten small batches the test detects only strong clumping.
    pub fn warns(&self) -> bool {
        self.warns_at(0.01)
    }

    fn warns_at(&self, level: f64) -> bool {
        self.p_value <= level && self.batches >= 4 && self.failures >= 3
    }
}

impl Batches {
    /// Creates an empty collection.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds one batch. A batch without runs is left out.
    pub fn add_batch(&mut self, runs: u32, failures: u32) {
        self.add_batches(runs, failures, 1);
    }

    /// Adds several equal batches. Batches without runs are left out.
    pub fn add_batches(&mut self, runs: u32, failures: u32, count: u64) {
        debug_assert!(failures <= runs, "{failures} failures in {runs} runs");
        if runs > 0 {
            *self.counts.entry((runs, failures.min(runs))).or_insert(0) += count;
        }
    }

    /// Returns the number of batches.
    pub fn batch_count(&self) -> u64 {
        self.counts.values().sum()
    }

    /// Returns the number of runs in all batches.
    pub fn run_count(&self) -> u64 {
        self.sum_of(|runs, _| u64::from(runs))
    }

    /// Returns the number of failures in all batches.
    pub fn failure_count(&self) -> u64 {
        self.sum_of(|_, failures| u64::from(failures))
    }

    /// Measures the clumping.
    ///
    /// Returns `None` if there is nothing to measure: fewer than two batches, or all outcomes equal.
    pub fn measure_dependence(&self) -> Option<Dependence> {
        let (batches, runs, failures) =
            (self.batch_count(), self.run_count(), self.failure_count());
        if batches < 2 || failures == 0 || failures == runs {
            return None;
        }
        let rate = real(failures) / real(runs);
        let statistic = self.real_sum_of(|n, f| {
            let surplus = f - n * rate;
            surplus * surplus / (n * rate * (1.0 - rate))
        });
        let (p_value, method) = self.p_value(statistic);
        let (icc, design_effect) = self.intraclass_correlation(rate);
        Some(Dependence {
            batches,
            runs,
            failures,
            statistic,
            p_value,
            method,
            icc,
            design_effect,
        })
    }

    /// Computes the p-value by the most exact method that is fast enough.
    fn p_value(&self, statistic: f64) -> (f64, Method) {
        let sizes = self.batch_sizes();
        let failures = self.failure_count();
        // The square sum orders distributions as the statistic does, and is cheaper to update.
        let square_sum = self.real_sum_of(|n, f| f * f / n);
        if let Some(p_value) = enumerate::p_value(&sizes, failures, square_sum) {
            return (p_value, Method::Exact);
        }
        if let Some(urn) = permute::Urn::new(&sizes, failures) {
            // The passes may be distributed instead, if they are fewer: their square sum differs by runs - 2 failures.
            let (p_value, draws) = urn.p_value(square_sum);
            return (p_value, Method::Permutation { draws });
        }
        let p_value = approximate::p_value(&sizes, failures, statistic);
        (p_value, Method::Approximate)
    }

    /// Returns the intraclass correlation by analysis of variance, and the design effect.
    ///
    /// With mean squares between (B) and within (W) batches and n' the typical batch size
    /// (N - sum n^2 / N)/(batches - 1): rho = (B-W)/(B+(n'-1)W), design effect = 1+(n'-1) rho.
    fn intraclass_correlation(&self, rate: f64) -> (Option<f64>, f64) {
        let batches = real(self.batch_count());
        let runs = real(self.run_count());
        if runs <= batches {
            return (None, 1.0);
        }
        let between = self.real_sum_of(|n, f| n * (f / n - rate).powi(2)) / (batches - 1.0);
        let within = self.real_sum_of(|n, f| f * (1.0 - f / n)) / (runs - batches);
        let typical = (runs - self.real_sum_of(|n, _| n * n) / runs) / (batches - 1.0);
        let icc = (between - within) / (between + (typical - 1.0) * within);
        (Some(icc), 1.0 + (typical - 1.0) * icc.max(0.0))
    }

    /// Returns the batch sizes, ascending, each with the number of batches that have it.
    fn batch_sizes(&self) -> Vec<(u64, u64)> {
        let mut sizes: Vec<(u64, u64)> = Vec::new();
        for (&(runs, _), &count) in &self.counts {
            match sizes.last_mut() {
                Some((size, batches)) if *size == u64::from(runs) => *batches += count,
                _ => sizes.push((u64::from(runs), count)),
            }
        }
        sizes
    }

    fn sum_of(&self, value: impl Fn(u32, u32) -> u64) -> u64 {
        self.counts
            .iter()
            .map(|(&(runs, failures), &count)| count * value(runs, failures))
            .sum()
    }

    fn real_sum_of(&self, value: impl Fn(f64, f64) -> f64) -> f64 {
        self.counts
            .iter()
            .map(|(&(runs, failures), &count)| {
                real(count) * value(f64::from(runs), f64::from(failures))
            })
            .sum()
    }
}

impl Extend<(u32, u32)> for Batches {
    fn extend<T: IntoIterator<Item = (u32, u32)>>(&mut self, batches: T) {
        for (runs, failures) in batches {
            self.add_batch(runs, failures);
        }
    }
}

impl FromIterator<(u32, u32)> for Batches {
    fn from_iter<T: IntoIterator<Item = (u32, u32)>>(batches: T) -> Self {
        let mut collected = Self::new();
        collected.extend(batches);
        collected
    }
}

/// Returns whether a distribution is at least as uneven as the observed one, with a tolerance for rounding of sums in
/// different order.
fn is_at_least_as_uneven(square_sum: f64, observed: f64) -> bool {
    square_sum >= observed * (1.0 - 1e-11)
}
