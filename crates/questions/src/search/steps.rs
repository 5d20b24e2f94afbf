//! Common parts of the searches: reproduces the failure first, and prepares a variant before its trials.
//!
//! Every other step needs the failure rate, so the failing variant runs first.

use super::{ReproductionProgress, reproduction_progress};
use crate::{Step, StopRule, Verdict, of};
use provoke_model::{SearchSpace, VariantChoice, VariantId};
use provoke_state::State;
use provoke_stats::real;
use std::time::Duration;

/// Returns the next step until the failing variant has failed often enough, or if it never will.
pub(crate) fn reproduction_step(state: &State) -> Option<Step> {
    let failing = State::FAILING;
    match reproduction_progress(state) {
        ReproductionProgress::Yes => None,
        ReproductionProgress::No => Some(Step::Done),
        ReproductionProgress::NotYet(_) if is_spent(state) => Some(Step::wait_or_done(state)),
        ReproductionProgress::NotYet(missing) if state.in_flight(failing) < missing => {
            Some(launch_or_make(state, failing))
        }
        ReproductionProgress::NotYet(_) => Some(Step::Wait),
    }
}

/// Maximum number of uncounted trials per slot: running, or waiting for a trial launched before them.
const AHEAD: u64 = 3;

/// Returns whether too many trials are uncounted to choose further ones well: if a failure takes much longer than a
/// pass, as a hang does, the other slots would run useless trials.
pub(crate) fn is_crowded(state: &State) -> bool {
    let ids = state.all_tallies().map(|(id, _)| id);
    let waiting: u64 = ids.map(|id| state.in_flight(id)).sum();
    waiting >= AHEAD * u64::from(state.trials.jobs)
}

/// Returns the step that tries a choice, or the step that must precede it.
pub(crate) fn step_for_choice(state: &State, choice: VariantChoice) -> Step {
    if is_crowded(state) {
        return Step::Wait;
    }
    match state.find_variant(&choice) {
        Some(variant) => launch_or_make(state, variant),
        None if free_builders(state) == 0 && needs_preparation(state) => Step::Wait,
        None => Step::Choose(choice),
    }
}

/// Returns the step that tries the next choice, if there is one.
pub(crate) fn step_for_next(state: &State, choice: Option<VariantChoice>) -> Step {
    match choice {
        Some(choice) => step_for_choice(state, choice),
        // The running trials may decide the search, although no further trial can.
        None if state.has_open_trials() || !state.preparation.running.is_empty() => Step::Wait,
        None => Step::Done,
    }
}

/// Returns the step that prepares the first of these choices that is not prepared.
pub(crate) fn first_preparation(
    state: &State,
    choices: impl IntoIterator<Item = VariantChoice>,
) -> Option<Step> {
    let mut steps = choices
        .into_iter()
        .map(|choice| step_for_choice(state, choice));
    steps.find(|step| matches!(step, Step::Choose(_) | Step::Make(_)))
}

/// Returns the number of prepared variants of which no trial was launched.
pub(crate) fn untried_variants(state: &State) -> usize {
    let untried = state.all_tallies().filter(|(id, _)| {
        let setting = state.trials.variant_plan(*id).setting;
        state.is_ready(*id) && state.launched_trials(*id) == 0 && setting.is_none()
    });
    untried.count()
}

pub(crate) fn launch_or_make(state: &State, variant: VariantId) -> Step {
    if state.is_ready(variant) {
        Step::Launch(variant)
    } else if state.preparation.running.contains(&variant) || free_builders(state) == 0 {
        Step::Wait
    } else {
        Step::Make(variant)
    }
}

/// Returns how many more variants may be prepared at the same time.
pub(crate) fn free_builders(state: &State) -> usize {
    let parallel_builds = state
        .trials
        .space
        .as_ref()
        .map_or(0, |space| space.parallel_builds);
    (parallel_builds as usize).saturating_sub(state.preparation.running.len())
}

/// Returns whether a variant must be prepared before it is tried.
pub(crate) fn needs_preparation(state: &State) -> bool {
    let makes_variant =
        |space: &SearchSpace| space.template.make.is_some() || space.template.hooks.setup.is_some();
    state.trials.space.as_ref().is_some_and(makes_variant)
}

/// Returns the cost of preparing a variant, in trials; `None` until one was prepared.
pub(crate) fn preparation_cost(state: &State) -> Option<f64> {
    let (make_trials, took) = state.preparation.made;
    let trials: u64 = state
        .all_tallies()
        .map(|(_, tally)| tally.counted_trials())
        .sum();
    let exposure = state.all_tallies().map(|(_, tally)| tally.exposure);
    let trial = exposure.sum::<Duration>().as_secs_f64() / real(trials.max(1));
    (make_trials > 0 && trial > 0.0).then(|| took.as_secs_f64() / real(make_trials) / trial)
}

/// Returns every variant once for each of its running trials; a variant in preparation will be tried, so it counts
/// once.
pub(crate) fn under_way(state: &State) -> impl Iterator<Item = VariantId> {
    let ids = state.all_tallies().map(|(id, _)| id);
    ids.flat_map(|id| {
        let coming = u64::from(state.preparation.running.contains(&id));
        let count = state.in_flight(id).max(coming);
        std::iter::repeat_n(id, usize::try_from(count).unwrap_or(0))
    })
}

/// Returns the limit of trials of all variants together: the given one, or, if neither trials nor time were limited,
/// the default of a search along a list.
pub fn trial_limit(state: &State) -> Option<u64> {
    let stop = &state.stop;
    match (stop.trials, stop.duration_us) {
        (None, None) => of(state).default_trial_limit(state),
        (trials, _) => trials,
    }
}

/// Returns whether the time is over, or the running and completed trials of all variants together reach the limit.
pub(crate) fn is_spent(state: &State) -> bool {
    let count = |(id, tally): (VariantId, &provoke_state::Tally)| {
        tally.finished_trials() + state.in_flight(id)
    };
    let finished: u64 = state.all_tallies().map(count).sum();
    state.stage.is_budget_spent() || trial_limit(state).is_some_and(|limit| finished >= limit)
}

/// Returns why trials ended, given the verdict.
pub(crate) fn stop_rule(state: &State, verdict: Verdict) -> StopRule {
    match verdict {
        Verdict::Found | Verdict::NotThere => StopRule::Decision,
        _ if is_spent(state) && !state.stage.is_budget_spent() => StopRule::Spent,
        _ => StopRule::from_outside(state),
    }
}
