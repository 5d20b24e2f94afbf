//! Tests that each test of a suite has its own failure rate, with real runners.

use super::support::{LAST_RUN, Sandbox, words};
use crate::needs::{needs, python};
use serde_json::{Value, json};
use std::fs;

/// A suite in which one test ends the interpreter in every third trial. The later tests fail in every second trial, and
/// after another test.
const CRASHING_SUITE: &str = r#"
import ctypes
import os

trial = int(os.environ["PROVOKE_TRIAL"])
state = []


def test_polluter():
    state.append(1)


def test_crash():
    if trial % 3 == 0:
        ctypes.string_at(0)


def test_every_second():
    assert trial % 2 == 0


def test_victim():
    assert not state
"#;

fn suite_folder(text: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("test_it.py", text);
    sandbox
}

/// Returns the command of pytest without its cache, whose files would differ between trials.
fn pytest<'a>(args: &[&'a str]) -> Vec<&'a str> {
    let command = words("-- python3 -m pytest -q -p no:cacheprovider -p no:randomly");
    [&command, args].concat()
}

fn suite_of(report: &Value) -> &Value {
    &report["variants"][0]["suite"]
}

/// Returns the ends of each test, by the part of its name behind the file.
fn ends_of(report: &Value) -> Value {
    let cases = suite_of(report)["cases"].as_array().unwrap();
    let ends = cases.iter().map(|case| {
        let name = case["name"].as_str().unwrap();
        let name = name.split_once("::").map_or(name, |(_, name)| name);
        (name.to_owned(), case["ends"].clone())
    });
    ends.collect::<serde_json::Map<String, Value>>().into()
}

#[test]
fn the_test_that_ends_the_interpreter_is_named_and_later_tests_did_not_run() {
    needs!(python("pytest"));
    let sandbox = suite_folder(CRASHING_SUITE);
    let args = [&["--cases", "-n", "6", "--capture", "off"], &*pytest(&[])].concat();
    let (report, output) = sandbox.report(&args);
    assert_eq!(
        ends_of(&report),
        json!({
            "test_polluter": {"passed": 6},
            "test_crash": {"passed": 4, "crashed": 2},
            "test_every_second": {"passed": 2, "failed": 2, "not_run": 2},
            "test_victim": {"failed": 4, "not_run": 2},
        }),
        "{output}"
    );
    let cases = suite_of(&report)["cases"].as_array().unwrap();
    let verdicts: Vec<&Value> = cases.iter().map(|case| &case["verdict"]).collect();
    assert_eq!(verdicts, ["crashes", "always_fails", "flaky", "passes"]);
    let crash = &cases[0];
    assert!(
        crash["signatures"][0]["title"]
            .as_str()
            .unwrap()
            .starts_with("SIGSEGV")
    );
    assert_eq!(crash["failing_trials"], json!([3, 6]));
    assert_eq!(suite_of(&report)["order"], "same");
    assert_eq!(suite_of(&report)["starts_not_run"], 4);
    // The trials themselves count as without cases.
    assert_eq!(
        report["variants"][0]["outcomes"],
        json!({"pass": 0, "SIGSEGV": 2, "exit 1": 4})
    );
}

#[test]
fn a_suite_on_parallel_workers_has_the_same_crashing_test() {
    needs!(python("pytest, xdist"));
    let sandbox = suite_folder(CRASHING_SUITE);
    let suite = pytest(&["-n", "2", "-p", "no:faulthandler"]);
    let args = [&["--cases", "-n", "3", "--capture", "off"], &*suite].concat();
    let (report, output) = sandbox.report(&args);
    let ends = ends_of(&report);
    assert_eq!(
        ends["test_crash"],
        json!({"passed": 2, "crashed": 1}),
        "{output}"
    );
    for other in ["test_polluter", "test_every_second", "test_victim"] {
        assert!(ends[other].get("crashed").is_none(), "{other}: {ends}");
    }
}

#[test]
fn the_tests_that_a_failure_needs_are_found() {
    needs!(python("pytest"));
    let sandbox = suite_folder(CRASHING_SUITE);
    let args = [&["--cases", "-n", "2", "--capture", "off"], &*pytest(&[])].concat();
    sandbox.report(&args);
    let name = "test:test_it.py::test_victim";
    let output = sandbox.provoke(&["reduce", "--polluters", "last", "--only", name, "-q"]);
    let answer = "`test_it.py::test_polluter` is needed; without it, ";
    assert!(output.stdout.starts_with(answer), "{output}");
}

#[test]
fn the_tests_that_a_test_needs_to_pass_are_found() {
    needs!(python("pytest"));
    let sandbox = suite_folder(
        "rows = []\n\n\ndef test_other():\n    pass\n\n\ndef test_load():\n    rows.append(1)\n\n\ndef test_last():\n    pass\n\n\ndef test_report():\n    assert rows\n",
    );
    let args = [&["--cases", "-n", "2", "--capture", "off"], &*pytest(&[])].concat();
    sandbox.report(&args);
    let name = "test:test_it.py::test_report";
    let output = sandbox.provoke(&["reduce", "--polluters", "last", "--only", name, "-q"]);
    assert!(
        output
            .stderr
            .contains("shows a failure of `test_it.py::test_report`"),
        "{output}"
    );
    let output = sandbox.provoke(&["reduce", "--needs", "last", "--only", name, "-q"]);
    let answer = "`test_it.py::test_load` is needed; without it, 0 of ";
    assert!(output.stdout.starts_with(answer), "{output}");
    assert!(output.stdout.contains(" passed"), "{output}");
}

#[test]
fn a_test_whose_place_matters_blames_no_other_test() {
    needs!(python("random"));
    let sandbox = Sandbox::new();
    // 100 tests in random order; three of them fail in the last part of it.
    sandbox.write(
        "suite.py",
        r#"
import os
import random

chance = random.Random(int(os.environ["PROVOKE_TRIAL"]))
order = list(range(100))
chance.shuffle(order)
print("1..100")
for place, test in enumerate(order, 1):
    fails = test < 3 and chance.random() < 0.01 * place
    print("not ok" if fails else "ok", place, f"- t{test:02}")
"#,
    );
    let args = ["--cases=tap", "-n", "60", "--", "python3", "suite.py"];
    let (report, output) = sandbox.report(&args);
    let cases = suite_of(&report)["cases"].as_array().unwrap();
    for case in &cases[..3] {
        let effect = &case["order_effect"];
        assert_eq!(effect["tests"], json!([]), "{output}");
        assert_eq!(effect["place"]["part"], "late", "{output}");
        // The intervals of all tests hold at once.
        let width =
            |interval: &Value| interval[1].as_f64().unwrap() - interval[0].as_f64().unwrap();
        assert!(width(&case["selected_interval"]) > 1.3 * width(&case["interval"]));
    }
    assert!(
        output
            .stdout
            .contains("it fails more often late in the order: "),
        "{output}"
    );
    assert!(
        output.stdout.contains("is it the place or another test?"),
        "{output}"
    );
    assert!(
        output
            .stdout
            .contains("the intervals hold for all 100 tests at once"),
        "{output}"
    );
}

#[test]
fn a_repeated_test_counts_with_its_first_attempt() {
    needs!(python("pytest, pytest_rerunfailures"));
    let sandbox = suite_folder(
        "calls = []\n\n\ndef test_second_time():\n    calls.append(1)\n    assert len(calls) > 1\n",
    );
    let suite = pytest(&["--reruns", "2"]);
    let (report, output) = sandbox.report(&[&["--cases", "-n", "2"], &*suite].concat());
    assert_eq!(report["variants"][0]["outcomes"], json!({"pass": 2}));
    assert_eq!(
        ends_of(&report),
        json!({"test_second_time": {"failed": 2}}),
        "{output}"
    );
    assert_eq!(suite_of(&report)["retrying_trials"], 2);
    assert!(
        output.stdout.contains("the runner repeats failed tests"),
        "{output}"
    );
}

#[test]
fn a_suite_that_cannot_be_collected_has_no_tests() {
    needs!(python("pytest"));
    let sandbox = suite_folder("def broken(:\n");
    let (report, output) = sandbox.report(&[&["--cases", "-n", "1"], &*pytest(&[])].concat());
    assert_eq!(suite_of(&report)["trials"], 0);
    assert_eq!(suite_of(&report)["trials_without_tests"], 1);
    assert!(output.stdout.contains("pytest cannot collect"), "{output}");
    assert_eq!(report["variants"][0]["failures"], 1);
}

#[test]
fn a_resumed_run_keeps_the_counts_and_learns_new_tests() {
    needs!(python("pytest"));
    let wait =
        "def test_wait():\n    while trial == 3 and not os.path.exists('go'):\n        pass\n";
    let sandbox = suite_folder(&format!("{CRASHING_SUITE}\n\n{wait}").replace("% 3 == 0", "== 99"));
    let args = [
        &["run", "--cases", "-n", "5", "--capture", "off"],
        &*pytest(&[]),
    ]
    .concat();
    sandbox.kill_after(2, LAST_RUN, sandbox.command(&args));
    sandbox.write("go", "");
    let grown = format!("{CRASHING_SUITE}\n\n{wait}\n\ndef test_new():\n    pass\n");
    sandbox.write("test_it.py", &grown.replace("% 3 == 0", "== 99"));
    let (report, output) = sandbox.run_with_report("resume", &["last"]);
    let ends = ends_of(&report);
    assert_eq!(
        ends["test_every_second"],
        json!({"passed": 2, "failed": 3}),
        "{output}"
    );
    assert_eq!(ends["test_new"], json!({"passed": 3}), "{output}");
}

#[test]
fn a_fix_of_one_test_is_confirmed_against_its_own_rate() {
    needs!(python("pytest"));
    let sandbox = suite_folder(CRASHING_SUITE);
    let args = [&["--cases", "-n", "6", "--capture", "off"], &*pytest(&[])].concat();
    sandbox.report(&args);
    let confirm = |name: &str| {
        let name = format!("test:test_it.py::{name}");
        sandbox.provoke(&["confirm", "--baseline", "last", "--only", &name, "-q"])
    };
    let unfixed = confirm("test_every_second");
    assert_eq!(
        unfixed.stdout, "NOT FIXED: trial #1 failed; before, 2 of 4 failed\n",
        "{unfixed}"
    );
    let fixed = CRASHING_SUITE.replace("assert trial % 2 == 0", "pass");
    sandbox.write("test_it.py", &fixed.replace("% 3 == 0", "== 99"));
    let run = fs::read_dir(sandbox.path("provoke-out")).unwrap().flatten();
    let mut runs: Vec<String> = run
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| name.starts_with("20"))
        .collect();
    runs.sort();
    let confirm = |name: &str| {
        let only = format!("--only=test:test_it.py::{name}");
        sandbox.provoke(&[
            "confirm",
            "--baseline",
            &runs[0],
            &only,
            "--exclude-half",
            // A third of the trials.
            "--conf=80%",
            "-q",
        ])
    };
    // Other tests of the suite still fail.
    let fixed = confirm("test_every_second");
    assert_eq!(fixed.code, Some(0), "{fixed}");
    assert!(fixed.stdout.starts_with("FIXED (80 %): "), "{fixed}");
    let without = CRASHING_SUITE.replace("test_every_second", "test_renamed");
    sandbox.write("test_it.py", &without);
    let missing = confirm("test_every_second");
    assert_eq!(missing.code, Some(125), "{missing}");
    assert!(
        missing
            .stdout
            .contains("no test `test_it.py::test_every_second`: it no longer exists"),
        "{missing}"
    );
}

#[test]
fn the_rate_of_every_test_is_compared_with_the_allowed_rate() {
    needs!(python("pytest"));
    let sandbox = suite_folder("def test_a():\n    pass\n\n\ndef test_b():\n    assert False\n");
    let limited = ["run", "-q", "--cases", "-n", "8", "--max-rate", "60%"];
    let all = sandbox.provoke(&[&limited, &*pytest(&[])].concat());
    assert_eq!(all.code, Some(1), "{all}");
    assert_eq!(
        all.stdout,
        "FAIL: test_it.py::test_b failed in 8 of 8 trials, so its rate is at least 63 % (95 % confidence for all 2 tests); 60 % is allowed\n"
    );
    let one = sandbox.provoke(&[&limited, &*pytest(&["-k", "test_a"])].concat());
    assert_eq!(one.code, Some(0), "{one}");
    assert_eq!(
        one.stdout,
        "PASS: the rate of each of 1 test is at most 32 % (95 % confidence for all); 60 % is allowed\n"
    );
}

#[test]
fn failing_tests_are_listed_for_the_runner() {
    needs!(python("pytest"));
    let sandbox = suite_folder(CRASHING_SUITE);
    let args = [&["--cases", "-n", "2", "--capture", "off"], &*pytest(&[])].concat();
    sandbox.report(&args);
    let list = words("report last --cases=failing --format pytest-deselect");
    let output = sandbox.provoke(&list);
    let expected = "--deselect=test_it.py::test_victim\n--deselect=test_it.py::test_every_second\n";
    assert_eq!(output.stdout, expected, "{output}");
    let csv = sandbox.provoke(&["report", "last", "--csv-cases"]).stdout;
    assert_eq!(csv.lines().count(), 5, "{csv}");
    let junit = sandbox.provoke(&["report", "last", "--junit"]).stdout;
    assert_eq!(junit.matches("<testcase ").count(), 5, "{junit}");
    // The verdict fails, and the two tests.
    assert_eq!(junit.matches("<failure ").count(), 3, "{junit}");
    let sandbox = suite_folder("");
    sandbox.provoke(&["run", "-n", "1", "--", "true"]);
    let without = sandbox.provoke(&list);
    assert_eq!(without.code, Some(2), "{without}");
}

#[test]
fn commands_without_a_runner_are_refused_with_the_way_out() {
    let sandbox = Sandbox::new();
    let unknown = sandbox.provoke(&["run", "--cases", "--", "./run-tests"]);
    insta::assert_snapshot!(unknown, @r#"
    ------- stderr -------
    error: `./run-tests` does not contain a test runner that provoke knows

    hint: name it: --cases=pytest, nextest, libtest, go, ctest, gtest, tap, junit:'reports/*.xml' or jsonl:FILE
    [exit status: Some(2)]
    "#);
    let isolated = words("run --cases --shuffle -- cargo nextest run");
    insta::assert_snapshot!(sandbox.provoke(&isolated), @r#"
    ------- stderr -------
    error: `shuffle` is not possible here: cargo nextest runs each test in a separate process, so the order changes nothing

    hint: leave it out
    [exit status: Some(2)]
    "#);
    let shared = words("run --cases=junit:out/*.xml -j 2 -- ./run-tests");
    insta::assert_snapshot!(sandbox.provoke(&shared), @r#"
    ------- stderr -------
    error: parallel trials would all write their reports to `out/*.xml`

    hint: write each report to the directory of its trial, for example --cases='junit:{dir}/*.xml', and pass {dir} to the command; or use -j 1
    [exit status: Some(2)]
    "#);
}

#[test]
fn a_run_of_a_runner_that_is_not_known_is_refused() {
    let sandbox = Sandbox::new();
    sandbox.report(&["--cases=tap", "-n", "1", "--", "echo", "1..1"]);
    let journal = format!("{LAST_RUN}/events.jsonl");
    let text = sandbox.read(&journal);
    // Journals of old versions have no checksums.
    let first_line = text.lines().next().unwrap();
    let (start, _) = first_line.rsplit_once(",\"sum\"").unwrap();
    sandbox.write(
        &journal,
        &format!("{}}}\n", start.replace("\"tap\"", "\"newer\"")),
    );
    insta::assert_snapshot!(sandbox.provoke(&["report", "last"]), @r"
    ------- stderr -------
    error: `SANDBOX/provoke-out/RUN/events.jsonl` has the tests of `newer`, a test runner that this program does not know

    hint: use the version of provoke that made the run
    [exit status: Some(125)]
    ");
}

#[test]
fn an_order_that_the_seed_determines_is_recorded() {
    needs!(python("pytest"));
    let names = (0..8).map(|number| format!("def test_{number}():\n    pass\n"));
    let sandbox = suite_folder(&names.collect::<String>());
    let args = [
        &["--cases", "--shuffle", "--seed", "1", "-n", "2"],
        &*pytest(&[]),
    ]
    .concat();
    let (report, _) = sandbox.report(&args);
    assert_eq!(suite_of(&report)["order"], "random");
    let orders = || {
        let events = sandbox.events().into_iter();
        let records = events.filter_map(|event| {
            let seen = event.get("trial_finished")?.get("seen")?;
            Some(seen["cases_by_number"]["orders"].clone())
        });
        records.collect::<Vec<Value>>()
    };
    let first_orders = orders();
    assert_ne!(first_orders[0], first_orders[1]);
    sandbox.report(&args);
    assert_eq!(orders(), first_orders);
}

/// A suite in which one test fails after another one, and one in any case. The latter waits in trial 4.
const DEPENDENT_SUITE: &str = r#"
import os
import time

state = []


def test_polluter():
    state.append(1)


def test_victim():
    assert not state


def test_broken():
    while os.environ["PROVOKE_TRIAL"] == "4" and not os.path.exists("go"):
        time.sleep(0.01)
    assert False
"#;

#[test]
fn failing_tests_run_alone_after_the_measurement_and_are_counted_apart() {
    needs!(python("pytest"));
    let sandbox = suite_folder(DEPENDENT_SUITE);
    sandbox.write("test_other.py", "print(open('missing').read())\n");
    sandbox.write("go", "");
    let suite = pytest(&["--continue-on-collection-errors"]);
    let args = [&["--cases", "-n", "2", "--rerun-failing=3"], &*suite].concat();
    let (report, output) = sandbox.report(&args);
    let alone: Vec<String> = suite_of(&report)["cases"]
        .as_array()
        .unwrap()
        .iter()
        .map(|case| {
            let counts = &case["run_alone"];
            let [name, trials, failures] = [&case["name"], &case["trials"], &case["failures"]];
            format!(
                "{name}: {failures} of {trials}, alone {}",
                counts["failures"]
            )
        })
        .collect();
    assert_eq!(
        alone,
        [
            "\"test_it.py::test_victim\": 2 of 2, alone 0",
            "\"test_it.py::test_broken\": 2 of 2, alone 3",
            "\"test_it.py::test_polluter\": 0 of 2, alone null",
        ],
        "{output}"
    );
    for remark in [
        "never alone (0 of 3: below 64 %)",
        "fails alone too (3 of 3)",
    ] {
        assert!(output.stdout.contains(remark), "{remark}: {output}");
        let page = sandbox.provoke(&["report", "last", "--md"]).stdout;
        assert!(page.replace('\\', "").contains(remark), "{page}");
        sandbox.provoke(&["report", "last", "--html=page.html"]);
        let page = fs::read_to_string(sandbox.path("page.html")).unwrap();
        assert!(page.contains(remark), "{page}");
    }
    // The module that cannot be imported is not collected.
    let rows = sandbox.provoke(&["report", "last", "--jsonl"]).stdout;
    let classes: Vec<String> = rows
        .lines()
        .map(|row| serde_json::from_str::<Value>(row).unwrap())
        .map(|row| format!("{} {}", row["class"], row["outcome"]))
        .collect();
    let alone = |outcome: &str| format!("\"alone\" \"{outcome}\"");
    assert_eq!(classes[0], "\"fail\" \"exit 1\"");
    assert_eq!(
        classes
            .iter()
            .filter(|class| **class == alone("pass"))
            .count(),
        3
    );
    assert_eq!(
        classes
            .iter()
            .filter(|class| **class == alone("exit 1"))
            .count(),
        3
    );
    assert_eq!(classes.len(), 8);
    let csv = sandbox.provoke(&["report", "last", "--csv-cases"]).stdout;
    assert!(csv.lines().nth(1).unwrap().ends_with(",3,0"), "{csv}");
}

#[test]
fn the_markdown_report_of_a_suite_has_a_command_for_each_failing_test() {
    needs!(python("pytest"));
    let sandbox = suite_folder(CRASHING_SUITE);
    let args = [
        &["--cases", "-n", "6", "-j", "2", "--under", "umask=077"],
        &*pytest(&[]),
    ]
    .concat();
    sandbox.report(&args);
    let page = sandbox.provoke(&["report", "last", "--md"]).stdout;
    let command = "-j 2 --cases --under 'umask=077' -- python3 -m pytest -q -p no:cacheprovider -p no:randomly";
    for test in [
        "--baseline 2/6 --only test:test_it.py::test_crash",
        "--only test:test_it.py::test_victim",
    ] {
        let line = page.lines().find(|line| line.contains(test));
        let line = line.unwrap_or_else(|| panic!("no {test}: {page}"));
        assert!(line.starts_with("provoke confirm --baseline "), "{line}");
        for flag in command.split(" --") {
            assert!(line.contains(flag), "{flag}: {line}");
        }
    }
    assert!(page.contains("\nprovoke run -n "), "{page}");
}

#[test]
fn a_killed_run_continues_to_run_failing_tests_alone() {
    needs!(python("pytest"));
    let sandbox = suite_folder(DEPENDENT_SUITE);
    let args = [
        &["run", "--cases", "-n", "2", "--rerun-failing=2"],
        &*pytest(&[]),
    ]
    .concat();
    sandbox.kill_after(3, LAST_RUN, sandbox.command(&args));
    sandbox.write("go", "");
    let (report, output) = sandbox.run_with_report("resume", &["last"]);
    let cases = suite_of(&report)["cases"].as_array().unwrap();
    let counts = cases.iter().map(|case| {
        let alone = &case["run_alone"];
        [&case["trials"], &alone["trials"], &alone["failures"]].map(ToString::to_string)
    });
    let counts: Vec<[String; 3]> = counts.collect();
    let expected = [["2", "2", "0"], ["2", "2", "2"], ["2", "null", "null"]];
    assert_eq!(counts, expected, "{output}");
}

#[test]
fn tests_of_an_unknown_runner_run_alone_by_given_arguments() {
    let sandbox = Sandbox::new();
    sandbox.write(
        "run-tests",
        "echo TAP version 14; [ \"$1\" = --only ] && { echo 1..1; echo \"not ok 1 - $2\"; exit 1; }; echo 1..2; echo ok 1 - a; echo 'not ok 2 - b c'; exit 1\n",
    );
    let run = ["--cases=tap", "-n", "1", "--rerun-failing=2"];
    let command = ["--", "sh", "./run-tests"];
    let refused = sandbox.provoke(&[&["run"], &run[..], &command].concat());
    insta::assert_snapshot!(refused, @r"
    ------- stderr -------
    error: it is not known how the TAP output can run one test alone

    hint: name the arguments that select one test: --case-args '--only {case}'; `{suite}` is the group of the test
    [exit status: Some(2)]
    ");
    let selected = [&run[..], &["--case-args", "--only {case}"], &command].concat();
    let (report, output) = sandbox.report(&selected);
    let case = &suite_of(&report)["cases"][0];
    assert_eq!(case["name"], "b c", "{output}");
    assert_eq!(case["run_alone"]["failures"], 2, "{output}");
    let confirm = [
        "confirm",
        "--baseline",
        "last",
        "--only",
        "test:b c",
        "--rerun-failing",
    ];
    insta::assert_snapshot!(sandbox.provoke(&confirm), @r"
    ------- stderr -------
    error: `rerun-failing` is for `provoke run`

    hint: measure the suite first: provoke run --cases --rerun-failing -- CMD
    [exit status: Some(2)]
    ");
}
