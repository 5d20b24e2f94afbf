//! Reports which evidence of crashes, hangs and kills a machine can capture, and what to change.
//!
//! [`Machine::look`] collects facts, each check judges them, and a test program really crashes, because a captured core
//! proves more than any setting. The machine is not changed; if a change would help, the command for it is shown.

mod checks;
mod machine;
mod proof;

pub use machine::{CoreFolder, Machine};
pub use proof::{Proof, crash};

use serde::Serialize;

/// How good something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// As it should be.
    Ok,
    /// It does without, and with it would know more.
    Better,
    /// Evidence is lost.
    Bad,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// Its name, which stays.
    pub name: &'static str,
    /// How good it is.
    pub state: State,
    /// What was seen.
    pub seen: String,
    /// What to type or to change; null where there is nothing to do.
    pub fix: Option<String>,
}

/// What this machine can capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Can {
    /// Core files of crashes: one was seen.
    pub cores: bool,
    /// Stacks of processes that hang.
    pub stacks_of_hangs: bool,
    /// What the kernel logs of a crash.
    pub kernel_lines: bool,
    /// That a kill was an OOM kill, for certain.
    pub oom_for_certain: bool,
}

/// Everything that was looked at; `provoke doctor --json` prints it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Checkup {
    /// The version of this format; it changes when a field changes its name or its meaning.
    pub format: u32,
    /// What this machine can capture.
    pub can: Can,
    /// Each check, in a fixed order.
    pub checks: Vec<Check>,
}

impl Checkup {
    /// The version of the format.
    pub const FORMAT: u32 = 1;

    /// Returns it for programs.
    pub fn json(&self) -> String {
        let text = serde_json::to_string_pretty(self);
        text.expect("names and words can be written") + "\n"
    }
}

/// Judges what was seen.
pub fn checkup(machine: &Machine) -> Checkup {
    Checkup {
        format: Checkup::FORMAT,
        can: Can {
            cores: matches!(machine.proof, Proof::Core(_)),
            stacks_of_hangs: machine.may_trace(),
            kernel_lines: machine.kernel_log,
            oom_for_certain: machine.memory_group,
        },
        checks: checks::ALL.iter().map(|check| check(machine)).collect(),
    }
}
