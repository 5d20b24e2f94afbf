//! Plans a search along a list.

use super::BisectKind;
use crate::search::plan_search;
use provoke_model::{BisectQuestion, Question};
use provoke_plan::{PlannedQuestion, QuestionDraft, QuestionPlan, SettingsGroup};
use provoke_words::diagnostic::Diagnostic;

impl PlannedQuestion for BisectKind {
    fn command(&self) -> &'static str {
        "bisect"
    }

    fn settings(&self) -> &'static [SettingsGroup] {
        &[
            SettingsGroup::Candidates,
            SettingsGroup::Fixed,
            SettingsGroup::Search,
            SettingsGroup::AnyFailure,
            SettingsGroup::EarlierRuns,
        ]
    }

    fn plan(&self, draft: QuestionDraft<'_>) -> Result<QuestionPlan, Diagnostic> {
        let settings = &draft.scenario.bisect;
        Ok(QuestionPlan::new(Question::Bisect(BisectQuestion {
            search: plan_search(draft.scenario),
            fixed: settings.fixed.unwrap_or(false),
            all: settings.all.unwrap_or(false),
            inside: None,
        })))
    }
}
