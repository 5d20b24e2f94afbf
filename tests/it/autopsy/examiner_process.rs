//! Tests the process that analyses cores: what can end it, and what its client says then.

use super::victims::{Lab, calls};
use crate::limited::PATIENCE;
use provoke_autopsy::{CoreError, ExaminerClient, ExaminerSettings};
use provoke_model::Frame;
use provoke_sys::pidfd::Pidfd;
use provoke_sys::process::child_pids;
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

const PROVOKE: &str = env!("CARGO_BIN_EXE_provoke");

const CRASH: &str = r"
struct thing { long a, b, c; };
__attribute__((noinline)) long conv(struct thing *p) { return p->c + 1; }
int main(void) { return conv(0) + 1; }
";

fn client_of(binary: &str) -> ExaminerClient {
    ExaminerClient::new(Path::new(binary), ExaminerSettings::default(), PATIENCE)
}

/// Returns the reason why a core was not read.
fn reason_of(error: CoreError) -> String {
    match error {
        CoreError::Unfinished { why, .. } => why,
        error => panic!("{error}"),
    }
}

/// Compiles a program whose symbols and lines are in the file `crash.debug`.
fn program_with_debug_file(lab: &Lab) -> PathBuf {
    let program = lab.compile("crash", "crash.c", CRASH, &["-g", "-O1"]);
    lab.run("objcopy", &["--only-keep-debug", "crash", "crash.debug"]);
    let link = "--add-gnu-debuglink=crash.debug";
    lab.run("objcopy", &["--strip-all", link, "crash"]);
    program
}

/// Writes a program that takes the place of the process.
fn substitute(lab: &Lab, script: &str) -> String {
    let path = lab.path("substitute");
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
    path.to_str().unwrap().to_owned()
}

/// Returns the process that this test has started.
fn running_examiner() -> Pid {
    let has_command = |pid: &i32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.ends_with(b"\0examiner\0")
    };
    let mut pids = child_pids(std::process::id().cast_signed()).into_iter();
    Pid::from_raw(pids.find(has_command).unwrap()).unwrap()
}

#[test]
fn a_file_that_is_overwritten_after_it_was_mapped_costs_one_analysis() {
    let lab = Lab::new();
    let program = program_with_debug_file(&lab);
    let core = lab.core(&program, &[], &[]);
    let mut client = client_of(PROVOKE);
    // The files of the program are mapped, but its lines are not read yet.
    client.frames_at_offset(&program, 0);
    let debug_file = File::options().write(true).open(lab.path("crash.debug"));
    debug_file.unwrap().set_len(0).unwrap();
    let error = client.examine_core(&core).unwrap_err();
    insta::assert_snapshot!(
        reason_of(error),
        @"its program or a library was overwritten while it was read"
    );
    // Another process reads the rest.
    let autopsy = client.examine_core(&core).unwrap();
    assert_eq!(autopsy.crash.fault.class, "null pointer");
    assert_eq!(autopsy.crash.frames[0].function, None);
}

#[test]
fn the_process_is_started_again_after_it_was_killed() {
    let lab = Lab::new();
    let program = lab.compile("crash", "crash.c", CRASH, &["-g", "-O1"]);
    let core = lab.core(&program, &[], &[]);
    let mut client = client_of(PROVOKE);
    let frames = |client: &mut ExaminerClient| -> Vec<Frame> {
        client.examine_core(&core).unwrap().crash.frames
    };
    let first = frames(&mut client);
    assert!(calls(&first, &["conv", "main"]), "{first:?}");
    let examiner = running_examiner();
    assert_eq!(frames(&mut client), first);
    assert_eq!(running_examiner(), examiner, "the cache is used again");
    let pidfd = Pidfd::of_process(examiner.as_raw_nonzero().get()).unwrap();
    kill_process(examiner, Signal::KILL).unwrap();
    assert!(pidfd.ends_within(PATIENCE));
    assert_eq!(frames(&mut client), first);
    let examiner = running_examiner();
    drop(client);
    kill_process(examiner, Signal::KILL).unwrap_err();
}

#[test]
fn an_analysis_that_takes_too_long_is_killed() {
    let lab = Lab::new();
    let binary = substitute(&lab, "exec sleep 1000");
    let limit = Duration::from_millis(500);
    let settings = ExaminerSettings::default();
    let mut client = ExaminerClient::new(Path::new(&binary), settings, limit);
    let error = client.examine_core(Path::new("core")).unwrap_err();
    insta::assert_snapshot!(reason_of(error), @"its analysis took longer than 0.5 s");
    let own_pid = std::process::id().cast_signed();
    assert!(child_pids(own_pid).is_empty());
}

#[test]
fn an_end_without_an_answer_is_described() {
    let reason = |script: &str| {
        let lab = Lab::new();
        let mut client = client_of(&substitute(&lab, script));
        reason_of(client.examine_core(Path::new("core")).unwrap_err())
    };
    insta::assert_snapshot!(reason("kill -KILL $$"), @"its analysis ended: signal: 9 (SIGKILL)");
    insta::assert_snapshot!(
        reason("ulimit -c 0; kill -ABRT $$"),
        @"its analysis needs more than 1 GiB of memory"
    );
    // The length of the answer is 4 GiB, or the answer is not JSON.
    for answer in [r"\377\377\377\377", r"\001\000\000\000?"] {
        let reason = reason(&format!("printf '{answer}'; exec cat >/dev/null"));
        assert_eq!(reason, "its analysis sent an invalid answer");
    }
}
