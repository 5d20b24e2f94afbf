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
        PathStatement::Together {
            from,
            to,
            other_from,
            other_to,
        } => together_since([(from, to), (other_from, other_to)], trial),
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

/// Returns the moment at which two threads that were between points at once have both left them: only then it is known
/// where they were going.
fn together_since(pairs: [(u32, u32); 2], trial: &TrialIndex) -> Option<u32> {
    let [(from, to), (other_from, other_to)] = pairs;
    trial
        .windows(from, to)
        .flat_map(|window| {
            let others = trial.windows(other_from, other_to);
            others
                .take_while(move |other| other.from < window.to)
                .filter(move |other| other.to > window.from && other.thread != window.thread)
                .map(move |other| window.to.max(other.to))
        })
        .min()
}
