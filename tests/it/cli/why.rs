//! Tests `why` with real programs.

use super::support::{CommandOutput, PROVOKE, Sandbox, words};
use crate::limited;
use crate::needs::{needs, python};
use serde_json::{Value, json};

/// A suite in which one test depends on the time zone, and one on the test before it.
const SUITE: &str = r#"
import time

state = []


def test_zone():
    assert time.strftime("%z", time.localtime(0)) == "+0000"


def test_first():
    state.append(1)


def test_second():
    assert state


def test_third():
    pass
"#;

#[test]
fn each_test_of_a_suite_has_its_own_condition() {
    needs!(python("pytest"));
    let sandbox = Sandbox::new();
    sandbox.write("test_it.py", SUITE);
    let flags = words("--cases --seed 1 -j 2 --env TZ=UTC");
    let conditions = words("--try tz=Pacific/Kiritimati,umask,order=reverse");
    let suite = words("-- python3 -m pytest -q -p no:cacheprovider -p no:randomly");
    let (report, output) = sandbox.run_with_report("why", &[flags, conditions, suite].concat());
    let answer = &report["answer"]["why_suite"];
    insta::assert_snapshot!(answer["sentence"].as_str().unwrap(), @"test_it.py::test_zone fails under tz=Pacific/Kiritimati; test_it.py::test_second fails under order=reverse");
    assert_eq!(answer["passing_tests"], 2, "{output}");
    let found = answer["tests"].as_array().unwrap().iter();
    let found: Vec<Value> = found
        .map(|test| {
            let condition = &test["conditions"][0];
            let [with, without] = [&condition["with"], &condition["without"]];
            let all_failed = with["failures"] == with["trials"] && without["failures"] == 0;
            json!([
                condition["compared_with"],
                condition["failure"],
                test["causes"],
                all_failed
            ])
        })
        .collect();
    assert_eq!(
        found,
        [
            json!([
                "plain",
                "AssertionError: assert '-1040' == '+0000'",
                ["time zone: it assumes one time zone"],
                true
            ]),
            json!([
                "plain",
                "AssertionError: assert []",
                ["order of tests: it depends on what ran before it"],
                true
            ]),
        ],
        "{output}"
    );
}

#[test]
fn an_order_that_the_runner_cannot_use_is_refused() {
    let sandbox = Sandbox::new();
    let refuse = |line: &str| sandbox.provoke(&words(line));
    insta::assert_snapshot!(refuse("run --under order=reverse -- true"), @r"
    ------- stderr -------
    error: cannot set the condition `order=reverse`
      caused by: only the order of the tests of a suite can be set

    hint: add --cases, if the command runs a suite
    [exit status: Some(125)]
    ");
    insta::assert_snapshot!(refuse("run --cases --under order=7 -- cargo test"), @r"
    ------- stderr -------
    error: cannot set the condition `order=7`
      caused by: stable libtest runs its tests in the order of their names

    hint: leave the condition out
    [exit status: Some(125)]
    ");
    insta::assert_snapshot!(refuse("run --cases --under order=7 -- cargo nextest run"), @r"
    ------- stderr -------
    error: cannot set the condition `order=7`
      caused by: cargo nextest runs each test in a separate process, so the order changes nothing

    hint: leave the condition out
    [exit status: Some(125)]
    ");
    insta::assert_snapshot!(refuse("why --cases --try order=reverse -- cargo test"), @r"
    ------- stderr -------
    error: none of the conditions can be tried
      caused by: order=reverse: stable libtest runs its tests in the order of their names; leave the condition out
    [exit status: Some(125)]
    ");
    insta::assert_snapshot!(refuse("run --cases --under order=reverse -- go test"), @r"
    ------- stderr -------
    error: cannot set the condition `order=reverse`
      caused by: go test runs its tests in a random order, but not in the reverse one

    hint: leave the condition out
    [exit status: Some(125)]
    ");
}

#[test]
fn conditions_that_exclude_each_other_are_refused_before_the_first_trial() {
    let sandbox = Sandbox::new();
    let line = "run --under pauses=100ms --under slow-sync=1ms -- true";
    insta::assert_snapshot!(sandbox.provoke(&words(line)), @r"
    ------- stderr -------
    error: cannot set the condition `pauses=100ms`
      caused by: a tracer stops and continues the processes

    hint: leave the condition out
    [exit status: Some(125)]
    ");
}

#[test]
fn the_command_that_reproduces_a_failure_has_all_settings_of_the_search() {
    let sandbox = Sandbox::new();
    sandbox.write("input", "word\n");
    std::fs::create_dir(sandbox.path("folder")).unwrap();
    // It exits with 7 unless its directory, its input and its variables are those of the search.
    let line = "read word; [ \"$(basename $PWD)$word$A\" = 'folderworda b' ] && [ -z $HOME ] || exit 7; [ -z $CI ] || exit 5";
    let flags = ["--try", "ci=true", "-e", "A=a b", "-e", "HOME", "-e", "CI"];
    let others = [
        "-e",
        "TOKEN=abcdefgh",
        "--cwd",
        "folder",
        "--stdin",
        "input",
        "-t",
        "60s",
    ];
    let rules = [
        "--ok",
        "0,3",
        "--under",
        "umask=027",
        "--wrap",
        "env",
        "--",
        "sh",
        "-c",
        line,
    ];
    let (_, output) = sandbox.run_with_report("why", &[&flags[..], &others, &rules].concat());
    let proposed = output.stdout.lines().find_map(|line| {
        let (_, flags) = line.split_once("provoke run ")?;
        Some(flags)
    });
    let flags = proposed.unwrap_or_else(|| panic!("{output}"));
    let shown = flags.replace(&*sandbox.path("").to_string_lossy(), "DIR/");
    insta::assert_snapshot!(shown, @r#"-n 5 --under 'ci=true' -e 'A=a b' -e CI -e HOME -e 'TOKEN=***' --cwd DIR/folder --stdin DIR/input --wrap env --under 'umask=027' -t 60s --ok '0,3' -- sh -c 'read word; [ "$(basename $PWD)$word$A" = '"'folderworda b' ] && [ -z "'$HOME ] || exit 7; [ -z $CI ] || exit 5'"#);
    let line = format!("{PROVOKE} run -q {flags}");
    let mut command = sandbox.program_command("sh", &["-c", &line]);
    let repeated: CommandOutput = limited::output(&mut command).unwrap().into();
    assert!(
        repeated.stdout.starts_with("exit 5 in 5 of 5 trials"),
        "{repeated}"
    );
}

#[test]
fn the_condition_that_changes_least_is_found_if_all_of_its_kind_have_the_effect() {
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.path("folder")).unwrap();
    sandbox.write("folder/settings", "");
    let folder = sandbox.path("folder");
    let folder = folder.to_str().unwrap();
    for (lever, variable, value, line, found) in [
        (
            "home",
            "HOME",
            folder,
            "[ -e \"$HOME/settings\" ]",
            "home=empty",
        ),
        (
            "tmpdir",
            "TMPDIR",
            folder,
            "[ -e \"$TMPDIR/settings\" ]",
            "tmpdir=empty",
        ),
        ("stdin", "A", "", "[ -c /dev/stdin ]", "stdin=empty"),
        (
            "tz",
            "TZ",
            "Asia/Tokyo",
            "[ $(date +%z) = +0900 ]",
            "tz=Etc/UTC",
        ),
        (
            "locale",
            "LANGUAGE",
            "de",
            "[ $LANGUAGE = de ]",
            "locale=C.UTF-8",
        ),
        (
            "columns",
            "COLUMNS",
            "200",
            "[ $COLUMNS -gt 100 ]",
            "columns=40",
        ),
    ] {
        let args = ["why", "--try", lever, "--seed", "1", "--", "sh", "-c", line];
        let mut command = sandbox.command(&args);
        command.env(variable, value);
        let output: CommandOutput = limited::output(&mut command).unwrap().into();
        let answer = format!("It fails under {found}: 6 of 6 trials failed, and 0 of 6 without it");
        assert!(output.stdout.starts_with(&answer), "{output}");
    }
}

#[test]
fn a_single_seed_that_fails_is_found() {
    let sandbox = Sandbox::new();
    // Every fourth plain trial fails, the second one first.
    let line = "echo >> plain; [ $(($(wc -l < plain) % 4)) != 2 ]";
    let line = format!("case $PYTHONHASHSEED in '') {line};; 5) exit 1;; esac");
    let args = ["--try", "hash-seed", "--seed", "1", "--", "sh", "-c", &line];
    let (report, output) = sandbox.run_with_report("why", &args);
    let answer = &report["answer"]["why"];
    let found = &answer["conditions"][0];
    assert_eq!(
        [&found["name"], &found["verdict"], &found["compared_with"]],
        ["hash-seed=5", "raises", "plain"],
        "{output}"
    );
    assert_eq!(found["with"]["failures"], found["with"]["trials"]);
    assert_eq!(answer["seeds"]["decides"], false);
    let cause = "hash seed: the order of a set or dict reaches the result";
    assert_eq!(answer["causes"], json!([cause]));
}

#[test]
fn a_reference_under_which_the_program_fails_is_named() {
    let sandbox = Sandbox::new();
    // `date` traces the program, also if it moves the date by nothing.
    let is_traced = "! grep -q 'TracerPid:.0$' /proc/self/status && exit 1; exit 0";
    let args = ["why", "--try", "date", "--seed", "1", "--"];
    let output = sandbox.provoke(&[&args[..], &["sh", "-c", is_traced]].concat());
    assert!(
        output.stdout.contains("\n  under date=+0 it fails, too: "),
        "{output}"
    );
}

#[test]
fn another_failure_under_a_condition_is_named_and_not_counted() {
    let sandbox = Sandbox::new();
    let script =
        "case $PROVOKE_SEED in *[0-3]) exit 1 ;; esac; test \"$(date +%z)\" = +0000 || exit 2";
    let flags = words("--seed 3 --env TZ=UTC --try tz -- sh -c");
    let (report, output) = sandbox.run_with_report("why", &[&flags[..], &[script]].concat());
    let answer = &report["answer"]["why"];
    for condition in answer["conditions"].as_array().unwrap() {
        let other = match condition["name"].as_str().unwrap() {
            "tz=Etc/UTC" => Value::Null,
            _ => json!("exit 2"),
        };
        assert_eq!(condition["other_failure"], other, "{output}");
        assert_ne!(condition["verdict"], "raises", "{output}");
    }
    assert!(answer["others"].as_u64() > Some(0), "{output}");
    for line in [
        "It fails in another way under each of tz=Pacific/Kiritimati and tz=America/St_Johns: exit 2\n",
        " trials with a failure other than exit 1\n",
    ] {
        assert!(output.stdout.contains(line), "{output}");
    }
}

#[test]
fn conditions_of_another_failure_than_that_of_plain_trials_are_found() {
    let sandbox = Sandbox::new();
    let script = "[ $PROVOKE_TRIAL = 2 ] && exit 1; test \"$(date +%z)\" = +0000 || exit 2";
    let flags = words("--env TZ=UTC --try tz --try umask -- sh -c");
    let (report, output) = sandbox.run_with_report("why", &[&flags[..], &[script]].concat());
    assert_eq!(
        (report["verdict"].as_str(), output.code),
        (Some("found"), Some(0)),
        "{output}"
    );
    for part in [
        "It fails in another way under ",
        ": exit 2",
        "no condition found for the failure of plain trials: exit 1",
        "provoke why --only sig:",
    ] {
        assert!(output.stdout.contains(part), "{part}: {output}");
    }
}

#[test]
fn conditions_that_only_matter_together_are_named() {
    let sandbox = Sandbox::new();
    let script = "test $(umask) = 0022 || test \"$TZ\" = UTC || exit 7";
    let flags = words("--try umask,tz,columns --env TZ=UTC --seed 1 -j 2 -- sh -c");
    let (report, output) = sandbox.run_with_report("why", &[flags, vec![script]].concat());
    let answer = &report["answer"]["why"];
    insta::assert_snapshot!(answer["sentence"].as_str().unwrap(), @"It fails under umask=077 with tz=America/St_Johns: 6 of 6 trials failed, and 0 of 6 without them");
    assert!(
        output
            .stdout
            .contains("each of them is needed: without one of them, 0 of 4 trials failed"),
        "{output}"
    );
    let reproduce = "--under 'umask=077' --under 'tz=";
    assert!(output.stdout.contains(reproduce), "{output}");
    let conditions = answer["conditions"].as_array().unwrap();
    let joint = conditions.last().unwrap();
    assert_eq!(joint["parts"].as_array().map(Vec::len), Some(2), "{output}");
    assert_eq!(joint["trials_without_one"], 4);
}
