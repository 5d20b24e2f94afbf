//! Tests trials under another date or time of day.

use super::support::{PROVOKE, Sandbox, processes_with, unique_linger, wait_until};

#[test]
fn only_trials_have_the_date_of_a_condition() {
    let sandbox = Sandbox::new();
    let log = "date +%Y >> log";
    let flags = [
        "run",
        "-n",
        "1",
        "--progress=none",
        "--under",
        "date=2039-06-15",
    ];
    let hooks = [
        "--setup",
        log,
        "--prepare",
        log,
        "--conclude",
        log,
        "--cleanup",
        log,
    ];
    let command = ["--", "sh", "-c", "date +%Y > trial"];
    let output = sandbox.provoke(&[&flags[..], &hooks, &command].concat());
    assert_eq!(output.code, Some(0), "{output}");
    assert_eq!(sandbox.read("trial"), "2039\n");
    assert_eq!(sandbox.read("log").lines().count(), 4);
    assert!(!sandbox.read("log").contains("2039"));
}

#[test]
fn a_stored_trial_is_replayed_at_its_date() {
    let sandbox = Sandbox::new();
    let flags = [
        "run",
        "-n",
        "1",
        "--progress=none",
        "--under",
        "date=2039-06-15",
    ];
    let command = ["--", "sh", "-c", "date +%Y; exit 3"];
    sandbox.provoke(&[&flags[..], &command].concat());
    let output = sandbox.provoke(&["replay", "last"]);
    assert!(output.stderr.contains("stdout: 2039"), "{output}");
}

#[test]
fn a_tracer_is_not_run_under_another_date() {
    let sandbox = Sandbox::new();
    let args = [
        "run",
        "-n",
        "1",
        "--under",
        "clock=23:59:58",
        "--",
        "strace",
        "true",
    ];
    insta::assert_snapshot!(sandbox.provoke(&args), @r"
    ------- stderr -------
    error: `clock` traces each process, and `strace` traces processes, too

    hint: choose a command without it, because a process can have only one tracer
    [exit status: Some(2)]
    ");
}

#[test]
fn a_killed_run_under_another_date_leaves_no_process() {
    let sandbox = Sandbox::new();
    let linger = unique_linger();
    let script = format!("{PROVOKE} victim leak-detached --linger {linger}; exec sleep {linger}");
    let flags = ["run", "-n", "1", "--progress=none", "--under", "date=+2y"];
    let running = sandbox.start(&[&flags[..], &["--", "sh", "-c", &script, &linger]].concat());
    wait_until("the processes run", || processes_with(&linger).len() > 2);
    running.die_with_slots();
    // The kernel kills all of them, because their tracer has ended.
    wait_until("nothing is left", || processes_with(&linger).is_empty());
}
