//! Finds where failing trials begin to fail, by the calls that had not returned at the end of their threads.

use std::collections::HashMap;

use super::index::{TrialIndex, index};
use super::input::{PathPoint, PathTrial, PointKind};
use super::result::{FailurePath, PathStatement};

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
    /// For each trial, where it makes the call that does not return, and since when passing trials have gone another way.
    begins: Vec<Option<FailureBegin>>,
}

/// Where a trial begins to fail.
#[derive(Debug, Clone, Copy)]
struct FailureBegin {
    /// The moment at which it is at the point whose call does not return.
    call: u32,
    /// The moment since which its thread only reaches points that no passing trial reaches; at most `call`. What the system
    /// tells the program at that moment, such as an error of a call, still precedes the failure.
    own_path: u32,
}

impl FailurePaths {
    /// Finds the first point of each failing trial whose call did not return, which passing trials do not reach, and behind
    /// which hardly a point follows that passing trials reach as well.
    pub(super) fn new(points: &[PathPoint], trials: &[&PathTrial], indices: &[TrialIndex]) -> Self {
        let of_passing = trials
            .iter()
            .zip(indices)
            .filter(|(trial, _)| !trial.failed);
        let passing: Vec<&TrialIndex> = of_passing.map(|(_, index)| index).collect();
        let counts = (0_u32..).zip(points).map(|(point, _)| {
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
            let call = if trial.failed {
                paths.call_of_failure(trial, arrivals, is_unusual)?
            } else {
                return None;
            };
            let is_own = |point: u32| counts.get(index(point)) == Some(&0);
            let own_path = begin_of_own_path(points, arrivals, call, is_own);
            Some(FailureBegin { call, own_path })
        });
        paths.begins = begins.collect();
        paths
    }

    /// Returns the moment of the call that did not return.
    fn call_of_failure(
        &self,
        trial: &PathTrial,
        arrivals: &TrialIndex,
        is_unusual: impl Fn(u32) -> bool,
    ) -> Option<u32> {
        let active = trial
            .ends
            .iter()
            .flat_map(|end| end.active.iter().map(|point| (end.thread, *point)));
        let unusual = active.filter(|(_, point)| is_unusual(*point));
        let last_moments = unusual.filter_map(|(thread, point)| {
            let moments = arrivals.moments(point).iter().rev();
            moments
                .copied()
                .find(|moment| arrivals.at(*moment).thread == thread)
        });
        let mut begins: Vec<u32> = last_moments.collect();
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
        begins.into_iter().find(|moment| is_begin(*moment))
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

    /// Returns whether a statement about a trial became true at a moment only because the trial had begun to fail.
    ///
    /// An interleaving may make the very next branch the one that fails. So it precedes the failure until the call that does
    /// not return.
    pub(super) fn is_after(
        &self,
        trial: usize,
        arrivals: &TrialIndex,
        statement: PathStatement,
        moment: u32,
    ) -> bool {
        let is_interleaving = matches!(
            statement,
            PathStatement::Together { .. } | PathStatement::Between { .. }
        );
        self.begins[trial].is_some_and(|begin| {
            let is_of_thread = arrivals.at(moment).thread == arrivals.at(begin.call).thread;
            moment >= begin.call || (moment >= begin.own_path && is_of_thread && !is_interleaving)
        })
    }

    /// Returns the point at which most failing trials begin to fail.
    pub(super) fn most_frequent(
        &self,
        points: &[PathPoint],
        indices: &[TrialIndex],
    ) -> Option<FailurePath> {
        let begins = self.begins.iter().zip(indices);
        let begins: Vec<(u32, FailureBegin, &TrialIndex)> = begins
            .filter_map(|(begin, arrivals)| {
                let begin = (*begin)?;
                Some((arrivals.at(begin.own_path).point, begin, arrivals))
            })
            .collect();
        let mut counts: HashMap<u32, u64> = HashMap::new();
        for (point, ..) in &begins {
            *counts.entry(*point).or_default() += 1;
        }
        let (point, trials) = counts
            .into_iter()
            .max_by_key(|(point, count)| (*count, std::cmp::Reverse(*point)))?;
        let callee = begins.iter().find_map(|(begin_point, begin, arrivals)| {
            let next = arrivals.window(begin.call)?.to;
            let next_point = arrivals.at(next).point;
            let is_entry = points[index(next_point)].kind == PointKind::Entry;
            (*begin_point == point && is_entry).then_some(next_point)
        });
        Some(FailurePath {
            point,
            trials,
            callee,
        })
    }
}

/// Returns the moment since which a thread only reached points that belong to the failure alone, up to the call that did
/// not return. Events from outside at its begin are left out.
fn begin_of_own_path(
    points: &[PathPoint],
    arrivals: &TrialIndex,
    call: u32,
    is_own: impl Fn(u32) -> bool,
) -> u32 {
    let thread = arrivals.at(call).thread;
    let of_thread = (0..call)
        .rev()
        .filter(|moment| arrivals.at(*moment).thread == thread);
    let own = of_thread.take_while(|moment| is_own(arrivals.at(*moment).point));
    let own: Vec<u32> = own.collect();
    let is_from_outside = |moment: &u32| {
        let kind = points[index(arrivals.at(*moment).point)].kind;
        matches!(
            kind,
            PointKind::SystemCall | PointKind::Signal | PointKind::Exception
        )
    };
    let mut forward = own.into_iter().rev().skip_while(is_from_outside);
    forward.next().unwrap_or(call)
}
