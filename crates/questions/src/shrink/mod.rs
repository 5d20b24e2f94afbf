//! Answers which part of a load the crash of a service needs.

mod answer;
mod policy;

pub use answer::{LoadPartKindReport, LoadPartReport, SMALLEST, ShrinkAnswer, TriedLoadReport};
pub(crate) use policy::{KEPT_ALPHA, RATE_ALPHA};
pub use policy::{LoadDimension, ShrinkPolicy, ShrinkProgress, ShrinkState, TriedLoad};

use super::{Policy, QuestionKind};
use crate::answer::{AnswerContext, AnswerKind};
use provoke_model::Goal;
use provoke_plan::{PlannedQuestion, QuestionDraft, QuestionPlan, SettingsGroup};
use provoke_state::State;
use provoke_words::diagnostic::Diagnostic;

/// Which part of a load does its crash need?
pub(super) struct ShrinkKind;

impl QuestionKind for ShrinkKind {
    fn policy(&self, _: &Goal) -> &'static dyn Policy {
        &ShrinkPolicy
    }

    fn lines_before_start(&self, state: &State) -> Vec<String> {
        answer::lines_before_start(state)
    }

    fn progress(&self, state: &State) -> Option<String> {
        answer::describe_attempt(state)
    }

    fn answer(&self, state: &State, _: &AnswerContext<'_>) -> Option<AnswerKind> {
        ShrinkAnswer::new(state)
            .map(Box::new)
            .map(AnswerKind::Shrink)
    }
}

impl PlannedQuestion for ShrinkKind {
    fn command(&self) -> &'static str {
        "load"
    }

    fn settings(&self) -> &'static [SettingsGroup] {
        &[]
    }

    fn plan(&self, _: QuestionDraft<'_>) -> Result<QuestionPlan, Diagnostic> {
        unreachable!("a stored run is reduced")
    }
}
