//! The arrivals of a trial, found by point and by thread.

use std::ops::Range;

use super::input::{Arrival, PathPoint, PathTrial};
use super::number_hash::{NumberMap, NumberSet};

/// The evidence of a trial: its arrivals without those at ignored points. A moment is an index of an arrival.
#[derive(Debug)]
pub(super) struct TrialIndex {
    arrivals: Vec<Arrival>,
    /// For each arrival, the next one of its thread.
    next: Vec<Option<u32>>,
    /// The moments, sorted by point.
    sorted: Vec<u32>,
    /// For each point, the end of its moments in `sorted`.
    ends: Vec<u32>,
}

/// The time between consecutive arrivals of a thread.
#[derive(Debug, Clone, Copy)]
pub(super) struct Window {
    pub(super) thread: u32,
    pub(super) from: u32,
    pub(super) to: u32,
}

impl TrialIndex {
    pub(super) fn new(points: &[PathPoint], trial: &PathTrial) -> Self {
        let is_evidence = |arrival: &&Arrival| {
            points
                .get(index(arrival.point))
                .is_some_and(|point| !point.is_ignored)
        };
        let arrivals: Vec<Arrival> = trial.arrivals.iter().filter(is_evidence).copied().collect();
        let mut next = vec![None; arrivals.len()];
        let mut last: NumberMap<u32, usize> = NumberMap::default();
        let mut ends = vec![0_u32; points.len()];
        for (moment, arrival) in (0_u32..).zip(&arrivals) {
            if let Some(before) = last.insert(arrival.thread, index(moment)) {
                next[before] = Some(moment);
            }
            ends[index(arrival.point)] += 1;
        }
        let mut end = 0;
        for count in &mut ends {
            end += *count;
            *count = end;
        }
        let mut sorted: Vec<u32> = (0_u32..).take(arrivals.len()).collect();
        sorted.sort_by_key(|moment| arrivals[index(*moment)].point);
        Self {
            arrivals,
            next,
            sorted,
            ends,
        }
    }

    /// Returns the number of arrivals.
    pub(super) fn len(&self) -> usize {
        self.arrivals.len()
    }

    /// Returns the arrivals.
    pub(super) fn arrivals(&self) -> &[Arrival] {
        &self.arrivals
    }

    /// Returns the arrival at a moment.
    pub(super) fn at(&self, moment: u32) -> Arrival {
        self.arrivals[index(moment)]
    }

    /// Returns the moments of the arrivals at a point.
    pub(super) fn moments(&self, point: u32) -> &[u32] {
        let point = index(point);
        let Some(&end) = self.ends.get(point) else {
            return &[];
        };
        let begin = if point == 0 { 0 } else { self.ends[point - 1] };
        &self.sorted[index(begin)..index(end)]
    }

    /// Returns the first moment at which a thread was at a point.
    pub(super) fn first_of_thread(&self, thread: u32, point: u32) -> Option<u32> {
        let mut moments = self.moments(point).iter().copied();
        moments.find(|moment| self.at(*moment).thread == thread)
    }

    /// Returns the moments of a point within a range.
    pub(super) fn moments_within(&self, point: u32, range: &Range<u32>) -> &[u32] {
        let moments = self.moments(point);
        let begin = moments.partition_point(|moment| *moment < range.start);
        let end = moments.partition_point(|moment| *moment < range.end);
        &moments[begin..end]
    }

    /// Returns the window that begins at a moment.
    pub(super) fn window(&self, from: u32) -> Option<Window> {
        let to = self.next[index(from)]?;
        let thread = self.at(from).thread;
        Some(Window { thread, from, to })
    }

    /// Returns the windows between two points, in the order of their begin.
    pub(super) fn windows(&self, from: u32, to: u32) -> impl Iterator<Item = Window> {
        let begins = self.moments(from).iter();
        begins
            .filter_map(|moment| self.window(*moment))
            .filter(move |window| self.at(window.to).point == to)
    }

    /// Returns the first arrivals of each thread at each point, in the order of time.
    pub(super) fn first_arrivals(&self) -> Vec<Arrival> {
        let mut seen = NumberSet::default();
        let arrivals = self.arrivals.iter().copied();
        arrivals
            .filter(|arrival| seen.insert((arrival.thread, arrival.point)))
            .collect()
    }
}

/// Returns a stored number as an index.
pub(super) fn index(number: u32) -> usize {
    usize::try_from(number).expect("an index of 32 bits")
}
