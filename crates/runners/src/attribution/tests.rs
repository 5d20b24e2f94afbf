//! Tests of the attribution of crashes and timeouts.

use super::*;
use provoke_model::CaseResult;

fn case(name: &str, end: CaseEnd, pid: Option<i32>) -> CaseResult {
    let (suite, name) = name.split_once(' ').unwrap_or(("", name));
    CaseResult {
        case: CaseName {
            suite: suite.to_owned(),
            name: name.to_owned(),
        },
        end,
        pid,
        ..CaseResult::default()
    }
}

fn running(names: &[(&str, Option<i32>)]) -> TrialCases {
    let results = names
        .iter()
        .map(|(name, pid)| case(name, CaseEnd::Unknown, *pid));
    TrialCases {
        results: results.collect(),
        ..TrialCases::default()
    }
}

fn died(pid: i32, signal: Signal) -> EndedProcess {
    EndedProcess {
        pid,
        signal: Some(signal),
        ..EndedProcess::default()
    }
}

fn exited(pid: i32, code: i32) -> EndedProcess {
    EndedProcess {
        pid,
        exit_code: Some(code),
        ..EndedProcess::default()
    }
}

fn ended(processes: &[EndedProcess]) -> TrialEnding {
    TrialEnding {
        timed_out: false,
        processes: processes.to_vec(),
    }
}

fn timed_out(processes: &[EndedProcess]) -> TrialEnding {
    TrialEnding {
        timed_out: true,
        ..ended(processes)
    }
}

/// Returns the ends after the attribution.
fn attribute(cases: &mut TrialCases, ending: &TrialEnding) -> Vec<CaseEnd> {
    let attribution = attribute_ends(cases, ending);
    let count =
        attribution.crashed.len() + attribution.timed_out.len() + attribution.undecided.len();
    let ends: Vec<CaseEnd> = cases.results.iter().map(|result| result.end).collect();
    let interrupted = cases.results.iter().filter(|result| {
        let failure = result.failure.as_ref();
        failure.is_some_and(|failure| failure.kind == INTERRUPTED)
    });
    assert!(count + interrupted.count() <= ends.len());
    ends
}

const OTHER: CaseEnd = CaseEnd::Unknown;

#[test]
fn the_case_of_the_dead_process_crashed() {
    let mut cases = running(&[("a", Some(7)), ("b", Some(8))]);
    let ending = ended(&[exited(1, 1), died(8, Signal::SEGV)]);
    assert_eq!(attribute(&mut cases, &ending), [OTHER, CaseEnd::Crashed]);
    let failure = cases.results[1].failure.as_ref().unwrap();
    assert_eq!(failure.signal, Some(Signal::SEGV));
    assert_eq!(failure.message, "its process died of SIGSEGV");
}

#[test]
fn a_process_that_exits_during_a_case_crashed_it() {
    let mut cases = running(&[("a", Some(7))]);
    assert_eq!(
        attribute(&mut cases, &ended(&[exited(7, 3)])),
        [CaseEnd::Crashed]
    );
    let failure = cases.results[0].failure.as_ref().unwrap();
    assert_eq!(
        failure.message,
        "its process ended with exit code 3 while it was running"
    );
    // Behind a shell, only the exit code of the shell is known.
    let mut cases = running(&[("a", Some(7))]);
    assert_eq!(
        attribute(&mut cases, &ended(&[exited(1, 3)])),
        [CaseEnd::Crashed]
    );
}

#[test]
fn a_crash_of_another_process_blames_no_case() {
    // The controller of parallel workers died, and its workers with it.
    let mut cases = running(&[("a", Some(7)), ("b", Some(8))]);
    let ending = ended(&[died(1, Signal::SEGV)]);
    assert_eq!(attribute(&mut cases, &ending), [OTHER, OTHER]);
    let mut cases = running(&[("a", Some(7))]);
    assert_eq!(attribute(&mut cases, &ending), [OTHER]);
}

#[test]
fn the_only_running_case_without_a_pid_crashed() {
    let mut cases = running(&[("a", None)]);
    let ending = ended(&[exited(1, 1), died(9, Signal::ABRT)]);
    assert_eq!(attribute(&mut cases, &ending), [CaseEnd::Crashed]);
    assert_eq!(cases.results[0].pid, Some(9));
    let mut cases = running(&[("a", None), ("b", None)]);
    assert_eq!(attribute(&mut cases, &ending), [OTHER, OTHER]);
    assert_eq!(attribute_ends(&mut cases, &ending).undecided.len(), 2);
}

#[test]
fn arguments_name_the_case() {
    let process = |arguments: &[&str]| EndedProcess {
        arguments: arguments.iter().map(ToString::to_string).collect(),
        ..died(9, Signal::SEGV)
    };
    let mut cases = running(&[("it tests::crash", None), ("it tests::crash_late", None)]);
    let ending = ended(&[process(&["it", "--exact", "tests::crash", "--nocapture"])]);
    assert_eq!(attribute(&mut cases, &ending), [CaseEnd::Crashed, OTHER]);
    let mut cases = running(&[("disc.Dies.Crashes", None), ("disc.Dies.Never", None)]);
    let ending = ended(&[process(&["unit", "--gtest_filter=Dies.Crashes"])]);
    assert_eq!(attribute(&mut cases, &ending), [CaseEnd::Crashed, OTHER]);
    // The XML of ctest calls it a plain failure.
    let mut cases = running(&[("disc.Dies.Crashes", None)]);
    cases.results[0].end = CaseEnd::Failed;
    assert_eq!(attribute(&mut cases, &ending), [CaseEnd::Crashed]);
}

#[test]
fn the_stack_names_one_of_several_cases_of_a_process() {
    let process = |functions: &[&str], threads: &[&str]| EndedProcess {
        functions: functions.iter().map(ToString::to_string).collect(),
        threads: threads.iter().map(ToString::to_string).collect(),
        ..died(7, Signal::SEGV)
    };
    let names = [("tests::first", Some(7)), ("tests::second", Some(7))];
    for (functions, threads, expected) in [
        (
            &["core::ptr::write", "sample::tests::second"][..],
            &[][..],
            [OTHER, CaseEnd::Crashed],
        ),
        (&["other_tests::second"], &[], [OTHER, OTHER]),
        (&[], &["tests::first"], [CaseEnd::Crashed, OTHER]),
        (&[], &["demo", "tests::second"], [OTHER, CaseEnd::Crashed]),
        (&["tests::first", "tests::second"], &[], [OTHER, OTHER]),
    ] {
        let ending = ended(&[process(functions, threads)]);
        assert_eq!(
            attribute(&mut running(&names), &ending),
            expected,
            "{functions:?} {threads:?}"
        );
    }
    for (function, name) in [
        (
            "test_crash",
            "tests/test_it.py::TestClass::test_crash[1-a::b]",
        ),
        ("example.com/sample/p.TestPanic.func1", "TestPanic"),
        ("example.com/sample/p.TestPanic(0x0?)", "TestPanic/sub"),
        ("Dies_Crashes_Test::TestBody()", "Dies.Crashes"),
        (
            "crate::module::tests::long_name",
            "module::tests::long_name",
        ),
    ] {
        assert!(
            is_function_of(function, &CaseName::without_suite(name)),
            "{function} {name}"
        );
    }
    for (function, name) in [
        ("test_crash_late", "test_it.py::test_crash"),
        ("", "a"),
        ("main", ""),
        ("other::tests::x", "module::tests::x"),
    ] {
        assert!(
            !is_function_of(function, &CaseName::without_suite(name)),
            "{function} {name}"
        );
    }
}

#[test]
fn the_only_running_case_timed_out() {
    let ending = timed_out(&[died(1, Signal::TERM), died(7, Signal::KILL)]);
    let mut cases = running(&[("a", Some(7))]);
    assert_eq!(attribute(&mut cases, &ending), [CaseEnd::TimedOut]);
    let mut cases = running(&[("a", Some(7)), ("b", Some(1))]);
    assert_eq!(attribute(&mut cases, &ending), [OTHER, OTHER]);
    // A crash before the time limit stays a crash.
    let ending = timed_out(&[died(1, Signal::KILL), died(7, Signal::SEGV)]);
    let mut cases = running(&[("a", Some(7)), ("b", Some(8))]);
    assert_eq!(attribute(&mut cases, &ending), [CaseEnd::Crashed, OTHER]);
}

#[test]
fn a_test_that_waits_for_its_subtest_is_not_blamed() {
    let mut cases = running(&[("p TestSub", None), ("p TestSub/part", None)]);
    let ending = ended(&[died(9, Signal::KILL)]);
    assert_eq!(attribute(&mut cases, &ending), [OTHER, CaseEnd::Crashed]);
}

#[test]
fn an_interrupted_case_did_not_crash() {
    let interrupted = || {
        let mut cases = running(&[("a", Some(7))]);
        cases.results[0].failure = Some(CaseFailure {
            kind: INTERRUPTED.to_owned(),
            ..CaseFailure::default()
        });
        cases
    };
    let ending = ended(&[died(7, Signal::INT)]);
    assert_eq!(attribute(&mut interrupted(), &ending), [OTHER]);
    let ending = timed_out(&[exited(7, 2)]);
    assert_eq!(attribute(&mut interrupted(), &ending), [CaseEnd::TimedOut]);
}

#[test]
fn a_crash_that_the_runner_reports_gets_its_signal_and_pid() {
    let mut cases = running(&[("a", Some(7)), ("b", None)]);
    cases.results[0].end = CaseEnd::Crashed;
    cases.results[1].end = CaseEnd::Crashed;
    cases.results[1].failure.get_or_insert_default().signal = Some(Signal::ABRT);
    let ending = ended(&[died(7, Signal::SEGV), died(9, Signal::ABRT)]);
    attribute_ends(&mut cases, &ending);
    assert_eq!(
        cases.results[0].failure.as_ref().unwrap().signal,
        Some(Signal::SEGV)
    );
    assert_eq!(cases.results[1].pid, Some(9));
}

#[test]
fn a_case_beside_the_one_that_ended_the_process_is_no_cause() {
    let mut cases = running(&[
        ("a_first", Some(7)),
        ("a_second", Some(7)),
        ("other", Some(8)),
    ]);
    let process = EndedProcess {
        threads: vec!["a_second".to_owned()],
        ..died(7, Signal::SEGV)
    };
    let attribution = attribute_ends(&mut cases, &ended(&[process]));
    assert_eq!(attribution.crashed, [CaseName::without_suite("a_second")]);
    assert_eq!(attribution.undecided, [CaseName::without_suite("other")]);
}

#[test]
fn a_thread_has_the_name_of_its_test_or_the_beginning_that_linux_shows() {
    let name = CaseName::without_suite("tests::a_long_name");
    for thread in ["tests::a_long_name", "tests::a_long_n"] {
        assert!(is_thread_of(thread, &name), "{thread}");
    }
    assert!(!is_thread_of("tests::a_long", &name));
}

#[test]
fn the_exit_code_of_another_process_is_not_that_of_the_case() {
    for (pid, message) in [
        (7, "its process ended with exit code 3 while it was running"),
        (1, "its process ended while it was running"),
    ] {
        let mut cases = running(&[("a", Some(7))]);
        attribute_ends(&mut cases, &ended(&[exited(pid, 3)]));
        assert_eq!(cases.results[0].failure.as_ref().unwrap().message, message);
    }
}
