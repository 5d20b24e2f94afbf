//! Checks of where it all runs: memory groups, container, first process, environment.

use super::{not, ok};
use crate::doctor::{Check, Machine, State};
use crate::sys::cgroup::Version;
use crate::sys::core_pattern::Destination;

pub(super) fn memory_group(machine: &Machine) -> Check {
    let name = "memory-group";
    if machine.memory_group {
        return ok(
            name,
            "trials get memory groups: OOM kills are detected with certainty",
        );
    }
    let why = match machine.cgroup {
        Some(Version::Two) => {
            "groups are there, and their memory controller is not passed on to us"
        }
        Some(Version::One) => "groups are there, in their old version, and only root makes them",
        None => "there are no groups that count memory",
    };
    not(
        State::Better,
        name,
        format!("{why}: OOM kills are only likely, never certain"),
        match machine.cgroup {
            Some(Version::One) => "run provoke as root",
            _ => "systemd-run --user --scope -p Delegate=yes provoke ...",
        },
    )
}

pub(super) fn container(machine: &Machine) -> Check {
    let name = "container";
    let helper = matches!(machine.destination, Some(Destination::Helper { .. }));
    match &machine.container {
        None => ok(name, "this is no container that shows"),
        Some(kind) if helper => not(
            State::Bad,
            name,
            format!(
                "this is a container ({kind}), and the host hands cores to a program of its own"
            ),
            "on the host: sysctl kernel.core_pattern=core.%p",
        ),
        Some(kind) => ok(
            name,
            format!(
                "this is a container ({kind}); the host's setting for cores holds, and its files land here"
            ),
        ),
    }
}

/// First processes that are known to take in orphans.
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

pub(super) fn init(machine: &Machine) -> Check {
    let name = "init";
    match (&machine.container, &machine.init) {
        (Some(_), Some(first)) if !REAPERS.contains(&first.as_str()) => not(
            State::Better,
            name,
            format!(
                "the first process is `{first}`, which may not take in orphans: they stay as zombies"
            ),
            "docker run --init",
        ),
        (_, Some(first)) => ok(name, format!("the first process is `{first}`")),
        (_, None) => ok(name, "the first process is not to be seen"),
    }
}

pub(super) fn children(machine: &Machine) -> Check {
    let name = "children";
    if machine.lists_children {
        return ok(name, "the kernel lists the children of a process");
    }
    not(
        State::Bad,
        name,
        "the kernel does not list the children of a process: what trials leave behind is not found",
        "use a kernel with CONFIG_PROC_CHILDREN=y",
    )
}

pub(super) fn variables(machine: &Machine) -> Check {
    let name = "variables";
    if machine.influences.is_empty() {
        return ok(
            name,
            "no variable is set that is known to change how programs run",
        );
    }
    let known = machine.influences.iter();
    let known: Vec<String> = known
        .clone()
        .map(|(name, what)| format!("{name} is set ({what})"))
        .collect();
    let names: Vec<&str> = machine
        .influences
        .iter()
        .map(|(name, _)| name.as_str())
        .collect();
    not(
        State::Better,
        name,
        format!("{}: rates are for this setting", known.join(", ")),
        format!("unset {}", names.join(" ")),
    )
}
