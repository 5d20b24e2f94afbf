//! Tests `why` with real programs.

use super::support::{Sandbox, words};
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
                "tz=Etc/UTC",
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
