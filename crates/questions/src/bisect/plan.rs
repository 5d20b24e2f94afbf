//! Plans a search along a list.

use super::BisectKind;
use crate::search::plan_search;
use provoke_model::{BisectQuestion, Question};
use provoke_plan::{PlanError, PlannedQuestion, QuestionDraft, QuestionPlan, SettingsGroup};

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

    fn plan(&self, draft: QuestionDraft<'_>) -> Result<QuestionPlan, PlanError> {
        let settings = &draft.scenario.bisect;
        Ok(QuestionPlan::new(Question::Bisect(BisectQuestion {
            search: plan_search(draft.scenario),
            fixed: settings.fixed.unwrap_or(false),
            all: settings.all.unwrap_or(false),
            inside: None,
        })))
    }
}
