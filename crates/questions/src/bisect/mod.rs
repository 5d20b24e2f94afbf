//! Answers which candidate of an ordered list is the first that fails.

mod answer;
mod candidates;
mod culprit_checks;
mod features;
mod further_searches;
mod kinds;
mod memory;
mod plan;
mod policy;
mod progress;
mod tables;

pub use answer::{BisectAnswer, deciding_variant, is_culprit, search_log};
pub use candidates::CandidateReport;
pub use culprit_checks::{EarlierFailingVersion, EarlierFailureMeaning, LocalCheck};
pub use further_searches::{follows_boundary, next_search, search_merged};
pub use memory::CandidateBuilds;
pub(crate) use policy::search_trials;
pub use policy::{BisectPolicy, BisectProgress};

use super::{Policy, QuestionKind, boxed_memory, search};
use crate::answer::{AnswerContext, AnswerKind};
use memory::BisectMemory;
use provoke_model::{Goal, TrialsPlan, VariantId};
use provoke_state::{Memory, State};

/// Which candidate of an ordered list is the first that fails?
pub(super) struct BisectKind;

impl QuestionKind for BisectKind {
    fn policy(&self, _: &Goal) -> &'static dyn Policy {
        &BisectPolicy
    }

    fn begin_memory(&self, goal: &Goal, trials: &TrialsPlan) -> Box<dyn Memory> {
        let question = goal.question.as_bisect();
        boxed_memory(
            question.and_then(|question| BisectMemory::new(goal, trials, &question.search)),
        )
    }

    fn default_trial_limit(&self, state: &State) -> Option<u64> {
        policy::default_limit(state)
    }

    fn expected_trials_left(&self, state: &State) -> Option<u64> {
        policy::trials_left(state)
    }

    fn lines_before_start(&self, state: &State) -> Vec<String> {
        answer::lines_before_start(state)
    }

    fn progress(&self, state: &State) -> Option<String> {
        search::describe_setting(state).or_else(|| progress::describe_candidates(state))
    }

    fn answer(&self, state: &State, _: &AnswerContext<'_>) -> Option<AnswerKind> {
        BisectAnswer::new(state)
            .map(Box::new)
            .map(AnswerKind::Bisect)
    }

    fn kept_variants(&self, state: &State) -> Vec<VariantId> {
        answer::kept_variants(state)
    }
}
