//! Checks of cgroups, container, first process and environment.

use super::{Finding, bad, better, passed};
use crate::doctor::MachineFacts;
use provoke_sys::core_pattern::CoreDestination;

pub(super) fn memory_group(machine: &MachineFacts) -> Finding {
    let Some(obstacle) = machine.memory_obstacle else {
        return passed("trials run in memory control groups: OOM kills are certain");
    };
    better(
        format!(
            "{}: OOM kills are only probable",
            obstacle.describe("memory")
        ),
        obstacle.way_out(),
    )
}

pub(super) fn check_container(machine: &MachineFacts) -> Finding {
    let helper = matches!(machine.destination, Some(CoreDestination::Helper { .. }));
    match &machine.container {
        None => passed("no container detected"),
        Some(kind) if helper => bad(
            format!(
                "this is a container ({kind}), and the host passes cores to a program on the host"
            ),
            "on the host: sysctl kernel.core_pattern=core.%p",
        ),
        Some(kind) => passed(format!(
            "this is a container ({kind}); the core setting of the host applies, and core files are written here"
        )),
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

pub(super) fn check_init(machine: &MachineFacts) -> Finding {
    match (&machine.container, &machine.init) {
        (Some(_), Some(first)) if !REAPERS.contains(&first.as_str()) => better(
            format!("PID 1 is `{first}`, which may not reap orphans: they stay as zombies"),
            "docker run --init",
        ),
        (_, Some(first)) => passed(format!("PID 1 is `{first}`")),
        (_, None) => passed("cannot read PID 1"),
    }
}

pub(super) fn check_children(machine: &MachineFacts) -> Finding {
    if machine.lists_children {
        return passed("the kernel lists the children of a process");
    }
    bad(
        "the kernel does not list the children of a process: leaked processes are not found",
        "use a kernel with CONFIG_PROC_CHILDREN=y",
    )
}

pub(super) fn check_variables(machine: &MachineFacts) -> Finding {
    if machine.influences.is_empty() {
        return passed("no environment variable is set that changes how programs run");
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
    better(
        format!(
            "{}: failure rates apply to this setting only",
            influences.join(", ")
        ),
        format!("unset {}", names.join(" ")),
    )
}
