//! Adds holds to the best ones, if no set of holds makes the program fail nearly always.
//!
//! A second hold is added to the best single one, and a third one if two are not enough.

use super::attempts::hold_at;
use super::held_trials::{HeldCounts, HeldTrials, PROMISING_FAILURES};
use crate::model::{Hold, Occurrence};
use crate::state::State;

/// Number of failures under a hold, after which pairs with a hold of a new thread are tried.
const PAIRED_FAILURES: u64 = 2;
/// New threads, in the order of creation, which are held together with the best holds; and points near them.
const MAX_PAIRED_STARTS: u32 = 4;
const MAX_PAIRED_POINTS: usize = 64;
/// Limit of the holds that are tried together with a promising one, multiplied by the share of its trials that pass.
const MAX_ADDITIONS: u64 = 144;
/// Part of the time limit after which no further holds are added to the best ones: one of this many parts.
const PAIRING_TIME_PART: u32 = 2;

impl HeldTrials {
    /// Returns the most promising holds together with another one, if no set of holds fails nearly always. Often the other
    /// thread is too early or too late: it is held when it is created, or at a point near the first one.
    pub(super) fn untried_extension(
        &self,
        state: &State,
        open: impl Fn(&[Hold]) -> u64,
    ) -> Option<Vec<Hold>> {
        let is_good = |counts: HeldCounts| {
            counts.failures >= PROMISING_FAILURES && counts.fails_nearly_always()
        };
        let budget = state.plan.stop.time_budget();
        if self.is_reliable_or_new()
            || budget.is_some_and(|budget| state.worked * PAIRING_TIME_PART > budget)
            || self
                .failing
                .iter()
                .any(|holds| !self.was_examined(holds) && is_good(self.counts_of(holds)))
        {
            return None;
        }
        self.untried_triple(&open)
            .or_else(|| self.untried_pair(&open))
    }

    /// Returns the most promising single hold together with another one.
    fn untried_pair(&self, open: impl Fn(&[Hold]) -> u64) -> Option<Vec<Hold>> {
        let singles = self.failing.iter().filter(|holds| holds.len() == 1);
        let best_hold =
            singles.max_by(|a, b| self.plausible_rate(a).total_cmp(&self.plausible_rate(b)))?;
        let counts = self.counts_of(best_hold);
        if counts.failures < PAIRED_FAILURES {
            return None;
        }
        self.untried_addition(best_hold, counts, open)
    }

    /// Returns the best examined pair together with another hold. If the pair often makes the program fail, a third thread
    /// was too early or too late in the other trials.
    fn untried_triple(&self, open: impl Fn(&[Hold]) -> u64) -> Option<Vec<Hold>> {
        let examinations = self.examined.iter().chain(&self.earlier);
        let pairs = examinations.filter(|examination| examination.holds.len() == 2);
        let best_pair = pairs.max_by(|a, b| {
            let rates = [a, b].map(|examination| examination.fresh.plausible_rate());
            rates[0].total_cmp(&rates[1])
        })?;
        if best_pair.fresh.is_seldom() {
            return None;
        }
        self.untried_addition(&best_pair.holds, best_pair.fresh, open)
    }

    /// Returns these holds together with another one. The fewer of their trials pass, the less is to gain, so the fewer
    /// others are tried.
    fn untried_addition(
        &self,
        holds: &[Hold],
        counts: HeldCounts,
        open: impl Fn(&[Hold]) -> u64,
    ) -> Option<Vec<Hold>> {
        let starts = self.points.start_points();
        // No point is near the creation of a thread.
        let mut nearest = holds.iter().map(|hold| self.points.nearest(&hold.point));
        let nearest = nearest
            .find(|points| !points.is_empty())
            .unwrap_or_default();
        let arrivals = (1..=MAX_PAIRED_STARTS).flat_map(|arrival| {
            starts.clone().map(move |point| Hold {
                occurrence: Occurrence::Nth(arrival),
                ..hold_at(point, 0)
            })
        });
        let with_start = arrivals.map(|start| [&[start], holds].concat());
        // The thread of the first hold continues first.
        let with_nearest =
            nearest
                .iter()
                .take(MAX_PAIRED_POINTS)
                .enumerate()
                .map(|(index, point)| {
                    let other_hold = hold_at(point, 0);
                    if index % 2 == 0 {
                        [holds, &[other_hold]].concat()
                    } else {
                        [&[other_hold], holds].concat()
                    }
                });
        let passes = counts.launched() - counts.failures;
        let tried_additions = MAX_ADDITIONS * passes / counts.launched().max(1);
        with_start
            .chain(with_nearest)
            .filter(|added| have_different_points(added))
            .take(usize::try_from(tried_additions).unwrap_or(usize::MAX))
            .find(|added| self.counts_of(added).launched() + open(added) == 0)
    }
}

/// Returns whether no two holds have the same point.
fn have_different_points(holds: &[Hold]) -> bool {
    holds.iter().enumerate().all(|(index, hold)| {
        holds[..index]
            .iter()
            .all(|earlier| earlier.point != hold.point)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::LearnedPoint;
    use crate::questions::hunt::attempts::after_creator;
    use crate::questions::hunt::held_trials::samples::{addresses, examination, point};

    fn held_trials_at(addresses: &[u64]) -> HeldTrials {
        let learned = addresses.iter().map(|address| LearnedPoint {
            point: point(*address),
            thread: 1,
            function: 0,
            accesses_memory: true,
            name: None,
            line: None,
            is_library: false,
        });
        let mut held_trials = HeldTrials::default();
        let learned: Vec<LearnedPoint> = learned.collect();
        held_trials.points.add_reached(&learned, &[]);
        held_trials
    }

    #[test]
    fn a_third_hold_is_added_to_the_best_examined_pair() {
        let mut held_trials = held_trials_at(&[1, 2, 3, 4]);
        assert!(held_trials.untried_triple(|_| 0).is_none());
        held_trials.earlier = vec![examination(&[2], 9), examination(&[1, 4], 6)];
        held_trials.examined = Some(examination(&[1, 2], 8));
        let first = held_trials.untried_triple(|_| 0).unwrap();
        assert_eq!(addresses(&first), [3, 1, 2]);
        held_trials
            .tried_holds
            .insert(first, examination(&[], 1).fresh);
        let second = held_trials.untried_triple(|_| 0).unwrap();
        assert_eq!(addresses(&second), [1, 2, 4]);
        assert!(held_trials.untried_triple(|_| 1).is_none());
    }

    #[test]
    fn no_third_hold_is_added_to_a_pair_that_seldom_fails() {
        let mut held_trials = held_trials_at(&[1, 2, 3]);
        held_trials.examined = Some(examination(&[1, 2], 3));
        assert!(held_trials.untried_triple(|_| 0).is_some());
        held_trials.examined = Some(examination(&[1, 2], 2));
        assert!(held_trials.untried_triple(|_| 0).is_none());
    }

    #[test]
    fn a_pair_that_begins_with_the_creation_of_a_thread_is_extended_near_its_other_point() {
        let mut held_trials = held_trials_at(&[1, 2, 3]);
        let mut pair = examination(&[2], 8);
        pair.holds = after_creator(&point(2));
        held_trials.examined = Some(pair);
        let triple = held_trials.untried_triple(|_| 0).unwrap();
        assert_eq!(addresses(&triple), [2, 1]);
    }

    #[test]
    fn fewer_holds_are_added_to_one_that_often_fails() {
        let addresses: Vec<u64> = (0..100).collect();
        let additions = |failures: u64| {
            let mut held_trials = held_trials_at(&addresses);
            let single = examination(&[0], failures);
            held_trials.failing.insert(single.holds.clone());
            held_trials.tried_holds.insert(single.holds, single.fresh);
            let tried = HeldCounts {
                trials: 1,
                ..HeldCounts::default()
            };
            let mut additions = 0;
            while let Some(pair) = held_trials.untried_pair(|_| 0) {
                held_trials.tried_holds.insert(pair, tried);
                additions += 1;
            }
            additions
        };
        assert_eq!(additions(5), 64);
        assert_eq!(additions(8), 28);
        assert_eq!(additions(9), 14);
        assert_eq!(additions(10), 0);
    }
}
