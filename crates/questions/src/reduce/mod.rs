//! Answers which smallest set of items keeps the failure.

mod answer;
mod memory;
mod plan;
mod policy;

pub use answer::{NeededItem, ReduceAnswer};
pub use policy::ReducePolicy;

use super::{Policy, QuestionKind, boxed_memory, search};
use crate::answer::{AnswerContext, AnswerKind};
use memory::ReduceMemory;
use provoke_model::{Goal, TrialsPlan, VariantId};
use provoke_state::{Memory, State};
use provoke_stats::{search as stats, whole};

/// Which smallest set of items keeps the failure?
pub(super) struct ReduceKind;

impl QuestionKind for ReduceKind {
    fn policy(&self, _: &Goal) -> &'static dyn Policy {
        &ReducePolicy
    }

    fn begin_memory(&self, goal: &Goal, trials: &TrialsPlan) -> Box<dyn Memory> {
        let question = goal.question.as_reduce();
        boxed_memory(question.map(|question| ReduceMemory::new(goal, trials, question)))
    }

    fn expects_untestable(&self) -> bool {
        true
    }

    fn estimates_effort_late(&self) -> bool {
        true
    }

    /// Returns a lower bound, because more items may be needed.
    fn expected_trials_left(&self, state: &State) -> Option<u64> {
        let reduction: &stats::Reduction = state.learned()?;
        Some(whole(reduction.runs_left()))
    }

    fn lines_before_start(&self, state: &State) -> Vec<String> {
        answer::lines_before_start(state)
    }

    fn progress(&self, state: &State) -> Option<String> {
        search::describe_setting(state).or_else(|| describe_needed_items(state))
    }

    fn answer(&self, state: &State, _: &AnswerContext<'_>) -> Option<AnswerKind> {
        ReduceAnswer::new(state)
            .map(Box::new)
            .map(AnswerKind::Reduce)
    }

    /// Returns the smallest failing set.
    fn kept_variants(&self, state: &State) -> Vec<VariantId> {
        let reduction: Option<&stats::Reduction> = state.learned();
        let needed = reduction.map(|reduction| reduction.current_answer().needed.concat());
        let variant = needed.and_then(|needed| answer::find_variant(state, needed));
        variant.into_iter().collect()
    }
}

/// Returns the number of needed items that the search has found so far.
fn describe_needed_items(state: &State) -> Option<String> {
    let Some(reduction) = state.learned::<stats::Reduction>() else {
        return Some("reproducing the failure".to_owned());
    };
    let items = state.trials.space.as_ref()?.len();
    let needed = reduction.current_answer().needed.len();
    Some(if reduction.is_found() {
        format!("{needed} of {items} needed, confirming")
    } else {
        format!("{needed} of {items} needed so far")
    })
}
