//! Finds the points before and behind a point, by which its absence is known.

use std::collections::BTreeSet;

use super::index::TrialIndex;
use super::number_hash::NumberMap;
use super::truth::{Neighbours, PathNeighbours};

/// Number of trials, spread evenly over those that reached the point, that show what follows it.
const SAMPLES: usize = 8;
/// Number of first arrivals before the point that may lead to it.
const NEAR_BEFORE: usize = 12;
/// Number of first arrivals behind the point that may follow it.
const NEAR_BEHIND: usize = 48;

/// The first arrivals of a trial, by thread.
#[derive(Default)]
struct FirstArrivals {
    /// For each thread, its points in the order of the first arrivals.
    points: NumberMap<u32, Vec<u32>>,
    /// For each thread and point, the index there.
    ranks: NumberMap<(u32, u32), usize>,
    /// For each point, the thread that reached it first.
    threads: NumberMap<u32, u32>,
}

/// Returns the neighbours of each point that some trials reached and others did not.
///
/// A point follows if the thread that reached the first point first, in each sample in which it reached both, reached it
/// later, and if these are more than half of the samples; likewise, a point leads to it. The choice does not depend on
/// which trials failed.
pub(super) fn find_neighbours(trials: &[TrialIndex], points: u32) -> PathNeighbours {
    let mut neighbours = PathNeighbours::default();
    let mut first_arrivals: NumberMap<usize, FirstArrivals> = NumberMap::default();
    for point in 0..points {
        let is_reached = |trial: &usize| !trials[*trial].moments(point).is_empty();
        let reached: Vec<usize> = (0..trials.len()).filter(is_reached).collect();
        if reached.is_empty() || reached.len() == trials.len() {
            continue;
        }
        let step = reached.len().div_ceil(SAMPLES);
        let samples: Vec<usize> = reached.into_iter().step_by(step).collect();
        for sample in &samples {
            let of_sample = first_arrivals.entry(*sample);
            of_sample.or_insert_with(|| FirstArrivals::new(&trials[*sample]));
        }
        let samples: Vec<&FirstArrivals> =
            samples.iter().map(|trial| &first_arrivals[trial]).collect();
        neighbours.insert(point, common_neighbours(point, &samples));
    }
    neighbours
}

/// Returns the common neighbours of a point in samples.
fn common_neighbours(point: u32, samples: &[&FirstArrivals]) -> Neighbours {
    let is_common = |other: &u32, is_behind: bool| {
        let orders = samples
            .iter()
            .filter_map(|sample| sample.is_later(point, *other));
        let (same, opposite): (Vec<bool>, Vec<bool>) =
            orders.partition(|is_later| *is_later == is_behind);
        opposite.is_empty() && 2 * same.len() > samples.len()
    };
    let near = |points: fn(&FirstArrivals, u32) -> Vec<u32>, is_behind: bool| {
        let candidates: BTreeSet<u32> = samples
            .iter()
            .flat_map(|sample| points(sample, point))
            .collect();
        candidates
            .into_iter()
            .filter(|other| is_common(other, is_behind))
            .collect()
    };
    Neighbours {
        before: near(FirstArrivals::before, false),
        behind: near(FirstArrivals::behind, true),
    }
}

impl FirstArrivals {
    fn new(trial: &TrialIndex) -> Self {
        let mut first = Self::default();
        for arrival in trial.first_arrivals() {
            let of_thread = first.points.entry(arrival.thread).or_default();
            first
                .ranks
                .insert((arrival.thread, arrival.point), of_thread.len());
            of_thread.push(arrival.point);
            first.threads.entry(arrival.point).or_insert(arrival.thread);
        }
        first
    }

    /// Returns the thread that reached a point first, and the index of the point among its points.
    fn rank_of_first(&self, point: u32) -> Option<(u32, usize)> {
        let thread = *self.threads.get(&point)?;
        Some((thread, *self.ranks.get(&(thread, point))?))
    }

    /// Returns the points that the thread reached before a point for the first time, the nearest ones.
    fn before(&self, point: u32) -> Vec<u32> {
        self.rank_of_first(point)
            .map_or_else(Vec::new, |(thread, rank)| {
                self.points[&thread][rank.saturating_sub(NEAR_BEFORE)..rank].to_vec()
            })
    }

    /// Returns the points that the thread reached after a point for the first time, the nearest ones.
    fn behind(&self, point: u32) -> Vec<u32> {
        self.rank_of_first(point)
            .map_or_else(Vec::new, |(thread, rank)| {
                let behind = self.points[&thread][rank + 1..].iter();
                behind.take(NEAR_BEHIND).copied().collect()
            })
    }

    /// Returns whether the thread of a point reached another point later; `None` if it did not reach it.
    fn is_later(&self, point: u32, other: u32) -> Option<bool> {
        let (thread, rank) = self.rank_of_first(point)?;
        let other_rank = self.ranks.get(&(thread, other))?;
        Some(*other_rank > rank)
    }
}
