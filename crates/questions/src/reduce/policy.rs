//! `reduce`: finds the smallest set of items that keeps the failure.
//!
//! First it finds the items that cannot be left out, because the program does not run without them.

use super::memory::{with_required, without_required};
use crate::search::{
    self, first_preparation, free_builders, is_spent, needs_preparation, raise_step,
    reproduction_step, step_for_next, under_way, untried_variants,
};
use crate::{
    Policy, ReproductionProgress, Step, StopRule, Verdict, next_extra_step, nothing_counts,
    reproduction_progress,
};
use provoke_model::{VariantChoice, VariantId};
use provoke_state::State;
use provoke_stats::search::{ItemScreen, Reduction};

/// Searches the smallest set of items that keeps the failure.
pub struct ReducePolicy;

/// Returns the sets with the most information for the free slots.
fn choose_sets(state: &State, free: usize) -> Vec<VariantChoice> {
    let sets = under_way(state).filter_map(|id| state.kept_set(id));
    let screen: Option<&ItemScreen> = state.learned();
    let chosen = match state.learned::<Reduction>() {
        Some(reduction) => {
            let sets: Vec<Vec<usize>> = sets.map(|set| without_required(screen, set)).collect();
            reduction.next_batch(&sets, free, state.trials.seed)
        }
        None => {
            let sets: Vec<Vec<usize>> = sets.collect();
            let next = screen.and_then(|screen| screen.next_set(&sets));
            next.into_iter().collect()
        }
    };
    let choices = chosen.into_iter().map(|set| with_required(screen, set));
    choices.collect()
}

impl Policy for ReducePolicy {
    fn next_step(&self, state: &State) -> Step {
        if let Some(step) = raise_step(state).or_else(|| reproduction_step(state)) {
            return step;
        }
        if is_spent(state) || state.learned().is_some_and(Reduction::is_over) {
            return Step::wait_or_done(state);
        }
        step_for_next(state, choose_sets(state, 1).pop())
    }

    /// The next set is computed only if a slot is free, because this takes time.
    fn is_done(&self, state: &State) -> bool {
        let is_over = state.learned().is_some_and(Reduction::is_over);
        let is_lost = reproduction_progress(state) == ReproductionProgress::No;
        if state.stage.runs_extra_trials()
            || is_over
            || is_lost
            || !state.has_open_trials() && state.preparation.running.is_empty()
        {
            let next = if state.stage.runs_extra_trials() {
                next_extra_step(state)
            } else {
                self.next_step(state)
            };
            return next == Step::Done;
        }
        false
    }

    fn step_ahead(&self, state: &State) -> Option<Step> {
        if state.undecided_raise().is_some()
            || !needs_preparation(state)
            || free_builders(state) == 0
            || is_spent(state)
            || untried_variants(state) > 0
        {
            return None;
        }
        first_preparation(state, choose_sets(state, 2))
    }

    fn verdict_of(&self, state: &State) -> Verdict {
        if nothing_counts(state) {
            return Verdict::CouldNotTest;
        }
        match (reproduction_progress(state), state.learned::<Reduction>()) {
            (ReproductionProgress::No, _) => Verdict::NotThere,
            (ReproductionProgress::Yes, Some(reduction)) if reduction.is_over() => {
                // Without any item left out, nothing is known about them.
                if reduction.current_answer().sufficient && !needs_all_to_run(state) {
                    Verdict::Found
                } else {
                    Verdict::Undecided
                }
            }
            _ => Verdict::Undecided,
        }
    }

    fn stop_rule(&self, state: &State, _: VariantId) -> StopRule {
        search::stop_rule(state, self.verdict_of(state))
    }
}

/// Returns whether the program does not run without any of the items.
pub(super) fn needs_all_to_run(state: &State) -> bool {
    let items = state
        .trials
        .space
        .as_ref()
        .map(|space| space.choices.as_items().len());
    let screen: Option<&ItemScreen> = state.learned();
    screen.is_some_and(|screen| Some(screen.required_items().len()) == items)
}
