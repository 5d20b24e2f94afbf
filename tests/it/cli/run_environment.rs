//! Tests the recorded environment, its comparison, the warnings about it, and `doctor`.

use super::support::{CommandOutput, PROVOKE, Sandbox};
use serde_json::Value;
use std::fs;

/// Runs a command twice into a directory of this name.
fn run(sandbox: &Sandbox, name: &str, flags: &[&str], command: &[&str]) -> CommandOutput {
    let args = [
        &["run", "--progress=none", "-n", "2", "-o", name],
        flags,
        &["--"],
        command,
    ]
    .concat();
    sandbox.provoke(&args)
}

fn json(output: &CommandOutput) -> Value {
    serde_json::from_str(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output}"))
}

/// Returns the names of the differences, without unimportant ones.
fn differing(compared: &Value) -> Vec<&str> {
    let all = compared["differences"].as_array().unwrap();
    let matter = all.iter().filter(|one| one["group"] != "trifle");
    matter.map(|one| one["name"].as_str().unwrap()).collect()
}

#[test]
fn given_facts_are_recorded_and_compared() {
    let sandbox = Sandbox::new();
    run(
        &sandbox,
        "old",
        &["--fact", "bios=1.2", "--fact=rack=7"],
        &["true"],
    );
    run(
        &sandbox,
        "new",
        &["--fact", "bios=1.3", "--fact=rack=7"],
        &["true"],
    );
    let compared = json(&sandbox.provoke(&["diff", "old", "new", "--json"]));
    let given = |one: &&Value| one["group"] == "given";
    let all = compared["differences"].as_array().unwrap();
    let given: Vec<&Value> = all.iter().filter(given).collect();
    assert_eq!(given.len(), 1, "{compared}");
    assert_eq!(
        (&given[0]["left"], &given[0]["right"]),
        (&"1.2".into(), &"1.3".into())
    );
    insta::assert_snapshot!(run(&sandbox, "wrong", &["--fact", "a b=1"], &["true"]).stderr, @r"
    error: invalid value 'a b=1' for '--fact <NAME=VALUE>': write NAME=VALUE, such as bios=1.2

    hint: `provoke run --help` describes the arguments
    ");
    fs::write(
        sandbox.path("wrong.toml"),
        "command = ['true']\nfact = { 'a b' = '1' }\n",
    )
    .unwrap();
    insta::assert_snapshot!(sandbox.provoke(&["scenario", "wrong.toml"]).stderr, @r"
    error: `a b` is not a fact such as `bios=1.2`
     --> wrong.toml:2:8
      |
    2 | fact = { 'a b' = '1' }
      |        ^^^^^^^^^^^^^^^
      |
      = help: use letters, digits, `-`, `_` and `.` in its name, and a value
    ");
}

#[test]
fn a_run_records_its_environment() {
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
fn diff_of_two_equal_runs_finds_no_difference() {
    let sandbox = Sandbox::new();
    for name in ["a", "b"] {
        run(&sandbox, name, &[], &["true"]);
    }
    let output = sandbox.provoke(&["diff", "a", "b"]);
    assert_eq!(output.code, Some(0), "{output}");
    assert!(
        output.stdout.contains("A  a  0 of 2 failed (0 %), on "),
        "{output}"
    );
    assert!(
        output
            .stdout
            .contains("The measured failure rates are equal;"),
        "{output}"
    );
    assert!(
        output.stdout.contains("No relevant difference was found"),
        "{output}"
    );
}

#[test]
fn diff_compares_failure_rates_only_under_equal_conditions() {
    let sandbox = Sandbox::new();
    sandbox.report(&["-n", "20", "-o", "a", "--", "true"]);
    sandbox.report(&["-n", "20", "-o", "b", "--", "false"]);
    sandbox.report(&["-n", "20", "-j", "2", "-o", "parallel", "--", "false"]);
    let output = sandbox.provoke(&["diff", "a", "b"]);
    assert!(
        output
            .stdout
            .contains("B fails significantly more often than A (Fisher's exact test: p < 0.001)"),
        "{output}"
    );
    let compared = json(&sandbox.provoke(&["diff", "a", "b", "--json"]));
    assert!(compared["p_value"].as_f64().unwrap() < 1e-9, "{compared}");
    let compared = json(&sandbox.provoke(&["diff", "a", "parallel", "--json"]));
    assert_eq!(compared["p_value"], Value::Null);
    let why = "the conditions of the runs differ: parallel trials";
    assert_eq!(compared["not_comparable"], why);
}

#[test]
fn diff_counts_a_clump_of_failures_as_one() {
    let sandbox = Sandbox::new();
    let failing = ["--", PROVOKE, "victim", "exit", "--fail-on", "121-130"];
    sandbox.report(&[&["-n", "200", "-o", "a"], &failing[..]].concat());
    let passing = ["--", PROVOKE, "victim", "exit", "--fail-on", "999"];
    sandbox.report(&[&["-n", "200", "-o", "b"], &passing[..]].concat());
    let output = sandbox.provoke(&["diff", "a", "b"]);
    let sentence = "The failure rates do not differ significantly (Fisher's exact test: p = 1; failures clump, so 10 trials count as one); a significant difference would be";
    let words: Vec<&str> = output.stdout.split_whitespace().collect();
    assert!(words.join(" ").contains(sentence), "{output}");
}

#[test]
fn diff_finds_a_different_variable() {
    let sandbox = Sandbox::new();
    run(&sandbox, "a", &[], &["true"]);
    run(&sandbox, "b", &["-e", "X=1"], &["true"]);
    let output = sandbox.provoke(&["diff", "a", "b", "--json"]);
    assert_eq!(output.code, Some(1), "{output}");
    let compared = json(&output);
    assert_eq!(differing(&compared), ["X"]);
    let difference = &compared["differences"][0];
    assert_eq!(difference["group"], "variable");
    assert_eq!(difference["left"], Value::Null);
    assert_eq!(difference["right"], "1");
    assert_eq!(compared["left"]["trials"], 2);
    let shown = sandbox.provoke(&["diff", "a", "b"]);
    assert!(shown.stdout.contains("variables"), "{shown}");
}

#[test]
fn diff_finds_another_build_of_the_program() {
    let sandbox = Sandbox::new();
    let script = sandbox.write("program", "#!/bin/sh\nexit 0\n");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&script, mode).unwrap();
    run(&sandbox, "a", &[], &["./program"]);
    sandbox.write("program", "#!/bin/sh\nexit 1\n");
    run(&sandbox, "b", &[], &["./program"]);
    let output = sandbox.provoke(&["diff", "a", "b", "--json"]);
    let compared = json(&output);
    assert_eq!(differing(&compared), ["program.hash"]);
    assert_eq!(compared["right"]["failures"], 2);
}

#[test]
fn diff_shows_possible_secrets_only_with_the_flag_all() {
    let sandbox = Sandbox::new();
    run(&sandbox, "a", &["-e", "API_TOKEN=hunter2"], &["true"]);
    run(&sandbox, "b", &[], &["true"]);
    let output = sandbox.provoke(&["diff", "a", "b"]);
    assert!(
        output.stdout.contains("API_TOKEN") && !output.stdout.contains("hunter2"),
        "{output}"
    );
    let output = sandbox.provoke(&["diff", "a", "b", "--all"]);
    assert!(output.stdout.contains("hunter2"), "{output}");
}

#[test]
fn diff_with_a_missing_run_is_refused() {
    let sandbox = Sandbox::new();
    run(&sandbox, "a", &[], &["true"]);
    assert_eq!(sandbox.provoke(&["diff", "a", "none"]).code, Some(2));
    assert_eq!(sandbox.provoke(&["diff", "a"]).code, Some(2));
}

#[test]
fn a_shell_line_that_hides_exit_codes_causes_a_warning() {
    let sandbox = Sandbox::new();
    let output = sandbox.provoke(&["run", "-n", "1", "--shell", "false | cat"]);
    let about = "the exit code of `false | cat` is that of `cat`";
    assert!(output.stderr.contains(about), "{output}");
    // It is printed once.
    assert!(!output.stdout.contains(about), "{output}");
    let report = sandbox.provoke(&["report"]);
    assert!(report.stdout.contains(about), "{report}");
    let events = sandbox.events();
    assert_eq!(events[1]["note"]["level"], "warning", "{}", events[1]);
    let output = sandbox.provoke(&["run", "-n", "1", "--shell", "false || exit 1"]);
    assert!(!output.stderr.contains("warning"), "{output}");
}

#[test]
fn a_variable_that_changes_the_program_causes_a_note() {
    let sandbox = Sandbox::new();
    let set = ["run", "-n", "1", "-e", "MALLOC_PERTURB_=7", "--", "true"];
    let output = sandbox.provoke(&set);
    assert!(
        output.stderr.contains("note: MALLOC_PERTURB_ is set"),
        "{output}"
    );
    assert!(!output.stdout.contains("MALLOC_PERTURB_"), "{output}");
    assert_eq!(sandbox.events()[1]["note"]["level"], "info");
}

#[test]
fn doctor_runs_every_check_and_exits_with_0_if_cores_work() {
    let sandbox = Sandbox::new();
    let output = sandbox.provoke(&["doctor", "--json"]);
    let found = json(&output);
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
    assert_eq!(output.code, Some(i32::from(!cores)), "{output}");
    let shown = sandbox.provoke(&["doctor"]);
    assert!(shown.stdout.starts_with("This machine can\n"), "{shown}");
    assert_eq!(shown.code, output.code);
}

#[test]
fn doctor_reports_that_a_core_limit_of_zero_prevents_cores() {
    let sandbox = Sandbox::new();
    let line = format!("ulimit -Hc 0; exec {PROVOKE} doctor --json");
    let output: CommandOutput = sandbox
        .program_command("sh", &["-c", &line])
        .output()
        .unwrap()
        .into();
    assert_eq!(output.code, Some(1), "{output}");
    let found = json(&output);
    assert_eq!(found["can"]["cores"], false);
    let limit = &found["checks"][1];
    assert_eq!(
        (&limit["name"], &limit["state"]),
        (&"core-limit".into(), &"bad".into())
    );
}

#[test]
fn diff_of_many_runs_names_the_facts_that_distinguish_failing_runs() {
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
    let output = sandbox.provoke(&["diff", "a", "b", "c", "d"]);
    assert_eq!(output.code, Some(1), "{output}");
    for words in [
        "it failed only where\n  variables: MODE is on; elsewhere no or off\n",
        "2/2  100 %",
        "0/2    0 %",
        "in 17 % of cases",
    ] {
        assert!(output.stdout.contains(words), "{words}: {output}");
    }
    assert!(!output.stdout.contains("OTHER"), "{output}");
    let distinguished = json(&sandbox.provoke(&["diff", "a", "b", "c", "d", "--json"]));
    assert_eq!(distinguished["by"][0]["failing"], serde_json::json!(["on"]));

    let alike = sandbox.provoke(&["diff", "a", "b", "a"]);
    assert!(alike.stdout.contains("all of the runs failed"), "{alike}");
    assert_eq!(alike.code, Some(0));
}
