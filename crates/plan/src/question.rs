//! The question of a scenario, and the failures that are the bug.

use super::{QuestionSettings, Scenario};
use provoke_model::BugFilter;

/// Hint for a missing baseline.
pub const MEASURE_FIRST: &str = "measure it first: provoke run --max-fail 3 -- CMD; or give counts: --baseline 3/30 (3 failures in 30 trials)";

/// What a search chooses its variants from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SearchShape {
    /// An ordered list of candidates.
    List,
    /// A set of items.
    Set,
    /// Conditions of trials.
    Conditions,
}

impl Scenario {
    /// Returns the question; several load levels imply it.
    pub fn asked_question(&self) -> QuestionSettings {
        let fallback = if self.has_load_levels() {
            QuestionSettings::Ramp
        } else {
            QuestionSettings::Rate
        };
        self.outline.ask.unwrap_or(fallback)
    }

    /// Returns what its variants are chosen from; `None` if it defines them.
    pub fn search_shape(&self) -> Option<SearchShape> {
        match self.outline.ask? {
            QuestionSettings::Bisect => Some(SearchShape::List),
            QuestionSettings::Reduce => Some(SearchShape::Set),
            QuestionSettings::Why => Some(SearchShape::Conditions),
            _ => None,
        }
    }

    /// Returns whether every failure is the bug.
    pub fn takes_any_failure(&self) -> bool {
        self.count.any_failure.unwrap_or(false)
    }

    /// Returns the failures that are the bug: the given ones, or the ones of the question.
    pub(super) fn bug_rules(&self, of_question: Vec<BugFilter>) -> Vec<BugFilter> {
        let given = self.judge.only.0.iter().map(|rule| match &rule.0 {
            // The search is for what lets the test pass.
            BugFilter::Test(pattern) if self.items.needs.is_some() => {
                BugFilter::Passes(pattern.clone())
            }
            filter => filter.clone(),
        });
        let given: Vec<BugFilter> = given.collect();
        if given.is_empty() { of_question } else { given }
    }
}
