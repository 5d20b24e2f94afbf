//! Results of an experiment.

use super::results::ResultFile;
use provoke_journal::RunFolder;
use provoke_model::{Signal, StopCause};
use provoke_report::Report;
use provoke_state::State;
use provoke_words::diagnostic::Diagnostic;

/// A run that ended, and its result.
#[derive(Debug)]
pub struct FinishedRun {
    /// The state at its end.
    pub state: State,
    /// Its directory.
    pub folder: RunFolder,
    /// Its report.
    pub report: Report,
    /// The files that its search wrote.
    pub files: Vec<ResultFile>,
    /// The notes that were shown before its first trial, and need not be shown again.
    pub announced: Vec<String>,
}

/// The result of an experiment.
#[derive(Debug)]
pub struct ExperimentOutcome {
    /// The run with the answer: the last one, unless an earlier one is more informative.
    pub run: FinishedRun,
    /// The signal that stopped the experiment.
    pub stopped: Option<Signal>,
    /// Why a result could not be written, or a further search could not run.
    pub error: Option<Diagnostic>,
}

impl FinishedRun {
    /// Returns the signal that stopped the run.
    pub(super) fn stopping_signal(&self) -> Option<Signal> {
        match self.state.stage.stop_cause() {
            Some(StopCause::Signal(signal)) => Some(signal),
            _ => None,
        }
    }
}
