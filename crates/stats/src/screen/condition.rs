//! The input of a screen: conditions, limits and the outcomes of trials.

/// A condition under which trials can run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    /// Number of the family. A trial runs under at most one condition of a family.
    pub family: usize,
    /// The condition that it is compared with; without one, plain trials.
    pub sham: Option<usize>,
    /// Whether it is never combined with others.
    pub is_harsh: bool,
    /// What the screen uses it for.
    pub role: ConditionRole,
}

/// What a screen uses a condition for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConditionRole {
    /// It may matter: the screen tries it.
    Tried,
    /// Only the reference of other conditions.
    ShamOnly,
    /// A milder step of the ladder of this condition. Steps are listed from the mildest to the harshest.
    Step {
        /// The condition at the harsh end of the ladder.
        of: usize,
    },
    /// One of the seeds of its family.
    Seed,
}

/// The limits of a screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of trials.
    pub trials: u64,
    /// Number of parallel trials.
    pub parallel: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            trials: 300,
            parallel: 1,
        }
    }
}

/// How a trial ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It failed.
    Failed,
    /// It passed.
    Passed,
    /// It was inconclusive.
    NotCounted,
}

/// The next step of the caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// Run a trial under these conditions, in ascending order; none means a plain trial.
    Trial(Vec<usize>),
    /// Wait for the outcome of a running trial.
    Wait,
    /// The screen is over.
    Done,
}
