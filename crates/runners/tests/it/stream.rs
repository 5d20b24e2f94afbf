//! Tests of the reader of streams with samples of the pytest plugin.

use crate::samples::{describe_results, open_sample};
use provoke_model::{CaseEnd, CaseName, TrialCases};
use provoke_runners::stream::read_stream;
use provoke_test_needs::{needs, program};
use std::fs::File;
use std::io::BufReader;
use std::process::Command;

fn read_sample(name: &str) -> TrialCases {
    read_stream(open_sample(&format!("pytest/{name}.jsonl")))
}

fn read_text(text: &str) -> TrialCases {
    read_stream(text.as_bytes())
}

#[test]
fn every_end_of_a_pytest_test_is_read() {
    let cases = read_sample("ends");
    assert_eq!(cases.complaints, [""; 0]);
    let planned = cases.planned.as_ref().unwrap();
    let reported: Vec<&CaseName> = cases.results.iter().map(|result| &result.case).collect();
    assert_eq!(planned.iter().collect::<Vec<_>>(), reported);
    let described = describe_results(&cases);
    let expected = [
        "test_ends.py::test_pass Passed",
        "test_ends.py::test_fail Failed [AssertionError] assert [1] == [] /  /   Left contains one more item: 1 /   \
         Use -v to get more diff at test_ends.py:10 in test_fail",
        "test_ends.py::test_raise Failed [ValueError] ValueError: boom / second line at test_ends.py:14 in helper",
        "test_ends.py::test_setup_error Error [RuntimeError] RuntimeError: setup at test_ends.py:23 in broken",
        "test_ends.py::test_call_and_teardown Failed [AssertionError] assert 1 == 2 / KeyError: 'teardown' at \
         test_ends.py:37 in test_call_and_teardown",
        "test_ends.py::test_teardown_only Error [KeyError] KeyError: 'teardown' at test_ends.py:33 in bad_teardown",
        "test_ends.py::test_skip Skipped not today",
        "test_ends.py::test_skip_inside Skipped inside",
        "test_ends.py::test_xfail ExpectedFailure known",
        "test_ends.py::test_xpass UnexpectedPass maybe",
        "test_ends.py::test_xpass_strict Failed [XPASS(strict)] strict",
        "test_ends.py::test_param[<&\"] Passed",
        "test_ends.py::test_param[\\x1b[31m] Passed",
        "test_ends.py::test_param[\\xe9\\u2603] Passed",
        "test_ends.py::test_param[a::b[c]] Passed",
        "test_ends.py::test_param[] Passed",
        "test_ends.py::TestClass::test_method Passed",
        "test_ends.py::TestUnit::test_subtests Failed [AssertionError] AssertionError: 1 == 1 at test_ends.py:88 in \
         test_subtests",
        "test_ends.py::TestUnit::test_unit Failed [AssertionError] AssertionError: 1 != 2 at test_ends.py:83 in \
         test_unit",
    ];
    assert_eq!(described, expected);
}

#[test]
fn the_running_test_is_known_after_a_crash() {
    let cases = read_sample("crash");
    assert_eq!(
        describe_results(&cases),
        [
            "test_crash.py::test_before Passed",
            "test_crash.py::test_crash Unknown"
        ]
    );
    let unstarted: Vec<String> = cases
        .unstarted_cases()
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(unstarted, ["test_crash.py::test_after"]);
    assert!(cases.results[1].pid.is_some());
}

#[test]
fn xdist_names_the_test_that_crashed_its_worker() {
    let cases = read_sample("crash_in_worker");
    let (passed, crashed): (Vec<_>, Vec<_>) = cases
        .results
        .iter()
        .partition(|result| result.end == CaseEnd::Passed);
    let [crashed] = crashed[..] else {
        panic!("{crashed:?}")
    };
    assert_eq!(crashed.case.name, "test_crash.py::test_crash");
    assert_eq!(crashed.end, CaseEnd::Crashed);
    // The pid is that of the worker, not that of the controller.
    let sample = std::io::read_to_string(open_sample("pytest/crash_in_worker.jsonl")).unwrap();
    let start = r#"{"event": "start", "case": "test_crash.py::test_crash", "pid": "#;
    let (_, rest) = sample.split_once(start).unwrap();
    assert_eq!(crashed.pid, rest.split(',').next().unwrap().parse().ok());
    assert!(passed.iter().all(|result| result.pid != crashed.pid));
    assert_eq!(cases.results.len(), 3);
    assert_eq!(cases.planned.map(|planned| planned.len()), Some(3));
}

#[test]
fn the_first_of_several_attempts_counts() {
    let cases = read_sample("reruns");
    assert_eq!(
        describe_results(&cases),
        [
            "test_rerun.py::test_flaky Failed x3 [AssertionError] assert 1 >= 3 at test_rerun.py:5 in test_flaky",
            "test_rerun.py::test_fine Passed",
            "test_rerun.py::test_always Failed x3 [AssertionError] assert 0 at test_rerun.py:7 in test_always",
            "test_rerun.py::test_shaky_setup Error x2 [OSError] OSError: shaky at test_rerun.py:11 in shaky",
        ]
    );
    assert_eq!(
        cases.complaints,
        [
            "the runner retried 3 cases: only the first attempt counts; switch retries off, for example with \
             `--reruns 0` (pytest) or `--retries 0` (nextest)"
        ]
    );
}

#[test]
fn a_repeated_test_is_one_case() {
    let cases = read_sample("repeats");
    assert_eq!(
        describe_results(&cases),
        [
            "test_rep.py::test_a Failed x3 [AssertionError] assert 2 != 2 /  +  where 2 = len([1, 1]) at \
             test_rep.py:5 in test_a",
            "test_rep.py::test_b[1] Passed x3",
            "test_rep.py::test_b[p-q] Passed x3",
            "test_rep.py::TestC::test_d Passed x3",
        ]
    );
    assert_eq!(cases.planned.map(|planned| planned.len()), Some(4));
    assert_eq!(
        cases.complaints,
        ["4 cases ran several times in this trial: a case fails if any of its runs fails"]
    );
}

#[test]
fn an_interrupted_test_neither_passed_nor_failed() {
    let cases = read_sample("interrupted");
    assert_eq!(
        describe_results(&cases),
        [
            "test_int.py::test_1 Passed",
            "test_int.py::test_stop Unknown [interrupted] the runner stopped while the case was running",
        ]
    );
}

#[test]
fn a_module_that_cannot_be_collected_is_a_complaint() {
    let cases = read_sample("collection_error");
    assert_eq!(
        cases.complaints,
        [
            "pytest cannot collect `coll/test_bad.py`: ModuleNotFoundError: No module named 'nonexistent_module'"
        ]
    );
    assert!(cases.results.is_empty());
    assert_eq!(cases.unstarted_cases().len(), 1);
}

#[test]
fn a_case_needs_no_start_line() {
    let cases = read_text(
        r#"{"event": "end", "suite": "s", "case": "a", "outcome": "failed", "seconds": 1.5, "pid": 7}"#,
    );
    let [result] = &cases.results[..] else {
        panic!("{cases:?}")
    };
    assert_eq!(result.case.to_string(), "s::a");
    assert_eq!(result.end, CaseEnd::Failed);
    assert_eq!(result.elapsed.as_millis(), 1_500);
    assert_eq!(result.pid, Some(7));
    assert_eq!(cases.planned, None);
}

#[test]
fn a_case_that_started_again_after_a_lost_attempt_keeps_the_first() {
    let cases = read_text(concat!(
        r#"{"event": "start", "case": "a", "pid": 7}"#,
        "\n",
        r#"{"event": "start", "case": "a", "pid": 8}"#,
        "\n",
        r#"{"event": "end", "case": "a", "pid": 8}"#,
        "\n",
    ));
    assert_eq!(cases.results[0].end, CaseEnd::Unknown);
    assert_eq!(cases.results[0].pid, Some(7));
    assert_eq!(cases.results[0].attempts, 2);
}

#[test]
fn a_process_that_dies_in_the_teardown_is_not_an_ordinary_failure() {
    let cases = read_text(concat!(
        r#"{"event": "start", "case": "a", "pid": 7}"#,
        "\n",
        r#"{"event": "result", "case": "a", "when": "call", "outcome": "failed", "message": "no"}"#,
        "\n",
    ));
    assert_eq!(describe_results(&cases), ["a Unknown no"]);
}

#[test]
fn damaged_lines_are_counted_and_the_others_read() {
    let cases = read_text(concat!(
        "not JSON\n[1]\n",
        r#"{"event": "end", "case": "a", "time": -1e400}"#,
        "\n",
        r#"{"event": "end", "case": "b", "seconds": -5, "outcome": "sleeping"}"#,
        "\n",
        r#"{"event": "end", "case": "\ud800"}"#,
        "\n\n",
        r#"{"event": "later version", "case": "c", "extra": 1}"#,
        "\n",
        r#"{"event": "start", "case": "d"#,
    ));
    assert_eq!(describe_results(&cases), ["b Passed"]);
    assert_eq!(cases.complaints.len(), 2, "{:?}", cases.complaints);
    assert_eq!(
        cases.complaints[0],
        "the stream has the unknown outcome `sleeping`"
    );
    assert!(
        cases.complaints[1]
            .starts_with("5 of 8 lines of the stream cannot be read, the first is line 1: ")
    );
}

#[test]
fn the_recorder_of_the_readme_writes_a_stream() {
    needs!(program("python3"));
    let readme = include_str!("../../README.md");
    let (_, rest) = readme.split_once("```python\n").unwrap();
    let (recorder, _) = rest.split_once("```").unwrap();
    let tests = "
def passes(): pass
def fails(): raise ValueError('no')
def dies(): os._exit(3)
run_tests([passes, fails, dies, passes])
";
    let folder = tempfile::tempdir().unwrap();
    let stream = folder.path().join("cases.jsonl");
    let status = Command::new("python3")
        .args(["-c", &format!("{recorder}{tests}")])
        .env("CASES", &stream)
        .status()
        .unwrap();
    assert_eq!(status.code(), Some(3));
    let cases = read_stream(BufReader::new(File::open(&stream).unwrap()));
    assert_eq!(
        describe_results(&cases),
        [
            "passes Passed",
            "fails Failed [ValueError] no",
            "dies Unknown"
        ]
    );
    assert_eq!(cases.planned.map(|planned| planned.len()), Some(3));
}
