//! Tests of the readers of reports with samples of real runners.

use crate::samples::{describe_results, open_sample};
use insta::assert_snapshot;
use provoke_model::{CaseEnd, TrialCases};
use provoke_runners::{ctest, go, gtest, junit, libtest, tap};
use std::fmt::Write as _;
use std::io::{BufReader, Read as _, repeat};

/// Describes the results and complaints of a sample.
fn describe(cases: &TrialCases) -> String {
    let mut text = describe_results(cases).join("\n");
    for complaint in &cases.complaints {
        let _ = write!(text, "\ncomplaint: {complaint}");
    }
    text
}

fn junit_sample(name: &str) -> String {
    describe(&junit::read_junit(open_sample(&format!(
        "junit/{name}.xml"
    ))))
}

fn nextest_sample(name: &str) -> String {
    describe(&junit::read_nextest(open_sample(&format!(
        "junit/{name}.xml"
    ))))
}

fn read_text(text: &str) -> TrialCases {
    junit::read_junit(text.as_bytes())
}

#[test]
fn nextest_names_signals_timeouts_and_panics() {
    assert_snapshot!(nextest_sample("nextest"), @r#"
    sample::tests::aborts Crashed [SIGABRT] signal 6 process aborted with signal 6 (SIGABRT)
    sample::tests::exits Failed [exit code 3]
    sample::tests::flaky Failed [panic] first attempt at lib.rs:10
    sample::tests::panics Failed [panic] assertion `left == right` failed: no <items> & "none" /   left: 0 /  right: 1 at lib.rs:4
    sample::tests::passes Passed
    sample::tests::segfaults Crashed [SIGSEGV] signal 11 process aborted with signal 11 (SIGSEGV)
    sample::tests::hangs TimedOut [timeout]
    "#);
}

#[test]
fn the_first_attempt_of_nextest_counts() {
    assert_snapshot!(nextest_sample("nextest_retries"), @r#"
    sample::tests::flaky Failed x2 [panic] first attempt at lib.rs:10
    sample::tests::segfaults Crashed x3 [SIGSEGV] signal 11 process aborted with signal 11 (SIGSEGV)
    sample::tests::panics Failed x3 [panic] assertion `left == right` failed: no <items> & "none" /   left: 0 /  right: 1 at lib.rs:4
    complaint: the runner retried 3 cases: only the first attempt counts; switch retries off, for example with `--reruns 0` (pytest) or `--retries 0` (nextest)
    "#);
}

#[test]
fn stress_runs_of_nextest_are_one_suite() {
    assert_snapshot!(nextest_sample("nextest_stress"), @r"
    sample::tests::passes Passed x2
    sample::tests::flaky Failed x2 [panic] first attempt at lib.rs:10
    complaint: the report has 2 repeated entries of cases: the worst end counts; if the runner retries, switch it off
    ");
}

#[test]
fn junit_of_pytest_is_read() {
    assert_snapshot!(junit_sample("pytest"), @r#"
    test_ends::test_pass Passed
    test_ends::test_fail Failed [AssertionError] assert [1] == [] /  /   Left contains one more item: 1 /   Use -v to get more diff at test_ends.py:10
    test_ends::test_raise Failed [ValueError] ValueError: boom / second line at test_ends.py:14
    test_ends::test_setup_error Error [RuntimeError] failed on setup with "RuntimeError: setup" at test_ends.py:23
    test_ends::test_call_and_teardown Failed [AssertionError] assert 1 == 2 / failed on teardown with "KeyError: 'teardown'" at test_ends.py:37
    test_ends::test_teardown_only Error [KeyError] failed on teardown with "KeyError: 'teardown'" at test_ends.py:33
    test_ends::test_skip Skipped not today
    test_ends::test_skip_inside Skipped inside
    test_ends::test_xfail ExpectedFailure known
    test_ends::test_xpass Passed
    test_ends::test_xpass_strict Failed [XPASS(strict)] strict
    test_ends::test_param[<&"] Passed
    test_ends::test_param[\x1b[31m] Passed
    test_ends::test_param[\xe9\u2603] Passed
    test_ends::test_param[a::b[c]] Passed
    test_ends::test_param[] Passed
    test_ends.TestClass::test_method Passed
    test_ends.TestUnit::test_subtests Failed [AssertionError] AssertionError: 1 == 1 at test_ends.py:88
    test_ends.TestUnit::test_unit Failed [AssertionError] AssertionError: 1 != 2 at test_ends.py:83
    "#);
}

#[test]
fn junit_of_pytest_shows_the_crash_of_a_worker() {
    assert_snapshot!(junit_sample("pytest_xdist_crash"), @r#"
    test_crash::test_crash Crashed failed on setup with "worker 'gw1' crashed while running 'test_crash.py::test_crash'"
    test_crash::test_before Passed
    test_crash::test_after Passed
    "#);
}

#[test]
fn retries_that_junit_of_pytest_hides_are_a_complaint() {
    assert_snapshot!(junit_sample("pytest_reruns"), @r"
    test_rerun::test_flaky Passed x3
    test_rerun::test_fine Passed
    test_rerun::test_always Failed x3 [AssertionError] assert 0 at test_rerun.py:7
    test_rerun::test_shaky_setup Passed x2
    complaint: the report has 5 repeated entries of cases: the worst end counts; if the runner retries, switch it off
    ");
}

#[test]
fn junit_of_surefire_is_read() {
    assert_snapshot!(junit_sample("surefire"), @r"
    com.example.AppTest::passes Passed
    com.example.AppTest::fails Failed x2 [org.opentest4j.AssertionFailedError] expected:<1> but was:<2>
    com.example.AppTest::flaky Failed x2 [java.net.ConnectException] connection refused
    com.example.AppTest::errors Error [java.lang.NullPointerException] java.lang.NullPointerException / 	at com.example.AppTest.errors(AppTest.java:20)
    com.example.AppTest::ignored Skipped not today
    complaint: the runner retried 2 cases: only the first attempt counts; switch retries off, for example with `--reruns 0` (pytest) or `--retries 0` (nextest)
    ");
}

#[test]
fn junit_of_jest_is_read() {
    assert_snapshot!(junit_sample("jest"), @r"
    sum adds Passed
    sum subtracts Failed Error: expect(received).toBe(expected) // Object.is equality /  / Expected: 3 / Received: -1 /     at Object.toBe (/home/user/project/sum.test.js:9:21)
    sum divides Skipped
    ");
}

#[test]
fn junit_of_go_is_read() {
    assert_snapshot!(junit_sample("go"), @r"
    example.com/sample/p::TestPass Passed
    example.com/sample/p::TestSub/bad Failed     p_test.go:8: sub failed
    ");
}

#[test]
fn xml_of_googletest_is_read() {
    assert_snapshot!(junit_sample("gtest"), @r#"
    Suite::Passes Passed
    Suite::Fails Failed Expected equality of these values: /   1 /   2 / first <&" / Value of: false /   Actual: false / Expected: true at unit.cc:4
    Suite::Skips Skipped not here at unit.cc:5
    Suite::DISABLED_Off Skipped
    Suite::Throws Failed unknown file / C++ exception with description "thrown" thrown in the test body.
    Dies::Never Passed
    Few/Params::Even/0 Passed
    Few/Params::Even/1 Failed Expected equality of these values: /   GetParam() % 2 /     Which is: 1 /   0 at unit.cc:9
    "#);
}

#[test]
fn signals_and_timeouts_of_ctest_come_from_its_output() {
    let mut cases = junit::read_ctest(open_sample("ctest/junit.xml"));
    let output = ctest::read_output(open_sample("ctest/output.txt"));
    ctest::add_endings(&mut cases, output);
    assert_snapshot!(describe(&cases), @r#"
    disc.Suite.Passes Passed
    disc.Suite.Fails Failed Expected equality of these values: /   1 /   2 / first <&" at unit.cc:4
    disc.Suite.Skips Skipped SKIP_REGULAR_EXPRESSION_MATCHED
    disc.Suite.Off Skipped
    disc.Suite.Throws Failed C++ exception with description "thrown" thrown in the test body.
    disc.Dies.Crashes Crashed [SegFault] signal 11 Dies.Crashes was running
    disc.Dies.Never Passed
    disc.Few/Params.Even/0 Passed
    disc.Few/Params.Even/1 Failed Expected equality of these values: /   GetParam() % 2 /     Which is: 1 /   0 at unit.cc:9
    whole Crashed [SegFault] signal 11 Dies.Crashes was running
    plain_pass Passed
    plain_fail Failed
    hang TimedOut [timeout]
    disabled Skipped
    skips Skipped SKIP_RETURN_CODE=77
    missing NotRun Unable to find executable
    fixture_setup Failed
    needs_fixture NotRun Fixture dependency failed
    will_fail Passed
    kills Crashed [Subprocess terminated] signal 15
    name with spaces ...   and dots Passed
    "#);
}

#[test]
fn the_output_of_ctest_alone_has_every_case() {
    let cases = ctest::read_output(open_sample("ctest/output.txt"));
    assert_snapshot!(describe(&cases), @r"
    fixture_setup Failed
    disc.Suite.Passes Passed
    disc.Suite.Fails Failed
    disc.Suite.Skips Skipped
    disc.Suite.Off Skipped
    disc.Suite.Throws Failed
    disc.Dies.Crashes Crashed [SegFault] signal 11
    disc.Dies.Never Passed
    disc.Few/Params.Even/0 Passed
    disc.Few/Params.Even/1 Failed
    whole Crashed [SegFault] signal 11
    plain_pass Passed
    plain_fail Failed
    hang TimedOut [timeout]
    disabled Skipped
    skips Skipped
    missing NotRun
    needs_fixture NotRun
    will_fail Passed
    kills Crashed [Subprocess terminated] signal 15
    name with spaces ...   and dots Passed
    ");
}

#[test]
fn a_case_of_ctest_without_an_end_was_running() {
    let output =
        "      Start  1: one\n 1/2 Test  #1: one ....   Passed    0.00 sec\n      Start  2: two\n";
    let cases = ctest::read_output(output.as_bytes());
    assert_eq!(describe(&cases), "one Passed\ntwo Unknown");
}

#[test]
fn the_output_of_googletest_is_read() {
    let cases = gtest::read_gtest(open_sample("gtest/all.txt"));
    assert_snapshot!(describe(&cases), @r#"
    Suite.Passes Passed
    Suite.Fails Failed Expected equality of these values: /   1 /   2 / first <&" at unit.cc:4
    Suite.Skips Skipped not here at unit.cc:5
    Suite.DISABLED_Off Skipped
    Suite.Throws Failed C++ exception with description "thrown" thrown in the test body.
    Dies.Never Passed
    Few/Params.Even/0 Passed
    Few/Params.Even/1 Failed Expected equality of these values: /   GetParam() % 2 /     Which is: 1 /   0 at unit.cc:9
    "#);
}

#[test]
fn the_test_that_killed_a_googletest_binary_is_the_running_one() {
    let cases = gtest::read_gtest(open_sample("gtest/crash.txt"));
    let running = cases
        .results
        .iter()
        .filter(|result| result.end == CaseEnd::Unknown);
    let names: Vec<&str> = running.map(|result| result.case.name.as_str()).collect();
    assert_eq!(names, ["Dies.Crashes"]);
}

#[test]
fn a_repeated_googletest_fails_if_any_run_fails() {
    let once = |mark: &str| format!("[ RUN      ] A.b\noutput[{mark}] A.b (1 ms)\n");
    let output = once("  FAILED  ") + &once("       OK ");
    let cases = gtest::read_gtest(output.as_bytes());
    assert_eq!(cases.results[0].end, CaseEnd::Failed);
    assert_eq!(cases.results[0].attempts, 2);
    assert_eq!(cases.complaints.len(), 1);
    let unfinished = once("       OK ") + "[ RUN      ] A.b\n";
    let cases = gtest::read_gtest(unfinished.as_bytes());
    assert_eq!(cases.results[0].end, CaseEnd::Unknown);
}

#[test]
fn a_failure_after_a_long_output_is_found() {
    let noise = "noise\n".repeat(20_000);
    let output = format!(
        "[ RUN      ] A.b\n{noise}a_test.cc:7: Failure\nExpected: 1\n  Actual: 2\n[  FAILED  ] A.b (1 ms)\n"
    );
    let cases = gtest::read_gtest(output.as_bytes());
    assert_eq!(
        describe(&cases),
        "A.b Failed Expected: 1 /   Actual: 2 at a_test.cc:7"
    );
    let line = |action: &str, output: &str| {
        let event =
            serde_json::json!({"Action": action, "Package": "p", "Test": "T", "Output": output});
        format!("{event}\n")
    };
    let noise = line("output", "    p_test.go:3: noise\n").repeat(5_000);
    let failed = line("output", "    p_test.go:9: got 2\n") + &line("fail", "");
    let output = line("run", "") + &noise + &failed;
    let cases = go::read_go(output.as_bytes());
    assert_eq!(describe(&cases), "p::T Failed got 2 at p_test.go:9");
}

fn go_sample(name: &str) -> String {
    describe(&go::read_go(open_sample(&format!("go/{name}.jsonl"))))
}

fn tap_sample(name: &str) -> String {
    describe(&tap::read_tap(open_sample(&format!("tap/{name}.txt"))))
}

#[test]
fn a_test_of_go_whose_end_is_hidden_by_output_has_an_end() {
    assert_snapshot!(go_sample("ends"), @r#"
    example.com/sample/q::TestQ Passed
    example.com/sample/p::TestPass Passed
    example.com/sample/p::TestFail Failed before / got 1 <&" at p_test.go:4
    example.com/sample/p::TestSkip Skipped not here at p_test.go:5
    example.com/sample/p::TestSub Failed
    example.com/sample/p::TestSub/a_b Passed
    example.com/sample/p::TestSub/bad Failed sub failed at p_test.go:8
    example.com/sample/p::TestParA Passed
    example.com/sample/p::TestParB Passed
    example.com/sample/p::TestPanic Passed
    example.com/sample/p::TestLast Passed
    "#);
}

#[test]
fn a_panic_of_go_is_a_crash_of_its_test() {
    assert_snapshot!(go_sample("panic"), @r#"
    example.com/sample/p::TestPass Passed
    example.com/sample/p::TestFail Failed before / got 1 <&" at p_test.go:4
    example.com/sample/p::TestSkip Skipped not here at p_test.go:5
    example.com/sample/p::TestSub Failed
    example.com/sample/p::TestSub/a_b Passed
    example.com/sample/p::TestSub/bad Failed sub failed at p_test.go:8
    example.com/sample/p::TestParA NotRun
    example.com/sample/p::TestParB NotRun
    example.com/sample/p::TestPanic Crashed [panic] assignment to entry in nil map at p_test.go:13 in example.com/sample/p.TestPanic
    example.com/sample/q::TestQ Passed
    "#);
}

#[test]
fn a_panic_in_a_goroutine_is_a_crash_of_the_running_test() {
    assert_snapshot!(go_sample("goroutine_panic"), @r#"
    example.com/sample/p::TestPass Passed
    example.com/sample/p::TestFail Failed before / got 1 <&" at p_test.go:4
    example.com/sample/p::TestSkip Skipped not here at p_test.go:5
    example.com/sample/p::TestSub Failed
    example.com/sample/p::TestSub/a_b Passed
    example.com/sample/p::TestSub/bad Failed sub failed at p_test.go:8
    example.com/sample/p::TestParA NotRun
    example.com/sample/p::TestParB NotRun
    example.com/sample/p::TestPanic Crashed [panic] in a goroutine at p_test.go:14 in example.com/sample/p.TestPanic.func1
    "#);
}

#[test]
fn an_exit_in_a_test_of_go_is_a_crash() {
    assert_snapshot!(go_sample("exit"), @r#"
    example.com/sample/p::TestPass Passed
    example.com/sample/p::TestFail Failed before / got 1 <&" at p_test.go:4
    example.com/sample/p::TestSkip Skipped not here at p_test.go:5
    example.com/sample/p::TestSub Failed
    example.com/sample/p::TestSub/a_b Passed
    example.com/sample/p::TestSub/bad Failed sub failed at p_test.go:8
    example.com/sample/p::TestParA NotRun
    example.com/sample/p::TestParB NotRun
    example.com/sample/p::TestPanic Crashed the process of the package ended while the test was running
    "#);
}

#[test]
fn a_test_of_go_that_reaches_the_time_limit_timed_out() {
    assert_snapshot!(go_sample("timeout"), @r#"
    example.com/sample/p::TestPass Passed
    example.com/sample/p::TestFail Failed before / got 1 <&" at p_test.go:4
    example.com/sample/p::TestSkip Skipped not here at p_test.go:5
    example.com/sample/p::TestSub Failed
    example.com/sample/p::TestSub/a_b Passed
    example.com/sample/p::TestSub/bad Failed sub failed at p_test.go:8
    example.com/sample/p::TestParA NotRun
    example.com/sample/p::TestParB NotRun
    example.com/sample/p::TestPanic TimedOut [timeout] test timed out after 1s
    "#);
}

#[test]
fn without_the_end_of_the_package_a_test_of_go_was_running() {
    let sample = std::io::read_to_string(open_sample("go/exit.jsonl")).unwrap();
    let lines: Vec<&str> = sample.lines().collect();
    let killed = lines[..lines.len() - 2].join("\n");
    let cases = go::read_go(killed.as_bytes());
    let last = cases.results.last().unwrap();
    assert_eq!(
        (last.case.name.as_str(), last.end),
        ("TestPanic", CaseEnd::Unknown)
    );
}

#[test]
fn a_package_of_go_that_cannot_be_built_is_a_complaint() {
    let output = "# p [p.test]\nFAIL\tp [build failed]\n{\"ImportPath\":\"q [q.test]\",\"Action\":\"build-fail\"}\n";
    assert_eq!(
        go::read_go(output.as_bytes()).complaints,
        [
            "the package `p` cannot be built: its tests did not run",
            "the package `q` cannot be built: its tests did not run"
        ]
    );
}

#[test]
fn parallel_tests_of_go_are_blamed_only_by_their_stack() {
    let event = |action: &str, test: &str, output: &str| {
        serde_json::json!({"Action": action, "Package": "p", "Test": test, "Output": output})
            .to_string()
    };
    let describe_panic = |stack: &str| {
        let lines = [
            event("run", "TestA", ""),
            event("run", "TestB", ""),
            event("output", "TestA", "panic: no\n"),
            event("output", "TestA", "\n"),
            event("output", "TestA", "goroutine 7 [running]:\n"),
            event("output", "TestA", &format!("{stack}\n")),
            event("output", "TestA", "\t/src/p_test.go:9 +0x1\n"),
            event("fail", "", ""),
        ];
        describe(&go::read_go(lines.join("\n").as_bytes()))
    };
    assert_eq!(
        describe_panic("p.TestB.func1()"),
        "p::TestA Unknown\np::TestB Crashed [panic] no at p_test.go:9 in p.TestB.func1"
    );
    assert_eq!(
        describe_panic("p.helper()"),
        "p::TestA Unknown\np::TestB Unknown"
    );
}

#[test]
fn tap_of_bats_is_read() {
    assert_snapshot!(tap_sample("bats"), @r#"
    passes Passed
    fails <& Failed (in test file t.bats, line 2) / `@test "fails <&" { echo out; false; }' failed / out
    skips Skipped not here
    skips # without Skipped
    "#);
}

#[test]
fn tap_of_node_is_read() {
    assert_snapshot!(tap_sample("node"), @r"
    outer::inner ok Passed
    outer::inner bad Failed
    outer Failed
    todo ExpectedFailure
    skip Skipped why
    plain Passed
    ");
}

#[test]
fn tap_of_perl_is_read() {
    assert_snapshot!(tap_sample("perl"), @r"
    first Passed
    group::in Passed
    group::bad in Failed
    group Failed
    todo one ExpectedFailure later
    test 4 Skipped no net
    ");
}

#[test]
fn a_tap_document_may_end_early() {
    let read = |text: &str| describe(&tap::read_tap(text.as_bytes()));
    assert_eq!(
        read("1..3\nok 1 - a\nBail out! no database\n"),
        "a Passed\ncomplaint: the tests bailed out: no database\ncomplaint: 2 of 3 planned tests have no result: the \
         program ended before them"
    );
    assert_eq!(
        read("ok\nnot ok\n"),
        "test 1 Passed\ntest 2 Failed\ncomplaint: the TAP document has no plan: it may have ended early"
    );
    assert_eq!(read("1..0 # SKIP no tests\nokay\n"), "");
    assert_eq!(
        read("    ok 1 - inner\n1..1\n"),
        "inner Passed\ncomplaint: 1 of 1 planned tests have no result: the \
         program ended before them"
    );
    let deep: String = (0..1_000)
        .map(|depth| " ".repeat(4 * depth) + "ok 1 - x\n")
        .collect();
    assert!(
        read(&deep).contains(
            "complaint: the TAP document has more than 64 levels; deeper ones are ignored"
        )
    );
}

#[test]
fn of_a_torn_report_the_whole_cases_are_kept() {
    let whole = std::io::read_to_string(open_sample("junit/pytest.xml")).unwrap();
    let names_of = |text: &str| -> Vec<String> {
        let cases = read_text(text).results.into_iter();
        cases.map(|result| result.case.to_string()).collect()
    };
    let complete = names_of(&whole);
    let ends = whole.char_indices().map(|(index, _)| index).step_by(7);
    for end in ends {
        let cases = read_text(&whole[..end]);
        assert!(!cases.complaints.is_empty(), "{end}");
        let names = names_of(&whole[..end]);
        assert_eq!(complete[..names.len()], names);
    }
}

#[test]
fn suites_may_be_nested_and_elements_unknown() {
    let cases = read_text(
        r#"<testsuites><testsuite name="outer"><testsuite name="inner"><x:extra xmlns:x="y"><failure/></x:extra>
        <testcase name="a"><properties><property name="p" value="v"/></properties></testcase></testsuite>
        <testcase name="b" file="b.php" status="failed"/><error message="of the suite"/></testsuite></testsuites>"#,
    );
    assert_eq!(describe(&cases), "inner::a Passed\nb.php::b Failed");
}

#[test]
fn entities_are_not_expanded() {
    let laughs = r#"<?xml version="1.0"?><!DOCTYPE lolz [<!ENTITY lol "lol"><!ENTITY lol2 "&lol;&lol;&lol;&lol;">
        <!ENTITY file SYSTEM "file:///etc/passwd">]>
        <testsuite><testcase name="a &lol2; &#65; &amp;"><failure message="&file;">&lol2;</failure></testcase>
        <testcase name="b"><failure>&file; &lt;&#x42;&#27;</failure></testcase></testsuite>"#;
    assert_eq!(
        describe(&read_text(laughs)),
        "a &lol2; &#65; &amp; Failed &file;\nb Failed &file; <B\u{1b}"
    );
}

#[test]
fn deep_and_foreign_files_are_complaints() {
    let deep = format!("<testsuite>{}", "<testsuite name='x'>".repeat(100_000));
    assert_eq!(
        describe(&read_text(&deep)),
        "\ncomplaint: the report has more than 64 levels; the rest is ignored"
    );
    assert_eq!(
        describe(&read_text("<html><body/></html>")),
        "\ncomplaint: the file is not a JUnit report: it begins with `html`, not with `testsuites` or `testsuite`"
    );
    for text in ["", "no XML", "\u{0}\u{1}"] {
        assert_eq!(
            describe(&read_text(text)),
            "\ncomplaint: the report is empty or not XML: no case is known"
        );
    }
}

#[test]
fn a_large_output_in_a_report_is_skipped() {
    let start = r#"<testsuite><testcase name="a"><system-out>"#;
    let end = r#"</system-out></testcase><testcase name="b"/></testsuite>"#;
    let input = start
        .as_bytes()
        .chain(repeat(b'x').take(100_000_000))
        .chain(end.as_bytes());
    let cases = junit::read_junit(BufReader::new(input));
    assert_eq!(describe(&cases), "a Passed\nb Passed");
}

/// Describes a sample of libtest whose processes have these tests.
fn libtest_sample(name: &str, lists: &[(i32, &str)]) -> String {
    let list_tests = |pid| {
        let list = lists.iter().find(|(listed, _)| *listed == pid);
        let names = list.iter().flat_map(|(_, names)| names.split(' '));
        names.map(str::to_owned).collect()
    };
    let input = open_sample(&format!("libtest/{name}.txt"));
    let cases = libtest::read_libtest(input, list_tests);
    let unstarted = cases.unstarted_cases();
    let unstarted: Vec<String> = unstarted.iter().map(ToString::to_string).collect();
    format!(
        "{}\nnot started: {}",
        describe(&cases),
        unstarted.join(", ")
    )
}

#[test]
fn the_binaries_and_documentation_tests_of_cargo_test_are_read() {
    let lists = [(4401, "a b c_exit d")];
    assert_snapshot!(libtest_sample("all", &lists), @r#"
    sample-x::it::a Passed
    sample-x::it::b Passed
    sample-x::it::c_exit Passed
    sample-x::it::d Passed
    doctest::src/lib.rs - add (line 4) Passed
    doctest::src/lib.rs - sub (line 11) Failed [panic] assertion `left == right` failed /   left: 1 /  right: 2 at lib.rs:11
    doctest::src/lib.rs - sub (line 14) Passed
    doctest::src/lib.rs - sub (line 17) Skipped
    doctest::src/lib.rs - sub (line 8) Passed
    sample-x::tests::fails Failed [panic] assertion `left == right` failed: told /   left: 1 /  right: 2 at lib.rs:24
    sample-x::tests::fails_err Failed Error: "no"
    sample-x::tests::ignored Skipped
    sample-x::tests::ignored2 Skipped
    sample-x::tests::passes Passed
    sample-x#2::tests::passes Passed
    sample-x::tests::should Passed
    sample-x::tests::should_not Failed the test did not panic as expected at lib.rs:29
    sample-x::tests::should_other Failed the panic did not contain the expected string /       panic message: "x" /  expected substring: "y"
    sample-x::tests::zabort Passed
    not started:
    "#);
}

#[test]
fn a_rust_test_that_ends_its_binary_is_still_running() {
    let unit = "tests::fails tests::fails_err tests::ignored tests::ignored2 tests::passes tests::should tests::should_not tests::should_other tests::zabort tests::zz";
    let lists = [(4463, unit), (4479, "a b c_exit d")];
    assert_snapshot!(libtest_sample("dies", &lists), @r"
    sample-x::tests::fails Failed
    sample-x::tests::fails_err Failed
    sample-x::tests::ignored Skipped
    sample-x::tests::ignored2 Skipped
    sample-x::tests::passes Passed
    sample-x::tests::should Passed
    sample-x::tests::should_not Failed
    sample-x::tests::should_other Failed
    sample-x::tests::zabort Unknown
    sample-x::it::a Passed
    sample-x::it::b Passed
    sample-x::it::c_exit Unknown
    doctest::src/lib.rs - add (line 4) Passed
    doctest::src/lib.rs - sub (line 11) Failed
    doctest::src/lib.rs - sub (line 14) Passed
    doctest::src/lib.rs - sub (line 17) Skipped
    doctest::src/lib.rs - sub (line 8) Passed
    sample-x#2::tests::passes Passed
    not started: sample-x::tests::zz, sample-x::it::d
    ");
}

/// Two threads run the tests `a` to `e`, and these lines are their output.
fn parallel_tests(lines: &str) -> String {
    let output = format!(
        "provoke: process 7 runs the tests of it sample, at most 2 at once\n\nrunning 5 tests\n{lines}"
    );
    let names = ["a", "b", "c", "d", "e"].map(str::to_owned);
    describe(&libtest::read_libtest(output.as_bytes(), |_| {
        names.to_vec()
    }))
}

#[test]
fn parallel_rust_tests_that_may_have_been_running_are_known() {
    // As one test ends, the next one starts.
    assert_snapshot!(parallel_tests("test b ... ok\n"), @r"
    sample::it::a Unknown
    sample::it::b Passed
    sample::it::c Unknown
    ");
    // Output of a test in front of a result, and lines of another test run.
    assert_snapshot!(parallel_tests("test a ... ok\n12test b ... FAILED\ntest other ... FAILED\ntest result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\ntest c ... ignored, slow\ntest e ... ok\n"), @r"
    sample::it::a Passed
    sample::it::b Failed
    sample::it::c Skipped
    sample::it::d Unknown
    sample::it::e Passed
    ");
    assert_snapshot!(parallel_tests(""), @r"
    sample::it::a Unknown
    sample::it::b Unknown
    ");
}

#[test]
fn results_that_are_not_in_the_output_are_neither_passes_nor_failures() {
    // Another test run follows the end of the binary, such as that of documentation tests.
    let quiet = "..\n\nrunning 5 tests\n.F...\nfailures:\n\n---- c stdout ----\nno\n\n\nfailures:\n    c\n\n\
        test result: FAILED. 4 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n";
    assert_snapshot!(parallel_tests(quiet), @r"
    sample::it::a Unknown
    sample::it::b Unknown
    ");
    assert_snapshot!(parallel_tests(quiet.split_once("5 tests\n").unwrap().1), @r"

    complaint: the output has no result of 5 tests; leave out `--quiet`
    ");
}

#[test]
fn a_result_after_output_counts_when_the_next_line_of_libtest_follows() {
    let output = "test a ... look\ntest b ... FAILED\ntest c ... the book\n";
    assert_snapshot!(parallel_tests(output), @r"
    sample::it::a Passed
    sample::it::b Failed
    sample::it::c Unknown
    ");
}

#[test]
fn a_rust_test_may_print_what_looks_like_the_failures() {
    let summary = "\nfailures:\n\n---- e stdout ----\nno\n\n\nfailures:\n    e\n\n\
        test result: FAILED. 4 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n";
    let printed = "failures:\n\n---- a stdout ----\nnested\n\nfailures:\n    a\n";
    let results = "test b ... ok\ntest c ... ok\ntest d ... ok\ntest e ... FAILED\n";
    // The output of a test that runs in parallel, and of one that runs alone.
    for lines in [
        format!("test a ... ok\n{printed}{results}{summary}"),
        format!("test a ... {printed}ok\n{results}{summary}"),
        format!("test a ... look:\n{printed}ok\n{results}{summary}"),
    ] {
        assert_eq!(
            parallel_tests(&lines),
            "sample::it::a Passed\nsample::it::b Passed\nsample::it::c Passed\n\
             sample::it::d Passed\nsample::it::e Failed no",
            "{lines}"
        );
    }
    // The process dies afterwards.
    assert_snapshot!(parallel_tests(&format!("test a ... ok\n{printed}")), @r"
    sample::it::a Passed
    sample::it::b Unknown
    sample::it::c Unknown
    ");
}
