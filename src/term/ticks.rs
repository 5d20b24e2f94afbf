//! A tick or a cross for each trial, in order.

use super::tell;
use crate::model::{Event, Kind, Outcome, TrialId, Void, Witness};
use crate::state::{Sink, State};
use console::style;
use std::collections::BTreeMap;

/// Prints one line a trial on standard output, in the order of their numbers.
pub struct Ticks {
    next: u64,
    waiting: BTreeMap<TrialId, String>,
}

impl Ticks {
    /// Begins with the first trial that is not counted yet.
    pub fn new(next: u64) -> Self {
        Self {
            next,
            waiting: BTreeMap::new(),
        }
    }
}

impl Sink for Ticks {
    fn event(&mut self, event: &Event, _: &State) {
        let Event::TrialFinished { trial, outcome, .. } = event else {
            return;
        };
        let line = match outcome {
            Outcome::Pass => format!("{} {}", style("✓").green(), trial.0),
            Outcome::Fail(kind) | Outcome::Other(kind) => {
                format!("{} {}  {}", style("✗").red(), trial.0, words(kind))
            }
            Outcome::Void(Void::Interrupted) => return,
            Outcome::Void(void) => format!("{} {}  {void}", style("-").dim(), trial.0),
        };
        self.waiting.insert(*trial, line);
        while let Some(line) = self.waiting.remove(&TrialId(self.next)) {
            tell(&format!("{line}\n"));
            self.next += 1;
        }
    }
}

fn words(kind: &Kind) -> String {
    match kind {
        Kind::Signal {
            signal,
            witness: Witness::Seen { .. },
        } => format!("{signal} ({})", short(kind)),
        Kind::Signal { signal, .. } => {
            let code = kind.code().unwrap_or_default();
            format!("exit code {code} ({signal}, {})", short(kind))
        }
        Kind::Exit { code } => format!("exit code {code}"),
        _ => format!("{} ({})", kind.name(), kind.words()),
    }
}

/// The words before the colon: the rest is for the summary.
fn short(kind: &Kind) -> String {
    kind.words()
        .split(':')
        .next()
        .unwrap_or_default()
        .to_owned()
}
