//! Answer to a question: one sentence, its evidence and its assumptions.

use super::{Bisection, Comparison, Confirmation, HuntReport, Reduction, Shrinking, Threshold, of};
use provoke_model::{Goal, RunCounts, VariantId};
use provoke_state::State;
use provoke_stats::real;
use provoke_words as words;
use serde::Serialize;
use std::collections::BTreeSet;

/// The answer to a question.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// Is it fixed?
    Confirm(Box<Confirmation>),
    /// Which variants fail, and do they differ?
    Compare(Box<Comparison>),
    /// Which candidate is the first bad one?
    Bisect(Box<Bisection>),
    /// Which items does the failure need?
    Reduce(Box<Reduction>),
    /// At which concurrency does it fail?
    Ramp(Box<Threshold>),
    /// Which parts of a load does the crash need?
    Shrink(Box<Shrinking>),
    /// Under which schedule does it fail?
    Hunt(Box<HuntReport>),
}

/// The text of an answer.
pub trait AnswerText {
    /// Returns the answer in one sentence.
    fn sentence(&self) -> &str;

    /// Returns further facts, one line each.
    fn detail_lines(&self) -> Vec<String>;

    /// Returns the assumptions of the answer.
    fn assumptions(&self) -> &[String];
}

/// Failures among trials.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FailureCounts {
    /// Trials that showed the bug.
    pub failures: u64,
    /// Counted trials.
    pub trials: u64,
}

impl FailureCounts {
    pub(super) fn in_words(self) -> String {
        format!("{} of {}", self.failures, self.trials)
    }

    pub(super) fn add_trial(&mut self, is_failure: bool) {
        self.trials += 1;
        self.failures += u64::from(is_failure);
    }

    /// Returns the part of the trials that failed; 0 without a trial.
    pub(super) fn rate(self) -> f64 {
        real(self.failures) / real(self.trials.max(1))
    }
}

impl Answer {
    /// Derives the answer from the state; `None` if the question was only the rate. `name_crash` returns the title of
    /// the most frequent failure of a variant.
    pub fn new(state: &State, name_crash: &dyn Fn(VariantId) -> Option<String>) -> Option<Self> {
        of(state).answer(state, name_crash)
    }

    /// Returns its text.
    pub fn text(&self) -> &dyn AnswerText {
        match self {
            Self::Confirm(answer) => &**answer,
            Self::Compare(answer) => &**answer,
            Self::Bisect(answer) => &**answer,
            Self::Reduce(answer) => &**answer,
            Self::Ramp(answer) => &**answer,
            Self::Shrink(answer) => &**answer,
            Self::Hunt(answer) => &**answer,
        }
    }

    /// Returns whether the answer is FIXED, but a fix that only halves the failure rate may pass as well.
    pub fn may_be_a_half_fix(&self) -> bool {
        matches!(self, Self::Confirm(answer) if answer.may_be_a_half_fix())
    }
}

/// Returns the assumptions of every answer about its trials.
pub(super) fn independence_assumptions(state: &State) -> Vec<String> {
    let shared = "trials do not influence each other through what `setup` started";
    let shares_processes = state.shares_a_life();
    let held_assumption = state.trials.held.as_ref().map(|held_plan| {
        format!(
            "other schedules than that of the hold behave alike: all trials hold threads as {} found",
            held_plan.run
        )
    });
    let shared = shares_processes.then(|| shared.to_owned());
    held_assumption.into_iter().chain(shared).collect()
}

/// Says that runs which count together may differ in unrecorded facts, and in files that only some of them had.
pub(super) fn unrecorded_assumption(runs: &str, counted: &[RunCounts]) -> Vec<String> {
    let files: BTreeSet<&String> = counted.iter().flat_map(|run| &run.other_files).collect();
    let names: Vec<String> = files
        .iter()
        .take(FILES)
        .map(|name| format!("`{}`", words::sanitize_line(name)))
        .collect();
    let more = match files.len().saturating_sub(FILES) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let with_files = (!files.is_empty()).then(|| {
        format!(
            "files that only some of these runs had do not matter: {}{more}",
            names.join(", ")
        )
    });
    let unrecorded = format!(
        "{runs} do not differ in anything that is not recorded, such as an external database"
    );
    std::iter::once(unrecorded).chain(with_files).collect()
}

/// Maximum number of files that an assumption names.
const FILES: usize = 3;

/// Returns a probability of error as text: `1 of 20`.
pub(super) fn one_of(alpha: f64) -> String {
    // Rounded down, so that the stated probability is never below the real one.
    format!(
        "1 of {}",
        words::format_number((1.0 / alpha + 1e-9).floor())
    )
}

pub(super) fn format_confidence(goal: &Goal) -> String {
    format!("{} %", goal.alpha.confidence_percent())
}
