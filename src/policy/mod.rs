//! Decides which trial to launch next, and when the question is answered.
//!
//! A policy is pure: it reads only the [`State`], and keeps no data that the state cannot restore. So a run is resumed
//! by folding its journal and asking the same policy again.
//!
//! | policy | question |
//! | --- | --- |
//! | [`RepeatPolicy`] | how often does it fail? |
//! | [`ConfirmPolicy`] | is it fixed? |
//! | [`RacePolicy`] | which variants fail, and which fail less often or not at all? |
//! | [`RatesPolicy`] | do variants fail at different rates? |
//! | [`BisectPolicy`] | which candidate of an ordered list is the first that fails? |
//! | [`ReducePolicy`] | which smallest set of items keeps the failure? |
//! | [`RampPolicy`] | from how many clients on does it fail? |
//! | [`ShrinkPolicy`] | which part of a load does its crash need? |
//! | [`CapturePolicy`] | after any of these: what evidence do the failures leave? |

mod bisect;
mod blocks;
mod capture;
mod confirm;
mod race;
mod raise;
mod ramp;
mod rates;
mod reduce;
mod repeat;
mod search;
mod shrink;

pub use bisect::{BisectPolicy, BisectProgress, search_trials, trials_left};
pub use capture::CapturePolicy;
pub use confirm::{
    ConfirmPolicy, ConfirmProgress, clean_needed, doubtful_failures, needed_by_default,
    seconds_of_a_pass,
};
pub use race::{RacePolicy, VariantVerdict};
pub use raise::RaiseDecision;
pub use ramp::RampPolicy;
pub use rates::{RatesPolicy, evidence_threshold};
pub use reduce::ReducePolicy;
pub use repeat::{RepeatPolicy, rate_bounds};
pub use search::trial_limit;
pub use shrink::{
    KEPT_ALPHA, LoadDimension, RATE_ALPHA, ShrinkPolicy, ShrinkProgress, ShrinkState, TriedLoad,
};

use crate::model::{
    CompareGoal, MeasuredBaseline, Plan, Question, RateDrift, VariantChoice, VariantId,
};
use crate::state::{State, Tally};
use provoke_stats::{Clumping, Interval, Trend, clopper_pearson, confidence_sequence};

/// Decides which trials are launched, and when the question is answered.
pub trait Policy: Send + Sync {
    /// Returns the next step if a slot is free.
    fn next_step(&self, state: &State) -> Step;

    /// Returns a variant to prepare for later, if nothing can be launched.
    fn step_ahead(&self, _: &State) -> Option<Step> {
        None
    }

    /// Returns whether no further trial is launched: the question is answered or, after that, the evidence is captured.
    fn is_done(&self, state: &State) -> bool {
        if state.capturing {
            CapturePolicy.next_step(state) == Step::Done
        } else {
            self.next_step(state) == Step::Done
        }
    }

    /// Returns the answer that the trials give.
    fn verdict_of(&self, state: &State) -> Verdict;

    /// Returns why the trials of a variant ended.
    fn stop_rule(&self, state: &State, variant: VariantId) -> StopRule;

    /// Returns the number of remaining trials if none of them fails, if it is known.
    fn remaining_trials(&self, state: &State) -> Option<u64>;
}

/// Returns the policy that answers the question of a plan.
pub fn policy_of_plan(plan: &Plan) -> &'static dyn Policy {
    match &plan.question {
        Question::Rate => &RepeatPolicy,
        Question::Ramp(_) => &RampPolicy,
        Question::Confirm(_) => &ConfirmPolicy,
        Question::Compare(compare) => match compare.find {
            CompareGoal::Failing => &RacePolicy,
            CompareGoal::Different => &RatesPolicy,
        },
        Question::Bisect(_) => &BisectPolicy,
        Question::Reduce(_) => &ReducePolicy,
        Question::Shrink(_) => &ShrinkPolicy,
    }
}

/// Returns whether the question of the state's plan is answered, and the evidence captured.
pub fn is_done(state: &State) -> bool {
    policy_of_plan(&state.plan).is_done(state)
}

/// The next step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Choose this from the plan's space: it becomes a variant.
    Choose(VariantChoice),
    /// Prepare this variant, in parallel with the trials.
    Make(VariantId),
    /// Use the setting of this variant for the search.
    Use(VariantId),
    /// Run a trial of this variant.
    Launch(VariantId),
    /// Wait for running trials.
    Wait,
    /// The question is answered.
    Done,
}

impl Step {
    /// Ends the launches; running trials are still waited for.
    fn wait_or_done(state: &State) -> Self {
        if state.has_open_trials() {
            Self::Wait
        } else {
            Self::Done
        }
    }
}

/// The answer to the question that was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// No trial showed the bug.
    Clean,
    /// Trials showed the bug.
    Failing,
    /// The whole interval is at or below the allowed rate.
    BelowMaxRate,
    /// The whole interval is above the allowed rate.
    AboveMaxRate,
    /// The bug is fixed: an unchanged program would rarely pass this many trials.
    Fixed,
    /// The bug was seen again.
    NotFixed,
    /// Some variants fail more often than others.
    Different,
    /// No difference was found, although a difference of the stated size would have been.
    NoDifference,
    /// The search found the answer.
    Found,
    /// The searched range does not contain it.
    NotThere,
    /// The trials so far do not answer the question.
    Undecided,
    /// All trials were inconclusive.
    CouldNotTest,
}

/// Why the trials of a variant ended: this determines the valid interval.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum StopRule {
    /// All planned trials ran.
    PlannedN,
    /// The requested number of failures was seen.
    KthFailure,
    /// The question is answered, or the interval is as narrow as requested.
    Decision,
    /// The limit of trials was reached; the results might have ended the run earlier.
    Spent,
    /// The time limit was reached.
    Time,
    /// The user stopped the run, or it is still running.
    User,
}

impl StopRule {
    /// Returns whether the design was fixed beforehand, so that exact intervals are valid.
    pub fn is_planned(self) -> bool {
        matches!(self, Self::PlannedN | Self::KthFailure)
    }

    /// Returns why trials end if the planned number has run.
    fn at_the_limit(state: &State) -> Self {
        if state.plan.stop.changed {
            Self::Spent
        } else {
            Self::PlannedN
        }
    }

    /// Returns why trials end if no rule of the question ended them.
    fn from_outside(state: &State) -> Self {
        if state.budget_spent && state.stopped.is_none() {
            Self::Time
        } else {
            Self::User
        }
    }
}

/// Returns the two-sided interval that the stop rule allows.
pub fn rate_interval(rule: StopRule, tally: &Tally, alpha: f64) -> Interval {
    let (k, n) = (tally.failures, tally.counted_trials());
    if rule.is_planned() {
        clopper_pearson(k, n, alpha)
    } else {
        confidence_sequence(k, n, alpha)
    }
}

/// Checks of the assumptions of a variant's failure rate.
#[derive(Clone, Copy, Debug)]
pub struct AssumptionChecks {
    /// Clumping of failures. Their order is tested only if the question is the rate: for other questions the outcomes
    /// of earlier trials determine which variant runs next.
    pub clumping: Clumping,
    /// A change of the rate that clumps do not explain.
    pub trend: Option<Trend>,
}

impl AssumptionChecks {
    /// Checks the trials of a variant.
    pub fn of_variant(state: &State, id: VariantId) -> Self {
        let tally = state.tally_of(id);
        let stop_rule = policy_of_plan(&state.plan).stop_rule(state, id);
        let ended_by_failure = stop_rule == StopRule::KthFailure;
        let found = tally.find_clumping(ended_by_failure);
        let clumping = match state.plan.question {
            // The results themselves chose the end, and with it the order.
            Question::Rate if stop_rule != StopRule::Decision => found,
            _ => Clumping {
                order: None,
                ..found
            },
        };
        let trend = tally.find_trend(ended_by_failure);
        let trend = trend.filter(|_| stop_rule != StopRule::Decision);
        let trend = trend.map(|trend| match clumping.in_order() {
            Some(clumps) => trend.of_clumps(clumps.design_effect),
            None => trend,
        });
        Self { clumping, trend }
    }
}

/// Returns a variant's trials as a baseline: `failures` of them are the bug, and `failures` and `passes` are counted.
pub fn measure_variant(state: &State, id: VariantId, failures: u64) -> MeasuredBaseline {
    let tally = state.tally_of(id);
    let AssumptionChecks { clumping, trend } = AssumptionChecks::of_variant(state, id);
    let effect = clumping.design_effect();
    // The halves are known only for all failures together.
    let trend = trend.filter(|trend| trend.warns() && failures == tally.failures);
    MeasuredBaseline {
        failures,
        trials: tally.passes + failures,
        design_effect: (effect > 1.0).then(|| ceil_parts(effect, 1e3)),
        clumps: clumping.in_order().map(|found| found.clumps),
        drift: trend.map(|trend| {
            let (failures, trials) = tally.quieter_half();
            RateDrift {
                late: trend.u > 0.0,
                p_value: ceil_parts(trend.p_value, 1e6),
                failures,
                trials,
            }
        }),
        ..MeasuredBaseline::default()
    }
}

/// Converts a value to an integer number of parts, rounded up: trials of one clump, or a probability.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "trials of one clump, or a probability, neither of which comes near the limit"
)]
pub fn ceil_parts(value: f64, of_one: f64) -> u32 {
    (value * of_one).ceil() as u32
}

/// Returns the number of failed trials that may or may not be the bug.
pub fn untold_trials(state: &State) -> u64 {
    state
        .all_tallies()
        .map(|(_, tally)| tally.untold_trials())
        .sum()
}

/// Returns whether no trial was conclusive about the bug.
fn nothing_counts(state: &State) -> bool {
    state
        .all_tallies()
        .all(|(_, tally)| tally.counted_trials() == 0)
}
