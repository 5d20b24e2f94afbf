//! `why`: searches the conditions under which the program fails.

use super::memory::WhyMemory;
use crate::search::{self, is_spent, step_for_choice, under_way};
use crate::{Policy, Step, StopRule, Verdict, nothing_counts};
use provoke_model::{Subset, VariantChoice, VariantId};
use provoke_state::State;
use provoke_stats::screen::Next;

/// Searches the conditions under which the program fails.
pub struct WhyPolicy;

impl Policy for WhyPolicy {
    fn next_step(&self, state: &State) -> Step {
        let Some(memory) = state.learned::<WhyMemory>() else {
            return Step::Done;
        };
        if is_spent(state) {
            return Step::wait_or_done(state);
        }
        let running: Vec<Vec<usize>> = under_way(state)
            .filter_map(|id| state.kept_set(id))
            .collect();
        let launch = |set: Vec<usize>| {
            let items = set.into_iter().filter_map(|item| u32::try_from(item).ok());
            step_for_choice(state, VariantChoice::Set(Subset(items.collect())))
        };
        match memory.screen.next(&running) {
            Next::Trial(set) => launch(set),
            Next::Wait => Step::Wait,
            Next::Done if !running.is_empty() => Step::Wait,
            Next::Done => memory.next_candidate().map_or_else(
                || Step::wait_or_done(state),
                |condition| launch(vec![condition]),
            ),
        }
    }

    fn verdict_of(&self, state: &State) -> Verdict {
        let Some(memory) = state.learned::<WhyMemory>() else {
            return Verdict::CouldNotTest;
        };
        let screen = &memory.screen;
        if nothing_counts(state) || screen.lacks_tests() {
            Verdict::CouldNotTest
        } else if screen.has_claim() {
            Verdict::Found
        } else if screen.next(&[]) == Next::Done && memory.next_candidate().is_none() {
            if memory.other_failures().is_empty() {
                Verdict::NotThere
            } else {
                Verdict::Found
            }
        } else {
            Verdict::Undecided
        }
    }

    fn stop_rule(&self, state: &State, _: VariantId) -> StopRule {
        search::stop_rule(state, self.verdict_of(state))
    }
}
