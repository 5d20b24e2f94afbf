//! Plans a search for the conditions under which a program fails.

use super::WhyKind;
use provoke_model::{KnownCrash, Question, WhyQuestion};
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
        let known = draft.baseline.and_then(|baseline| {
            let (run, bugs) = (baseline.run?, baseline.bugs);
            Some(Box::new(KnownCrash { run, bugs }))
        });
        let question = WhyQuestion {
            known,
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
