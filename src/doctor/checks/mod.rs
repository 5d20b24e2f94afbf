//! Checks: each judges the facts about a machine, and suggests changes.

mod cores;
mod environment;
#[cfg(test)]
mod tests;
mod tools;

use super::{CheckState, MachineFacts};
use cores::{check_crash, check_space, core_limit, core_names, core_pattern, core_suid};
use environment::{check_children, check_container, check_init, check_variables, memory_group};
use tools::{check_holds, check_ptrace, check_symbols, check_tool, install_command, kernel_log};

type Check = fn(&MachineFacts) -> Finding;

/// All checks with their names, in the order in which they are shown.
pub(super) const ALL: [(&str, Check); 20] = [
    ("crash", check_crash),
    ("core-limit", core_limit),
    ("core-pattern", core_pattern),
    ("core-names", core_names),
    ("core-space", |m| {
        check_space("where cores go", m.space, "--cores light")
    }),
    ("core-suid", core_suid),
    ("shared-memory", |m| {
        check_space("in /dev/shm", m.shared_space, "docker run --shm-size 8g")
    }),
    ("kernel-log", kernel_log),
    ("ptrace", check_ptrace),
    ("holds", check_holds),
    ("gdb", |m| check_tool(m, "gdb", &install_command(m, "gdb"))),
    ("eu-stack", |m| {
        check_tool(m, "eu-stack", &install_command(m, "elfutils"))
    }),
    ("py-spy", |m| check_tool(m, "py-spy", "pip install py-spy")),
    ("pystack", |m| {
        check_tool(m, "pystack", "pip install pystack")
    }),
    ("libc-symbols", check_symbols),
    ("memory-group", memory_group),
    ("container", check_container),
    ("init", check_init),
    ("children", check_children),
    ("variables", check_variables),
];

/// The state, what was seen, and how to change it.
pub(super) type Finding = (CheckState, String, Option<String>);

fn passed(seen: impl Into<String>) -> Finding {
    (CheckState::Ok, seen.into(), None)
}

fn better(seen: impl Into<String>, fix: impl Into<String>) -> Finding {
    (CheckState::Better, seen.into(), Some(fix.into()))
}

fn bad(seen: impl Into<String>, fix: impl Into<String>) -> Finding {
    (CheckState::Bad, seen.into(), Some(fix.into()))
}
