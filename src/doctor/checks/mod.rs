//! Checks: each judges the facts about a machine, and suggests changes.

mod cores;
mod environment;
#[cfg(test)]
mod tests;
mod tools;

use super::{CheckResult, CheckState, MachineFacts};
use cores::{
    check_crash, core_limit, core_names, core_pattern, core_space, core_suid, shared_memory,
};
use environment::{check_children, check_container, check_init, check_variables, memory_group};
use tools::{
    check_gdb, check_holds, check_ptrace, check_pystack, check_symbols, eu_stack, kernel_log,
    py_spy,
};

/// All checks, in the order in which they are shown.
pub(super) const ALL: [fn(&MachineFacts) -> CheckResult; 20] = [
    check_crash,
    core_limit,
    core_pattern,
    core_names,
    core_space,
    core_suid,
    shared_memory,
    kernel_log,
    check_ptrace,
    check_holds,
    check_gdb,
    eu_stack,
    py_spy,
    check_pystack,
    check_symbols,
    memory_group,
    check_container,
    check_init,
    check_children,
    check_variables,
];

fn passed_check(name: &'static str, seen: impl Into<String>) -> CheckResult {
    CheckResult {
        name,
        state: CheckState::Ok,
        seen: seen.into(),
        fix: None,
    }
}

fn failed_check(
    state: CheckState,
    name: &'static str,
    seen: impl Into<String>,
    fix: impl Into<String>,
) -> CheckResult {
    CheckResult {
        name,
        state,
        seen: seen.into(),
        fix: Some(fix.into()),
    }
}
