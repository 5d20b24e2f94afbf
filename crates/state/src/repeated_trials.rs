//! Trials that run again under their number, because they were interrupted, or lost with their host or slot.

use super::State;
use super::trial_facts::TrialFacts;
use super::trial_queue::OpenTrial;
use provoke_model::{InconclusiveReason, Observation, Outcome, Trial};

/// Number of times that a trial may be lost with its slot before it is inconclusive.
const MAX_LOSSES: u32 = 2;

/// Returns whether a trial is retried under its number after this outcome. `losses` is the number of times that it was
/// lost, which this outcome increases.
pub fn is_repeated(outcome: &Outcome, losses: &mut u32) -> bool {
    match outcome {
        Outcome::Inconclusive(InconclusiveReason::Interrupted) => true,
        Outcome::Inconclusive(InconclusiveReason::Lost) => {
            *losses += 1;
            *losses < MAX_LOSSES
        }
        _ => false,
    }
}

impl State {
    /// Lets the trials that ran when the run was stopped run again.
    pub(super) fn repeat_running_trials(&mut self) {
        for (id, open) in &mut self.queue.open {
            match open {
                OpenTrial::Running(trial, attempts) => {
                    self.inconclusive.repeated += 1;
                    self.queue.retries.insert(*id);
                    *open = OpenTrial::Again(trial.clone(), *attempts);
                }
                OpenTrial::Finished(_, facts) => facts.usage = None,
                OpenTrial::Again(..) => {}
            }
        }
        self.abandon_retries();
    }

    /// Drops retries of variants that are no longer launched: later trials would wait for them forever.
    pub(super) fn abandon_retries(&mut self) {
        let untestable = &self.untestable;
        for (id, open) in &mut self.queue.open {
            if let OpenTrial::Again(trial, _) = open
                && untestable.contains_key(&trial.variant)
            {
                self.variants[trial.variant.index()]
                    .counted_for(trial)
                    .pending -= 1;
                let no_observation = Observation::default();
                let outcome = Outcome::Inconclusive(InconclusiveReason::Interrupted);
                let facts = TrialFacts::new(&self.trials, trial, &no_observation, outcome);
                self.queue.retries.remove(id);
                *open = OpenTrial::Finished(trial.clone(), facts);
            }
        }
    }

    /// Returns the first trial that must be retried under its old number.
    pub fn to_repeat(&self) -> Option<&Trial> {
        match self.queue.open.get(self.queue.retries.first()?) {
            Some(OpenTrial::Again(trial, _)) => Some(trial),
            _ => None,
        }
    }
}
