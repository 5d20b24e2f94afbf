//! Folds the events of a run, with or without its question.

use super::{Memory, State};
use provoke_model::{Event, Goal, TrialsPlan};

/// How events are folded: with the question of the run, or without.
#[derive(Clone, Copy)]
pub struct Fold {
    /// Returns the memory before the first trial.
    pub begin_memory: fn(&Goal, &TrialsPlan) -> Box<dyn Memory>,
    /// Returns whether the question is answered: later trials are not counted.
    pub is_decided: fn(&State) -> bool,
}

impl Fold {
    /// Without the question: faster, but trials that ended after the answer count as well.
    pub const OF_COUNTS: Self = Self {
        begin_memory: |_, _| Box::new(()),
        is_decided: |_| false,
    };

    /// Adds the next event: the first one of a journal creates the state.
    pub fn add_event(self, state: &mut Option<State>, event: Event) {
        match state {
            Some(state) => state.apply_event(&event, self.is_decided),
            None => *state = State::begin_fold(event, self.begin_memory),
        }
    }
}
