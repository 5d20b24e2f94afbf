//! Tests the hooks around the trials.

use super::support::{PROVOKE, Sandbox, assert_gone, unique_linger, wait_until};
use serde_json::json;

#[test]
fn hooks_run_in_their_order() {
    let sandbox = Sandbox::new();
    let log = |word: &str| format!("echo {word} $PROVOKE_TRIAL >> log");
    let args = [
        "-n",
        "2",
        "--setup",
        &log("setup"),
        "--prepare",
        &log("prepare"),
    ];
    let more = ["--conclude", &log("conclude"), "--cleanup", &log("cleanup")];
    let line = log("trial");
    sandbox.report(&[&args[..], &more, &["--", "sh", "-c", &line]].concat());
    assert_eq!(
        sandbox.read("log"),
        "setup\nprepare 1\ntrial 1\nconclude 1\nprepare 2\ntrial 2\nconclude 2\ncleanup\n"
    );
}

#[test]
fn explain_shows_why_the_hook_before_a_trial_failed() {
    let sandbox = Sandbox::new();
    let prepare = "echo compiling; echo a.c:1: no b; exit 3";
    sandbox.provoke(&["run", "-n", "1", "--prepare", prepare, "--", "true"]);
    insta::assert_snapshot!(sandbox.provoke(&["explain", "last#1"]), @"
    #1 is inconclusive: prepare failed.
      it ended with exit 3; its last lines:
      compiling
      a.c:1: no b
    ------- stderr -------
    [exit status: Some(0)]
    ");
}

#[test]
fn a_failed_setup_ends_the_run_with_an_error() {
    let sandbox = Sandbox::new();
    let output = sandbox.provoke(&[
        "run",
        "-n",
        "2",
        "--setup",
        "echo no license; exit 3",
        "--",
        "true",
    ]);
    insta::assert_snapshot!(output, @"
    ------- stderr -------
    error: `setup` failed: exit 3
      caused by: no license
    [exit status: Some(125)]
    ");
}

#[test]
fn a_failed_prepare_hook_makes_its_trial_inconclusive() {
    let sandbox = Sandbox::new();
    let (report, _) = sandbox.report(&[
        "-n",
        "3",
        "--prepare",
        "[ $PROVOKE_TRIAL != 2 ]",
        "--",
        "true",
    ]);
    let variant = &report["variants"][0];
    assert_eq!(
        (&variant["trials"], &variant["void_reasons"]),
        (&json!(3), &json!({"prepare failed": 1}))
    );
}

#[test]
fn processes_started_by_setup_live_until_the_end_of_the_run() {
    let sandbox = Sandbox::new();
    let linger = unique_linger();
    let setup = format!(
        "setsid {PROVOKE} victim leftover --linger {linger} >/dev/null 2>&1 & echo $! > pid"
    );
    let args = [
        "-n",
        "3",
        "--setup",
        &setup,
        "--",
        "sh",
        "-c",
        "kill -0 $(cat pid)",
    ];
    let (report, _) = sandbox.report(&args);
    assert_eq!(report["variants"][0]["outcomes"], json!({"pass": 3}));
    assert_gone(&linger);
}

#[test]
fn an_interrupt_during_setup_ends_the_setup() {
    let sandbox = Sandbox::new();
    let linger = unique_linger();
    let setup = format!("touch up; exec {PROVOKE} victim leftover --linger {linger}");
    let child = sandbox.start(&["run", "-n", "3", "--setup", &setup, "--", "true"]);
    wait_until("setup runs", || sandbox.path("up").exists());
    child.signal(rustix::process::Signal::INT);
    let output = child.end();
    assert_eq!(output.code, Some(130), "{output}");
    assert!(
        output.to_string().contains("provoke resume RUN"),
        "{output}"
    );
    assert_gone(&linger);
}

#[test]
fn an_interrupt_during_prepare_is_not_a_failed_prepare() {
    let sandbox = Sandbox::new();
    let linger = unique_linger();
    let hook = format!("touch up; exec {PROVOKE} victim leftover --linger {linger}");
    let child = sandbox.start(&["run", "-n", "3", "--prepare", &hook, "--", "touch", "ran"]);
    wait_until("the hook runs", || sandbox.path("up").exists());
    child.signal(rustix::process::Signal::INT);
    let output = child.end();
    assert_eq!(output.code, Some(130), "{output}");
    assert!(!output.stdout.contains("prepare failed"), "{output}");
    assert!(!sandbox.path("ran").exists());
    assert_gone(&linger);
}

#[test]
fn an_interrupt_during_cleanup_ends_the_cleanup() {
    let sandbox = Sandbox::new();
    let linger = unique_linger();
    let hook = format!("touch up; exec {PROVOKE} victim leftover --linger {linger}");
    let child = sandbox.start(&["run", "-n", "1", "--cleanup", &hook, "--", "true"]);
    wait_until("the hook runs", || sandbox.path("up").exists());
    child.signal(rustix::process::Signal::INT);
    let output = child.end();
    assert_eq!(output.code, Some(0), "the trials were over: {output}");
    assert!(
        output.stderr.contains("`cleanup` did not finish"),
        "{output}"
    );
    assert_gone(&linger);
}

#[test]
fn a_process_started_by_a_hook_can_write_during_the_trial() {
    let sandbox = Sandbox::new();
    // Writes more than a pipe holds, for as long as the trial runs, and reports if that failed.
    let daemon = "(until [ -e stop ]; do head -c 100000 /dev/zero || touch broken; sleep 0.01; done; touch ended) &";
    for hook in ["--setup", "--prepare"] {
        let _ = std::fs::remove_file(sandbox.path("stop"));
        let line = "sleep 0.2; touch stop; until [ -e ended ]; do sleep 0.01; done; rm ended";
        let (report, output) = sandbox.report(&["-n", "1", hook, daemon, "--", "sh", "-c", line]);
        assert_eq!(
            report["variants"][0]["outcomes"],
            json!({"pass": 1}),
            "{output}"
        );
        assert!(!sandbox.path("broken").exists(), "{hook}");
    }
}

#[test]
fn cleanup_runs_if_the_program_could_not_start() {
    let sandbox = Sandbox::new();
    let args = [
        "run",
        "-n",
        "1",
        "--setup",
        "true",
        "--cleanup",
        "touch cleaned",
        "--",
        "./nope",
    ];
    assert_eq!(sandbox.provoke(&args).code, Some(125));
    assert!(sandbox.path("cleaned").exists());
}

#[test]
fn a_killed_setup_process_loses_its_children_and_cleanup_still_runs() {
    let sandbox = Sandbox::new();
    let linger = unique_linger();
    let setup = format!(
        "setsid {PROVOKE} victim leftover --linger {linger} >/dev/null 2>&1 & echo $PPID > steward"
    );
    let line = "kill -9 $(cat steward); sleep 0.1";
    let args = [
        "-n",
        "1",
        "--setup",
        &setup,
        "--cleanup",
        "touch cleaned",
        "--",
        "sh",
        "-c",
        line,
    ];
    let (report, output) = sandbox.report(&args);
    assert_eq!(
        report["variants"][0]["outcomes"],
        json!({"pass": 1}),
        "{output}"
    );
    assert_gone(&linger);
}
