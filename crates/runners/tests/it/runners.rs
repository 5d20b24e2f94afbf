//! Tests of the readers with real runners: go, googletest, ctest, nextest and bats.

use crate::samples::describe_results;
use provoke_model::{CaseEnd, Signal, TrialCases};
use provoke_runners::attribution::{EndedProcess, TrialEnding, attribute_ends};
use provoke_runners::{ctest, go, gtest, junit, tap};
use provoke_test_needs::{needs, program, success};
use std::fs::{self, File};
use std::io::BufReader;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

fn project_with(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    folder
}

/// Runs a command in a folder, without the variables that this test run has for its own cargo.
fn run(folder: &Path, command: &[&str]) -> Output {
    let mut started = Command::new(command[0]);
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO") || text.starts_with("NEXTEST") || text.starts_with("RUST") {
            started.env_remove(&name);
        }
    }
    started
        .args(&command[1..])
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

/// Returns the end of a process that this test started.
fn ending_of(output: &Output) -> TrialEnding {
    TrialEnding {
        timed_out: false,
        processes: vec![EndedProcess {
            pid: 1,
            signal: output.status.signal().map(Signal),
            exit_code: output.status.code(),
            ..EndedProcess::default()
        }],
    }
}

fn described(mut cases: TrialCases) -> Vec<String> {
    cases.results.sort_by(|a, b| a.case.cmp(&b.case));
    assert!(cases.complaints.is_empty(), "{:?}", cases.complaints);
    describe_results(&cases)
}

#[test]
fn a_panic_of_real_go_crashes_its_test() {
    needs!(program("go"));
    let test = "package p
import \"testing\"
func TestBefore(t *testing.T) {}
func TestFails(t *testing.T) { t.Error(\"no\") }
func TestPanics(t *testing.T) { var m map[string]int; m[\"x\"] = 1 }
func TestAfter(t *testing.T) {}
";
    let project = project_with(&[
        ("go.mod", "module example.com/p\ngo 1.19\n"),
        ("p_test.go", test),
    ]);
    let output = run(
        project.path(),
        &["go", "test", "-count=1", "-json", "./..."],
    );
    let results = described(go::read_go(&output.stdout[..]));
    let place = "at p_test.go:5 in example.com/p.TestPanics";
    assert_eq!(
        results,
        [
            "example.com/p::TestBefore Passed".to_owned(),
            "example.com/p::TestFails Failed no at p_test.go:4".to_owned(),
            format!(
                "example.com/p::TestPanics Crashed [panic] assignment to entry in nil map {place}"
            ),
        ]
    );
}

const GTEST: &str = "#include <gtest/gtest.h>
#include <csignal>
TEST(Suite, Passes) {}
TEST(Suite, Fails) { EXPECT_EQ(1, 2); }
TEST(Dies, Crashes) { raise(SIGSEGV); }
TEST(Dies, Never) {}
";

#[test]
fn real_googletest_and_ctest_name_the_crashed_test() {
    needs!(
        program("cmake"),
        program("ctest"),
        program("g++"),
        success(&[
            "sh",
            "-c",
            "echo '#include <gtest/gtest.h>' | g++ -E -x c++ - -o /dev/null"
        ])
    );
    let cmake = "cmake_minimum_required(VERSION 3.10)
project(sample CXX)
enable_testing()
find_package(GTest REQUIRED)
include(GoogleTest)
add_executable(unit unit.cc)
target_link_libraries(unit GTest::GTest GTest::Main pthread)
gtest_discover_tests(unit TEST_PREFIX unit.)
add_test(NAME whole COMMAND unit)
";
    let project = project_with(&[("CMakeLists.txt", cmake), ("unit.cc", GTEST)]);
    let built = run(project.path(), &["sh", "-c", "cmake . && cmake --build ."]);
    assert!(
        built.status.success(),
        "{}",
        String::from_utf8_lossy(&built.stderr)
    );

    let output = run(project.path(), &["./unit"]);
    let mut cases = gtest::read_gtest(&output.stdout[..]);
    let attribution = attribute_ends(&mut cases, &ending_of(&output));
    assert_eq!(attribution.crashed.len(), 1);
    let message = "Failed Expected equality of these values: /   1 /   2 at unit.cc:4";
    assert_eq!(
        described(cases),
        [
            "Dies.Crashes Crashed signal 11 its process died of SIGSEGV".to_owned(),
            format!("Suite.Fails {message}"),
            "Suite.Passes Passed".to_owned(),
        ]
    );

    let output = run(project.path(), &["ctest", "--output-junit", "cases.xml"]);
    let report = File::open(project.path().join("cases.xml")).unwrap();
    let mut cases = junit::read_ctest(BufReader::new(report));
    ctest::add_endings(&mut cases, ctest::read_output(&output.stdout[..]));
    assert_eq!(
        described(cases),
        [
            "unit.Dies.Crashes Crashed [SegFault] signal 11 Dies.Crashes was running".to_owned(),
            "unit.Dies.Never Passed".to_owned(),
            format!("unit.Suite.Fails {message}"),
            "unit.Suite.Passes Passed".to_owned(),
            "whole Crashed [SegFault] signal 11 Dies.Crashes was running".to_owned(),
        ]
    );
}

#[test]
fn real_nextest_names_signals_and_timeouts() {
    needs!(program("cargo-nextest"));
    let library = "#[cfg(test)]
mod tests {
    #[test] fn passes() {}
    #[test] fn fails() { assert_eq!(1, 2); }
    #[test] fn aborts() { std::process::abort() }
    #[test] fn hangs() { std::thread::sleep(std::time::Duration::from_secs(600)) }
}
";
    let settings = "[profile.default]
fail-fast = false
slow-timeout = { period = \"1s\", terminate-after = 1, grace-period = \"0s\" }
[profile.default.junit]
path = \"cases.xml\"
";
    let manifest =
        "[package]\nname = \"sample\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[workspace]\n";
    let project = project_with(&[
        ("Cargo.toml", manifest),
        ("src/lib.rs", library),
        ("cases.toml", settings),
    ]);
    let tool_config = format!(
        "provoke:{}",
        project.path().join("cases.toml").to_string_lossy()
    );
    run(
        project.path(),
        &[
            "cargo",
            "nextest",
            "run",
            "--offline",
            "--target-dir",
            "target",
            "--tool-config-file",
            &tool_config,
        ],
    );
    let report = File::open(project.path().join("target/nextest/default/cases.xml")).unwrap();
    let cases = junit::read_nextest(BufReader::new(report));
    assert_eq!(
        described(cases),
        [
            "sample::tests::aborts Crashed [SIGABRT] signal 6 process aborted with signal 6 (SIGABRT)",
            "sample::tests::fails Failed [panic] assertion `left == right` failed /   left: 1 /  right: 2 at lib.rs:4",
            "sample::tests::hangs TimedOut [timeout]",
            "sample::tests::passes Passed",
        ]
    );
}

#[test]
fn real_bats_is_read() {
    needs!(program("bats"));
    let project = project_with(&[(
        "it.bats",
        "@test \"passes\" { true; }\n@test \"fails\" { false; }\n@test \"skips\" { skip \"not here\"; }\n",
    )]);
    let output = run(project.path(), &["bats", "--tap", "it.bats"]);
    let cases = tap::read_tap(&output.stdout[..]);
    let ends: Vec<CaseEnd> = cases.results.iter().map(|result| result.end).collect();
    assert_eq!(ends, [CaseEnd::Passed, CaseEnd::Failed, CaseEnd::Skipped]);
    assert_eq!(cases.complaints, [""; 0]);
}
