//! Measures the evidence that conditions have an effect on the outcome of one program, or of one test of a suite.

use super::condition::{Condition, Outcome};
use super::counts::Counts;
use super::halves::Halves;

/// Evidence at which a sham is assumed to have the effect itself.
const SHAM_EFFECT: f64 = 2.0;

/// The trials before the pairs, by their conditions.
#[derive(Debug, Clone)]
pub(super) struct Evidence {
    pub(super) plain: Counts,
    pub(super) singles: Vec<Counts>,
    /// Conditions whose trial alone was inconclusive.
    pub(super) refused: Vec<usize>,
    pub(super) halves: Halves,
}

impl Evidence {
    /// Returns no evidence about this number of conditions.
    pub(super) fn new(conditions: usize) -> Self {
        Self {
            plain: Counts::default(),
            singles: vec![Counts::default(); conditions],
            refused: Vec::new(),
            halves: Halves::default(),
        }
    }

    /// Adds a trial under at most one condition.
    pub(super) fn count_single(&mut self, set: &[usize], outcome: Outcome) {
        match *set {
            [] => self.plain.add(outcome),
            [condition, ..] => {
                self.singles[condition].add(outcome);
                if outcome == Outcome::NotCounted {
                    self.refused.push(condition);
                }
            }
        }
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
