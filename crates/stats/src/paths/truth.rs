//! The definitions of the statements: when each becomes true in a trial.

use super::index::{TrialIndex, index};
use super::number_hash::NumberMap;
use super::result::PathStatement;

/// The neighbours of points.
pub(super) type PathNeighbours = NumberMap<u32, Neighbours>;

/// The points that the thread of a point usually reaches shortly before it and behind it.
#[derive(Debug)]
pub(super) struct Neighbours {
    pub(super) before: Vec<u32>,
    pub(super) behind: Vec<u32>,
}

/// Returns the moment at which a statement becomes true in a trial; `None` if it does not.
pub(super) fn true_since(
    statement: PathStatement,
    trial: &TrialIndex,
    neighbours: &PathNeighbours,
) -> Option<u32> {
    match statement {
        PathStatement::Reached { point, times } => {
            let last = index(times).checked_sub(1)?;
            trial.moments(point).get(last).copied()
        }
        PathStatement::NotReached { point } => absent_since(point, trial, neighbours),
        PathStatement::Before {
            thread,
            point,
            other_thread,
            other_point,
        } => {
            let first = trial.first_of_thread(thread, point)?;
            let second = trial.first_of_thread(other_thread, other_point)?;
            (first < second).then_some(second)
        }
        PathStatement::Between { from, to, other } => trial
            .windows(from, to)
            .find(|window| {
                let within = window.from..window.to;
                !trial.moments_within(other, &within).is_empty()
            })
            .map(|window| window.to),
        PathStatement::Together {
            from,
            to,
            other_from,
            other_to,
        } => together_since([(from, to), (other_from, other_to)], trial),
    }
}

/// Returns the first moment at which a thread that had been before a point was behind it, if no thread reaches it.
///
/// If no thread does this, the trial may have ended before the point, so its absence shows nothing.
fn absent_since(point: u32, trial: &TrialIndex, neighbours: &PathNeighbours) -> Option<u32> {
    if !trial.moments(point).is_empty() {
        return None;
    }
    let Neighbours { before, behind } = neighbours.get(&point)?;
    let was_before = |moment: u32| {
        let thread = trial.at(moment).thread;
        let firsts = before
            .iter()
            .filter_map(|point| trial.first_of_thread(thread, *point));
        before.is_empty() || firsts.min().is_some_and(|first| first < moment)
    };
    let moments = behind.iter().flat_map(|point| trial.moments(*point));
    moments.copied().filter(|moment| was_before(*moment)).min()
}

/// Returns the moment at which two threads that were between points at once have both left them: only then it is known
/// where they were going.
fn together_since(pairs: [(u32, u32); 2], trial: &TrialIndex) -> Option<u32> {
    // Of two overlapping windows, one begins within the other.
    let [first, second] = pairs;
    let moments = [
        begins_within(first, second, trial),
        begins_within(second, first, trial),
    ];
    moments.into_iter().flatten().min()
}

/// Returns the end of the later one of two windows of which the second begins within the first.
fn begins_within(outer: (u32, u32), inner: (u32, u32), trial: &TrialIndex) -> Option<u32> {
    trial
        .windows(outer.0, outer.1)
        .filter_map(|window| {
            let begins = trial
                .moments_within(inner.0, &(window.from..window.to))
                .iter();
            begins
                .filter_map(|moment| trial.window(*moment))
                .filter(|other| {
                    other.thread != window.thread && trial.at(other.to).point == inner.1
                })
                .map(|other| window.to.max(other.to))
                .min()
        })
        .min()
}
