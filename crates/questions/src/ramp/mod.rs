//! Answers from how many clients on a service fails.

mod answer;
mod memory;
mod plan;
mod policy;
mod progress;
mod refusals;
mod tables;

pub use answer::{LoadLevelReport, OtherKindReport, RampAnswer};
pub use policy::RampPolicy;
pub use refusals::{RefusalCounts, RefusalReport};

use super::{Policy, QuestionKind, boxed_memory};
use crate::answer::{AnswerContext, AnswerKind};
use memory::RampMemory;
use provoke_model::{Goal, TrialsPlan};
use provoke_state::{Memory, State};

/// From how many clients on does it fail?
pub(super) struct RampKind;

impl QuestionKind for RampKind {
    fn policy(&self, _: &Goal) -> &'static dyn Policy {
        &RampPolicy
    }

    fn begin_memory(&self, goal: &Goal, trials: &TrialsPlan) -> Box<dyn Memory> {
        let question = goal.question.as_ramp();
        boxed_memory(question.and_then(|question| RampMemory::new(trials, question)))
    }

    fn forecasts_trials(&self) -> bool {
        true
    }

    fn lines_before_start(&self, state: &State) -> Vec<String> {
        let question = state.goal.question.as_ramp();
        question.map_or_else(Vec::new, |question| {
            answer::lines_before_start(state, question)
        })
    }

    fn expected_seconds_left(&self, state: &State) -> Option<f64> {
        RampPolicy::seconds_left(state)
    }

    fn progress(&self, state: &State) -> Option<String> {
        progress::describe_levels(state)
    }

    fn answer(&self, state: &State, context: &AnswerContext<'_>) -> Option<AnswerKind> {
        let threshold = RampAnswer::new(state, context);
        threshold.map(Box::new).map(AnswerKind::Ramp)
    }
}
