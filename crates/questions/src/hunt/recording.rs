//! Records the paths of some trials, to learn where failing ones differ from passing ones, and makes holds at these points.

use super::attempts::{ATTEMPTS, hold_at};
use super::held_trials::HeldTrials;
use super::memory::HuntMemory;
use crate::HeldTrial;
use crate::differ::record_all;
use provoke_model::{Hold, HoldPlan, HoldPoint};
use provoke_state::State;
use std::time::Duration;

/// Before the first recorded trial, this part of the time limit ends, and this time: most searches need no lead, and have found
/// a hold then.
const SEARCH_TIME_PART: u32 = 6;
const SEARCH_TIME: Duration = Duration::from_secs(30);
/// Recorded trials get at most this share of the time: one part of this many.
const RECORDING_SHARE: u32 = 4;
/// Recording ends after this number of recorded trials if all of them failed, or none.
const ALIKE: u64 = 40;
/// Nothing is recorded while a hold makes this part of the trials fail: a second hold often makes it reliable.
const HELPFUL_RATE: f64 = 0.3;
/// Limit of the points where failing trials differ that are tried before other additions to promising holds.
const MAX_FORCED: usize = 8;

/// Returns a trial that is recorded, if the search has not found a helpful hold soon, and nothing has told it where to look.
pub(super) fn recorded_trial(
    state: &State,
    memory: &HuntMemory,
    timeout: Duration,
    open: impl Fn(&[Hold]) -> u64,
) -> Option<HeldTrial> {
    let HuntMemory {
        held_trials,
        differ,
        recorded_time,
        ..
    } = memory;
    let alpha = state.goal.alpha.to_probability();
    let is_open = |plan: &HoldPlan| matches!(plan, HoldPlan::Record(_));
    if held_trials.points.has_leading()
        || !differ.may_find_more(ALIKE)
        || held_trials.is_reliable_or_new(alpha)
        || held_trials
            .failing
            .keys()
            .any(|holds| held_trials.plausible_rate(holds) > HELPFUL_RATE)
        || held_trials.unverified_hold(alpha, open).is_some()
        || state.open_holds().any(is_open)
    {
        return None;
    }
    let worked = memory.plain_time + memory.held_time;
    let budget = state.stop.time_budget();
    let tried_all = || memory.singles_left() == 0;
    let is_late = budget.map_or_else(tried_all, |budget| {
        worked > SEARCH_TIME.max(budget / SEARCH_TIME_PART)
    });
    (is_late && *recorded_time * RECORDING_SHARE < worked).then(|| HeldTrial {
        plan: record_all(differ),
        timeout: Some(timeout),
    })
}

impl HeldTrials {
    /// Returns holds that were not tried at the points where failing trials differ: each alone at several arrivals, then two
    /// of them. A thread that waits in a window until all others wait may miss the other one, which has passed its own.
    pub(super) fn untried_leading(
        &self,
        is_untried: impl Fn(&[Hold]) -> bool,
    ) -> Option<Vec<Hold>> {
        let points = &self.points;
        let leading: Vec<&HoldPoint> = points.leading().take(MAX_FORCED).collect();
        let alone = leading
            .iter()
            .flat_map(|point| (0..ATTEMPTS).map(|attempt| vec![hold_at(point, attempt)]));
        // The first ones are the most promising.
        let sums = 1..2 * leading.len();
        let numbers = sums.flat_map(|sum| (0..=sum).map(move |first| (first, sum - first)));
        let pairs = numbers.filter_map(|(first, second)| {
            let (first, second) = (*leading.get(first)?, *leading.get(second)?);
            let is_pair = first != second && points.are_of_different_threads(first, second);
            is_pair.then(|| [first, second].map(|point| hold_at(point, 0)).to_vec())
        });
        alone.chain(pairs).find(|holds| is_untried(holds))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hunt::held_trials::samples::{addresses, learned_point, point};

    #[test]
    fn leading_points_are_tried_at_several_arrivals_and_then_in_pairs() {
        let learned = [1, 2, 3].map(learned_point);
        let mut held_trials = HeldTrials::default();
        held_trials.points.add_reached(&learned);
        assert!(held_trials.untried_leading(|_| true).is_none());
        // A point that the program did not reach is not tried.
        held_trials
            .points
            .lead_to(vec![point(2), point(9), point(3)]);
        let mut attempts: Vec<Vec<Hold>> = Vec::new();
        while let Some(holds) =
            held_trials.untried_leading(|holds| attempts.iter().all(|tried| tried != holds))
        {
            attempts.push(holds);
        }
        let (alone, pairs) = attempts.split_at(8);
        assert!(alone[..4].iter().all(|holds| addresses(holds) == [2]));
        let pairs: Vec<Vec<u64>> = pairs.iter().map(|holds| addresses(holds)).collect();
        assert_eq!(pairs, [[2, 3], [3, 2]]);
    }
}
