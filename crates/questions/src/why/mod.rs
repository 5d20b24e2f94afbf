//! Answers under which conditions the program fails.

mod answer;
mod condition_report;
mod conditions;
mod lists;
mod memory;
mod other_failures;
mod plan;
mod policy;
mod suite_answer;

pub use answer::WhyAnswer;
pub use policy::WhyPolicy;
pub use suite_answer::SuiteWhyAnswer;

use super::{Policy, QuestionKind};
use crate::answer::{AnswerContext, AnswerKind};
use memory::WhyMemory;
use provoke_model::{Goal, TrialsPlan};
use provoke_state::{Memory, State};

/// Under which conditions does it fail?
pub(super) struct WhyKind;

impl QuestionKind for WhyKind {
    fn policy(&self, _: &Goal) -> &'static dyn Policy {
        &WhyPolicy
    }

    fn begin_memory(&self, goal: &Goal, trials: &TrialsPlan) -> Box<dyn Memory> {
        match goal.question.as_why() {
            Some(question) => Box::new(WhyMemory::new(goal, trials, question)),
            None => Box::new(()),
        }
    }

    fn expects_untestable(&self) -> bool {
        true
    }

    fn progress(&self, state: &State) -> Option<String> {
        answer::describe_progress(state)
    }

    fn answer(&self, state: &State, context: &AnswerContext<'_>) -> Option<AnswerKind> {
        let of_suite = SuiteWhyAnswer::new(state).map(Box::new);
        of_suite.map(AnswerKind::WhySuite).or_else(|| {
            let of_program = WhyAnswer::new(state, context).map(Box::new);
            of_program.map(AnswerKind::Why)
        })
    }
}
