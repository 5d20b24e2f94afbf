//! Adds holds to the best ones, if no set of holds makes the program fail nearly always.
//!
//! A second hold is added to the best single one, and a third one if two are not enough.

use super::attempts::{ATTEMPTS, PAIR_ATTEMPTS, at_attempt, hold_at, one_by_one};
use super::held_trials::{HeldCounts, HeldTrials, PROMISING_FAILURES};
use super::hold_choice::has_spent_search_time;
use provoke_model::{Hold, HoldPoint, Occurrence};
use provoke_state::State;

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
    /// Returns holds where failing trials differ, then the most promising holds together with another one, if no set of holds
    /// fails nearly always. Often the other thread is too early or too late: it is held when it is created, or at a point near
    /// the first one.
    pub(super) fn untried_extension(
        &self,
        state: &State,
        open: impl Fn(&[Hold]) -> u64,
    ) -> Option<Vec<Hold>> {
        let is_good = |counts: HeldCounts| {
            counts.failures >= PROMISING_FAILURES && counts.fails_nearly_always()
        };
        let budget = state.stop.time_budget();
        if self.is_reliable_or_new(state.goal.alpha.to_probability())
            || has_spent_search_time(state)
            || self
                .failing
                .keys()
                .any(|holds| !self.was_examined(holds) && is_good(self.counts_of(holds)))
        {
            return None;
        }
        let leading = self.untried_leading(|holds| self.is_untried(holds, &open));
        if leading.is_some()
            || budget.is_some_and(|budget| state.worked * PAIRING_TIME_PART > budget)
        {
            return leading;
        }
        self.untried_triple(&open)
            .or_else(|| self.untried_pair(&open))
    }

    /// Returns the most promising single hold together with another one.
    fn untried_pair(&self, open: impl Fn(&[Hold]) -> u64) -> Option<Vec<Hold>> {
        let singles = self.failing.keys().filter(|holds| holds.len() == 1);
        let best_hold =
            singles.max_by(|a, b| self.plausible_rate(a).total_cmp(&self.plausible_rate(b)))?;
        let counts = self.counts_of(best_hold);
        if counts.failures < PAIRED_FAILURES {
            return None;
        }
        self.untried_attempt(best_hold, &open)
            .or_else(|| self.untried_addition(best_hold, counts, open))
    }

    /// Returns an attempt at the point of a single hold while threads run in the order of their creation. Otherwise the
    /// threads arrive there in varying orders, and a later arrival is another thread in each trial.
    fn untried_attempt(&self, holds: &[Hold], open: impl Fn(&[Hold]) -> u64) -> Option<Vec<Hold>> {
        let point = &holds.first()?.point;
        self.points.start_points().next()?;
        let mut attempts = (0..ATTEMPTS).map(|attempt| one_by_one(point, attempt));
        attempts.find(|holds| have_different_points(holds) && self.is_untried(holds, &open))
    }

    /// Returns the best examined pair at other arrivals, then together with another hold. If the pair often makes the
    /// program fail, a third thread was too early or too late in the other trials.
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
        self.untried_arrivals(&best_pair.holds, &open)
            .or_else(|| self.untried_addition(&best_pair.holds, best_pair.fresh, open))
    }

    /// Returns a pair at other arrivals of its points: they are few, and often differ more than holds at other points.
    fn untried_arrivals(&self, pair: &[Hold], open: impl Fn(&[Hold]) -> u64) -> Option<Vec<Hold>> {
        let has_many =
            |hold: &Hold| matches!(hold.point, HoldPoint::Call { .. } | HoldPoint::Line { .. });
        let attempts = if pair.iter().any(has_many) {
            PAIR_ATTEMPTS as u64
        } else {
            ATTEMPTS
        };
        let mut others = (0..attempts).map(|attempt| at_attempt(pair, attempt));
        others.find(|holds| self.is_untried(holds, &open))
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
        let tried_additions = MAX_ADDITIONS * counts.passes() / counts.judged().max(1);
        with_start
            .chain(with_nearest)
            .filter(|added| have_different_points(added))
            .take(usize::try_from(tried_additions).unwrap_or(usize::MAX))
            .find(|added| self.is_untried(added, &open))
    }

    fn is_untried(&self, holds: &[Hold], open: impl Fn(&[Hold]) -> u64) -> bool {
        self.counts_of(holds).launched() + open(holds) == 0
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
    use crate::hunt::attempts::after_creator;
    use crate::hunt::examined_failure::ShownFailures;
    use crate::hunt::held_trials::samples::{addresses, examination, learned_point, point};
    use provoke_model::{CreationSide, LearnedPoint};

    fn held_trials_at(addresses: &[u64]) -> HeldTrials {
        let learned = addresses.iter().copied().map(learned_point);
        let mut held_trials = HeldTrials::default();
        let learned: Vec<LearnedPoint> = learned.collect();
        held_trials.points.add_reached(&learned);
        held_trials
    }

    /// Returns what is tried with the best pair, in this order.
    fn extensions(held_trials: &mut HeldTrials) -> Vec<Vec<Hold>> {
        let mut extensions = Vec::new();
        while let Some(holds) = held_trials.untried_triple(|_| 0) {
            held_trials
                .tried_holds
                .insert(holds.clone(), examination(&[], 1).fresh);
            extensions.push(holds);
        }
        extensions
    }

    /// Returns the addresses of the sets of three holds that are tried.
    fn triples(held_trials: &mut HeldTrials) -> Vec<Vec<u64>> {
        let extensions = extensions(held_trials).into_iter();
        let triples = extensions.filter(|holds| holds.len() == 3);
        triples.map(|holds| addresses(&holds)).collect()
    }

    #[test]
    fn a_third_hold_is_added_to_the_best_examined_pair() {
        let mut held_trials = held_trials_at(&[1, 2, 3, 4]);
        assert!(held_trials.untried_triple(|_| 0).is_none());
        held_trials.earlier = vec![examination(&[2], 9), examination(&[1, 4], 6)];
        held_trials.examined = Some(examination(&[1, 2], 8));
        assert!(held_trials.untried_triple(|_| 1).is_none());
        assert_eq!(triples(&mut held_trials), [[3, 1, 2], [1, 2, 4]]);
    }

    #[test]
    fn the_best_examined_pair_is_tried_at_other_arrivals() {
        let mut held_trials = held_trials_at(&[1, 2]);
        let pair = examination(&[1, 2], 8);
        held_trials
            .tried_holds
            .insert(pair.holds.clone(), pair.fresh);
        held_trials.examined = Some(pair);
        let tried = extensions(&mut held_trials);
        assert!(tried.iter().all(|holds| addresses(holds) == [1, 2]));
        let occurrences = tried.iter().map(|holds| holds[0].occurrence);
        let occurrences: Vec<Occurrence> = occurrences.collect();
        let expected = [Occurrence::Half(0), Occurrence::Nth(2), Occurrence::Nth(4)];
        assert_eq!(occurrences, expected);
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
        let triples = extensions(&mut held_trials).into_iter();
        let first = triples
            .map(|holds| addresses(&holds))
            .find(|holds| holds.len() == 2);
        assert_eq!(first, Some(vec![2, 1]));
    }

    #[test]
    fn fewer_holds_are_added_to_one_that_often_fails() {
        let addresses: Vec<u64> = (0..100).collect();
        let additions = |failures: u64| {
            let mut held_trials = held_trials_at(&addresses);
            let single = examination(&[0], failures);
            held_trials
                .failing
                .insert(single.holds.clone(), ShownFailures::default());
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

    #[test]
    fn the_point_of_the_best_hold_is_also_tried_while_threads_run_one_by_one() {
        let mut held_trials = held_trials_at(&[1, 2]);
        let creator = HoldPoint::Start(CreationSide::Creator);
        let creation = LearnedPoint {
            point: creator.clone(),
            thread: 0,
            accesses_memory: false,
            ..learned_point(0)
        };
        held_trials.points.add_reached(&[creation]);
        let single = examination(&[1], 7);
        held_trials
            .failing
            .insert(single.holds.clone(), ShownFailures::default());
        held_trials.tried_holds.insert(single.holds, single.fresh);
        let mut attempts = Vec::new();
        while let Some(pair) = held_trials.untried_pair(|_| 0) {
            if pair[0].occurrence == Occurrence::Every {
                assert_eq!(pair[0].point, creator);
                assert_eq!(addresses(&pair), [1]);
                attempts.push(pair[1].occurrence);
            }
            held_trials
                .tried_holds
                .insert(pair, examination(&[], 1).fresh);
        }
        let expected = [1, 2, 4].map(Occurrence::Nth);
        assert_eq!(attempts.len(), 4);
        assert!(
            expected
                .iter()
                .all(|occurrence| attempts.contains(occurrence))
        );
    }
}
