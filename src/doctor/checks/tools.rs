//! Checks of other evidence: kernel log, tracing, stack tools, symbols.

use super::{failed_check, passed_check};
use crate::doctor::machine::TOOLS;
use crate::doctor::{CheckResult, CheckState, HoldProof, MachineFacts, TracingRights};

pub(super) fn kernel_log(machine: &MachineFacts) -> CheckResult {
    let name = "kernel-log";
    if machine.kernel_log {
        return passed_check(name, "the kernel log of crashes and OOM kills is readable");
    }
    failed_check(
        CheckState::Better,
        name,
        "the kernel log of crashes and OOM kills is not readable",
        "run provoke as root, or: sysctl kernel.dmesg_restrict=0; in a container also --cap-add SYSLOG --device /dev/kmsg",
    )
}

pub(super) fn check_ptrace(machine: &MachineFacts) -> CheckResult {
    let name = "ptrace";
    if !machine.may_trace() {
        return failed_check(
            CheckState::Bad,
            name,
            "only root may trace processes: no stacks of hangs",
            "sysctl kernel.yama.ptrace_scope=1",
        );
    }
    match (machine.tracing, &machine.container) {
        (TracingRights::Descendants, Some(_)) => failed_check(
            CheckState::Better,
            name,
            "only processes of trials may be traced: CAP_SYS_PTRACE is missing",
            "docker run --cap-add SYS_PTRACE",
        ),
        _ => passed_check(
            name,
            "processes of trials may be traced: stacks of hangs can be taken",
        ),
    }
}

pub(super) fn check_holds(machine: &MachineFacts) -> CheckResult {
    let name = "holds";
    match &machine.hold_proof {
        HoldProof::Held { watches: true } => passed_check(
            name,
            "a thread of a test program was held, and memory can be watched: `provoke hunt` works",
        ),
        HoldProof::Held { watches: false } => failed_check(
            CheckState::Better,
            name,
            "a thread was held, but no debug register can be set: `provoke hunt` works without the other side of a race",
            "use a machine or a virtual machine with debug registers",
        ),
        HoldProof::NotHeld(reason) => failed_check(
            CheckState::Better,
            name,
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

fn check_tool(machine: &MachineFacts, name: &'static str, fix: &str) -> CheckResult {
    let tool_row = TOOLS.iter().find(|(tool_name, _)| *tool_name == name);
    let adds = tool_row.map_or("", |(_, adds)| adds);
    if machine.tools.contains(&name) {
        return passed_check(name, format!("installed: {adds}"));
    }
    failed_check(
        CheckState::Better,
        name,
        format!("not installed; it adds {adds}"),
        fix,
    )
}

pub(super) fn check_gdb(machine: &MachineFacts) -> CheckResult {
    check_tool(machine, "gdb", &install_command(machine, "gdb"))
}

pub(super) fn eu_stack(machine: &MachineFacts) -> CheckResult {
    check_tool(machine, "eu-stack", &install_command(machine, "elfutils"))
}

pub(super) fn py_spy(machine: &MachineFacts) -> CheckResult {
    check_tool(machine, "py-spy", "pip install py-spy")
}

pub(super) fn check_pystack(machine: &MachineFacts) -> CheckResult {
    check_tool(machine, "pystack", "pip install pystack")
}

/// Returns the command that installs a package on this machine.
fn install_command(machine: &MachineFacts, package: &str) -> String {
    match machine.distribution.as_str() {
        "debian" | "ubuntu" => format!("apt install {package}"),
        "fedora" | "rhel" | "centos" | "rocky" | "almalinux" => format!("dnf install {package}"),
        "arch" => format!("pacman -S {package}"),
        "alpine" => format!("apk add {package}"),
        _ => format!("install {package}"),
    }
}

pub(super) fn check_symbols(machine: &MachineFacts) -> CheckResult {
    let name = "libc-symbols";
    match machine.libc_symbols {
        Some(true) => passed_check(name, "debug symbols of the C library are installed"),
        Some(false) => failed_check(
            CheckState::Better,
            name,
            "debug symbols of the C library are missing: its frames have fewer names",
            match machine.distribution.as_str() {
                "fedora" | "rhel" | "centos" | "rocky" | "almalinux" => {
                    "dnf debuginfo-install glibc".to_owned()
                }
                _ => install_command(machine, "libc6-dbg"),
            },
        ),
        None => passed_check(name, "cannot identify the build of the C library"),
    }
}
