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
/// Number of arrivals at usual points behind the last statement of a trial: the function ends.
const MAX_LAST: usize = 2;
/// Part of the arrivals of the thread that may be such arrivals.
const MAX_FOLLOWING_PART: usize = 10;

/// Where each trial begins to fail, and how trials end.
#[derive(Debug)]
pub(super) struct FailurePaths {
    /// For each point, whether many passing trials reach it.
    is_usual: Vec<bool>,
    /// For each trial, the point and the moment.
    begins: Vec<Option<(u32, u32)>>,
}

impl FailurePaths {
    /// Finds the first point of each failing trial whose call did not return, which passing trials do not reach, and behind
    /// which hardly a point follows that passing trials reach as well.
    pub(super) fn new(points: u32, trials: &[&PathTrial], indices: &[TrialIndex]) -> Self {
        let of_passing = trials
            .iter()
            .zip(indices)
            .filter(|(trial, _)| !trial.failed);
        let passing: Vec<&TrialIndex> = of_passing.map(|(_, index)| index).collect();
        let counts = (0..points).map(|point| {
            let reached = passing
                .iter()
                .filter(|trial| !trial.moments(point).is_empty());
            reached.count()
        });
        let counts: Vec<usize> = counts.collect();
        let mut paths = Self {
            is_usual: counts
                .iter()
                .map(|count| USUAL * count >= passing.len())
                .collect(),
            begins: Vec::new(),
        };
        let is_unusual = |point: u32| {
            let count = counts.get(index(point));
            count.is_some_and(|count| MAX_PASSING * count <= passing.len())
        };
        let begins = trials.iter().zip(indices).map(|(trial, arrivals)| {
            if trial.failed {
                paths.begin_of_failure(trial, arrivals, is_unusual)
            } else {
                None
            }
        });
        paths.begins = begins.collect();
        paths
    }

    /// Returns the point and the moment at which a trial begins to fail.
    fn begin_of_failure(
        &self,
        trial: &PathTrial,
        arrivals: &TrialIndex,
        is_unusual: impl Fn(u32) -> bool,
    ) -> Option<(u32, u32)> {
        let active = trial
            .ends
            .iter()
            .flat_map(|end| end.active.iter().map(|point| (end.thread, *point)));
        let unusual = active.filter(|(_, point)| is_unusual(*point));
        let last_moments = unusual.filter_map(|(thread, point)| {
            let mut moments = arrivals.moments(point).iter().rev();
            let moment = *moments.find(|moment| arrivals.at(**moment).thread == thread)?;
            Some((moment, point))
        });
        let mut begins: Vec<(u32, u32)> = last_moments.collect();
        begins.sort_unstable();
        let is_begin = |moment: u32| {
            let thread = arrivals.at(moment).thread;
            let of_thread = arrivals
                .arrivals()
                .iter()
                .filter(|arrival| arrival.thread == thread)
                .count();
            self.count_usual_after(arrivals, moment)
                <= MAX_FOLLOWING.max(of_thread / MAX_FOLLOWING_PART)
        };
        let begin = begins.into_iter().find(|(moment, _)| is_begin(*moment));
        begin.map(|(moment, point)| (point, moment))
    }

    /// Returns the number of arrivals at usual points of the thread that was at a point at a moment.
    fn count_usual_after(&self, arrivals: &TrialIndex, moment: u32) -> usize {
        let thread = arrivals.at(moment).thread;
        let behind = arrivals.arrivals()[index(moment) + 1..].iter();
        let of_thread = behind.filter(|arrival| arrival.thread == thread);
        of_thread
            .filter(|arrival| self.is_usual[index(arrival.point)])
            .count()
    }

    /// Returns whether a thread reached hardly anything usual after a moment: it may only have told that the trial has failed.
    pub(super) fn is_last(&self, arrivals: &TrialIndex, moment: u32) -> bool {
        self.count_usual_after(arrivals, moment) <= MAX_LAST
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
