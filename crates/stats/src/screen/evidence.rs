//! Measures the evidence that conditions have an effect on the outcome of one program, or of one test of a suite.

use super::condition::{Condition, Outcome};
use super::counts::Counts;
use super::halves::Halves;
use super::pairs::Direction;

/// Trials alone that must be inconclusive before a condition is given up, if plain trials are inconclusive, too.
const REFUSALS: usize = 3;
/// Plain trials that must all be inconclusive before a search is given up.
const INCONCLUSIVE_PLAIN: usize = 12;
/// Evidence at which a sham is assumed to have the effect itself.
const SHAM_EFFECT: f64 = 2.0;

/// The trials before the pairs, by their conditions.
#[derive(Debug, Clone)]
pub(super) struct Evidence {
    pub(super) plain: Counts,
    pub(super) singles: Vec<Counts>,
    /// Conditions of trials alone that were inconclusive.
    inconclusive: Vec<usize>,
    /// Plain trials that were inconclusive.
    inconclusive_plain: usize,
    pub(super) halves: Halves,
}

impl Evidence {
    /// Returns no evidence about this number of conditions.
    pub(super) fn new(conditions: usize) -> Self {
        Self {
            plain: Counts::default(),
            singles: vec![Counts::default(); conditions],
            inconclusive: Vec::new(),
            inconclusive_plain: 0,
            halves: Halves::default(),
        }
    }

    /// Adds a trial under at most one condition.
    pub(super) fn count_single(&mut self, set: &[usize], outcome: Outcome) {
        match *set {
            [] => {
                self.plain.add(outcome);
                self.inconclusive_plain += usize::from(outcome == Outcome::NotCounted);
            }
            [condition, ..] => {
                self.singles[condition].add(outcome);
                if outcome == Outcome::NotCounted {
                    self.inconclusive.push(condition);
                }
            }
        }
    }

    /// Returns whether plain trials are repeated although all of them were inconclusive.
    pub(super) fn may_repeat_plain(&self) -> bool {
        self.inconclusive_plain < INCONCLUSIVE_PLAIN
    }

    /// Returns the outcome that plain trials do not have, if they never differ, and the direction of its conditions.
    pub(super) fn unusual_outcome(&self) -> (Outcome, Direction) {
        if self.plain.failures == 0 {
            (Outcome::Failed, Direction::Raises)
        } else {
            (Outcome::Passed, Direction::Removes)
        }
    }

    /// Returns whether no trial is conclusive under a condition, as far as is known.
    pub(super) fn is_refused(&self, condition: usize) -> bool {
        let refusals = self.inconclusive.iter().filter(|&&one| one == condition);
        if self.inconclusive_plain > 0 {
            self.singles[condition].trials == 0 && refusals.count() >= REFUSALS
        } else {
            refusals.count() > 0
        }
    }

    /// Returns whether a condition must be tried alone: a trial under it was inconclusive, and none was counted.
    pub(super) fn is_doubtful(&self, condition: usize) -> bool {
        let was_inconclusive = self.inconclusive.contains(&condition)
            || self.halves.suspects().any(|suspect| suspect == condition);
        was_inconclusive
            && self.singles[condition].trials == 0
            && !self.halves.has_counted(condition)
    }

    /// Returns the evidence that a condition has an effect, in standard deviations; negative if it removes failures.
    pub(super) fn of_condition(&self, condition: usize, conditions: &[Condition]) -> f64 {
        let family = conditions[condition].family;
        let [with, without] = self.halves.contrast(condition, family);
        let evidence =
            with.signed_evidence(without) + self.singles[condition].signed_evidence(self.plain);
        deviations(evidence)
    }

    /// Returns whether the sham of a condition seems to have the effect itself.
    pub(super) fn is_explained_by_sham(&self, condition: usize, conditions: &[Condition]) -> bool {
        conditions[condition].sham.is_some_and(|sham| {
            let of_sham = deviations(self.singles[sham].signed_evidence(self.plain));
            let is_raised = self.of_condition(condition, conditions) > 0.0;
            of_sham.abs() >= SHAM_EFFECT && of_sham.is_sign_positive() == is_raised
        })
    }
}

/// Returns a log-likelihood ratio as a number of standard deviations.
fn deviations(evidence: f64) -> f64 {
    (2.0 * evidence.abs()).sqrt().copysign(evidence)
}
