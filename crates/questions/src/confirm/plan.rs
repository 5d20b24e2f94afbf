//! Plans a check of a fix.

use super::ConfirmKind;
use crate::baseline::check_baseline;
use provoke_model::{
    Baseline, BugFilter, CaptureMode, ConfirmQuestion, MeasuredBaseline, Question,
};
use provoke_plan::{
    MEASURE_FIRST, PlannedQuestion, QuestionDraft, QuestionPlan, Scenario, SettingsGroup,
};
use provoke_words::diagnostic::Diagnostic;

impl PlannedQuestion for ConfirmKind {
    fn command(&self) -> &'static str {
        "confirm"
    }

    fn settings(&self) -> &'static [SettingsGroup] {
        &[
            SettingsGroup::Confirm,
            SettingsGroup::Baseline,
            SettingsGroup::DifferentConditions,
            SettingsGroup::AnyFailure,
            SettingsGroup::EarlierRuns,
        ]
    }

    fn plan(&self, draft: QuestionDraft<'_>) -> Result<QuestionPlan, Diagnostic> {
        let QuestionDraft {
            scenario,
            variants,
            baseline: measured,
        } = draft;
        if let [_, second, ..] = variants {
            let message = format!(
                "`confirm` checks one variant, and there are {}",
                variants.len()
            );
            let hint = format!(
                "leave the variants out (`{}`, ...), or use `provoke compare`",
                second.name
            );
            return Err(Diagnostic::of_field("variant", message, hint));
        }
        if scenario.takes_any_failure() && !scenario.judge.only.0.is_empty() {
            return Err(Diagnostic::of_field(
                "any-failure",
                "`only` and `any-failure` contradict each other",
                "give one of the two",
            ));
        }
        let baseline = match (measured, scenario.confirm.assume_rate) {
            (Some(_), Some(_)) => {
                return Err(Diagnostic::of_field(
                    "assume-rate",
                    "`baseline` and `assume-rate` are both given",
                    "give one of the two; a measured baseline is better",
                ));
            }
            (None, Some(rate)) => Baseline::Assumed(rate.0),
            (Some(measured), None) => {
                let mut measured = checked_baseline(scenario, measured)?;
                measured.assumed_independent = scenario.confirm.independent.unwrap_or(false);
                Baseline::Measured(Box::new(measured))
            }
            (None, None) => {
                let message = if scenario.judge.only.0.is_empty() {
                    "there is no baseline: no stored run has failures"
                } else {
                    "there is no baseline: no stored run has failures that `only` names"
                };
                return Err(Diagnostic::of_field("baseline", message, MEASURE_FIRST));
            }
        };
        // A user who sets `only` knows the other failures.
        let takes_bugs = scenario.judge.only.0.is_empty() && !scenario.takes_any_failure();
        let measured = baseline.as_measured().filter(|_| takes_bugs);
        let bugs = measured.map_or(&[][..], |base| &base.bugs);
        let names = bugs.iter().flat_map(|bug| &bug.names);
        let filters = names.copied().map(BugFilter::Signature).collect();
        let doubts = bugs.iter().map(|bug| bug.widest).collect();
        let question = ConfirmQuestion {
            baseline,
            doubts,
            exclude_half: scenario.confirm.exclude_half,
            independent: scenario.confirm.independent.unwrap_or(false),
            accept_conditions: scenario
                .baseline
                .accept_different_conditions
                .unwrap_or(false),
            earlier_attempts: 0,
            unchanged: None,
        };
        Ok(QuestionPlan {
            bugs: filters,
            // The run ends with the first crash that counts, so no trial runs during or after a dump.
            capture: CaptureMode::On,
            ..QuestionPlan::new(Question::Confirm(question))
        })
    }

    fn finds_baseline(&self, scenario: &Scenario) -> bool {
        scenario.confirm.assume_rate.is_none()
    }

    fn restore_settings(&self, question: &Question, scenario: &mut Scenario) {
        if let Some(question) = question.as_confirm() {
            scenario.confirm.exclude_half = question.exclude_half;
            scenario.confirm.independent = question.independent.then_some(true);
        }
    }
}

/// Refuses a baseline that cannot be compared with trials of a fix.
fn checked_baseline(
    scenario: &Scenario,
    measured: MeasuredBaseline,
) -> Result<MeasuredBaseline, Diagnostic> {
    if measured.one_life && !scenario.confirm.independent.unwrap_or(false) {
        let message = format!(
            "the {} trials of the baseline shared the processes that `setup` started, so they may count as a single trial",
            measured.trials
        );
        let hint = "measure it again with `prepare` instead of `setup`, so that each trial starts its own processes; if trials cannot influence each other through them, add --independent";
        return Err(Diagnostic::of_field("baseline", message, hint));
    }
    check_baseline(scenario, measured)
}
