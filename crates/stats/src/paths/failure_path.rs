//! Finds where failing trials begin to fail, by the calls that had not returned at the end of their threads.

use std::collections::HashMap;

use super::index::{TrialIndex, index};
use super::input::{PathPoint, PathTrial, PointKind};
use super::result::FailurePath;

/// Part of the passing trials that may reach a point of the failure's path.
const MAX_PASSING: usize = 10;
/// Part of the passing trials that reach a usual point.
const USUAL: usize = 2;
/// Number of arrivals at usual points that may follow: the failure may clean up.
const MAX_FOLLOWING: usize = 4;
/// Part of the arrivals of the thread that may be such arrivals.
const MAX_FOLLOWING_PART: usize = 10;

/// Where each trial begins to fail.
#[derive(Debug)]
pub(super) struct FailurePaths {
    /// For each trial, the point and the moment.
    begins: Vec<Option<(u32, u32)>>,
}

impl FailurePaths {
    /// Finds the first point of each failing trial whose call did not return, which passing trials do not reach, and behind
    /// which hardly a point follows that passing trials reach as well.
    pub(super) fn new(trials: &[&PathTrial], indices: &[TrialIndex]) -> Self {
        let passing: Vec<&TrialIndex> = trials
            .iter()
            .zip(indices)
            .filter_map(|(trial, index)| (!trial.failed).then_some(index))
            .collect();
        let mut counts: HashMap<u32, usize> = HashMap::new();
        let mut passing_count = |point: u32| {
            let reached = passing
                .iter()
                .filter(|trial| !trial.moments(point).is_empty());
            *counts.entry(point).or_insert_with(|| reached.count())
        };
        let begins = trials.iter().zip(indices).map(|(trial, arrivals)| {
            let active = trial
                .ends
                .iter()
                .flat_map(|end| end.active.iter().map(|point| (end.thread, *point)));
            let mut begins: Vec<(u32, u32)> = active
                .filter(|_| trial.failed)
                .filter(|(_, point)| MAX_PASSING * passing_count(*point) <= passing.len())
                .filter_map(|(thread, point)| {
                    let mut moments = arrivals.moments(point).iter().rev();
                    let moment = *moments.find(|moment| arrivals.at(**moment).thread == thread)?;
                    Some((moment, point))
                })
                .collect();
            begins.sort_unstable();
            let mut begins = begins.into_iter();
            begins.find_map(|(moment, point)| {
                let thread = arrivals.at(moment).thread;
                let of_thread = arrivals
                    .arrivals()
                    .iter()
                    .filter(|arrival| arrival.thread == thread)
                    .count();
                let behind = arrivals.arrivals()[index(moment) + 1..].iter();
                let following = behind
                    .filter(|arrival| arrival.thread == thread)
                    .filter(|arrival| USUAL * passing_count(arrival.point) >= passing.len())
                    .count();
                let is_begin = following <= MAX_FOLLOWING.max(of_thread / MAX_FOLLOWING_PART);
                is_begin.then_some((point, moment))
            })
        });
        Self {
            begins: begins.collect(),
        }
    }

    /// Returns whether something in a trial happened after it began to fail.
    pub(super) fn is_after(&self, trial: usize, moment: u32) -> bool {
        self.begins[trial].is_some_and(|(_, begin)| moment >= begin)
    }

    /// Returns the point at which most failing trials begin to fail.
    pub(super) fn most_frequent(
        &self,
        points: &[PathPoint],
        indices: &[TrialIndex],
    ) -> Option<FailurePath> {
        let mut counts: HashMap<u32, u64> = HashMap::new();
        for (point, _) in self.begins.iter().flatten() {
            *counts.entry(*point).or_default() += 1;
        }
        let (point, trials) = counts
            .into_iter()
            .max_by_key(|(point, count)| (*count, std::cmp::Reverse(*point)))?;
        let mut begins = self.begins.iter().zip(indices);
        let callee = begins.find_map(|(begin, arrivals)| {
            let (begin_point, moment) = (*begin)?;
            let next = arrivals.window(moment)?.to;
            let next_point = arrivals.at(next).point;
            let is_entry = points[index(next_point)].kind == PointKind::Entry;
            (begin_point == point && is_entry).then_some(next_point)
        });
        Some(FailurePath {
            point,
            trials,
            callee,
        })
    }
}
