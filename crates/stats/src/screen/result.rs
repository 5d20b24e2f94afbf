//! The results of a screen.

use super::counts::Counts;
use super::dose::Dose;
use super::pairs::PairTest;

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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScreenPhase {
    /// Runs plain trials.
    Plain,
    /// Runs trials under single conditions.
    Round,
    /// Tests the seeds of this family.
    Seeds(usize),
    /// Runs trials under random halves of the families.
    Halves,
    /// Tests this condition in pairs.
    Pairs(usize),
    /// Searches the ladder of this condition.
    Dose(usize),
    /// Is over.
    Over,
}
