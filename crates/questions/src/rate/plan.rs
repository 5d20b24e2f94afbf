//! Plans a measurement of the failure rate.

use super::RateKind;
use provoke_model::Question;
use provoke_plan::{
    DEFAULT_DURATION, DEFAULT_RUNS, PlannedQuestion, QuestionDraft, QuestionPlan, SettingsGroup,
};
use provoke_words::diagnostic::Diagnostic;

/// Default number of trials of a service.
const DEFAULT_STARTS: u64 = 20;

impl PlannedQuestion for RateKind {
    fn command(&self) -> &'static str {
        "run"
    }

    fn settings(&self) -> &'static [SettingsGroup] {
        &[SettingsGroup::StopRules, SettingsGroup::Reruns]
    }

    fn plan(&self, draft: QuestionDraft<'_>) -> Result<QuestionPlan, Diagnostic> {
        let trials = if draft.scenario.is_loaded() {
            DEFAULT_STARTS
        } else {
            DEFAULT_RUNS
        };
        Ok(QuestionPlan {
            trials: Some(trials).filter(|_| !draft.scenario.is_open_ended()),
            time: Some(DEFAULT_DURATION),
            ..QuestionPlan::new(Question::Rate)
        })
    }
}
