//! Questions: how each one chooses its trials, what it learns from them, and how its answer reads.
//!
//! Each question has a folder. Only this file lists all of them: [`of_goal`] and [`of_scenario`].
//!
//! | folder | question |
//! | --- | --- |
//! | `rate` | how often does it fail? |
//! | `confirm` | is it fixed? |
//! | `compare` | which variants fail, and do their rates differ? |
//! | `bisect` | which candidate of an ordered list is the first that fails? |
//! | `reduce` | which smallest set of items keeps the failure? |
//! | `ramp` | from how many clients on does it fail? |
//! | `hunt` | under which schedule does it fail in most runs, and where? |
//! | `why` | under which conditions does it fail? |
//! | `differ` | what do failing trials do differently before the failure? |
//!
//! In a folder, `policy.rs` decides the next trial, `memory.rs` learns from every trial, `answer.rs` writes the answer,
//! and `progress.rs` the live line. `search` has what `bisect` and `reduce` share. After any of
//! them, [`RerunPolicy`] runs failing cases alone, and [`CapturePolicy`] captures the evidence of failures.
//!
#![doc = include_str!("../README.md")]

mod answer;
mod baseline;
mod bisect;
mod blocks;
mod checks;
mod compare;
mod confirm;
mod core_capture;
mod differ;
mod hunt;
mod policy;
mod ramp;
mod rate;
mod reduce;
mod reruns;
#[cfg(test)]
mod samples;
mod search;
mod stop_rule;
mod why;

pub use answer::{
    Answer, AnswerText, DescribedVariants, FailureCounts, RateMeaning, VariantSummary,
    counts_of_all, rate_table, variant_rates,
};
use answer::{AnswerContext, AnswerKind};
pub use baseline::{
    BaselineReport, PooledBaseline, RateDriftReport, RateMismatchReport, RequiredPasses,
    bugs_without_cores,
};
pub(crate) use bisect::search_trials;
pub use bisect::{
    BisectAnswer, BisectPolicy, BisectProgress, CandidateBuilds, CandidateReport,
    EarlierFailingVersion, EarlierFailureMeaning, LocalCheck, deciding_variant, follows_boundary,
    is_culprit, next_search, search_log, search_merged,
};
pub use checks::{AssumptionChecks, ceil_parts, measure_variant};
pub use compare::{
    CompareAnswer, Contrast, ContrastReport, DetectableRates, FactorLevelReport, FactorReport,
    FailureContrastReport, RacePolicy, RatesPolicy, VariantResult, VariantVerdict, contrasts,
};
pub use confirm::{
    ConfirmAnswer, ConfirmPolicy, ConfirmProgress, MoreFailures, required_by_default,
};
pub(crate) use confirm::{clean_needed, doubtful_failures, seconds_of_a_pass};
pub use core_capture::CapturePolicy;
pub use differ::{DifferAnswer, DifferPolicy, found_difference, leading_points};
pub use hunt::{
    FoundHold, HeldPlace, HuntAnswer, HuntPolicy, RaceReport, RaceSide, WindowLine, found_hold,
};
pub use policy::{HeldTrial, Policy, Step, Verdict, trials_without_known_failure};
pub use ramp::{
    LoadLevelReport, OtherKindReport, RampAnswer, RampPolicy, RefusalCounts, RefusalReport,
};
pub use rate::{MaxRateCheck, RepeatPolicy};
pub use reduce::{NeededItem, ReduceAnswer, ReducePolicy};
pub use reruns::{RerunPolicy, next_extra_step};
pub use search::{
    EarlierTrialsReport, EarlierUse, RaiseDecision, RaiseReport, Reproduction,
    ReproductionProgress, SearchedFailure, TriedSettingReport, counts_earlier_trials,
    describe_raised, describe_settings, raise_hint, raises_rate, reproduction_progress,
    searches_any_failure, set_earlier_trials, trial_limit,
};
pub(crate) use stop_rule::rate_interval;
pub use stop_rule::{StopRule, interval_at_any_time};
pub use why::{SuiteWhyAnswer, WhyAnswer, WhyPolicy};

use policy::nothing_counts;
use provoke_model::{
    Goal, MeasuredBaseline, Plan, Question, TrialsPlan, UnchangedProgram, VariantId,
};
use provoke_plan::{PlanContext, PlannedQuestion, QuestionSettings, Scenario};
use provoke_state::{Fold, Memory, State};
use provoke_words::diagnostic::Diagnostic;

/// A kind of question.
pub trait QuestionKind: PlannedQuestion + Send {
    /// Returns the policy that answers it.
    fn policy(&self, goal: &Goal) -> &'static dyn Policy;

    /// Returns the memory before the first trial.
    fn begin_memory(&self, _: &Goal, _: &TrialsPlan) -> Box<dyn Memory> {
        Box::new(())
    }

    /// Returns whether variants are often not testable, so that this deserves no warning.
    fn expects_untestable(&self) -> bool {
        false
    }

    /// Returns whether it only measures how often the program fails.
    fn only_measures(&self) -> bool {
        false
    }

    /// Returns whether the number of trials of each variant does not depend on their results, so that their failure rates
    /// mean something outside of the question.
    fn measures_variants(&self) -> bool {
        self.only_measures()
    }

    /// Returns whether its trials are equal repetitions in the order of time.
    fn repeats_one_trial(&self) -> bool {
        self.only_measures()
    }

    /// Returns whether it holds threads to find a schedule, which makes programs hang.
    fn searches_schedules(&self) -> bool {
        false
    }

    /// Returns whether some of its trials are disturbed on purpose, so that they may take long or hang, and end with the
    /// time limit.
    fn explores(&self) -> bool {
        self.searches_schedules()
    }

    /// Returns whether its trials test a possible fix: so they never count for another run, and only passing trials bring
    /// the end closer.
    fn tests_a_fix(&self) -> bool {
        false
    }

    /// Returns whether the number of its trials is estimated only after the failure was reproduced.
    fn estimates_effort_late(&self) -> bool {
        false
    }

    /// Returns the baseline with which it compares the trials, if that was measured.
    fn baseline<'a>(&self, _: &'a Goal) -> Option<ComparedBaseline<'a>> {
        None
    }

    /// Sets how many fixes were tried against its baseline before.
    fn set_earlier_attempts(&self, _: &mut Goal, _attempts: u64) {}

    /// Sets that the program is the same as in its baseline.
    fn set_unchanged_program(&self, _: &mut Goal, _: UnchangedProgram) {}

    /// Returns whether the number of its remaining trials is a forecast, which changes with every result.
    fn forecasts_trials(&self) -> bool {
        false
    }

    /// Returns the limit of trials if the user gave none.
    fn default_trial_limit(&self, _: &State) -> Option<u64> {
        None
    }

    /// Returns the approximate number of remaining trials, or a lower bound of it.
    fn expected_trials_left(&self, _: &State) -> Option<u64> {
        None
    }

    /// Returns the approximate time of the remaining trials in seconds, if trials of different variants take different
    /// times.
    fn expected_seconds_left(&self, _: &State) -> Option<f64> {
        None
    }

    /// Describes the expected effort and result before the start.
    fn lines_before_start(&self, _: &State) -> Vec<String> {
        Vec::new()
    }

    /// Describes the progress towards the answer, from the counted trials.
    fn progress(&self, _: &State) -> Option<String> {
        None
    }

    /// Returns the answer.
    fn answer(&self, _: &State, _: &AnswerContext<'_>) -> Option<AnswerKind> {
        None
    }

    /// Returns the variants that a reader of the answer may want to inspect.
    fn kept_variants(&self, _: &State) -> Vec<VariantId> {
        Vec::new()
    }
}

/// Returns the memory of a question before its first trial; an empty one if there is nothing to learn.
fn boxed_memory(memory: Option<impl Memory + 'static>) -> Box<dyn Memory> {
    match memory {
        Some(memory) => Box::new(memory),
        None => Box::new(()),
    }
}

/// A baseline with which trials are compared.
#[derive(Clone, Copy, Debug)]
pub struct ComparedBaseline<'a> {
    /// The counts.
    pub measured: &'a MeasuredBaseline,
    /// Whether differences from its conditions are assumed not to change the rate.
    pub accepts_conditions: bool,
}

/// Returns the kind of the question of a run.
pub fn of(state: &State) -> &'static dyn QuestionKind {
    of_goal(&state.goal)
}

/// Returns the kind of the question of a goal.
pub fn of_goal(goal: &Goal) -> &'static dyn QuestionKind {
    match goal.question {
        Question::Rate => &rate::RateKind,
        Question::Confirm(_) => &confirm::ConfirmKind,
        Question::Compare(_) => &compare::CompareKind,
        Question::Bisect(_) => &bisect::BisectKind,
        Question::Reduce(_) => &reduce::ReduceKind,
        Question::Ramp(_) => &ramp::RampKind,
        Question::Hunt(_) => &hunt::HuntKind,
        Question::Why(_) => &why::WhyKind,
        Question::Differ(_) => &differ::DifferKind,
    }
}

/// Returns the kind of the question that a scenario asks.
pub fn of_scenario(scenario: &Scenario) -> &'static dyn QuestionKind {
    match scenario.asked_question() {
        QuestionSettings::Rate => &rate::RateKind,
        QuestionSettings::Confirm => &confirm::ConfirmKind,
        QuestionSettings::Compare => &compare::CompareKind,
        QuestionSettings::Bisect => &bisect::BisectKind,
        QuestionSettings::Reduce => &reduce::ReduceKind,
        QuestionSettings::Ramp => &ramp::RampKind,
        QuestionSettings::Hunt => &hunt::HuntKind,
        QuestionSettings::Why => &why::WhyKind,
        QuestionSettings::Differ => &differ::DifferKind,
    }
}

/// Makes a plan from a scenario and its question, and adds the defaults.
pub fn plan(scenario: &Scenario, context: PlanContext) -> Result<Plan, Diagnostic> {
    scenario.to_plan(of_scenario(scenario), context)
}

/// Returns the policy that answers the question of a run.
pub fn policy_of(state: &State) -> &'static dyn Policy {
    of(state).policy(&state.goal)
}

/// Returns the memory of the question of a goal before the first trial.
pub fn begin_memory(goal: &Goal, trials: &TrialsPlan) -> Box<dyn Memory> {
    of_goal(goal).begin_memory(goal, trials)
}

/// Returns whether the question of a run is answered, and the evidence captured.
pub fn is_done(state: &State) -> bool {
    policy_of(state).is_done(state)
}

/// Folds the events of a run with its question.
pub const FOLD: Fold = Fold {
    begin_memory,
    is_decided: is_done,
};
