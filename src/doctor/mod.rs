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
        checks: checks::ALL.iter().map(|check| check(machine)).collect(),
    }
}
