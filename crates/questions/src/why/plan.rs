//! Plans a search for the conditions under which a program fails.

use super::WhyKind;
use provoke_model::{MeasuredBaseline, Question, WhyQuestion};
use provoke_plan::{PlannedQuestion, QuestionDraft, QuestionPlan, SettingsGroup};
use provoke_words::diagnostic::Diagnostic;

impl PlannedQuestion for WhyKind {
    fn command(&self) -> &'static str {
        "why"
    }

    fn settings(&self) -> &'static [SettingsGroup] {
        &[
            SettingsGroup::Why,
            SettingsGroup::Baseline,
            SettingsGroup::AnyFailure,
            SettingsGroup::EarlierRuns,
        ]
    }

    fn plan(&self, draft: QuestionDraft<'_>) -> Result<QuestionPlan, Diagnostic> {
        let question = WhyQuestion {
            known: draft.baseline.and_then(MeasuredBaseline::into_known_crash),
            untested: Vec::new(),
        };
        Ok(QuestionPlan {
            // A program that always fails may pass under a condition.
            stops_if_alike: false,
            ..QuestionPlan::new(Question::Why(question))
        })
    }

    fn refuse_counts(&self) -> Option<&'static str> {
        Some("do not say which failure is looked for")
    }
}
