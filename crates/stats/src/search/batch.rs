//! Chooses runs for several slots at once.
//!
//! The outcomes of runs in flight are unknown, so several worlds are simulated, each with a culprit and rates drawn
//! from the posterior, and outcomes of these runs. Each slot runs the version with the most information about the
//! culprit, averaged over the worlds; then this run gets an outcome in each world, too. This spreads the slots over
//! several versions as long as that is worth more than many runs of one.

use std::ops::Range;

use super::super::{convert::real, special::bisect};
use super::posterior::{Bisection, SegmentLikelihoods};
use super::query::{LITTLE, NOTHING, QueryGains};
use super::stop::{MissingEvidence, StopConditions};
use super::sums::sum_in_parts;

const WORLDS: u64 = 4;
/// Cells with less probability than this are left out of the worlds.
const IMPROBABLE: f64 = 1e-6;
/// Number of outcomes that are multiplied before the products are rescaled to prevent underflow.
const TOGETHER: usize = 32;
/// Length at which a range of shares is short enough for the version next to the best.
const EXACT_ENOUGH: f64 = 1e-7;

/// The slots and versions to choose from.
#[derive(Debug, Clone, Copy)]
pub struct BatchOptions<'a> {
    /// Number of free slots.
    pub free: usize,
    /// The versions of the runs in flight.
    pub in_flight: &'a [usize],
    /// Versions that are built already, in any order.
    pub built: &'a [usize],
    /// How many other versions may be chosen.
    pub builds: usize,
    /// Seed: with the same runs it gives the same choice.
    pub seed: u64,
}

/// Returns a number in [0, 1) that depends on the arguments alone.
pub(super) fn draw_uniform(seed: u64, world: u64, slot: u64) -> f64 {
    let mut x = seed ^ (world << 48) ^ slot.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    for _ in 0..2 {
        x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^= x >> 31;
    }
    real(x >> 11) / 9_007_199_254_740_992.0
}

impl Bisection {
    /// Returns the versions to run in the free slots; fewer if no run gives more information.
    pub fn choose_batch(&self, stop: &StopConditions, slots: &BatchOptions) -> Vec<usize> {
        let mut chosen = Vec::new();
        let cells = match self.what_lacks(stop) {
            MissingEvidence::Nothing => return chosen,
            MissingEvidence::Mass => 0..self.rows.cell_count(),
            MissingEvidence::MassInside(class) => class,
            MissingEvidence::Runs { version, about } => {
                let under_way = slots.in_flight.iter().filter(|v| **v == version).count();
                let wanted_trials = usize::try_from(about)
                    .unwrap_or(usize::MAX)
                    .saturating_sub(under_way)
                    .min(slots.free);
                chosen.resize(wanted_trials, version);
                0..self.rows.cell_count()
            }
        };
        let mut worlds = SimulatedCulprits::new(self, cells, slots.seed);
        worlds.imagine_runs(slots.in_flight);
        worlds.imagine_runs(&chosen);
        let mut built = slots.built.to_vec();
        let mut builds = slots.builds;
        while chosen.len() < slots.free {
            let among = (builds == 0).then_some(&built[..]);
            let Some(version) = worlds.best_version(among) else {
                break;
            };
            worlds.imagine_runs(&[version]);
            if !built.contains(&version) {
                built.push(version);
                builds -= 1;
            }
            chosen.push(version);
        }
        chosen
    }
}

/// A possible culprit with possible rates, and the posterior after its simulated outcomes.
struct SimulatedCulprit {
    culprit: usize,
    p: f64,
    q: f64,
    rows: SegmentLikelihoods,
}

struct SimulatedCulprits<'a> {
    search: &'a Bisection,
    culprits: Vec<SimulatedCulprit>,
    outlooks: Vec<QueryGains>,
    seed: u64,
    imagined: u64,
}

impl<'a> SimulatedCulprits<'a> {
    fn new(search: &'a Bisection, cells: Range<usize>, seed: u64) -> Self {
        let masses = search.cell_masses();
        let total: f64 = masses[cells.clone()].iter().sum();
        let kept_cells: Vec<usize> = cells.filter(|&i| masses[i] >= IMPROBABLE * total).collect();
        let rows = search.rows.only_cells(&kept_cells);
        let culprits = (0..WORLDS).map(|i| SimulatedCulprit::new(search, &rows, i, seed));
        Self {
            search,
            culprits: culprits.collect(),
            outlooks: Vec::new(),
            seed,
            imagined: 0,
        }
    }

    fn update_outlooks(&mut self) {
        let masses_before = &self.search.masses_before;
        let outlook = |world: &SimulatedCulprit| QueryGains::of_runs(&world.rows, masses_before);
        self.outlooks = self.culprits.iter().map(outlook).collect();
    }

    /// Returns the rows that all worlds share: the versions that divide the segments.
    fn common_rows(&self) -> &SegmentLikelihoods {
        &self.culprits[0].rows
    }

    /// Returns the segment of a version and the share of its prior at or below it.
    fn segment_and_share(&self, version: usize) -> (usize, f64) {
        let rows = self.common_rows();
        let segment = rows.segment_of(version);
        let hypotheses = rows.segment_hypotheses(segment);
        let weight = self.search.prior_weight(&hypotheses);
        let weight_below = self.search.prior_weight(&(hypotheses.start..version + 1));
        let share = if weight > 0.0 {
            weight_below / weight
        } else {
            1.0
        };
        (segment, share)
    }

    /// Simulates an outcome in each world for runs of these versions.
    fn imagine_runs(&mut self, versions: &[usize]) {
        for versions in versions.chunks(TOGETHER) {
            for (i, world) in (0..).zip(&mut self.culprits) {
                let runs = (self.imagined..).zip(versions).map(|(run, &version)| {
                    let bad = version >= world.culprit;
                    let rate = if bad { world.p } else { world.q };
                    (version, draw_uniform(self.seed, i, run) < rate)
                });
                let runs: Vec<(usize, bool)> = runs.collect();
                world.rows.observe_all(&runs);
                world.rows.refresh_scale();
            }
            self.imagined += versions.len() as u64;
        }
    }

    fn mean_gain(&self, version: usize) -> f64 {
        let (segment, share) = self.segment_and_share(version);
        let gains = self.outlooks.iter();
        gains
            .map(|outlook| outlook.inside_of(segment, 0).gain_at(share))
            .sum()
    }

    /// Returns the version with the most information on average.
    fn best_version(&mut self, among: Option<&[usize]>) -> Option<usize> {
        self.update_outlooks();
        let this = &*self;
        let mut best = (NOTHING, None);
        let mut offer = |version: usize| {
            let gain = this.mean_gain(version);
            let lower = best.1.is_some_and(|best_version| version < best_version);
            if gain > best.0 * (1.0 + 1e-9) || (lower && gain >= best.0 * (1.0 - 1e-9)) {
                best = (gain, Some(version));
            }
            best.0
        };
        let testable = |version: &usize| !this.search.untestable.contains(version);
        if let Some(among) = among {
            for &version in among.iter().filter(|version| testable(version)) {
                offer(version);
            }
            return best.1;
        }
        let rows = this.common_rows();
        let mut max_share = 0.0;
        for segment in 0..rows.segment_count() {
            let hypotheses = rows.segment_hypotheses(segment);
            let end = hypotheses.end - 1;
            if end <= this.search.newest && testable(&end) {
                max_share = offer(end);
            }
            if let Some(share) = this.peak_share(segment, max_share) {
                let near = this.search.next_to(&hypotheses, share);
                for version in near.into_iter().flatten() {
                    max_share = offer(version);
                }
            }
        }
        best.1
    }

    /// Returns the share of a segment's prior at which the gain is largest, unless the gain is nowhere above
    /// `gain_found`.
    fn peak_share(&self, segment: usize, gain_found: f64) -> Option<f64> {
        if self
            .outlooks
            .iter()
            .all(|outlook| outlook.mass_of(segment) < LITTLE)
        {
            return None;
        }
        let sum = |gain_of: &dyn Fn(&QueryGains) -> f64| -> f64 {
            self.outlooks.iter().map(gain_of).sum()
        };
        let gain = |share: f64| sum(&|outlook| outlook.inside_of(segment, 0).gain_at(share));
        let slope = |share: f64| sum(&|outlook| outlook.inside_of(segment, 0).slope_at(share));
        let (rise, fall) = (slope(0.0), -slope(1.0));
        if fall <= 0.0 {
            return Some(1.0);
        }
        if rise <= 0.0 {
            return Some(0.0);
        }
        // The gain is concave: it is below both its tangents at the ends.
        let (first, last) = (gain(0.0), gain(1.0));
        let crossing = (last + fall - first) / (rise + fall);
        if first + rise * crossing <= gain_found {
            return None;
        }
        let is_wide = |low: f64, high: f64| high - low > EXACT_ENOUGH;
        Some(bisect(0.0, 1.0, is_wide, |share| slope(share) <= 0.0).0)
    }
}

impl SimulatedCulprit {
    fn new(search: &Bisection, rows: &SegmentLikelihoods, i: u64, seed: u64) -> Self {
        let of_segment = |s: usize| {
            search.prior_weight(&rows.segment_hypotheses(s)) * sum_in_parts(rows.segment_row(s))
        };
        let masses = (0..rows.segment_count()).map(of_segment);
        // Stratified sampling: each world has its own share of the probability.
        let share = (real(i) + draw_uniform(seed, i, u64::MAX)) / real(WORLDS);
        let segment = place_at_share(masses, share);
        let hypotheses = rows.segment_hypotheses(segment);
        let offset = draw_uniform(seed, i, u64::MAX - 1) * search.prior_weight(&hypotheses);
        let sums = &search.masses_before[hypotheses.start + 1..=hypotheses.end];
        let reached = search.masses_before[hypotheses.start] + offset;
        let culprit = hypotheses.start + sums.partition_point(|&sum| sum <= reached);
        let row = rows.segment_row(segment).iter().copied();
        let cell = place_at_share(row, draw_uniform(seed, i, u64::MAX - 2));
        Self {
            culprit,
            p: rows.grid.bad_rates()[cell],
            q: rows.grid.good_rates()[cell],
            rows: rows.clone(),
        }
    }
}

/// Returns the first index at which the cumulated weights reach this share of the total.
fn place_at_share(weights: impl Iterator<Item = f64> + Clone, share: f64) -> usize {
    let mut remaining = share * weights.clone().sum::<f64>();
    let mut last = 0;
    for (i, weight) in weights.enumerate().filter(|(_, weight)| *weight > 0.0) {
        remaining -= weight;
        last = i;
        if remaining < 0.0 {
            break;
        }
    }
    last
}

#[cfg(test)]
mod tests {
    use super::super::SearchPrior;
    use super::*;

    fn slots(free: usize, builds: usize) -> BatchOptions<'static> {
        BatchOptions {
            free,
            in_flight: &[],
            built: &[64],
            builds,
            seed: 7,
        }
    }

    #[test]
    fn slots_get_different_versions_chosen_by_the_seed() {
        let mut search = Bisection::new(64, &SearchPrior::default(), None);
        search.observe_many(64, 10, 10);
        let stop = StopConditions::at_delta(0.05);
        let chosen = search.choose_batch(&stop, &slots(8, usize::MAX));
        assert_eq!(chosen, search.choose_batch(&stop, &slots(8, usize::MAX)));
        let mut versions = chosen.clone();
        versions.sort_unstable();
        versions.dedup();
        assert_eq!(chosen.len(), 8);
        assert!(versions.len() >= 6, "{chosen:?}");
    }

    #[test]
    fn no_more_versions_are_chosen_than_can_be_built() {
        let mut search = Bisection::new(64, &SearchPrior::default(), None);
        search.observe_many(64, 5, 10);
        let mut chosen = search.choose_batch(&StopConditions::at_delta(0.05), &slots(16, 2));
        assert_eq!(chosen.len(), 16);
        chosen.sort_unstable();
        chosen.dedup();
        chosen.retain(|version| *version != 64);
        assert_eq!(chosen.len(), 2, "{chosen:?}");
    }
}
