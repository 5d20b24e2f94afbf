//! Plans a search for the lowest failing load level.

use super::RampKind;
use provoke_model::{Question, RampQuestion, VariantPlan};
use provoke_plan::{PlannedQuestion, QuestionDraft, QuestionPlan, Scenario, SettingsGroup};
use provoke_words::diagnostic::Diagnostic;
use std::time::Duration;

/// Default time limit.
const DURATION: Duration = Duration::from_secs(1800);

impl PlannedQuestion for RampKind {
    fn command(&self) -> &'static str {
        "load"
    }

    fn settings(&self) -> &'static [SettingsGroup] {
        &[SettingsGroup::AnyFailure]
    }

    fn plan(&self, draft: QuestionDraft<'_>) -> Result<QuestionPlan, Diagnostic> {
        let question = RampQuestion {
            detect: draft.scenario.detection_rate(),
            above: false,
        };
        Ok(QuestionPlan {
            time: Some(DURATION),
            ..QuestionPlan::new(Question::Ramp(question))
        })
    }

    /// Makes a variant of each load level.
    fn plan_variants(
        &self,
        scenario: &Scenario,
        variants: Vec<VariantPlan>,
    ) -> Result<Vec<VariantPlan>, Diagnostic> {
        scenario.level_variants(&variants)
    }
}
