//! Tests the checks with artificial machines.

use super::ALL;
use crate::doctor::machine::TOOLS;
use crate::doctor::{
    CaptureProof, CheckState, CoreFolder, HoldProof, MachineFacts, TracingRights, run_checkup,
};
use provoke_sys::cgroup::CgroupObstacle;
use provoke_sys::core_pattern::parse_pattern;
use std::path::PathBuf;

/// Returns a machine without any problem.
fn healthy_machine() -> MachineFacts {
    MachineFacts {
        core_limit: None,
        core_pattern: Some("core.%p".to_owned()),
        destination: Some(parse_pattern("core.%p", true)),
        core_folder: Some(CoreFolder {
            path: PathBuf::from("/cores"),
            exists: true,
            writable: true,
        }),
        helper_exists: false,
        proof: CaptureProof::Core(PathBuf::from("/cores/core.1")),
        container: None,
        init: Some("systemd".to_owned()),
        space: Some(100 << 30),
        shared_space: Some(100 << 30),
        suid_dumpable: Some("0".to_owned()),
        hold_proof: HoldProof::Held { watches: true },
        tracing: TracingRights::Descendants,
        kernel_log: true,
        memory_obstacle: None,
        tools: TOOLS.map(|(name, _)| name).to_vec(),
        libc_symbols: Some(true),
        distribution: "debian".to_owned(),
        influences: Vec::new(),
        lists_children: true,
    }
}

/// Returns the checks that report a problem after this change.
fn complaints(change: impl Fn(&mut MachineFacts)) -> Vec<(&'static str, CheckState)> {
    let mut machine = healthy_machine();
    change(&mut machine);
    let checks = run_checkup(&machine).checks.into_iter();
    let complaints = checks
        .filter(|check| check.state != CheckState::Ok)
        .inspect(|check| assert!(check.fix.is_some(), "{check:?}"));
    complaints.map(|check| (check.name, check.state)).collect()
}

fn pattern(machine: &mut MachineFacts, pattern: &str) {
    machine.core_pattern = Some(pattern.to_owned());
    machine.destination = Some(parse_pattern(pattern, false));
}

#[test]
fn a_machine_without_problems_has_no_complaints() {
    assert_eq!(complaints(|_| {}), []);
    let checks = run_checkup(&healthy_machine()).checks;
    assert!(checks.iter().all(|check| check.fix.is_none()));
    let mut names: Vec<&str> = checks.iter().map(|check| check.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), ALL.len(), "each has a name of its own");
}

#[test]
fn obstacles_to_core_files_are_bad() {
    let bad = |name| vec![(name, CheckState::Bad)];
    assert_eq!(complaints(|m| m.core_limit = Some(0)), bad("core-limit"));
    let missing = |m: &mut MachineFacts| {
        pattern(m, "/cores/core.%p");
        m.core_folder.as_mut().unwrap().exists = false;
    };
    assert_eq!(complaints(missing), bad("core-pattern"));
    let closed = |m: &mut MachineFacts| m.core_folder.as_mut().unwrap().writable = false;
    assert_eq!(complaints(closed), bad("core-pattern"));
    assert_eq!(
        complaints(|m| pattern(m, "|/no/helper %p")),
        bad("core-pattern")
    );
    let unknown = |m: &mut MachineFacts| {
        pattern(m, "|/usr/bin/other %p");
        m.helper_exists = true;
    };
    assert_eq!(complaints(unknown), bad("core-pattern"));
    assert_eq!(
        complaints(|m| m.proof = CaptureProof::NoCore(false)),
        bad("crash")
    );
}

#[test]
fn disadvantages_that_can_be_fixed_are_better() {
    let better = |name| vec![(name, CheckState::Better)];
    assert_eq!(complaints(|m| pattern(m, "core")), better("core-names"));
    let systemd = |m: &mut MachineFacts| {
        pattern(m, "|/lib/systemd/systemd-coredump %P");
        m.helper_exists = true;
    };
    assert_eq!(complaints(systemd), better("core-pattern"));
    assert_eq!(complaints(|m| m.kernel_log = false), better("kernel-log"));
    assert_eq!(
        complaints(|m| m.memory_obstacle = Some(CgroupObstacle::NeedsRoot)),
        better("memory-group")
    );
    assert_eq!(complaints(|m| m.space = Some(1)), better("core-space"));
    assert_eq!(
        complaints(|m| m.tools.retain(|tool| *tool != "gdb")),
        better("gdb")
    );
    let set = |m: &mut MachineFacts| m.influences = vec![("LD_PRELOAD".to_owned(), "x")];
    assert_eq!(complaints(set), better("variables"));
}

#[test]
fn tracing_depends_on_the_ptrace_scope_and_on_capabilities() {
    let scope = |scope, cap| complaints(move |m| m.tracing = TracingRights::new(cap, Some(scope)));
    assert_eq!(scope(0, false), []);
    assert_eq!(scope(2, false), [("ptrace", CheckState::Bad)]);
    assert_eq!(scope(3, true), []);
}

#[test]
fn a_container_is_checked_for_its_init_and_core_helper() {
    let inside = |m: &mut MachineFacts| {
        m.container = Some("docker".to_owned());
        m.tracing = TracingRights::AnyProcess;
    };
    assert_eq!(complaints(inside), []);
    let shell = |m: &mut MachineFacts| {
        inside(m);
        m.init = Some("sh".to_owned());
    };
    assert_eq!(complaints(shell), [("init", CheckState::Better)]);
    let helper = |m: &mut MachineFacts| {
        inside(m);
        pattern(m, "|/usr/lib/systemd/systemd-coredump %P");
    };
    let found = complaints(helper);
    assert!(found.contains(&("container", CheckState::Bad)), "{found:?}");
}
