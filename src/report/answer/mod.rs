//! Answer to a question: one sentence, its evidence and its assumptions.

mod bisect;
mod compare;
mod confirm;
mod earlier;
mod raise;
mod ramp;
mod reduce;
mod shrink;

pub use bisect::{
    Bisection, CandidateReport, EarlierFailingVersion, EarlierFailureMeaning, LocalCheck,
};
pub use compare::{
    Comparison, ContrastReport, DetectableRates, FactorLevelReport, FactorReport, VariantResult,
};
pub use confirm::{Confirmation, MoreFailures};
pub use earlier::{EarlierTrialsReport, RateMismatchReport};
pub use raise::{RaiseReport, TriedSettingReport, describe_raised, raise_hint};
pub use ramp::{LoadLevelReport, Threshold};
pub use reduce::{FailureCounts, NeededItem, Reduction};
pub use shrink::{
    LoadPartKindReport, LoadPartReport, SMALLEST, Shrinking, TriedLoadReport, describe_attempt,
};

use super::VariantReport;
use crate::model::{ExcludedRun, MeasuredBaseline, Plan, Question, RunCounts, VariantId};
use crate::state::{EarlierUse, State};
use schemars::JsonSchema;
use serde::Serialize;

/// The answer to a question.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// Is it fixed?
    Confirm(Box<Confirmation>),
    /// Which variants fail, and do they differ?
    Compare(Box<Comparison>),
    /// Which candidate is the first bad one?
    Bisect(Box<Bisection>),
    /// Which items does the failure need?
    Reduce(Box<Reduction>),
    /// At which concurrency does it fail?
    Ramp(Box<Threshold>),
    /// Which parts of a load does the crash need?
    Shrink(Box<Shrinking>),
}

/// How often it failed before the fix.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct BaselineReport {
    /// Trials that showed the bug.
    pub failures: u64,
    /// Counted trials.
    pub trials: u64,
    /// The run of the baseline; null if only its counts are known.
    pub run: Option<String>,
    /// The variant used as the reference, if it is one of the compared variants.
    pub variant: Option<String>,
    /// Trials that count as one independent trial: above 1 if failures came in clumps.
    pub design_effect: f64,
    /// In how many clumps the failures came, if that caused a warning; null otherwise.
    pub clumps: Option<u64>,
    /// How the failure rate changed during the run, if that caused a warning; null otherwise.
    pub drift: Option<RateDriftReport>,
    /// The failures by signature.
    pub bugs: Vec<String>,
    /// All runs of the program that count, the named one first; empty if only the named run counts.
    pub runs: Vec<RunCounts>,
    /// Runs of the same command that do not count, and why.
    pub left_out: Vec<ExcludedRun>,
    /// How the named run differs from the others, if by more than chance; null otherwise.
    pub rates_differ: Option<RateMismatchReport>,
}

/// A change of the failure rate while a baseline was measured.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct RateDriftReport {
    /// Whether the failures came late rather than early.
    pub late: bool,
    /// The probability of such a change at a constant rate.
    pub p_value: f64,
    /// Failures in the half with fewer failures, which the fix is compared with.
    pub failures: u64,
    /// Trials of that half.
    pub trials: u64,
}

impl BaselineReport {
    fn new(measured: &MeasuredBaseline, variant: Option<String>) -> Self {
        Self {
            failures: measured.failures,
            trials: measured.trials,
            run: measured.run.clone(),
            variant,
            design_effect: measured.design_effect(),
            clumps: measured.clumps,
            drift: measured.drift.map(|drift| RateDriftReport {
                late: drift.late,
                p_value: f64::from(drift.p_value) / 1e6,
                failures: drift.failures,
                trials: drift.trials,
            }),
            bugs: measured.bugs.iter().map(|bug| bug.title.clone()).collect(),
            runs: measured.runs.clone(),
            left_out: measured.left_out.clone(),
            rates_differ: RateMismatchReport::of_measured(measured),
        }
    }
}

impl Answer {
    /// Derives the answer from the state; `None` if the question was only the rate.
    pub(super) fn new(state: &State, variants: &[VariantReport]) -> Option<Self> {
        let confirm = Confirmation::new(state).map(Box::new).map(Self::Confirm);
        confirm
            .or_else(|| Comparison::new(state).map(Box::new).map(Self::Compare))
            .or_else(|| Bisection::new(state).map(Box::new).map(Self::Bisect))
            .or_else(|| Reduction::new(state).map(Box::new).map(Self::Reduce))
            .or_else(|| {
                Threshold::new(state, variants)
                    .map(Box::new)
                    .map(Self::Ramp)
            })
            .or_else(|| Shrinking::new(state).map(Box::new).map(Self::Shrink))
    }

    /// Returns the answer in one sentence.
    pub fn sentence(&self) -> &str {
        match self {
            Self::Confirm(answer) => &answer.sentence,
            Self::Compare(answer) => &answer.sentence,
            Self::Bisect(answer) => &answer.sentence,
            Self::Reduce(answer) => &answer.sentence,
            Self::Ramp(answer) => &answer.sentence,
            Self::Shrink(answer) => &answer.sentence,
        }
    }

    /// Returns further facts, one line each.
    pub fn detail_lines(&self) -> Vec<String> {
        match self {
            Self::Confirm(answer) => answer.detail_lines(),
            Self::Compare(answer) => answer.detail_lines(),
            Self::Bisect(answer) => answer.detail_lines(),
            Self::Reduce(answer) => answer.detail_lines(),
            Self::Ramp(answer) => answer.detail_lines(),
            Self::Shrink(answer) => answer.detail_lines(),
        }
    }

    /// Returns whether the answer is FIXED, but a fix that only halves the failure rate may pass as well.
    pub fn may_be_a_half_fix(&self) -> bool {
        matches!(self, Self::Confirm(answer) if answer.may_be_a_half_fix())
    }

    /// Returns the assumptions of the answer.
    pub fn assumptions(&self) -> &[String] {
        match self {
            Self::Confirm(answer) => &answer.assumptions,
            Self::Compare(answer) => &answer.assumptions,
            Self::Bisect(answer) => &answer.assumptions,
            Self::Reduce(answer) => &answer.assumptions,
            Self::Ramp(answer) => &answer.assumptions,
            Self::Shrink(answer) => &answer.assumptions,
        }
    }
}

/// Describes the expected effort and result before the start.
pub fn lines_before_start(state: &State) -> Vec<String> {
    let mut lines = super::load_assumptions(state);
    lines.extend(match &state.plan.question {
        Question::Rate => Vec::new(),
        Question::Ramp(asked) => ramp::lines_before_start(state, asked),
        Question::Confirm(asked) => confirm::lines_before_start(state, asked),
        Question::Compare(asked) => compare::lines_before_start(state, asked),
        Question::Bisect(_) => bisect::lines_before_start(state),
        Question::Reduce(_) => reduce::lines_before_start(state),
        Question::Shrink(_) => shrink::lines_before_start(state),
    });
    lines.extend(raise::describe_settings(state));
    lines.extend(super::forecast_duration(state, None));
    lines
}

/// Returns the variants that a reader of the answer may want to inspect: the first bad candidate and the one before it,
/// or the smallest failing set.
pub fn kept_variants(state: &State) -> Vec<VariantId> {
    match (&state.search, &state.reduction) {
        (Some(_), _) => bisect::kept_variants(state),
        (None, Some(reduction)) => {
            let needed = reduction.current_answer().needed.concat();
            reduce::find_variant(state, needed).into_iter().collect()
        }
        (None, None) => Vec::new(),
    }
}

/// Describes why a search has no result about the failing variant.
fn not_tested(state: &State) -> String {
    let failing = state.plan.variant_plan(State::FAILING);
    let untried = state.launched_trials(State::FAILING) == 0 && state.is_testable(State::FAILING);
    if state.budget_spent && failing.is_made() && untried {
        let name = super::words::sanitize_line(&failing.name);
        return format!("NOT TESTED: preparing {name} took all of the time; -d allows more");
    }
    "NOT TESTED: no trial was conclusive".to_owned()
}

/// Returns the assumptions of every answer about its trials.
fn independence_assumptions(state: &State) -> Vec<String> {
    let mut all = Vec::new();
    if state.shares_a_life() {
        all.push("trials do not influence each other through what `setup` started".to_owned());
    }
    if state.search.is_some() {
        let fixed = state
            .plan
            .question
            .as_search()
            .is_some_and(|asked| asked.fixed);
        all.push(if fixed {
            "every version up to the last bad one fails at the same rate".to_owned()
        } else {
            "every version from the first bad one on fails at the same rate".to_owned()
        });
        if state
            .plan
            .question
            .as_search()
            .is_some_and(|asked| !asked.all)
        {
            all.push("there is only one boundary (--all searches for more)".to_owned());
        }
    }
    let others: u64 = state.all_tallies().map(|(_, tally)| tally.other).sum();
    if state.earlier_use == EarlierUse::Counted {
        all.push(unrecorded_assumption("earlier runs and this one"));
    }
    if state.plan.question.as_search().is_some() && state.plan.rules.only.is_empty() && others > 0 {
        all.push(
            "other failures than that of the bad end are other bugs (--any-failure counts them)"
                .to_owned(),
        );
    }
    all.extend(RaiseReport::new(state).and_then(|raised| raised.assumption_if_used()));
    if state.plan.jobs > 1 && matches!(state.plan.question, Question::Compare(_)) {
        all.push("parallel trials fail independently".to_owned());
    }
    all
}

/// Says that runs which count together may differ in unrecorded facts.
fn unrecorded_assumption(runs: &str) -> String {
    format!("{runs} do not differ in anything that is not recorded, such as an external database")
}

/// Returns a probability of error as text: `1 of 20`.
pub(super) fn one_of(alpha: f64) -> String {
    // Rounded down, so that the stated probability is never below the real one.
    format!(
        "1 of {}",
        super::words::format_number((1.0 / alpha + 1e-9).floor())
    )
}

fn format_confidence(plan: &Plan) -> String {
    format!("{} %", plan.alpha.confidence_percent())
}
