//! The definitions of the statements: when each becomes true in a trial.

use std::collections::HashMap;

use super::index::{TrialIndex, index};
use super::result::PathStatement;

/// The points that follow a point, by which its absence is known.
pub(super) type Followers = HashMap<u32, Vec<u32>>;

/// Returns the moment at which a statement becomes true in a trial; `None` if it does not.
pub(super) fn true_since(
    statement: PathStatement,
    trial: &TrialIndex,
    followers: &Followers,
) -> Option<u32> {
    match statement {
        PathStatement::Reached { point, times } => {
            let last = index(times).checked_sub(1)?;
            trial.moments(point).get(last).copied()
        }
        PathStatement::NotReached { point } => absent_since(point, trial, followers),
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
        PathStatement::Together { from, to } => together_since(from, to, trial),
    }
}

/// Returns the first moment at which a thread reached what follows a point that no thread had reached or will reach.
///
/// If nothing that follows was reached, the trial may have ended before the point, so its absence shows nothing.
fn absent_since(point: u32, trial: &TrialIndex, followers: &Followers) -> Option<u32> {
    if !trial.moments(point).is_empty() {
        return None;
    }
    let followers = followers.get(&point)?.iter();
    followers
        .filter_map(|follower| trial.moments(*follower).first().copied())
        .min()
}

/// Returns the moment at which the first of two threads that were between two points at once reached the second point.
fn together_since(from: u32, to: u32, trial: &TrialIndex) -> Option<u32> {
    // The windows of a thread do not overlap, so only its last one may still be open.
    let mut last_ends: HashMap<u32, u32> = HashMap::new();
    for window in trial.windows(from, to) {
        let others = last_ends
            .iter()
            .filter(|(thread, end)| **thread != window.thread && **end > window.from);
        if let Some(end) = others.map(|(_, end)| *end).min() {
            return Some(end.min(window.to));
        }
        last_ends.insert(window.thread, window.to);
    }
    None
}
