//! Keeps what a question learns from the trials, beyond their counts.

use super::{State, TrialFacts};
use provoke_model::{Failure, Trial, VariantId};
use std::any::Any;
use std::fmt::Debug;

/// The memory of a question, which the fold keeps up to date: a posterior, or the evidence for a difference.
///
/// The fold calls it with a state that has no memory, so it reads its own data from itself.
pub trait Memory: Debug + Send + Sync {
    /// Returns the data that [`State::learned`] finds by their types.
    fn parts(&self) -> Vec<&dyn Any>;

    /// Returns whether a failure that counts by the rules of the plan is the failure of the question.
    fn is_the_bug(&self, _: &State, _: &Failure) -> bool {
        true
    }

    /// Returns whether the failure of the question is still to be chosen.
    fn awaits_failure(&self) -> bool {
        false
    }

    /// Chooses the failure of the question from the failures of the failing variant so far. Returns whether it was chosen
    /// now: then these trials are counted again.
    fn choose_failure(&mut self, _: &State) -> bool {
        false
    }

    /// Forgets the trials of the failing variant, which are added again.
    fn forget_failing_trials(&mut self, _: &State) {}

    /// Adds the next trial in launch order, without trials that capture evidence or explore schedules.
    fn add_trial(&mut self, _: &State, _: &Trial, _: &TrialFacts) {}

    /// Adds the next trial in launch order in which threads were held to find a schedule.
    fn add_held_trial(&mut self, _: &State, _: &Trial, _: &TrialFacts) {}

    /// Adds a prepared variant, with the digest of its build.
    fn add_build(&mut self, _: &State, _: VariantId, _: &str) {}

    /// Marks a variant as not testable.
    fn give_up(&mut self, _: &State, _: VariantId) {}

    /// Begins again, because all variants are testable again.
    fn restart(&mut self, _: &State) {}
}

/// No memory: the counts are enough.
impl Memory for () {
    fn parts(&self) -> Vec<&dyn Any> {
        Vec::new()
    }
}

impl State {
    /// Returns what the question has learned, if its memory has data of this type.
    pub fn learned<T: 'static>(&self) -> Option<&T> {
        let mut parts_left = self.memory.parts().into_iter();
        parts_left.find_map(<dyn Any>::downcast_ref)
    }

    /// Returns whether a failure that counts by the rules of the plan is the failure of the question.
    pub fn is_the_bug(&self, failure: &Failure) -> bool {
        self.memory.is_the_bug(self, failure)
    }

    /// Updates the memory from the state.
    pub(super) fn update_memory(&mut self, update: impl FnOnce(&mut dyn Memory, &Self)) {
        let mut memory = std::mem::replace(&mut self.memory, Box::new(()));
        update(&mut *memory, self);
        self.memory = memory;
    }
}
