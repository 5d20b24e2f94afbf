//! What to run in several slots at once.
//!
//! The outcomes of runs in flight are unknown, so a few worlds are imagined in each of which they
//! have one, drawn from what is known. A slot goes to the version that tells most about the culprit on
//! average over the worlds, then each world draws its outcome too. This spreads the slots over several
//! versions as long as that is worth more than many runs of one.

use std::ops::Range;

use super::posterior::{Bisection, Rows, dot, sum};
use super::query::{LITTLE, NOTHING, Outlook};
use super::stop::{Lacks, Stop};

const WORLDS: u64 = 4;
/// Cells with less probability than this are not carried into the worlds.
const IMPROBABLE: f64 = 1e-6;
/// Halvings of a range of shares: enough for the version next to the best.
const HALVINGS: u32 = 24;

/// Where runs can go.
#[derive(Debug, Clone, Copy)]
pub struct Slots<'a> {
    /// How many are free.
    pub free: usize,
    /// The versions of the runs whose outcome is not known yet.
    pub in_flight: &'a [usize],
    /// Versions that need not be built, in any order.
    pub built: &'a [usize],
    /// How many others may be chosen.
    pub builds: usize,
    /// The same seed and the same runs give the same choice.
    pub seed: u64,
}

/// Returns a number in [0, 1) that depends on nothing but these.
fn drawn(seed: u64, world: u64, slot: u64) -> f64 {
    let mut x = seed ^ (world << 48) ^ slot.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    for _ in 0..2 {
        x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^= x >> 31;
    }
    super::super::convert::real(x >> 11) / 9_007_199_254_740_992.0
}

impl Bisection {
    /// Returns the versions to run in the free slots; fewer if no run can tell more.
    pub fn choose_batch(&self, stop: &Stop, slots: &Slots) -> Vec<usize> {
        let mut chosen = Vec::new();
        let cells = match self.lacks(stop) {
            Lacks::Nothing(_) => return chosen,
            Lacks::Mass => 0..self.rows.width(),
            Lacks::MassInside(class) => class,
            Lacks::Runs { version, about } => {
                let under_way = slots.in_flight.iter().filter(|v| **v == version).count();
                let wanted = usize::try_from(about).unwrap_or(usize::MAX);
                let wanted = wanted.saturating_sub(under_way).min(slots.free);
                chosen.resize(wanted, version);
                0..self.rows.width()
            }
        };
        let mut worlds = Worlds::new(self, cells, slots.seed);
        for &version in slots.in_flight.iter().chain(&chosen) {
            worlds.imagine(version);
        }
        let mut built = slots.built.to_vec();
        let mut builds = slots.builds;
        while chosen.len() < slots.free {
            let among = (builds == 0).then_some(&built[..]);
            let Some(version) = worlds.best(among) else {
                break;
            };
            worlds.imagine(version);
            if !built.contains(&version) {
                built.push(version);
                builds -= 1;
            }
            chosen.push(version);
        }
        chosen
    }
}

struct Worlds<'a> {
    search: &'a Bisection,
    rows: Vec<Rows>,
    outlooks: Vec<Outlook>,
    seed: u64,
    imagined: u64,
}

impl<'a> Worlds<'a> {
    fn new(search: &'a Bisection, cells: Range<usize>, seed: u64) -> Self {
        let masses = search.cell_masses();
        let total: f64 = masses[cells.clone()].iter().sum();
        let kept: Vec<usize> = cells.filter(|&i| masses[i] >= IMPROBABLE * total).collect();
        let rows = search.rows.only(&kept);
        Self {
            search,
            rows: vec![rows; usize::try_from(WORLDS).unwrap_or(1)],
            outlooks: Vec::new(),
            seed,
            imagined: 0,
        }
    }

    fn look(&mut self) {
        let outlook = |rows: &Rows| Outlook::new(rows, &self.search.before, &(0..rows.width()), 1);
        self.outlooks = self.rows.iter().map(outlook).collect();
    }

    /// Returns the segment of a version and the share of its prior at or below it.
    fn place(&self, version: usize) -> (usize, f64) {
        let rows = &self.rows[0];
        let segment = rows.segment_of(version);
        let hypotheses = rows.hypotheses(segment);
        let all = self.search.weight(&hypotheses);
        let below = self.search.weight(&(hypotheses.start..version + 1));
        let share = if all > 0.0 { below / all } else { 1.0 };
        (segment, share)
    }

    /// Gives a run of the version an outcome in each world.
    fn imagine(&mut self, version: usize) {
        let (at, share) = self.place(version);
        for (i, rows) in (0..).zip(&mut self.rows) {
            let grid = &rows.grid;
            let (mut all, mut fails) = (0.0, 0.0);
            for segment in 0..rows.segments() {
                let prior = self.search.weight(&rows.hypotheses(segment));
                let row = rows.row(segment);
                all += prior * sum(row);
                if segment <= at {
                    let share = if segment == at { share } else { 1.0 };
                    fails += prior * share * dot(row, grid.bad_rates());
                }
                if segment >= at {
                    let share = if segment == at { 1.0 - share } else { 1.0 };
                    fails += prior * share * dot(row, grid.good_rates());
                }
            }
            let failed = drawn(self.seed, i, self.imagined) * all < fails;
            rows.observe(version, failed);
            rows.refresh();
        }
        self.imagined += 1;
    }

    fn gain(&self, version: usize) -> f64 {
        let (segment, share) = self.place(version);
        let gains = self.outlooks.iter();
        gains
            .map(|outlook| outlook.inside(segment, 0).gain(share))
            .sum()
    }

    /// Returns the version that tells most on average.
    fn best(&mut self, among: Option<&[usize]>) -> Option<usize> {
        self.look();
        let this = &*self;
        let mut best = (NOTHING, None);
        let mut offer = |version: usize| {
            let gain = this.gain(version);
            let lower = best.1.is_some_and(|other| version < other);
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
        let rows = &this.rows[0];
        let mut most = 0.0;
        for segment in 0..rows.segments() {
            let hypotheses = rows.hypotheses(segment);
            let end = hypotheses.end - 1;
            if end <= this.search.newest && testable(&end) {
                most = offer(end);
            }
            if let Some(share) = this.peak(segment, most) {
                let near = this.search.next_to(&hypotheses, share);
                for version in near.into_iter().flatten() {
                    most = offer(version);
                }
            }
        }
        best.1
    }

    /// Returns at which share of a segment's prior the gain is largest, unless it is nowhere above
    /// what was found.
    fn peak(&self, segment: usize, found: f64) -> Option<f64> {
        if self
            .outlooks
            .iter()
            .all(|outlook| outlook.mass(segment) < LITTLE)
        {
            return None;
        }
        let sum = |of: &dyn Fn(&Outlook) -> f64| -> f64 { self.outlooks.iter().map(of).sum() };
        let gain = |share: f64| sum(&|outlook| outlook.inside(segment, 0).gain(share));
        let slope = |share: f64| sum(&|outlook| outlook.inside(segment, 0).slope(share));
        let (rise, fall) = (slope(0.0), -slope(1.0));
        if fall <= 0.0 {
            return Some(1.0);
        }
        if rise <= 0.0 {
            return Some(0.0);
        }
        // The gain is concave: it lies below both its tangents at the ends.
        let (first, last) = (gain(0.0), gain(1.0));
        let crossing = (last + fall - first) / (rise + fall);
        if first + rise * crossing <= found {
            return None;
        }
        let (mut low, mut high) = (0.0, 1.0);
        for _ in 0..HALVINGS {
            let middle = f64::midpoint(low, high);
            if slope(middle) > 0.0 {
                low = middle;
            } else {
                high = middle;
            }
        }
        Some(low)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Model;
    use super::*;

    fn slots(free: usize, builds: usize) -> Slots<'static> {
        Slots {
            free,
            in_flight: &[],
            built: &[64],
            builds,
            seed: 7,
        }
    }

    #[test]
    fn slots_spread_over_versions_and_the_same_seed_gives_the_same_choice() {
        let mut search = Bisection::new(64, &Model::default(), None);
        search.observe_many(64, 10, 10);
        let stop = Stop::at(0.05);
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
        let mut search = Bisection::new(64, &Model::default(), None);
        search.observe_many(64, 5, 10);
        let mut chosen = search.choose_batch(&Stop::at(0.05), &slots(16, 2));
        assert_eq!(chosen.len(), 16);
        chosen.sort_unstable();
        chosen.dedup();
        chosen.retain(|version| *version != 64);
        assert_eq!(chosen.len(), 2, "{chosen:?}");
    }
}
