//! Reports which evidence of crashes, hangs and kills a machine can capture, and what to change.
//!
//! [`MachineFacts::look_from`] collects facts, each check judges them, and a test program really crashes, because a captured core
//! proves more than any setting. The machine is not changed; if a change would help, the command for it is shown.

mod checks;
mod machine;
mod test_crash;
mod test_hold;

pub use machine::{CoreFolder, MachineFacts, TracingRights};
pub use test_crash::{CaptureProof, crash_victim};
pub use test_hold::{HoldProof, hold_victim};

use provoke_words as words;
use provoke_words::document::{Cell, Column, Document, Place, Row, Table, Tone};
use serde::Serialize;

/// State of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckState {
    /// No problem.
    Ok,
    /// provoke works without it, but could capture more evidence with it.
    Better,
    /// Evidence is lost.
    Bad,
}

/// Result of one check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CheckResult {
    /// Its name, which is stable.
    pub name: &'static str,
    /// Its state.
    pub state: CheckState,
    /// The observed fact.
    pub seen: String,
    /// The command to run or the setting to change; null if there is nothing to do.
    pub fix: Option<String>,
}

/// The evidence that this machine can capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
pub struct CaptureAbilities {
    /// Core files of crashes: one was captured.
    pub cores: bool,
    /// Stacks of hung processes.
    pub stacks_of_hangs: bool,
    /// The kernel's log lines about crashes.
    pub kernel_lines: bool,
    /// Whether a kill was an OOM kill, with certainty.
    pub oom_for_certain: bool,
    /// Threads can be held by `hunt`: one was.
    pub holds: bool,
}

/// Results of all checks; `provoke doctor --json` prints them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DoctorReport {
    /// The version of this format; it changes when a field changes its name or its meaning.
    pub format: u32,
    /// The evidence that this machine can capture.
    pub can: CaptureAbilities,
    /// Each check, in a fixed order.
    pub checks: Vec<CheckResult>,
}

impl DoctorReport {
    /// The version of the format.
    pub const FORMAT: u32 = 1;

    /// Returns the results as JSON.
    pub fn to_json(&self) -> String {
        let text = serde_json::to_string_pretty(self);
        text.expect("names and words can be written") + "\n"
    }

    /// Returns what the machine can capture, then the checks with the suggested changes, the failed ones first.
    pub fn documents(&self) -> Vec<Document> {
        let can = self.can;
        let abilities = [
            (can.cores, "capture cores of crashes, with stacks"),
            (can.stacks_of_hangs, "capture stacks of hung processes"),
            (
                can.kernel_lines,
                "read the kernel's log of crashes and OOM kills",
            ),
            (can.oom_for_certain, "recognize OOM kills with certainty"),
            (can.holds, "hold threads, for `provoke hunt`"),
        ];
        let rows = abilities.map(|(can, message)| {
            // Colour repeats what the text says.
            let mark = if can {
                Cell::toned("yes", Tone::Good)
            } else {
                Cell::toned("no", Tone::Bad)
            };
            vec![mark, Cell::text(message)]
        });
        let columns = vec![Column::words(""), Column::sentences("")];
        let table = Table::new("Evidence", Place::Screen, columns).with_rows(rows);
        let abilities = Document {
            headline: "This machine can".to_owned(),
            tables: vec![table],
            ..Document::default()
        };
        let states = [CheckState::Bad, CheckState::Better, CheckState::Ok];
        let checks = states.into_iter().filter_map(|state| self.checks_of(state));
        std::iter::once(abilities).chain(checks).collect()
    }

    /// Returns the checks with this state; `None` without any.
    fn checks_of(&self, state: CheckState) -> Option<Document> {
        let checks = || self.checks.iter().filter(|check| check.state == state);
        let (tone, singular, many) = match state {
            CheckState::Bad => (
                Tone::Bad,
                "check failed: evidence is lost",
                "checks failed: evidence is lost",
            ),
            CheckState::Better => (
                Tone::Open,
                "check can be improved",
                "checks can be improved",
            ),
            CheckState::Ok => (Tone::Good, "check passed", "checks passed"),
        };
        let columns = vec![Column::words(""), Column::sentences("")];
        let mut table = Table::new("Checks", Place::Screen, columns);
        for check in checks() {
            let cells = vec![Cell::text(check.name), Cell::text(&check.seen)];
            table.rows.push(Row::Cells(cells));
            table
                .rows
                .extend(check.fix.iter().flat_map(|fix| fix_rows(fix)));
        }
        (!table.is_empty()).then(|| Document {
            headline: words::plural_of(checks().count() as u64, singular, many),
            tone,
            tables: vec![table],
            ..Document::default()
        })
    }
}

/// Returns how to fix something, with each command on a separate line.
fn fix_rows(fix: &str) -> Vec<Row> {
    let mut rows = Vec::new();
    for part in fix.split("; ") {
        let (purpose, command) = match part.rsplit_once(": ") {
            Some((purpose, command)) => (Some(purpose), command),
            None => (None, part),
        };
        let command = command
            .strip_prefix('`')
            .and_then(|rest| rest.strip_suffix('`'))
            .unwrap_or(command);
        rows.extend(purpose.map(|purpose| Row::Note(format!("{purpose}:"), Tone::Plain)));
        rows.push(Row::Command(command.to_owned()));
    }
    rows
}

/// Judges the facts about a machine.
pub fn run_checkup(machine: &MachineFacts) -> DoctorReport {
    DoctorReport {
        format: DoctorReport::FORMAT,
        can: CaptureAbilities {
            cores: matches!(machine.proof, CaptureProof::Core(_)),
            stacks_of_hangs: machine.may_trace(),
            kernel_lines: machine.kernel_log,
            oom_for_certain: machine.memory_obstacle.is_none(),
            holds: matches!(machine.hold_proof, HoldProof::Held { .. }),
        },
        checks: checks::ALL
            .map(|(name, check)| {
                let (state, seen, fix) = check(machine);
                CheckResult {
                    name,
                    state,
                    seen,
                    fix,
                }
            })
            .to_vec(),
    }
}
