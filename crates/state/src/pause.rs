//! Pauses a measurement that the user stopped, while extra trials capture evidence of its crashes.

use super::State;
use super::trial_queue::{OpenTrial, PausedTrials};

impl State {
    /// Sets the open trials of the measurement aside.
    pub(super) fn pause_measurement(&mut self) {
        self.queue.paused = Some(PausedTrials {
            open: std::mem::take(&mut self.queue.open),
            retries: std::mem::take(&mut self.queue.retries),
            last_counted: self.last_counted,
        });
    }

    /// Restores the open trials of the measurement. Extra trials that have not ended are dropped.
    pub(super) fn end_pause(&mut self) {
        let Some(paused) = self.queue.paused.take() else {
            return;
        };
        for OpenTrial::Running(trial, _)
        | OpenTrial::Again(trial, _)
        | OpenTrial::Finished(trial, _) in self.queue.open.values()
        {
            self.variants[trial.variant.index()]
                .counted_for(trial)
                .pending -= 1;
        }
        self.queue.open = paused.open;
        self.queue.retries = paused.retries;
        self.last_counted = paused.last_counted;
    }
}
