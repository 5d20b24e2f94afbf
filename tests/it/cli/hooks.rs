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
fn a_failed_setup_tests_nothing() {
    let sandbox = Sandbox::new();
    let said = sandbox.provoke(&[
        "run",
        "-n",
        "2",
        "--setup",
        "echo no license; exit 3",
        "--",
        "true",
    ]);
    insta::assert_snapshot!(said, @"
    ------- stderr -------
    error: `setup` failed: exit 3
      caused by: no license
    [exit status: Some(125)]
    ");
}

#[test]
fn a_failed_preparation_voids_its_trial() {
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
fn what_setup_starts_lives_until_the_end_and_no_longer() {
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
fn an_interrupt_during_setup_ends_it() {
    let sandbox = Sandbox::new();
    let linger = unique_linger();
    let setup = format!("touch up; exec {PROVOKE} victim leftover --linger {linger}");
    let child = sandbox.start(&["run", "-n", "3", "--setup", &setup, "--", "true"]);
    wait_until("setup runs", || sandbox.path("up").exists());
    child.signal(rustix::process::Signal::INT);
    let said = child.end();
    assert_eq!(said.code, Some(130), "{said}");
    assert!(said.to_string().contains("provoke resume RUN"), "{said}");
    assert_gone(&linger);
}

#[test]
fn an_interrupt_during_prepare_is_no_failure_of_it() {
    let sandbox = Sandbox::new();
    let linger = unique_linger();
    let hook = format!("touch up; exec {PROVOKE} victim leftover --linger {linger}");
    let child = sandbox.start(&["run", "-n", "3", "--prepare", &hook, "--", "touch", "ran"]);
    wait_until("the hook runs", || sandbox.path("up").exists());
    child.signal(rustix::process::Signal::INT);
    let said = child.end();
    assert_eq!(said.code, Some(130), "{said}");
    assert!(!said.stdout.contains("prepare failed"), "{said}");
    assert!(!sandbox.path("ran").exists());
    assert_gone(&linger);
}

#[test]
fn an_interrupt_during_cleanup_ends_it() {
    let sandbox = Sandbox::new();
    let linger = unique_linger();
    let hook = format!("touch up; exec {PROVOKE} victim leftover --linger {linger}");
    let child = sandbox.start(&["run", "-n", "1", "--cleanup", &hook, "--", "true"]);
    wait_until("the hook runs", || sandbox.path("up").exists());
    child.signal(rustix::process::Signal::INT);
    let said = child.end();
    assert_eq!(said.code, Some(0), "the trials were over: {said}");
    assert!(said.stderr.contains("`cleanup` did not finish"), "{said}");
    assert_gone(&linger);
}

#[test]
fn what_a_hook_starts_may_go_on_writing() {
    let sandbox = Sandbox::new();
    // Writes more than a pipe holds, for as long as the trial runs, and reports if that failed.
    let daemon = "(until [ -e stop ]; do head -c 100000 /dev/zero || touch broken; sleep 0.01; done; touch ended) &";
    for hook in ["--setup", "--prepare"] {
        let _ = std::fs::remove_file(sandbox.path("stop"));
        let line = "sleep 0.2; touch stop; until [ -e ended ]; do sleep 0.01; done; rm ended";
        let (report, said) = sandbox.report(&["-n", "1", hook, daemon, "--", "sh", "-c", line]);
        assert_eq!(
            report["variants"][0]["outcomes"],
            json!({"pass": 1}),
            "{said}"
        );
        assert!(!sandbox.path("broken").exists(), "{hook}");
    }
}

#[test]
fn cleanup_runs_when_nothing_could_start() {
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
fn a_lost_steward_takes_its_processes_along_and_cleanup_still_runs() {
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
    let (report, said) = sandbox.report(&args);
    assert_eq!(
        report["variants"][0]["outcomes"],
        json!({"pass": 1}),
        "{said}"
    );
    assert_gone(&linger);
}
