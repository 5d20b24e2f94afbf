//! Plans a search for what failing trials do differently.

use super::DifferKind;
use provoke_model::{CodeScope, DifferQuestion, MeasuredBaseline, Question};
use provoke_plan::{PlannedQuestion, QuestionDraft, QuestionPlan, SettingsGroup};
use provoke_words::diagnostic::Diagnostic;
use std::time::Duration;

/// Default time limit.
const DURATION: Duration = Duration::from_secs(60);

impl PlannedQuestion for DifferKind {
    fn command(&self) -> &'static str {
        "differ"
    }

    fn settings(&self) -> &'static [SettingsGroup] {
        &[
            SettingsGroup::Differ,
            SettingsGroup::Baseline,
            SettingsGroup::AnyFailure,
            SettingsGroup::EarlierRuns,
        ]
    }

    fn plan(&self, draft: QuestionDraft<'_>) -> Result<QuestionPlan, Diagnostic> {
        draft.require_one_variant("differ")?;
        let scope = CodeScope::of_parts(&draft.scenario.differ.observe_in);
        let known = draft.baseline.and_then(MeasuredBaseline::into_known_crash);
        Ok(QuestionPlan {
            time: Some(DURATION),
            stops_if_alike: false,
            ..QuestionPlan::new(Question::Differ(DifferQuestion { scope, known }))
        })
    }

    fn refuse_counts(&self) -> Option<&'static str> {
        Some("do not say which failure is looked for")
    }
}
