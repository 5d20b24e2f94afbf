//! Checks of cgroups, container, first process and environment.

use super::{failed_check, passed_check};
use crate::doctor::{CheckResult, CheckState, MachineFacts};
use provoke_sys::core_pattern::CoreDestination;

pub(super) fn memory_group(machine: &MachineFacts) -> CheckResult {
    let name = "memory-group";
    let Some(obstacle) = machine.memory_obstacle else {
        return passed_check(
            name,
            "trials run in memory control groups: OOM kills are certain",
        );
    };
    failed_check(
        CheckState::Better,
        name,
        format!(
            "{}: OOM kills are only probable",
            obstacle.describe("memory")
        ),
        obstacle.way_out(),
    )
}

pub(super) fn check_container(machine: &MachineFacts) -> CheckResult {
    let name = "container";
    let helper = matches!(machine.destination, Some(CoreDestination::Helper { .. }));
    match &machine.container {
        None => passed_check(name, "no container detected"),
        Some(kind) if helper => failed_check(
            CheckState::Bad,
            name,
            format!(
                "this is a container ({kind}), and the host passes cores to a program on the host"
            ),
            "on the host: sysctl kernel.core_pattern=core.%p",
        ),
        Some(kind) => passed_check(
            name,
            format!(
                "this is a container ({kind}); the core setting of the host applies, and core files are written here"
            ),
        ),
    }
}

/// Names of init processes that are known to reap orphans.
const REAPERS: [&str; 9] = [
    "catatonit",
    "docker-init",
    "dumb-init",
    "init",
    "podman-init",
    "runit",
    "s6-svscan",
    "systemd",
    "tini",
];

pub(super) fn check_init(machine: &MachineFacts) -> CheckResult {
    let name = "init";
    match (&machine.container, &machine.init) {
        (Some(_), Some(first)) if !REAPERS.contains(&first.as_str()) => failed_check(
            CheckState::Better,
            name,
            format!("PID 1 is `{first}`, which may not reap orphans: they stay as zombies"),
            "docker run --init",
        ),
        (_, Some(first)) => passed_check(name, format!("PID 1 is `{first}`")),
        (_, None) => passed_check(name, "cannot read PID 1"),
    }
}

pub(super) fn check_children(machine: &MachineFacts) -> CheckResult {
    let name = "children";
    if machine.lists_children {
        return passed_check(name, "the kernel lists the children of a process");
    }
    failed_check(
        CheckState::Bad,
        name,
        "the kernel does not list the children of a process: leaked processes are not found",
        "use a kernel with CONFIG_PROC_CHILDREN=y",
    )
}

pub(super) fn check_variables(machine: &MachineFacts) -> CheckResult {
    let name = "variables";
    if machine.influences.is_empty() {
        return passed_check(
            name,
            "no environment variable is set that changes how programs run",
        );
    }
    let influences: Vec<String> = machine
        .influences
        .iter()
        .clone()
        .map(|(name, effect)| format!("{name} is set ({effect})"))
        .collect();
    let names: Vec<&str> = machine
        .influences
        .iter()
        .map(|(name, _)| name.as_str())
        .collect();
    failed_check(
        CheckState::Better,
        name,
        format!(
            "{}: failure rates apply to this setting only",
            influences.join(", ")
        ),
        format!("unset {}", names.join(" ")),
    )
}
