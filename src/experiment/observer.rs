//! Receives messages and results of an experiment, to show them.

use super::outcome::FinishedRun;
use provoke_load::LoadProgress;
use provoke_model::Event;
use provoke_state::{EventSink, State};
use std::io;
use std::sync::Arc;

/// A message for the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExperimentMessage {
    /// A warning.
    Warning(String),
    /// A note that the journal has, too.
    RecordedNote(String),
    /// A note.
    Note(String),
    /// What the experiment does, or does next.
    Step(String),
    /// The hosts that are not ready yet, and the reason if it is known.
    Waiting(String),
    /// The run that is the baseline.
    Baseline(String),
}

/// Shows what happens in an experiment; the events of its trials come to it as an [`EventSink`].
pub trait ExperimentObserver: EventSink {
    /// Receives a message.
    fn on_message(&mut self, _message: ExperimentMessage) {}

    /// Receives the progress of the load of the next trials, if they have one.
    fn watch_load(&mut self, _load: Arc<LoadProgress>) {}

    /// Is called before the first trial of a run.
    fn begin_trials(&mut self, _state: &State) {}

    /// Is called after the last trial of a run.
    fn end_trials(&mut self) {}

    /// Receives the result of a run. A search may be followed by further ones.
    fn on_result(&mut self, _run: &FinishedRun) -> io::Result<()> {
        Ok(())
    }

    /// Returns whether a search may be followed by further ones.
    fn wants_more(&self) -> bool {
        true
    }
}

/// Shows nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct SilentObserver;

impl EventSink for SilentObserver {
    fn on_event(&mut self, _event: &Event, _state: &State) {}
}

impl ExperimentObserver for SilentObserver {}
