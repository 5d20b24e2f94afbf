//! Checks of other evidence: kernel log, tracing, stack tools, symbols.

use super::{Finding, bad, better, passed};
use crate::doctor::machine::TOOLS;
use crate::doctor::{HoldProof, MachineFacts, TracingRights};

pub(super) fn kernel_log(machine: &MachineFacts) -> Finding {
    if machine.kernel_log {
        return passed("the kernel log of crashes and OOM kills is readable");
    }
    better(
        "the kernel log of crashes and OOM kills is not readable",
        "run provoke as root, or: sysctl kernel.dmesg_restrict=0; in a container also --cap-add SYSLOG --device /dev/kmsg",
    )
}

pub(super) fn check_ptrace(machine: &MachineFacts) -> Finding {
    if !machine.may_trace() {
        return bad(
            "only root may trace processes: no stacks of hangs",
            "sysctl kernel.yama.ptrace_scope=1",
        );
    }
    match (machine.tracing, &machine.container) {
        (TracingRights::Descendants, Some(_)) => better(
            "only processes of trials may be traced: CAP_SYS_PTRACE is missing",
            "docker run --cap-add SYS_PTRACE",
        ),
        _ => passed("processes of trials may be traced: stacks of hangs can be taken"),
    }
}

pub(super) fn check_holds(machine: &MachineFacts) -> Finding {
    match &machine.hold_proof {
        HoldProof::Held { watches: true } => passed(
            "a thread of a test program was held, and memory can be watched: `provoke hunt` works",
        ),
        HoldProof::Held { watches: false } => better(
            "a thread was held, but no debug register can be set: `provoke hunt` works without the other side of a race",
            "use a machine or a virtual machine with debug registers",
        ),
        HoldProof::NotHeld(reason) => better(
            format!("no thread of a test program could be held: {reason}"),
            match (machine.may_trace(), &machine.container) {
                (false, _) => "sysctl kernel.yama.ptrace_scope=1",
                (true, Some(_)) => {
                    "docker run --cap-add SYS_PTRACE --security-opt seccomp=unconfined"
                }
                (true, None) => "use Linux on x86-64, without a sandbox that forbids ptrace",
            },
        ),
    }
}

pub(super) fn check_tool(machine: &MachineFacts, name: &'static str, fix: &str) -> Finding {
    let tool_row = TOOLS.iter().find(|(tool_name, _)| *tool_name == name);
    let adds = tool_row.map_or("", |(_, adds)| adds);
    if machine.tools.contains(&name) {
        return passed(format!("installed: {adds}"));
    }
    better(format!("not installed; it adds {adds}"), fix)
}

/// Returns the command that installs a package on this machine.
pub(super) fn install_command(machine: &MachineFacts, package: &str) -> String {
    match machine.distribution.as_str() {
        "debian" | "ubuntu" => format!("apt install {package}"),
        "fedora" | "rhel" | "centos" | "rocky" | "almalinux" => format!("dnf install {package}"),
        "arch" => format!("pacman -S {package}"),
        "alpine" => format!("apk add {package}"),
        _ => format!("install {package}"),
    }
}

pub(super) fn check_symbols(machine: &MachineFacts) -> Finding {
    match machine.libc_symbols {
        Some(true) => passed("debug symbols of the C library are installed"),
        Some(false) => better(
            "debug symbols of the C library are missing: its frames have fewer names",
            match machine.distribution.as_str() {
                "fedora" | "rhel" | "centos" | "rocky" | "almalinux" => {
                    "dnf debuginfo-install glibc".to_owned()
                }
                _ => install_command(machine, "libc6-dbg"),
            },
        ),
        None => passed("cannot identify the build of the C library"),
    }
}
