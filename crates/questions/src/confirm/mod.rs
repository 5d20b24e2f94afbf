//! Answers whether a bug is fixed.

mod answer;
mod assumptions;
mod baseline_text;
mod comparison;
mod more_failures;
mod plan;
mod policy;
mod sweep;

pub use answer::ConfirmAnswer;
pub use more_failures::MoreFailures;
pub use policy::{ConfirmPolicy, ConfirmProgress, required_by_default};
pub(crate) use policy::{clean_needed, doubtful_failures, seconds_of_a_pass};

use super::{ComparedBaseline, Policy, QuestionKind};
use crate::answer::{AnswerContext, AnswerKind};
use provoke_model::{Goal, TrialsPlan, UnchangedProgram};
use provoke_state::{Memory, State};
use sweep::SweepMemory;

/// Is it fixed?
pub(super) struct ConfirmKind;

impl QuestionKind for ConfirmKind {
    fn repeats_one_trial(&self) -> bool {
        true
    }

    fn tests_a_fix(&self) -> bool {
        true
    }

    fn baseline<'a>(&self, goal: &'a Goal) -> Option<ComparedBaseline<'a>> {
        let question = goal.question.as_confirm()?;
        Some(ComparedBaseline {
            measured: question.baseline.as_measured()?,
            accepts_conditions: question.accept_conditions,
        })
    }

    fn set_earlier_attempts(&self, goal: &mut Goal, attempts: u64) {
        if let Some(question) = goal.question.as_confirm_mut() {
            question.earlier_attempts = attempts;
        }
    }

    fn set_unchanged_program(&self, goal: &mut Goal, unchanged: UnchangedProgram) {
        if let Some(question) = goal.question.as_confirm_mut() {
            question.unchanged = Some(unchanged);
        }
    }

    fn policy(&self, _: &Goal) -> &'static dyn Policy {
        &ConfirmPolicy
    }

    fn begin_memory(&self, _: &Goal, trials: &TrialsPlan) -> Box<dyn Memory> {
        match &trials.held {
            Some(held_plan) => Box::new(SweepMemory::new(&held_plan.holds)),
            None => Box::new(()),
        }
    }

    fn lines_before_start(&self, state: &State) -> Vec<String> {
        let confirm_question = state.goal.question.as_confirm();
        confirm_question.map_or_else(Vec::new, |question| {
            answer::lines_before_start(state, question)
        })
    }

    fn progress(&self, state: &State) -> Option<String> {
        let progress = ConfirmProgress::of_state(state)?;
        let needed = progress.needed?;
        Some(format!("{} of {needed} passed", progress.clean))
    }

    fn answer(&self, state: &State, _: &AnswerContext<'_>) -> Option<AnswerKind> {
        ConfirmAnswer::new(state)
            .map(Box::new)
            .map(AnswerKind::Confirm)
    }
}
