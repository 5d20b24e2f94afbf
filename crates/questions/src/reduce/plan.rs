//! Plans a search for the smallest set that keeps the failure.

use super::ReduceKind;
use crate::search::plan_search;
use provoke_model::Question;
use provoke_plan::{PlannedQuestion, QuestionDraft, QuestionPlan, SettingsGroup};
use provoke_words::diagnostic::Diagnostic;

impl PlannedQuestion for ReduceKind {
    fn command(&self) -> &'static str {
        "reduce"
    }

    fn settings(&self) -> &'static [SettingsGroup] {
        &[
            SettingsGroup::Items,
            SettingsGroup::Search,
            SettingsGroup::AnyFailure,
            SettingsGroup::EarlierRuns,
        ]
    }

    fn plan(&self, draft: QuestionDraft<'_>) -> Result<QuestionPlan, Diagnostic> {
        let question = Question::Reduce(plan_search(draft.scenario));
        Ok(QuestionPlan::new(question))
    }
}
