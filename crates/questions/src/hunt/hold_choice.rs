//! Chooses the holds that need more trials, and the hold that is examined.
//!
//! A hold that failed once is repeated, then compared with others. The best one is examined, and is tried together with
//! another hold if it does not make the program fail nearly always.

use super::attempts::hold_at;
use super::examined_failure::ExaminedFailure;
use super::held_trials::{
    Examination, FIRST_FRESH_TRIALS, HeldCounts, HeldTrials, Neighbour, PROMISING_FAILURES,
};
use super::neighbours::rows_of_points;
use crate::FailureCounts;
use provoke_model::{Hold, HoldPoint, VariantId};
use provoke_state::State;
use provoke_stats::real;
use std::cmp::Reverse;

/// Number of trials of promising holds, before the best is examined; and the limit of these holds.
const COMPARING_TRIALS: u64 = 8;
const MAX_COMPARED: usize = 8;
/// Limit of functions whose instructions are learned after their entries: each instruction costs a trial.
const MAX_DETAILED: usize = 500;
/// Number of holds after which a promising one is examined, although the program reaches more points.
const MAX_TRIED_FIRST: usize = 1000;
/// Part of the time limit after which a promising hold is examined in any case: one of this many parts.
const TIME_PART: u32 = 3;

impl HeldTrials {
    /// Begins the examination of the most promising hold, when enough others were tried. Gives an examination up if
    /// another hold is more promising.
    pub(super) fn choose_examined(&mut self, state: &State) {
        let alpha = state.goal.alpha.to_probability();
        if self.unverified_hold(alpha, |_| 0).is_some()
            || self.untried_extension(state, |_| 0).is_some()
            || !self.has_tried_enough(state)
        {
            return;
        }
        let is_searching = !has_spent_search_time(state);
        self.change_examined(alpha, self.rate_without_holds(state), is_searching);
    }

    /// Examines the most promising hold.
    fn change_examined(&mut self, alpha: f64, rate_without_holds: f64, is_searching: bool) {
        let Some(rate) = self.rate_to_exceed(alpha, is_searching) else {
            return;
        };
        let unexamined = if is_searching || self.examined.is_none() {
            self.most_promising_hold(rate_without_holds)
        } else {
            None
        };
        let unexamined_rate = unexamined
            .as_ref()
            .map_or(0.0, |holds| self.plausible_rate(holds));
        // At the end, a hold under which it seldom fails is better than none.
        let is_wanted = |earlier: &Examination| !is_searching || !earlier.is_worthless(alpha);
        if let Some(index) = self.best_earlier(rate.max(unexamined_rate), is_wanted) {
            let resumed = self.earlier.remove(index);
            self.earlier.extend(self.examined.replace(resumed));
        } else if let Some(holds) = unexamined
            && unexamined_rate > rate
        {
            let examination = self.begin_examination(holds);
            self.earlier.extend(self.examined.replace(examination));
        } else if is_searching && self.examines_worthless_hold(alpha) {
            // Holds that were not tried may be better.
            self.earlier.extend(self.examined.take());
        }
    }

    /// Returns the failure rate that another hold must exceed to be examined instead of the present one. Returns `None`
    /// while the present one has too few fresh trials, and if it fails nearly always.
    fn rate_to_exceed(&self, alpha: f64, is_searching: bool) -> Option<f64> {
        let Some(examined) = &self.examined else {
            return Some(0.0);
        };
        if self.is_reliable_or_new(alpha) {
            None
        } else if is_searching && examined.is_worthless(alpha) {
            Some(0.0)
        } else {
            Some(examined.fresh.plausible_rate())
        }
    }

    fn examines_worthless_hold(&self, alpha: f64) -> bool {
        let examined = self.examined.as_ref();
        examined.is_some_and(|examination| examination.is_worthless(alpha))
    }

    /// Returns the earlier examination with the highest failure rate, if it exceeds this rate. A hold is chosen because it
    /// failed by chance more often than usual, so one that was given up for it may be better.
    fn best_earlier(&self, rate: f64, is_wanted: impl Fn(&Examination) -> bool) -> Option<usize> {
        let rates = self
            .earlier
            .iter()
            .enumerate()
            .filter(|(_, earlier)| is_wanted(earlier))
            .map(|(index, earlier)| (index, earlier.fresh.plausible_rate()));
        let best = rates.max_by(|a, b| a.1.total_cmp(&b.1));
        best.filter(|(_, best_rate)| *best_rate > rate)
            .map(|(index, _)| index)
    }

    /// Returns a hold that failed and needs more trials, besides the open ones, to be compared with others.
    pub(super) fn unverified_hold(
        &self,
        alpha: f64,
        open: impl Fn(&[Hold]) -> u64,
    ) -> Option<&Vec<Hold>> {
        if self.is_reliable_or_new(alpha) {
            return None;
        }
        let needs_first =
            |holds: &&Vec<Hold>| self.counts_of(holds).needs_verification(open(holds));
        let needs_more = |holds: &&Vec<Hold>| {
            let counts = self.counts_of(holds);
            counts.launched() + open(holds) < COMPARING_TRIALS
        };
        let promising = self
            .failing
            .keys()
            .filter(|holds| self.counts_of(holds).is_promising());
        self.failing
            .keys()
            .find(needs_first)
            .or_else(|| promising.take(MAX_COMPARED).find(needs_more))
    }

    /// Returns whether no better hold is needed: the examined one fails nearly always, or has too few trials to tell.
    pub(super) fn is_reliable_or_new(&self, alpha: f64) -> bool {
        self.examined.as_ref().is_some_and(|examined| {
            examined.fresh.launched() < FIRST_FRESH_TRIALS
                || examined.fresh.fails_nearly_always() && !examined.is_worthless(alpha)
        })
    }

    /// Returns holds at functions whose instructions are to be learned, because only their entries are known: promising
    /// holds, or the functions that new threads reach, when each of their entries was tried.
    pub(super) fn holds_without_details(&self) -> Option<Vec<Hold>> {
        let lacks_details = |hold: &Hold| self.points.lacks_details(&hold.point);
        let promising = self
            .failing
            .keys()
            .find(|holds| self.counts_of(holds).is_promising() && holds.iter().any(lacks_details));
        promising.cloned().or_else(|| {
            let entries = self.points.bare_entries();
            let room = MAX_DETAILED.saturating_sub(self.points.detailed_functions());
            let is_next = entries.iter().all(|entry| self.tried_alone.contains(entry));
            let chosen = entries.iter().take(room).map(|entry| hold_at(entry, 0));
            let holds: Vec<Hold> = chosen.collect();
            (is_next && !holds.is_empty()).then_some(holds)
        })
    }

    /// Returns whether each point was tried, or so many that a promising one is examined first, or whether a hold where
    /// failing trials differ makes the program fail nearly always.
    fn has_tried_enough(&self, state: &State) -> bool {
        let budget = state.stop.time_budget();
        let mut own_points = self.points.searched_first();
        own_points.all(|point| self.tried_alone.contains(point))
            || self.tried_alone.len() >= MAX_TRIED_FIRST
            || budget.is_some_and(|budget| state.worked * TIME_PART > budget)
            || self.leads_to_failures()
    }

    fn leads_to_failures(&self) -> bool {
        let leading: Vec<&HoldPoint> = self.points.leading().collect();
        self.has_reliable(|holds| holds.iter().any(|hold| leading.contains(&&hold.point)))
    }

    /// Returns whether the program failed nearly always under some of these holds, in enough trials.
    pub(super) fn has_reliable(&self, is_wanted: impl Fn(&[Hold]) -> bool) -> bool {
        let mut failing = self.failing.keys().filter(|holds| is_wanted(holds));
        failing.any(|holds| {
            let counts = self.counts_of(holds);
            counts.judged() >= FIRST_FRESH_TRIALS && counts.fails_nearly_always()
        })
    }

    /// Returns the hold that was not examined and has the highest failure rate, if most of its trials failed, and more
    /// than without a hold.
    fn most_promising_hold(&self, rate_without_holds: f64) -> Option<Vec<Hold>> {
        let promising = self.failing.keys().filter(|holds| {
            let counts = self.counts_of(holds);
            counts.failures >= PROMISING_FAILURES
                && 2 * counts.failures > counts.judged()
                && counts.plausible_rate() > rate_without_holds
                && !self.was_examined(holds)
        });
        // Of equally good ones, the one with fewer holds is easier to understand, and the program's own code shows the
        // cause, which the creation of a thread does not.
        let is_own_code = |holds: &[Hold]| {
            holds.iter().all(|hold| {
                !matches!(hold.point, HoldPoint::Start(_))
                    && !self.points.is_of_library(&hold.point)
            })
        };
        let order = |holds: &[Hold]| {
            let counts = self.counts_of(holds);
            let clearness = (Reverse(holds.len()), is_own_code(holds));
            // The rate of a reliable one depends on its number of trials above all.
            let reliable = counts.fails_nearly_always().then_some(clearness);
            (reliable, counts.plausible_rate(), clearness)
        };
        promising
            .max_by(|a, b| {
                let [a, b] = [a, b].map(|holds| order(holds));
                let by_rate = a.1.total_cmp(&b.1);
                a.0.cmp(&b.0).then(by_rate).then(a.2.cmp(&b.2))
            })
            .cloned()
    }

    fn begin_examination(&self, holds: Vec<Hold>) -> Examination {
        let mut neighbours: Vec<Vec<Neighbour>> = (0..holds.len())
            .filter(|index| self.matters_in(&holds, *index))
            .flat_map(|index| self.moved_holds(&holds, index))
            .collect();
        if neighbours.is_empty() {
            // Each hold alone makes it fail, too: one of them shows its window better.
            let alone = holds.iter().map(std::slice::from_ref);
            let best_holds =
                alone.max_by(|a, b| self.plausible_rate(a).total_cmp(&self.plausible_rate(b)));
            neighbours = best_holds.map_or_else(Vec::new, |alone| self.moved_holds(alone, 0));
        }
        let shown = self.failing.get(&holds).cloned().unwrap_or_default();
        Examination {
            number: self.examination_count() + 1,
            failure: ExaminedFailure::new(shown.most_frequent()),
            control: FailureCounts::default(),
            neighbours,
            may_hang: self.stopped_early.contains(&holds),
            holds,
            hung_trials: 0,
            fresh: HeldCounts::default(),
            example: None,
            anchors: Vec::new(),
        }
    }

    /// Returns the points around one of several holds, each with the holds that are moved there.
    fn moved_holds(&self, holds: &[Hold], index: usize) -> Vec<Vec<Neighbour>> {
        let is_free = |point: &HoldPoint| {
            let mut other_holds = holds
                .iter()
                .enumerate()
                .filter(|(other, _)| *other != index);
            !other_holds.any(|(_, other_hold)| other_hold.point == *point)
        };
        let neighbours = self.points.neighbours(&holds[index].point).into_iter();
        let points = neighbours
            .map(|learned| &learned.point)
            .filter(|point| is_free(point));
        let moved = points.map(|point| {
            let mut moved = holds.to_vec();
            moved[index].point.clone_from(point);
            (point.clone(), moved)
        });
        rows_of_points(moved.collect(), &holds[index].point)
    }

    /// Returns the failure rate of the trials without holds: the plain ones, or those that were only traced.
    fn rate_without_holds(&self, state: &State) -> f64 {
        let plain = state.tally_of(VariantId(0));
        let plain_rate = real(plain.failures) / real(plain.counted_trials().max(1));
        plain_rate.max(self.control_total().rate())
    }

    /// Returns whether a hold of several makes a difference: without it, the others make clearly fewer trials fail. Only
    /// then do the points around it show a window.
    fn matters_in(&self, holds: &[Hold], index: usize) -> bool {
        let mut other_holds = holds.to_vec();
        other_holds.remove(index);
        let (with, without_hold) = (self.counts_of(holds), self.counts_of(&other_holds));
        2.0 * without_hold.observed_rate() < with.observed_rate()
    }
}

/// Returns whether the time for holds that were not tried is over.
pub(super) fn has_spent_search_time(state: &State) -> bool {
    let budget = state.stop.time_budget();
    budget.is_some_and(|budget| state.worked * 4 > budget * 3)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hunt::examined_failure::ShownFailures;
    use crate::hunt::held_trials::samples::{addresses, examination, learned_point, point};
    use provoke_model::{CreationSide, LearnedPoint};

    /// Returns the addresses of the holds that are examined when the search has seen these trials.
    fn examined_addresses(held_trials: &mut HeldTrials) -> Option<Vec<u64>> {
        held_trials.change_examined(0.05, 0.0, true);
        let examined = held_trials.examined.as_ref();
        examined.map(|examination| addresses(&examination.holds))
    }

    #[test]
    fn a_more_promising_hold_is_examined_after_any_number_of_others() {
        let mut held_trials = HeldTrials {
            earlier: (10..30).map(|number| examination(&[number], 5)).collect(),
            examined: Some(examination(&[1], 6)),
            ..HeldTrials::default()
        };
        assert_eq!(examined_addresses(&mut held_trials), Some(vec![1]));
        let rival = examination(&[2, 3], 8);
        let counts = HeldCounts {
            trials: 8,
            ..rival.fresh
        };
        held_trials
            .failing
            .insert(rival.holds.clone(), ShownFailures::default());
        held_trials.tried_holds.insert(rival.holds, counts);
        assert_eq!(examined_addresses(&mut held_trials), Some(vec![2, 3]));
    }

    #[test]
    fn an_earlier_hold_whose_fresh_trials_are_better_is_examined_again() {
        let mut held_trials = HeldTrials {
            earlier: vec![
                examination(&[1], 4),
                examination(&[2], 8),
                examination(&[3], 7),
            ],
            examined: Some(examination(&[4], 6)),
            ..HeldTrials::default()
        };
        assert_eq!(examined_addresses(&mut held_trials), Some(vec![2]));
        assert_eq!(held_trials.earlier.len(), 3);
        assert_eq!(examined_addresses(&mut held_trials), Some(vec![2]));
    }

    #[test]
    fn no_hold_is_compared_with_one_that_fails_nearly_always() {
        let rival = examination(&[1], 1);
        let mut held_trials = HeldTrials {
            examined: Some(examination(&[2], 5)),
            ..HeldTrials::default()
        };
        held_trials
            .failing
            .insert(rival.holds.clone(), ShownFailures::default());
        assert!(held_trials.unverified_hold(0.05, |_| 0).is_some());
        held_trials.examined = Some(examination(&[2], 9));
        assert!(held_trials.unverified_hold(0.05, |_| 0).is_none());
    }

    #[test]
    fn in_large_code_the_function_of_a_promising_hold_is_searched_first() {
        let entry = |function: u64, thread: u32| LearnedPoint {
            thread,
            function,
            accesses_memory: false,
            ..learned_point(function)
        };
        let mut held_trials = HeldTrials::default();
        let entries = [entry(0x10, 0), entry(0x20, 1), entry(0x30, 2)];
        held_trials.points.add_reached(&entries);
        held_trials.points.note_entries_only();
        let order = held_trials.points.in_order();
        assert_eq!(order, [point(0x20), point(0x30), point(0x10)]);
        assert_eq!(held_trials.points.searched_first().count(), 3);

        let mut promising = examination(&[0x30], 3);
        promising.fresh.trials = 3;
        held_trials
            .failing
            .insert(promising.holds.clone(), ShownFailures::default());
        assert!(held_trials.holds_without_details().is_none());
        held_trials
            .tried_holds
            .insert(promising.holds.clone(), promising.fresh);
        assert_eq!(
            held_trials.holds_without_details().as_ref(),
            Some(&promising.holds)
        );

        let inside = LearnedPoint {
            point: point(0x34),
            ..entry(0x30, 2)
        };
        held_trials.points.add_details(&promising.holds, &[inside]);
        assert!(held_trials.holds_without_details().is_none());
        let first: Vec<&HoldPoint> = held_trials.points.searched_first().collect();
        assert_eq!(first, [&point(0x30), &point(0x34)]);
        let order = held_trials.points.in_order();
        assert_eq!(order, [0x30, 0x34, 0x20, 0x10].map(point));

        // The functions that new threads reach follow, when each entry was tried.
        held_trials.tried_alone.insert(point(0x20));
        let next = held_trials.holds_without_details().unwrap();
        assert_eq!(addresses(&next), [0x20]);
        held_trials.points.add_details(&next, &[]);
        assert!(held_trials.holds_without_details().is_none());
    }

    #[test]
    fn of_two_reliable_holds_the_one_in_the_code_is_examined() {
        let mut held_trials = HeldTrials::default();
        let creation = HoldPoint::Start(CreationSide::Creator);
        for (point, trials) in [(creation, 12), (point(1), 8)] {
            let holds = vec![hold_at(&point, 0)];
            let counts = HeldCounts {
                trials,
                failures: trials,
                unreached: 0,
                failed_before: 0,
            };
            held_trials
                .failing
                .insert(holds.clone(), ShownFailures::default());
            held_trials.tried_holds.insert(holds, counts);
        }
        let chosen = held_trials.most_promising_hold(0.0).unwrap();
        assert_eq!(addresses(&chosen), [1]);
    }
}
