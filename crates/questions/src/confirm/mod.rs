//! Answers whether a bug is fixed.

mod answer;
mod assumptions;
mod baseline_text;
mod more_failures;
mod policy;
mod sweep;

pub use answer::ConfirmAnswer;
pub use more_failures::MoreFailures;
pub use policy::{ConfirmPolicy, ConfirmProgress, required_by_default};
pub(crate) use policy::{clean_needed, doubtful_failures, seconds_of_a_pass};

use super::{Policy, QuestionKind};
use crate::answer::{AnswerContext, AnswerKind};
use provoke_model::{Goal, TrialsPlan};
use provoke_state::{Memory, State};
use sweep::SweepMemory;

/// Is it fixed?
pub(super) struct ConfirmKind;

impl QuestionKind for ConfirmKind {
    fn command(&self) -> &'static str {
        "confirm"
    }

    fn repeats_one_trial(&self) -> bool {
        true
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
