//! Plans a search for what failing trials do differently.

use super::DifferKind;
use provoke_model::{CodeScope, DifferQuestion, KnownCrash, Question};
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
        if let [_, second, ..] = draft.variants {
            let message = format!(
                "`differ` examines one variant, and there are {}",
                draft.variants.len()
            );
            let hint = format!("leave the variants out (`{}`, ...)", second.name);
            return Err(Diagnostic::of_field("variant", message, hint));
        }
        let known = draft.baseline.and_then(|baseline| {
            let (run, bugs) = (baseline.run?, baseline.bugs);
            Some(Box::new(KnownCrash { run, bugs }))
        });
        let scope = match &*draft.scenario.differ.observe_in {
            [] => CodeScope::Own,
            parts => CodeScope::Named(parts.to_vec()),
        };
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
