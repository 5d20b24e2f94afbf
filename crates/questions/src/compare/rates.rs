//! `compare`, if all variants may fail: tests whether their rates differ.
//!
//! Each contrast compares the variants of one kind with variants of another and updates its evidence trial by trial. The
//! test may be evaluated after every trial, and the contrast stops when its evidence is enough.

use super::{Contrast, contrasts};
use crate::blocks::step_in_block;
use crate::{Policy, Step, StopRule, Verdict, nothing_counts};
use provoke_model::VariantId;
use provoke_state::State;
use provoke_stats::{ComparisonLevels, real};

/// Runs every variant until it is known to differ from the reference.
pub struct RatesPolicy;

/// Share of the error level for the claim that variants fail in different ways; the rest is for their rates.
const FAILURES_SHARE: f64 = 0.05;

/// Returns the error levels of each contrast. At these levels, any of them is wrong at most as often as the plan allows
/// for one.
pub(super) fn levels(state: &State) -> ComparisonLevels {
    let level = level_at(state, 1.0 - FAILURES_SHARE);
    let question = state.goal.question.as_compare();
    match question.and_then(|question| question.planned_trials) {
        Some(_) => ComparisonLevels::with_planned_look(level),
        None => ComparisonLevels::at_any_time(level),
    }
}

/// Returns the logarithm of the evidence that each contrast needs.
pub(crate) fn evidence_threshold(state: &State) -> f64 {
    -levels(state).every_pair.ln()
}

/// Returns whether the rates of a contrast differ.
pub(super) fn have_different_rates(state: &State, contrast: &Contrast) -> bool {
    contrast.evidence.ln_e_max() >= evidence_threshold(state)
        || contrast.differs_as_planned(levels(state))
}

/// Returns the logarithm of the evidence that a failure of a contrast needs, by its position in the order in which failures
/// were first seen: each has half the error level of the one before it.
pub(super) fn failure_threshold(state: &State, position: usize) -> f64 {
    let halvings = i32::try_from(position + 1).unwrap_or(i32::MAX);
    -level_at(state, FAILURES_SHARE * 0.5_f64.powi(halvings)).ln()
}

/// Returns the share of the error level for each contrast.
fn level_at(state: &State, share_of_level: f64) -> f64 {
    let contrasts = contrasts(state).len().max(1) as u64;
    state.goal.alpha.to_probability() * share_of_level / real(contrasts)
}

/// Returns whether a contrast is decided: the rates differ, or, unless a fix is judged by its rate, the failures.
fn is_known(state: &State, contrast: &Contrast) -> bool {
    let judges_fix = state
        .goal
        .question
        .as_compare()
        .is_some_and(|question| question.fixed);
    have_different_rates(state, contrast) || !judges_fix && has_different_failures(state, contrast)
}

/// Returns whether the variants of a contrast fail in different ways.
fn has_different_failures(state: &State, contrast: &Contrast) -> bool {
    let mut failures = contrast.failures.iter().enumerate();
    failures.any(|(position, failure)| {
        failure.evidence.ln_e_max() >= failure_threshold(state, position)
    })
}

/// Returns whether a variant has reached its limit of counted trials, or never will, because most of its trials show
/// other failures.
fn is_spent(state: &State, variant: VariantId) -> bool {
    let tally = state.tally_of(variant);
    let trial_limit = state.stop.trials;
    trial_limit.is_some_and(|limit| {
        tally.counted_trials() >= limit || tally.finished_trials() >= limit.saturating_mul(2)
    })
}

/// Returns whether this variant is no longer launched.
fn is_closed(state: &State, variant: VariantId) -> bool {
    let mut mine = contrasts(state)
        .iter()
        .filter(|contrast| contrast.has_variant(variant));
    is_spent(state, variant)
        || !state.is_testable(variant)
        || mine.all(|contrast| is_known(state, contrast) || !contrast.is_testable(state))
}

/// Returns the verdict on a possible fix, once the difference is known.
fn fix_verdict(state: &State) -> Option<Verdict> {
    let question = state
        .goal
        .question
        .as_compare()
        .filter(|question| question.fixed)?;
    let reference = question.reference;
    let rate = |id: VariantId| {
        let tally = state.tally_of(id);
        real(tally.failures) / real(tally.counted_trials().max(1))
    };
    let mut other_variants = state.all_tallies().map(|(id, _)| id);
    let other_variant = other_variants.find(|id| *id != reference)?;
    Some(if rate(other_variant) < rate(reference) {
        Verdict::Fixed
    } else {
        Verdict::NotFixed
    })
}

impl Policy for RatesPolicy {
    fn next_step(&self, state: &State) -> Step {
        let open: Vec<VariantId> = state
            .all_tallies()
            .map(|(id, _)| id)
            .filter(|id| !is_closed(state, *id))
            .collect();
        if open.is_empty() {
            return Step::Done;
        }
        let trial_limit = state.stop.trials.unwrap_or(u64::MAX);
        let room =
            |id: &VariantId| state.expected_trials(*id) - state.tally_of(*id).other < trial_limit;
        step_in_block(state, open.into_iter().filter(room))
    }

    fn verdict_of(&self, state: &State) -> Verdict {
        let trial_limit = state.stop.trials.unwrap_or(u64::MAX);
        let mut tested = state.all_tallies().filter(|(id, _)| state.is_testable(*id));
        if nothing_counts(state) {
            Verdict::CouldNotTest
        } else if contrasts(state)
            .iter()
            .any(|contrast| is_known(state, contrast))
        {
            fix_verdict(state).unwrap_or(Verdict::Different)
        } else if contrasts(state)
            .iter()
            .all(|contrast| !contrast.is_testable(state))
        {
            Verdict::CouldNotTest
        } else if tested.all(|(_, tally)| tally.counted_trials() >= trial_limit) {
            // A missing difference does not show that a fix works.
            fix_verdict(state).map_or(Verdict::NoDifference, |_| Verdict::Undecided)
        } else {
            Verdict::Undecided
        }
    }

    fn stop_rule(&self, state: &State, variant: VariantId) -> StopRule {
        let mut mine = contrasts(state)
            .iter()
            .filter(|contrast| contrast.has_variant(variant));
        if mine.any(|contrast| is_known(state, contrast)) {
            StopRule::Decision
        } else if is_spent(state, variant) {
            StopRule::Spent
        } else {
            StopRule::from_outside(state)
        }
    }

    fn remaining_trials(&self, state: &State) -> Option<u64> {
        let trial_limit = state.stop.trials?;
        let open = state.all_tallies().filter(|(id, _)| !is_closed(state, *id));
        Some(
            open.map(|(_, tally)| trial_limit.saturating_sub(tally.counted_trials()))
                .sum(),
        )
    }
}
