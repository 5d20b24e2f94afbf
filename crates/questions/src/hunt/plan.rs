//! Plans a search for a schedule.

use super::HuntKind;
use provoke_model::{CodeScope, HuntQuestion, MeasuredBaseline, Question};
use provoke_plan::{PlannedQuestion, QuestionDraft, QuestionPlan, SettingsGroup};
use provoke_words::diagnostic::Diagnostic;
use std::time::Duration;

/// Default time limit.
const DURATION: Duration = Duration::from_secs(60);

impl PlannedQuestion for HuntKind {
    fn command(&self) -> &'static str {
        "hunt"
    }

    fn settings(&self) -> &'static [SettingsGroup] {
        &[
            SettingsGroup::Hunt,
            SettingsGroup::Baseline,
            SettingsGroup::AnyFailure,
            SettingsGroup::EarlierRuns,
        ]
    }

    fn plan(&self, draft: QuestionDraft<'_>) -> Result<QuestionPlan, Diagnostic> {
        draft.require_one_variant("hunt")?;
        let QuestionDraft {
            scenario, baseline, ..
        } = draft;
        if scenario.trials.held.is_some() {
            let message = "`hunt` searches holds, so `held` has no effect";
            return Err(Diagnostic::of_field(
                "held",
                message,
                "leave it out, or use `provoke run`",
            ));
        }
        let functions = baseline.as_ref().map(|baseline| baseline.functions.clone());
        let leading = baseline
            .as_ref()
            .map(|baseline| baseline.leading_points.clone());
        let question = HuntQuestion {
            scope: CodeScope::of_parts(&scenario.hunt.hold_in),
            first: functions.unwrap_or_default(),
            leading: leading.unwrap_or_default(),
            known: baseline.and_then(MeasuredBaseline::into_known_crash),
        };
        Ok(QuestionPlan {
            time: Some(DURATION),
            // The answer says by itself that the program fails in most plain trials.
            stops_if_alike: false,
            ..QuestionPlan::new(Question::Hunt(question))
        })
    }

    fn refuse_counts(&self) -> Option<&'static str> {
        Some("have no stacks that show where to hold threads")
    }
}
