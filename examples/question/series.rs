//! The longest series of passes before the tenth failure: everything that the question needs is in this file.

use provoke_model::{Goal, Outcome, Question, Trial, TrialsPlan, VariantId};
use provoke_plan::{PlannedQuestion, QuestionDraft, QuestionPlan, SettingsGroup};
use provoke_questions::{Policy, QuestionKind, Step, StopRule, Verdict};
use provoke_state::{Memory, State, TrialFacts};
use provoke_words::diagnostic::Diagnostic;
use std::any::Any;

const FAILURES: u64 = 10;
const ONLY_VARIANT: VariantId = VariantId(0);

/// How long is the longest series of passes before the tenth failure?
pub(crate) struct SeriesKind;

impl PlannedQuestion for SeriesKind {
    fn command(&self) -> &'static str {
        "series"
    }

    fn settings(&self) -> &'static [SettingsGroup] {
        &[]
    }

    fn plan(&self, _: QuestionDraft<'_>) -> Result<QuestionPlan, Diagnostic> {
        Ok(QuestionPlan::new(Question::Rate))
    }
}

impl QuestionKind for SeriesKind {
    fn policy(&self, _: &Goal) -> &'static dyn Policy {
        &UntilTenFailures
    }

    fn begin_memory(&self, _: &Goal, _: &TrialsPlan) -> Box<dyn Memory> {
        Box::new(PassSeries::default())
    }

    fn progress(&self, state: &State) -> Option<String> {
        let series: &PassSeries = state.learned()?;
        let tally = state.tally_of(ONLY_VARIANT);
        Some(format!(
            "{} of {} failed; the longest series of passes was {}",
            tally.failures,
            tally.counted_trials(),
            series.longest,
        ))
    }
}

/// Runs trials until ten have failed.
struct UntilTenFailures;

impl Policy for UntilTenFailures {
    fn next_step(&self, state: &State) -> Step {
        match state.tally_of(ONLY_VARIANT).failures {
            FAILURES.. => Step::Done,
            _ if state.stage.is_budget_spent() => Step::Done,
            _ => Step::Launch(ONLY_VARIANT),
        }
    }

    fn verdict_of(&self, state: &State) -> Verdict {
        match state.tally_of(ONLY_VARIANT).failures {
            0 => Verdict::Undecided,
            _ => Verdict::Failing,
        }
    }

    fn stop_rule(&self, _: &State, _: VariantId) -> StopRule {
        StopRule::KthFailure
    }

    fn remaining_trials(&self, _: &State) -> Option<u64> {
        None
    }
}

/// What the question learns from the trials.
#[derive(Debug, Default)]
struct PassSeries {
    current: u64,
    longest: u64,
}

impl Memory for PassSeries {
    fn parts(&self) -> Vec<&dyn Any> {
        vec![self]
    }

    fn add_trial(&mut self, _: &State, _: &Trial, facts: &TrialFacts) {
        self.current = match facts.outcome {
            Outcome::Pass => self.current + 1,
            _ => 0,
        };
        self.longest = self.longest.max(self.current);
    }
}
