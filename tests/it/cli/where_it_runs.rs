//! Tests the recorded environment, its comparison, the warnings about it, and `doctor`.

use super::support::{PROVOKE, Said, Sandbox};
use serde_json::Value;

/// Runs a command twice into a directory of this name.
fn run(sandbox: &Sandbox, name: &str, flags: &[&str], command: &[&str]) -> Said {
    let args = [
        &["run", "--progress=none", "-n", "2", "-o", name],
        flags,
        &["--"],
        command,
    ]
    .concat();
    sandbox.provoke(&args)
}

fn json(said: &Said) -> Value {
    serde_json::from_str(&said.stdout).unwrap_or_else(|error| panic!("{error}: {said}"))
}

/// Returns the names of the differences, without unimportant ones.
fn differing(compared: &Value) -> Vec<&str> {
    let all = compared["differences"].as_array().unwrap();
    let matter = all.iter().filter(|one| one["group"] != "trifle");
    matter.map(|one| one["name"].as_str().unwrap()).collect()
}

#[test]
fn a_run_records_where_it_runs() {
    let sandbox = Sandbox::new();
    sandbox.report(&["-n", "1", "--", PROVOKE, "victim", "exit", "--code", "0"]);
    let events = sandbox.events();
    let survey = &events[0]["run_started"]["survey"];
    assert_eq!(survey["program.path"], PROVOKE);
    for name in ["kernel.release", "cpu.count", "limits.core", "user"] {
        assert!(survey[name].is_string(), "{name} in {survey}");
    }
    let of_cargo = survey.as_object().unwrap().keys();
    assert!(
        of_cargo.filter(|name| name.starts_with("cargo.")).count() > 10,
        "what lies in a target folder has a lock file: {survey}"
    );
}

#[test]
fn two_runs_of_the_same_differ_in_nothing() {
    let sandbox = Sandbox::new();
    for name in ["a", "b"] {
        run(&sandbox, name, &[], &["true"]);
    }
    let said = sandbox.provoke(&["diff", "a", "b"]);
    assert_eq!(said.code, Some(0), "{said}");
    assert!(
        said.stdout.contains("A  a  0 of 2 failed (0 %), on "),
        "{said}"
    );
    assert!(
        said.stdout
            .contains("The measured failure rates are equal;"),
        "{said}"
    );
    assert!(
        said.stdout.contains("No relevant difference was found"),
        "{said}"
    );
}

#[test]
fn failure_rates_are_compared_under_the_same_conditions() {
    let sandbox = Sandbox::new();
    sandbox.report(&["-n", "20", "-o", "a", "--", "true"]);
    sandbox.report(&["-n", "20", "-o", "b", "--", "false"]);
    sandbox.report(&["-n", "20", "-j", "2", "-o", "parallel", "--", "false"]);
    let said = sandbox.provoke(&["diff", "a", "b"]);
    assert!(
        said.stdout
            .contains("differ significantly (Fisher's exact test: p < 0.001)"),
        "{said}"
    );
    let compared = json(&sandbox.provoke(&["diff", "a", "b", "--json"]));
    assert!(compared["p_value"].as_f64().unwrap() < 1e-9, "{compared}");
    let compared = json(&sandbox.provoke(&["diff", "a", "parallel", "--json"]));
    assert_eq!(compared["p_value"], Value::Null);
    let why = "the conditions of the runs differ: parallel trials";
    assert_eq!(compared["not_comparable"], why);
}

#[test]
fn a_variable_that_differs_is_found() {
    let sandbox = Sandbox::new();
    run(&sandbox, "a", &[], &["true"]);
    run(&sandbox, "b", &["-e", "X=1"], &["true"]);
    let said = sandbox.provoke(&["diff", "a", "b", "--json"]);
    assert_eq!(said.code, Some(1), "{said}");
    let compared = json(&said);
    assert_eq!(differing(&compared), ["X"]);
    let one = &compared["differences"][0];
    assert_eq!(one["group"], "variable");
    assert_eq!(one["left"], Value::Null);
    assert_eq!(one["right"], "1");
    assert_eq!(compared["left"]["trials"], 2);
    let shown = sandbox.provoke(&["diff", "a", "b"]);
    assert!(shown.stdout.contains("variables"), "{shown}");
}

#[test]
fn another_build_of_a_program_is_found() {
    let sandbox = Sandbox::new();
    let script = sandbox.write("program", "#!/bin/sh\nexit 0\n");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&script, mode).unwrap();
    run(&sandbox, "a", &[], &["./program"]);
    sandbox.write("program", "#!/bin/sh\nexit 1\n");
    run(&sandbox, "b", &[], &["./program"]);
    let said = sandbox.provoke(&["diff", "a", "b", "--json"]);
    let compared = json(&said);
    assert_eq!(differing(&compared), ["program.hash"]);
    assert_eq!(compared["right"]["failures"], 2);
}

#[test]
fn what_may_be_a_secret_is_shown_only_if_asked_for() {
    let sandbox = Sandbox::new();
    run(&sandbox, "a", &["-e", "API_TOKEN=hunter2"], &["true"]);
    run(&sandbox, "b", &[], &["true"]);
    let said = sandbox.provoke(&["diff", "a", "b"]);
    assert!(
        said.stdout.contains("API_TOKEN") && !said.stdout.contains("hunter2"),
        "{said}"
    );
    let said = sandbox.provoke(&["diff", "a", "b", "--all"]);
    assert!(said.stdout.contains("hunter2"), "{said}");
}

#[test]
fn a_run_that_is_not_there_cannot_be_compared() {
    let sandbox = Sandbox::new();
    run(&sandbox, "a", &[], &["true"]);
    assert_eq!(sandbox.provoke(&["diff", "a", "none"]).code, Some(2));
    assert_eq!(sandbox.provoke(&["diff", "a"]).code, Some(2));
}

#[test]
fn a_line_that_hides_exit_codes_is_warned_of_and_the_report_says_so_too() {
    let sandbox = Sandbox::new();
    let said = sandbox.provoke(&["run", "-n", "1", "--shell", "false | cat"]);
    let about = "the exit code of `false | cat` is that of `cat`";
    assert!(said.stderr.contains(about), "{said}");
    // It is printed once.
    assert!(!said.stdout.contains(about), "{said}");
    let report = sandbox.provoke(&["report"]);
    assert!(report.stdout.contains(about), "{report}");
    let events = sandbox.events();
    assert_eq!(events[1]["note"]["level"], "warning", "{}", events[1]);
    let said = sandbox.provoke(&["run", "-n", "1", "--shell", "false || exit 1"]);
    assert!(!said.stderr.contains("warning"), "{said}");
}

#[test]
fn a_variable_that_changes_runs_is_mentioned() {
    let sandbox = Sandbox::new();
    let set = ["run", "-n", "1", "-e", "MALLOC_PERTURB_=7", "--", "true"];
    let said = sandbox.provoke(&set);
    assert!(
        said.stderr.contains("note: MALLOC_PERTURB_ is set"),
        "{said}"
    );
    assert!(!said.stdout.contains("MALLOC_PERTURB_"), "{said}");
    assert_eq!(sandbox.events()[1]["note"]["level"], "info");
}

#[test]
fn the_doctor_has_every_check_and_its_exit_code_says_whether_cores_are_had() {
    let sandbox = Sandbox::new();
    let said = sandbox.provoke(&["doctor", "--json"]);
    let found = json(&said);
    let checks = found["checks"].as_array().unwrap();
    let names: Vec<&str> = checks
        .iter()
        .map(|check| check["name"].as_str().unwrap())
        .collect();
    let expected = [
        "crash",
        "core-limit",
        "core-pattern",
        "core-names",
        "core-space",
        "core-suid",
        "shared-memory",
        "kernel-log",
        "ptrace",
        "holds",
        "gdb",
        "eu-stack",
        "py-spy",
        "pystack",
        "libc-symbols",
        "memory-group",
        "container",
        "init",
        "children",
        "variables",
    ];
    assert_eq!(names, expected);
    for check in checks {
        let well = check["state"] == "ok";
        assert_eq!(well, check["fix"].is_null(), "{check}");
        assert!(!check["seen"].as_str().unwrap().is_empty());
    }
    let cores = found["can"]["cores"].as_bool().unwrap();
    assert_eq!(said.code, Some(i32::from(!cores)), "{said}");
    let shown = sandbox.provoke(&["doctor"]);
    assert!(shown.stdout.starts_with("This machine can\n"), "{shown}");
    assert_eq!(shown.code, said.code);
}

#[test]
fn the_doctor_says_that_a_limit_of_nothing_leaves_no_core() {
    let sandbox = Sandbox::new();
    let line = format!("ulimit -Hc 0; exec {PROVOKE} doctor --json");
    let said: Said = sandbox.any("sh", &["-c", &line]).output().unwrap().into();
    assert_eq!(said.code, Some(1), "{said}");
    let found = json(&said);
    assert_eq!(found["can"]["cores"], false);
    let limit = &found["checks"][1];
    assert_eq!(
        (&limit["name"], &limit["state"]),
        (&"core-limit".into(), &"bad".into())
    );
}

#[test]
fn of_many_runs_it_is_said_what_parts_those_that_failed() {
    let sandbox = Sandbox::new();
    for (name, mode, other) in [
        ("a", "on", "1"),
        ("b", "on", "2"),
        ("c", "off", "1"),
        ("d", "no", "2"),
    ] {
        let variables = [format!("MODE={mode}"), format!("OTHER={other}")];
        let flags = ["-e", &variables[0], "-e", &variables[1]];
        run(&sandbox, name, &flags, &["sh", "-c", "[ $MODE != on ]"]);
    }
    let said = sandbox.provoke(&["diff", "a", "b", "c", "d"]);
    assert_eq!(said.code, Some(1), "{said}");
    for words in [
        "it failed only where\n    variables: MODE is on; elsewhere no or off\n",
        "2/2  100 %",
        "0/2    0 %",
        "in 17 % of cases",
    ] {
        assert!(said.stdout.contains(words), "{words}: {said}");
    }
    assert!(!said.stdout.contains("OTHER"), "{said}");
    let parted = json(&sandbox.provoke(&["diff", "a", "b", "c", "d", "--json"]));
    assert_eq!(parted["by"][0]["failing"], serde_json::json!(["on"]));

    let alike = sandbox.provoke(&["diff", "a", "b", "a"]);
    assert!(alike.stdout.contains("all of the runs failed"), "{alike}");
    assert_eq!(alike.code, Some(0));
}
