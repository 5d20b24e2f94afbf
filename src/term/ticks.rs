//! Draws a tick or a cross for each trial, in order.

use super::print_result;
use console::style;
use provoke_model::{Event, FailureKind, Outcome, SignalEvidence, TrialId};
use provoke_state::{EventSink, State};
use std::collections::BTreeMap;

/// Prints one line per trial on stdout when the trial is counted: in the order of the numbers, with the last attempt of
/// each.
pub(super) struct TrialTicks {
    /// The last trial that was printed, or counted before.
    last: TrialId,
    waiting: BTreeMap<TrialId, String>,
}

impl TrialTicks {
    /// Starts with the first trial that is not counted yet.
    pub(super) fn new(state: &State) -> Self {
        let waiting = state
            .waiting_trials()
            .map(|(id, outcome)| (id, trial_line(id, outcome)));
        Self {
            last: state.last_counted,
            waiting: waiting.collect(),
        }
    }
}

impl EventSink for TrialTicks {
    fn on_event(&mut self, event: &Event, state: &State) {
        // Captured trials are not part of the result.
        if state.stage.runs_extra_trials() {
            return;
        }
        if let Event::TrialFinished { trial, outcome, .. } = event {
            self.waiting.insert(*trial, trial_line(*trial, outcome));
        }
        while self.last < state.last_counted {
            self.last = TrialId(self.last.0 + 1);
            if let Some(line) = self.waiting.remove(&self.last) {
                // The summary reports errors in writing to stdout.
                let _ = print_result(&line);
            }
        }
    }
}

fn trial_line(id: TrialId, outcome: &Outcome) -> String {
    match outcome {
        Outcome::Pass => format!("{} {}\n", style("✓").green(), id.0),
        Outcome::Fail(failure) | Outcome::Other(failure) => {
            let words = describe_kind(&failure.kind);
            format!("{} {}  {words}\n", style("✗").red(), id.0)
        }
        Outcome::Inconclusive(void) => format!("{} {}  {void}\n", style("-").dim(), id.0),
    }
}

fn describe_kind(kind: &FailureKind) -> String {
    match kind {
        FailureKind::Signal {
            signal,
            evidence: SignalEvidence::WaitStatus { .. },
        } => format!("{signal} ({})", short_description(kind)),
        FailureKind::Signal { signal, .. } => {
            let code = kind.exit_code().unwrap_or_default();
            format!("exit code {code} ({signal}, {})", short_description(kind))
        }
        FailureKind::Exit { code } => format!("exit code {code}"),
        _ => format!("{} ({})", kind.name(), kind.meaning_words()),
    }
}

/// Returns the words before the colon; the summary shows the rest.
fn short_description(kind: &FailureKind) -> String {
    kind.meaning_words()
        .split(':')
        .next()
        .unwrap_or_default()
        .to_owned()
}
