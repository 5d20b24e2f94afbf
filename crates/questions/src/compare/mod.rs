//! Answers which variants fail, and whether their rates differ.

mod answer;
mod contrast;
mod contrast_report;
mod detectable;
mod factors;
mod plan;
mod progress;
mod race;
mod rates;
mod tables;

pub use answer::{CompareAnswer, VariantResult};
pub use contrast::{Contrast, contrasts};
pub use contrast_report::{ContrastReport, FailureContrastReport};
pub use detectable::DetectableRates;
pub use factors::{FactorLevelReport, FactorReport};
pub use race::{RacePolicy, VariantVerdict};
pub use rates::RatesPolicy;
pub(crate) use rates::evidence_threshold;

use super::{ComparedBaseline, Policy, QuestionKind, boxed_memory};
use crate::answer::{AnswerContext, AnswerKind};
use contrast::CompareMemory;
use provoke_model::{CompareGoal, CompareQuestion, Goal, TrialsPlan};
use provoke_state::{Memory, State};

/// Which variants fail, and do their rates differ?
pub(super) struct CompareKind;

/// Returns the comparison of rates; `None` if the question is which variants fail.
fn asked_rates(goal: &Goal) -> Option<&CompareQuestion> {
    let question = goal.question.as_compare()?;
    (question.find == CompareGoal::Different).then_some(question)
}

impl QuestionKind for CompareKind {
    fn measures_variants(&self) -> bool {
        true
    }

    fn baseline<'a>(&self, goal: &'a Goal) -> Option<ComparedBaseline<'a>> {
        let question = goal.question.as_compare()?;
        Some(ComparedBaseline {
            measured: question.baseline.as_deref()?,
            accepts_conditions: question.accept_conditions,
        })
    }

    fn policy(&self, goal: &Goal) -> &'static dyn Policy {
        match asked_rates(goal) {
            Some(_) => &RatesPolicy,
            None => &RacePolicy,
        }
    }

    fn begin_memory(&self, goal: &Goal, trials: &TrialsPlan) -> Box<dyn Memory> {
        boxed_memory(asked_rates(goal).map(|question| CompareMemory::new(trials, question)))
    }

    fn lines_before_start(&self, state: &State) -> Vec<String> {
        let compare_question = state.goal.question.as_compare();
        compare_question.map_or_else(Vec::new, |question| {
            answer::lines_before_start(state, question)
        })
    }

    fn progress(&self, state: &State) -> Option<String> {
        progress::describe_progress(state)
    }

    fn answer(&self, state: &State, _: &AnswerContext<'_>) -> Option<AnswerKind> {
        CompareAnswer::new(state)
            .map(Box::new)
            .map(AnswerKind::Compare)
    }
}
