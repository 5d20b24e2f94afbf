//! Chooses the version to run next: the most information for its cost.
//!
//! A query is a version and a block of m runs of which only "none failed" or "some failed" is used. The block sets the
//! horizon of the cost: a switch to another version is worth it for many runs, not for one. After each real run the
//! choice is made again.
//!
//! The information is that of the outcome about the culprit: h(F) minus the mean of h(F given the culprit), where h is
//! the entropy of a Bernoulli variable and F the probability of a failure in the block. Within a segment both parts are
//! linear in the share x of the segment's prior at or below the version, so that the whole is concave in x and its
//! maximum is known in closed form: the versions without runs need not be enumerated.

use std::ops::Range;

use super::super::convert::real;
use super::grid::{BLOCKS, Blocks};
use super::posterior::{Bisection, SegmentLikelihoods};
use super::sums::{sum_in_parts, sums_of_products};

/// Costs of a query, in any unit.
#[derive(Debug, Clone, Copy)]
pub struct Costs<'a> {
    /// Cost of a run.
    pub run: f64,
    /// Cost of a switch to another version than `current`.
    pub switch: f64,
    /// Cost of building a version that is not among `built`.
    pub build: f64,
    pub current: Option<usize>,
    pub built: &'a [usize],
}

impl Costs<'_> {
    /// Costs if only runs cost anything.
    pub const RUNS: Self = Costs {
        run: 1.0,
        switch: 0.0,
        build: 0.0,
        current: None,
        built: &[],
    };

    fn cost_of_block(&self, version: usize, block: f64) -> f64 {
        let mut cost = block * self.run;
        if self.current != Some(version) {
            cost += self.switch;
            if self.build > 0.0 && !self.built.contains(&version) {
                cost += self.build;
            }
        }
        cost
    }
}

/// The next version to run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Query {
    pub version: usize,
    /// The number of runs for which the cost was calculated.
    pub block: u64,
    /// The information of such a block about the culprit, in nats.
    pub gain: f64,
}

/// Gains that differ by less than this share are equal.
const TIE: f64 = 1e-9;
/// A segment with less mass than this is not searched for the best query.
pub(super) const LITTLE: f64 = 1e-6;
/// A gain below this is a rounding error.
pub(super) const NOTHING: f64 = 1e-13;

fn x_ln_x(x: f64) -> f64 {
    if x > 0.0 { x * x.ln() } else { 0.0 }
}

/// Returns the entropy of a Bernoulli variable with probability `part` of `whole`, times the whole.
pub(in super::super) fn coin_entropy(part: f64, whole: f64) -> f64 {
    if whole <= 0.0 {
        return 0.0;
    }
    let part = part.clamp(0.0, whole);
    x_ln_x(whole) - x_ln_x(part) - x_ln_x(whole - part)
}

/// A probability of failure summed over hypotheses, and the sum of the entropies given each of them.
#[derive(Debug, Clone, Copy, Default)]
struct EntropySum {
    fails: f64,
    noise: f64,
}

impl EntropySum {
    fn new(fails: f64, mass: f64) -> Self {
        Self {
            fails,
            noise: coin_entropy(fails, mass),
        }
    }

    fn plus_times(self, other: Self, times: f64) -> Self {
        Self {
            fails: self.fails + times * other.fails,
            noise: self.noise + times * other.noise,
        }
    }

    fn information_gain(self) -> f64 {
        coin_entropy(self.fails, 1.0) - self.noise
    }
}

/// The expected outcomes of a version in a segment, by block.
struct ExpectedOutcomes<const BLOCKS: usize> {
    mass: f64,
    bad: [EntropySum; BLOCKS],
    good: [EntropySum; BLOCKS],
}

/// The gain of blocks of one length inside a segment, as a function of the share of the segment's
/// prior at or below the version.
#[derive(Clone, Copy)]
pub(super) struct SegmentGain {
    /// At share 0, without this segment.
    rest: EntropySum,
    bad: EntropySum,
    good: EntropySum,
}

impl SegmentGain {
    pub(super) fn gain_at(&self, share: f64) -> f64 {
        self.rest
            .plus_times(self.bad, share)
            .plus_times(self.good, 1.0 - share)
            .information_gain()
    }

    /// Returns the probability of a failure.
    fn failure_chance(&self, share: f64) -> f64 {
        self.rest
            .plus_times(self.bad, share)
            .plus_times(self.good, 1.0 - share)
            .fails
    }

    /// Returns the derivative of the gain with respect to the share.
    pub(super) fn slope_at(&self, share: f64) -> f64 {
        let fails = self.failure_chance(share);
        let noise = self.bad.noise - self.good.noise;
        (self.bad.fails - self.good.fails) * ((1.0 - fails) / fails).ln() - noise
    }

    /// Returns the share with the largest gain.
    fn best_share(&self) -> f64 {
        let fails = self.bad.fails - self.good.fails;
        if fails.abs() < f64::MIN_POSITIVE {
            return 0.0;
        }
        let odds = ((self.bad.noise - self.good.noise) / fails).exp();
        let base = self.rest.fails + self.good.fails;
        ((1.0 / (1.0 + odds) - base) / fails).clamp(0.0, 1.0)
    }
}

/// The gains of all queries.
pub(super) struct QueryGains {
    blocks: usize,
    inside: Vec<SegmentGain>,
    mass: Vec<f64>,
}

impl QueryGains {
    /// Returns the gains of blocks of all lengths by the cells of a range.
    pub(super) fn new(rows: &SegmentLikelihoods, before: &[f64], cells: &Range<usize>) -> Self {
        let grid = &rows.grid;
        let bad = &grid.bad_blocks()[cells.clone()];
        let good = &grid.good_blocks()[cells.clone()];
        let segments = (0..rows.segment_count()).map(|s| {
            let row = &rows.segment_row(s)[cells.clone()];
            (
                sum_in_parts(row),
                failing_parts(row, bad),
                failing_parts(row, good),
            )
        });
        Self::of_segments(&segments.collect::<Vec<_>>(), rows, before)
    }

    /// Returns the gains of single runs by all cells.
    pub(super) fn of_runs(rows: &SegmentLikelihoods, before: &[f64]) -> Self {
        let (bad, good) = (rows.grid.bad_rates(), rows.grid.good_rates());
        let segments = (0..rows.segment_count()).map(|s| {
            let [mass, bad, good] = sums_of_products(rows.segment_row(s), bad, good);
            (mass, [bad], [good])
        });
        Self::of_segments(&segments.collect::<Vec<_>>(), rows, before)
    }

    /// Returns the gains from the sums of each segment's row: its mass, and its failures by block if the version is
    /// bad, and if it is good.
    fn of_segments<const BLOCKS: usize>(
        segments: &[(f64, [f64; BLOCKS], [f64; BLOCKS])],
        rows: &SegmentLikelihoods,
        before: &[f64],
    ) -> Self {
        let blocks = BLOCKS;
        let prior = |s: usize| {
            let hypotheses = rows.segment_hypotheses(s);
            before[hypotheses.end] - before[hypotheses.start]
        };
        let priors: Vec<f64> = (0..segments.len()).map(prior).collect();
        let masses = priors.iter().zip(segments);
        let total: f64 = masses.map(|(prior, segment)| prior * segment.0).sum();
        let expected: Vec<ExpectedOutcomes<BLOCKS>> = priors
            .iter()
            .zip(segments)
            .map(|(prior, segment)| {
                let (prior, mass) = (prior / total, prior * segment.0 / total);
                let sums =
                    |fails: &[f64; BLOCKS]| fails.map(|fails| EntropySum::new(prior * fails, mass));
                ExpectedOutcomes {
                    mass,
                    bad: sums(&segment.1),
                    good: sums(&segment.2),
                }
            })
            .collect();
        let mut sums_above = vec![EntropySum::default(); blocks];
        for segment in &expected {
            for (sum, good) in sums_above.iter_mut().zip(&segment.good) {
                *sum = sum.plus_times(*good, 1.0);
            }
        }
        let mut outlook = Self {
            blocks,
            inside: Vec::with_capacity(expected.len() * blocks),
            mass: expected.iter().map(|segment| segment.mass).collect(),
        };
        let mut sums_below = vec![EntropySum::default(); blocks];
        for segment in &expected {
            for (sum_above, good) in sums_above.iter_mut().zip(&segment.good) {
                *sum_above = sum_above.plus_times(*good, -1.0);
            }
            for b in 0..blocks {
                outlook.inside.push(SegmentGain {
                    rest: sums_below[b].plus_times(sums_above[b], 1.0),
                    bad: segment.bad[b],
                    good: segment.good[b],
                });
                sums_below[b] = sums_below[b].plus_times(segment.bad[b], 1.0);
            }
        }
        outlook
    }

    pub(super) fn inside_of(&self, segment: usize, block: usize) -> &SegmentGain {
        &self.inside[segment * self.blocks + block]
    }

    pub(super) fn mass_of(&self, segment: usize) -> f64 {
        self.mass[segment]
    }
}

/// Returns the failing part of each block, summed over the cells of a row.
fn failing_parts(row: &[f64], table: &[Blocks]) -> Blocks {
    let mut sums = [0.0; BLOCKS.len()];
    for (value, fails) in row.iter().zip(table) {
        for (sum, fails) in sums.iter_mut().zip(fails) {
            *sum += value * fails;
        }
    }
    sums
}

impl Bisection {
    /// Returns the information of a block about the culprit, in nats; `block` is an index into
    /// the powers of two from 1 to 256.
    pub fn information_gain(&self, version: usize, block: usize) -> f64 {
        let cells = 0..self.rows.cell_count();
        let outlook = QueryGains::new(&self.rows, &self.masses_before, &cells);
        let segment = self.rows.segment_of(version);
        let share = self.prior_share(segment, version);
        outlook.inside_of(segment, block).gain_at(share)
    }

    /// Returns the share of a segment's prior at or below a version in it.
    pub(super) fn prior_share(&self, segment: usize, version: usize) -> f64 {
        let hypotheses = self.rows.segment_hypotheses(segment);
        let weight = self.prior_weight(&hypotheses);
        if weight <= 0.0 {
            return 1.0;
        }
        self.prior_weight(&(hypotheses.start..version + 1)) / weight
    }

    /// Returns the testable versions next to this share of the prior of some hypotheses: one at or below it, and one
    /// above.
    pub(super) fn next_to(&self, hypotheses: &Range<usize>, share: f64) -> [Option<usize>; 2] {
        let versions = hypotheses.start..hypotheses.end.min(self.newest + 1);
        let wanted_sum =
            self.masses_before[hypotheses.start] + share * self.prior_weight(hypotheses);
        let sums = &self.masses_before[versions.start + 1..=versions.end];
        let above = versions.start + sums.partition_point(|&sum| sum < wanted_sum);
        let testable = |version: &usize| !self.untestable.contains(version);
        [
            (versions.start..above.min(versions.end))
                .rev()
                .find(testable),
            (above..versions.end).find(testable),
        ]
    }

    /// Returns the best query by these cells.
    pub(super) fn best_query(&self, costs: &Costs, cells: &Range<usize>) -> Option<Query> {
        let outlook = QueryGains::new(&self.rows, &self.masses_before, cells);
        let mut best = BestQuery::default();
        let special = costs
            .current
            .iter()
            .chain(costs.built)
            .filter(|v| **v <= self.newest && !self.untestable.contains(v));
        for &version in special {
            let segment = self.rows.segment_of(version);
            let share = self.prior_share(segment, version);
            for b in 0..BLOCKS.len() {
                best.offer_query(
                    version,
                    b,
                    outlook.inside_of(segment, b).gain_at(share),
                    costs,
                );
            }
        }
        for segment in 0..self.rows.segment_count() {
            let little = outlook.mass[segment] < LITTLE;
            for b in 0..BLOCKS.len() {
                let inside = outlook.inside_of(segment, b);
                let share = if little { 1.0 } else { inside.best_share() };
                let hypotheses = self.rows.segment_hypotheses(segment);
                for version in self.next_to(&hypotheses, share).into_iter().flatten() {
                    let gain = inside.gain_at(self.prior_share(segment, version));
                    best.offer_query(version, b, gain, costs);
                }
            }
        }
        best.query
    }
}

/// The best query so far; of equal ones, that of the lowest version.
#[derive(Default)]
struct BestQuery {
    score: f64,
    query: Option<Query>,
}

impl BestQuery {
    fn offer_query(&mut self, version: usize, block: usize, gain: f64, costs: &Costs) {
        if gain < NOTHING {
            return;
        }
        let m = BLOCKS[block];
        let score = gain / costs.cost_of_block(version, real(m));
        let lower = self.query.is_some_and(|query| version < query.version);
        if score > self.score * (1.0 + TIE) || (lower && score >= self.score * (1.0 - TIE)) {
            self.score = score;
            self.query = Some(Query {
                version,
                block: m,
                gain,
            });
        }
    }
}
