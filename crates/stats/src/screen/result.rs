//! The results of a screen.

use super::counts::Counts;
use super::dose::Dose;
use super::pairs::{Direction, PairTest, PairTestState};

/// What a screen found about a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConditionVerdict {
    /// Failures are more frequent than under its reference.
    Raises,
    /// Failures are less frequent than under its reference.
    Removes,
    /// It was tried, and no difference was claimed.
    NoDifferenceSeen,
    /// No trial under it was counted.
    Untried,
}

impl ConditionVerdict {
    /// Returns the verdict about a condition by its pairs, if there are any, and whether it was tried before them.
    pub(super) fn new(pairs: Option<&PairTest>, is_tried: bool) -> Self {
        match pairs {
            Some(test) if test.state == PairTestState::Claimed => match test.direction {
                Direction::Raises => Self::Raises,
                Direction::Removes => Self::Removes,
            },
            Some(test) if test.with.trials > 0 => Self::NoDifferenceSeen,
            _ if is_tried => Self::NoDifferenceSeen,
            _ => Self::Untried,
        }
    }
}

/// The result of a condition.
#[derive(Debug, Clone)]
pub struct ConditionResult {
    /// The verdict.
    pub verdict: ConditionVerdict,
    /// Trials under this condition alone, before its test.
    pub singles: Counts,
    /// Trials under a random half of the families: with this condition, and without its family.
    pub halves: [Counts; 2],
    /// The test in pairs.
    pub pairs: Option<PairTest>,
    /// The steps between which the effect begins.
    pub dose: Option<Dose>,
}

/// What a screen does at present.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScreenPhase {
    /// Runs plain trials.
    Plain,
    /// Runs trials under single conditions.
    Round,
    /// Tests the seeds of this family.
    Seeds(usize),
    /// Runs trials under random halves of the families.
    Halves,
    /// Leaves out conditions that changed the outcome together.
    Joint,
    /// Tests these conditions in pairs.
    Pairs(Vec<usize>),
    /// Searches the ladder of this condition.
    Dose(usize),
    /// Is over.
    Over,
}
