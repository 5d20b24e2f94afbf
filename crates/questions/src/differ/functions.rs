//! Chooses the functions whose blocks are recorded, after trials that recorded only the entries of functions.

use super::points::KnownPoints;
use provoke_model::{CodePoint, HoldPoint};
use provoke_stats::paths::{PathComparison, PathGroup, PathTrial};

/// Most functions that are chosen.
const MAX_FUNCTIONS: usize = 64;
/// Number of functions that a thread entered before and behind a differing arrival that are chosen as well: its callers
/// and its callees are among them.
const AROUND: usize = 3;
/// Number of functions that a thread entered last before a failure.
const LAST: usize = 16;

/// Returns the first instructions of the functions that may differ, the most promising first: functions of
/// differences with their callers and callees, functions that had not returned in failing trials, and functions entered last.
pub(super) fn choose_functions(
    points: &KnownPoints,
    comparison: &PathComparison,
    trials: &[PathTrial],
) -> Vec<CodePoint> {
    let failing: Vec<&PathTrial> = trials.iter().filter(|trial| trial.failed).collect();
    let groups = comparison.groups.iter();
    let before = groups.clone().filter(|group| !group.is_after_failure);
    let after = groups.filter(|group| group.is_after_failure);
    let ranked = before.chain(after).chain(&comparison.others);
    let differing = ranked.filter_map(PathGroup::first_points).flatten();
    let path = comparison.failure_path.iter();
    let of_path = path.flat_map(|path| [path.point].into_iter().chain(path.callee));
    let around = of_path
        .chain(differing)
        .flat_map(|point| points_around(point, &failing));
    let active = failing
        .iter()
        .flat_map(|trial| trial.ends.iter().flat_map(|end| &end.active));
    let last = failing.iter().flat_map(|trial| {
        let arrivals = trial.arrivals.iter().rev();
        arrivals.take(LAST).map(|arrival| &arrival.point)
    });
    let mut chosen: Vec<CodePoint> = Vec::new();
    for number in around.chain(active.copied()).chain(last.copied()) {
        if let Some(HoldPoint::Code(point)) = points.hold_point(number)
            && chosen.len() < MAX_FUNCTIONS
            && !chosen.contains(&point)
        {
            chosen.push(point);
        }
    }
    chosen
}

/// Returns a point, and the points that its thread reached before and behind it in a failing trial.
fn points_around(point: u32, failing: &[&PathTrial]) -> Vec<u32> {
    let mut around = vec![point];
    let found = failing.iter().find_map(|trial| {
        let arrival = trial
            .arrivals
            .iter()
            .find(|arrival| arrival.point == point)?;
        let of_thread = trial.arrivals.iter();
        let of_thread = of_thread.filter(|other| other.thread == arrival.thread);
        Some(of_thread.map(|arrival| arrival.point).collect::<Vec<u32>>())
    });
    if let Some(of_thread) = found
        && let Some(index) = of_thread.iter().position(|other| *other == point)
    {
        let end = of_thread.len().min(index + AROUND + 1);
        around.extend(&of_thread[index.saturating_sub(AROUND)..end]);
    }
    around
}
