//! Checks: each judges the facts about a machine, and suggests changes.

mod cores;
mod place;
#[cfg(test)]
mod tests;
mod tools;

use super::{Check, Machine, State};
use cores::{core_limit, core_names, core_pattern, core_space, core_suid, crash, shared_memory};
use place::{children, container, init, memory_group, variables};
use tools::{eu_stack, gdb, kernel_log, ptrace, py_spy, pystack, symbols};

/// All checks, in the order in which they are shown.
pub(super) const ALL: [fn(&Machine) -> Check; 19] = [
    crash,
    core_limit,
    core_pattern,
    core_names,
    core_space,
    core_suid,
    shared_memory,
    kernel_log,
    ptrace,
    gdb,
    eu_stack,
    py_spy,
    pystack,
    symbols,
    memory_group,
    container,
    init,
    children,
    variables,
];

fn ok(name: &'static str, seen: impl Into<String>) -> Check {
    Check {
        name,
        state: State::Ok,
        seen: seen.into(),
        fix: None,
    }
}

fn not(state: State, name: &'static str, seen: impl Into<String>, fix: impl Into<String>) -> Check {
    Check {
        name,
        state,
        seen: seen.into(),
        fix: Some(fix.into()),
    }
}
