//! Tests that the runners of other languages report each test, also of suites that crash or hang.

use super::ssh_server::{SshServer, sshd};
use super::support::{PROVOKE, Sandbox, words};
use crate::needs::{needs, program, python, success};
use serde_json::{Value, json};
use std::process::Command;

/// Returns the ends of each test of a report.
fn ends_of(report: &Value) -> Value {
    let cases = report["variants"][0]["suite"]["cases"].as_array().unwrap();
    let ends = cases.iter().map(|case| {
        let name = case["name"].as_str().unwrap();
        (name.to_owned(), case["ends"].clone())
    });
    ends.collect::<serde_json::Map<String, Value>>().into()
}

/// Returns the title of the first failure of a test.
fn failure_of<'a>(report: &'a Value, name: &str) -> &'a str {
    let cases = report["variants"][0]["suite"]["cases"].as_array().unwrap();
    let case = cases.iter().find(|case| case["name"] == name).unwrap();
    case["signatures"][0]["title"].as_str().unwrap()
}

/// Returns how often each test failed alone, of how many trials.
fn lone_failures(report: &Value) -> Value {
    let cases = report["variants"][0]["suite"]["cases"].as_array().unwrap();
    let counts = cases.iter().filter(|case| !case["run_alone"].is_null());
    let counts = counts.map(|case| {
        let alone = &case["run_alone"];
        let text = format!("{} of {}", alone["failures"], alone["trials"]);
        (case["name"].as_str().unwrap().to_owned(), text.into())
    });
    counts.collect::<serde_json::Map<String, Value>>().into()
}

const RUST_SUITE: &str = r#"
#[cfg(test)]
mod tests {
    fn trial() -> u32 {
        std::env::var("PROVOKE_TRIAL").unwrap().parse().unwrap()
    }

    #[test]
    fn passes() {}

    #[test]
    #[ignore]
    fn ignored() {
        panic!();
    }

    #[test]
    fn panics() {
        assert!(trial() > 2, "one of the first trials");
    }

    #[test]
    fn crashes() {
        if trial() == 2 {
            unsafe { std::ptr::null_mut::<u8>().write_volatile(1) }
        }
    }

    #[test]
    fn hangs() {
        while trial() == 3 {
            std::thread::sleep(std::time::Duration::from_secs(1));
        }
    }
}
"#;

/// Writes a package of Rust, and compiles its tests. `timeout` are settings of nextest.
fn rust_suite(timeout: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write(
        "Cargo.toml",
        "[package]\nname = \"sample\"\nversion = \"0.1.0\"\nedition = \"2021\"\n\n[lib]\npath = \"lib.rs\"\n\n[workspace]\n",
    );
    sandbox.write("lib.rs", RUST_SUITE);
    std::fs::create_dir(sandbox.path(".config")).unwrap();
    let settings = format!("[profile.default]\nfail-fast = false\n{timeout}\n");
    sandbox.write(".config/nextest.toml", &settings);
    let build = ["nextest", "run", "--offline", "--no-run"];
    let built = sandbox.program_command("cargo", &build).output().unwrap();
    let stderr = String::from_utf8_lossy(&built.stderr);
    assert!(built.status.success(), "{stderr}");
    sandbox
}

#[test]
fn nextest_reports_crashes_timeouts_and_panics_by_test() {
    needs!(success(&["cargo", "nextest", "--version"]));
    let sandbox = rust_suite(
        "slow-timeout = { period = \"2s\", terminate-after = 1, grace-period = \"0s\" }",
    );
    let args = words("--cases -n 3 --rerun-failing=1 --capture off -- cargo nextest run --offline");
    let (report, output) = sandbox.report(&args);
    assert_eq!(
        ends_of(&report),
        json!({
            "sample::tests::crashes": {"passed": 2, "crashed": 1},
            "sample::tests::hangs": {"passed": 2, "timed_out": 1},
            "sample::tests::panics": {"passed": 1, "failed": 2},
            "sample::tests::passes": {"passed": 3},
        }),
        "{output}"
    );
    let crash = failure_of(&report, "sample::tests::crashes");
    assert!(crash.starts_with("SIGSEGV"), "{crash}");
    let panic = failure_of(&report, "sample::tests::panics");
    assert_eq!(panic, "panic: one of the first trials");
    assert!(!crash.contains("first trials"), "{crash}");
    assert_eq!(
        lone_failures(&report),
        json!({
            "sample::tests::crashes": "0 of 1",
            "sample::tests::hangs": "0 of 1",
            "sample::tests::panics": "0 of 1",
        }),
        "{output}"
    );
    assert_eq!(report["variants"][0]["suite"]["order"], "isolated");
}

#[test]
fn a_test_that_the_time_limit_of_the_trial_stopped_did_not_crash() {
    needs!(success(&["cargo", "nextest", "--version"]));
    let sandbox = rust_suite("");
    let args = words("--cases -n 3 -t 3s --grace 1s --capture off -- cargo nextest run --offline");
    let (report, output) = sandbox.report(&args);
    let ends = ends_of(&report);
    let hanging = json!({"passed": 2, "timed_out": 1});
    assert_eq!(ends["sample::tests::hangs"], hanging, "{output}");
    assert_eq!(
        ends["sample::tests::passes"],
        json!({"passed": 3}),
        "{output}"
    );
}

/// A library with a documentation test, and an integration test in which a test aborts or ends its process.
const CARGO_SUITE: [(&str, &str); 3] = [
    (
        "Cargo.toml",
        "[package]\nname = \"sample\"\nversion = \"0.1.0\"\nedition = \"2021\"\n\n[lib]\npath = \"lib.rs\"\n\n[[test]]\nname = \"it\"\npath = \"it.rs\"\n\n[workspace]\n",
    ),
    (
        "lib.rs",
        r#"//! ```
//! assert_ne!(sample::trial(), 1, "not the first");
//! ```

/// Returns the number of the trial.
pub fn trial() -> u32 {
    std::env::var("PROVOKE_TRIAL").unwrap().parse().unwrap()
}

#[test]
fn fails() {
    println!("printed");
    assert_eq!(1, 2);
}

#[test]
fn odd() {
    assert!(trial() % 2 == 0, "an odd trial");
}
"#,
    ),
    (
        "it.rs",
        r#"use std::{process, thread, time::Duration};

fn recurse(depth: u64) -> u64 {
    if depth == 0 { 0 } else { recurse(depth + 1) + std::hint::black_box(depth) }
}

fn sleep() {
    thread::sleep(Duration::from_millis(200));
}

#[test]
fn a_waits() {
    while sample::trial() > 3 {
        sleep();
    }
}

#[test]
fn b_ends() {
    match sample::trial() {
        2 | 4 => {
            sleep();
            process::abort()
        }
        3 => {
            sleep();
            process::exit(0)
        }
        5 => println!("{}", recurse(1)),
        _ => {}
    }
}

#[test]
#[ignore]
fn c_ignored() {}

#[test]
fn d_later() {}
"#,
    ),
];

/// Writes the package, and compiles its tests.
fn cargo_suite() -> Sandbox {
    let sandbox = Sandbox::new();
    for (name, text) in CARGO_SUITE {
        sandbox.write(name, text);
    }
    let build = ["test", "--offline", "--no-run"];
    let built = sandbox.program_command("cargo", &build).output().unwrap();
    let stderr = String::from_utf8_lossy(&built.stderr);
    assert!(built.status.success(), "{stderr}");
    sandbox
}

#[test]
fn cargo_test_names_the_test_that_ended_its_binary() {
    let sandbox = cargo_suite();
    let args = words("--cases -n 3 --rerun-failing=1 --capture off");
    let suite = words("-- cargo test --offline --no-fail-fast -- --test-threads=1");
    let (report, output) = sandbox.report(&[&args[..], &suite].concat());
    assert_eq!(
        ends_of(&report),
        json!({
            "doctest::lib.rs - (line 1)": {"passed": 2, "failed": 1},
            "sample::fails": {"failed": 3},
            "sample::odd": {"passed": 1, "failed": 2},
            "sample::it::a_waits": {"passed": 3},
            "sample::it::b_ends": {"passed": 1, "crashed": 2},
            "sample::it::c_ignored": {"skipped": 1, "not_run": 2},
            "sample::it::d_later": {"passed": 1, "not_run": 2},
        }),
        "{output}"
    );
    assert_eq!(failure_of(&report, "sample::odd"), "panic: an odd trial");
    let alone = json!({
        "doctest::lib.rs - (line 1)": "0 of 1",
        "sample::fails": "1 of 1",
        "sample::odd": "0 of 1",
        "sample::it::b_ends": "1 of 1",
    });
    assert_eq!(lone_failures(&report), alone, "{output}");
}

#[test]
fn parallel_rust_tests_are_not_blamed_for_each_other() {
    let sandbox = cargo_suite();
    let binary = std::fs::read_dir(sandbox.path("target/debug/deps")).unwrap();
    let binary = binary
        .map(|entry| entry.unwrap().path())
        .find(|path| path.extension().is_none() && path.to_string_lossy().contains("/it-"))
        .unwrap();
    let binary = binary.to_string_lossy();
    let args = words("--cases -n 5 --capture off -e RUST_TEST_THREADS=2 --");
    let (report, output) = sandbox.report(&[&args[..], &[&binary, "-q"]].concat());
    assert_eq!(
        ends_of(&report),
        json!({
            "a_waits": {"passed": 3, "unknown": 2},
            "b_ends": {"passed": 1, "crashed": 3, "unknown": 1},
            "c_ignored": {"skipped": 3, "not_run": 2},
            "d_later": {"passed": 3, "not_run": 2},
        }),
        "{output}"
    );
    // The message about the stack in trial 5 names the test.
    let undecided = "the process died while 2 tests were running, and it is not known which of them is the cause: a_waits, b_ends (1 trial)";
    assert!(output.stdout.contains(undecided), "{output}");
}

#[test]
fn go_tests_are_counted_with_their_subtests_and_packages() {
    needs!(program("go"));
    let sandbox = Sandbox::new();
    sandbox.write("go.mod", "module sample\n\ngo 1.19\n");
    for (package, text) in [
        (
            "a",
            "package a\nimport (\"testing\"; \"os\"; \"time\")\n\
             func TestSub(t *testing.T) {\n\
             t.Run(\"one\", func(t *testing.T) {})\n\
             t.Run(\"two words\", func(t *testing.T) { if os.Getenv(\"PROVOKE_TRIAL\") == \"1\" { t.Error(\"first\") } })\n}\n\
             func TestGoroutine(t *testing.T) { if os.Getenv(\"PROVOKE_TRIAL\") == \"2\" { go func() { panic(\"in a goroutine\") }(); time.Sleep(time.Minute) } }\n\
             func TestLater(t *testing.T) {}\n",
        ),
        (
            "b",
            "package b\nimport \"testing\"\n\
             func TestP1(t *testing.T) { t.Parallel() }\n\
             func TestP2(t *testing.T) { t.Parallel(); t.Fatal(\"always\") }\n",
        ),
        (
            "c",
            "package c\nimport \"testing\"\nfunc TestBroken(t *testing.T) { undefined() }\n",
        ),
    ] {
        std::fs::create_dir(sandbox.path(package)).unwrap();
        sandbox.write(&format!("{package}/x_test.go"), text);
    }
    let cache = format!("GOCACHE={}", sandbox.path("cache").display());
    let args = [
        "--cases",
        "-n",
        "2",
        "--rerun-failing=1",
        "--capture",
        "off",
        "-e",
        &cache,
        "--",
        "go",
        "test",
        "./...",
    ];
    let (report, output) = sandbox.report(&args);
    assert_eq!(
        ends_of(&report),
        json!({
            "sample/a::TestGoroutine": {"passed": 1, "crashed": 1},
            "sample/a::TestLater": {"passed": 1, "not_run": 1},
            "sample/a::TestSub": {"passed": 1, "failed": 1},
            "sample/a::TestSub/one": {"passed": 2},
            "sample/a::TestSub/two_words": {"passed": 1, "failed": 1},
            "sample/b::TestP1": {"passed": 2},
            "sample/b::TestP2": {"failed": 2},
        }),
        "{output}"
    );
    assert_eq!(
        failure_of(&report, "sample/a::TestGoroutine"),
        "panic: in a goroutine"
    );
    assert_eq!(
        lone_failures(&report),
        json!({
            "sample/a::TestGoroutine": "0 of 1",
            "sample/a::TestSub": "0 of 1",
            "sample/a::TestSub/two_words": "0 of 1",
            "sample/b::TestP2": "1 of 1",
        }),
        "{output}"
    );
    let broken = "the package `sample/c` cannot be built: its tests did not run (2 trials)";
    assert!(output.stdout.contains(broken), "{output}");
}

const CPP_SUITE: &str = r#"
#include <gtest/gtest.h>
#include <cstdlib>
static int trial() { return std::atoi(std::getenv("PROVOKE_TRIAL") ? std::getenv("PROVOKE_TRIAL") : "0"); }
TEST(Sum, Adds) { EXPECT_EQ(1 + 1, 2); }
TEST(Sum, First) { EXPECT_NE(trial(), 1); }
TEST(Crash, Segfault) { if (trial() == 2) *(volatile int *)nullptr = 1; }
TEST(Later, Passes) {}
"#;

/// Compiles a program with GoogleTest in `build`.
fn cpp_suite() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write(
        "CMakeLists.txt",
        "cmake_minimum_required(VERSION 3.16)\nproject(sample CXX)\nfind_package(GTest REQUIRED)\n\
         include(GoogleTest)\nenable_testing()\nadd_executable(unit unit.cpp)\n\
         target_link_libraries(unit GTest::gtest_main)\ngtest_discover_tests(unit)\n\
         add_test(NAME whole.binary COMMAND unit --gtest_filter=Sum.*)\n",
    );
    sandbox.write("unit.cpp", CPP_SUITE);
    for args in [["-S", ".", "-B", "build"], ["--build", "build", "-j", "1"]] {
        let mut cmake = Command::new("cmake");
        let built = cmake
            .args(args)
            .current_dir(sandbox.path("."))
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&built.stderr);
        assert!(built.status.success(), "{text}");
    }
    sandbox
}

/// Returns why programs with GoogleTest cannot be compiled.
fn gtest() -> Option<String> {
    let headers = [
        "/usr/include/gtest/gtest.h",
        "/usr/local/include/gtest/gtest.h",
    ];
    let is_found = headers
        .iter()
        .any(|path| std::path::Path::new(path).exists());
    program("cmake").or((!is_found).then(|| "GoogleTest is not installed".to_owned()))
}

#[test]
fn ctest_and_googletest_name_the_test_that_crashed() {
    needs!(gtest(), program("ctest"), program("c++"));
    let sandbox = cpp_suite();
    let run = ["-n", "2", "--rerun-failing=1", "--capture", "off"];
    let ctest = ["--cases", "--", "ctest", "--test-dir", "build"];
    let (report, output) = sandbox.report(&[&run[..], &ctest].concat());
    assert_eq!(
        ends_of(&report),
        json!({
            "Crash.Segfault": {"passed": 1, "crashed": 1},
            "Later.Passes": {"passed": 2},
            "Sum.Adds": {"passed": 2},
            "Sum.First": {"passed": 1, "failed": 1},
            "whole.binary": {"passed": 1, "failed": 1},
        }),
        "{output}"
    );
    let crash = failure_of(&report, "Crash.Segfault");
    assert!(crash.starts_with("SIGSEGV"), "{crash}");
    let never = json!({
        "Crash.Segfault": "0 of 1",
        "Sum.First": "0 of 1",
        "whole.binary": "0 of 1",
    });
    assert_eq!(lone_failures(&report), never, "{output}");
    // The whole program in one process: the tests behind the crash did not run.
    let gtest = ["--cases=gtest", "--", "build/unit"];
    let (report, output) = sandbox.report(&[&run[..], &gtest].concat());
    assert_eq!(
        ends_of(&report),
        json!({
            "Crash.Segfault": {"passed": 1, "crashed": 1},
            "Later.Passes": {"passed": 1, "not_run": 1},
            "Sum.Adds": {"passed": 2},
            "Sum.First": {"passed": 1, "failed": 1},
        }),
        "{output}"
    );
    let never = json!({"Crash.Segfault": "0 of 1", "Sum.First": "0 of 1"});
    assert_eq!(lone_failures(&report), never, "{output}");
}

#[test]
fn a_report_of_an_earlier_trial_and_a_torn_report_do_not_count_as_passes() {
    let sandbox = Sandbox::new();
    sandbox.write(
        "run-tests",
        r#"case $PROVOKE_TRIAL in
1) echo '<testsuite name="s"><testcase classname="c" name="a"/><testcase classname="c" name="b"><failure message="odd"/></testcase></testsuite>' >out.xml; exit 1;;
2) ;;
3) printf '<testsuite name="s"><testcase classname="c" name="a"/><testcase classname="c" na' >out.xml;;
4) echo '<testsuite name="s"><testcase classname="c" name="a"/><testcase classname="c" name="b"/></testsuite>' >out.xml;;
esac
"#,
    );
    let args = ["--cases=junit:*.xml", "-n", "4", "--", "sh", "./run-tests"];
    let (report, output) = sandbox.report(&args);
    let suite = &report["variants"][0]["suite"];
    assert_eq!(
        ends_of(&report),
        json!({"c::a": {"passed": 3}, "c::b": {"passed": 1, "failed": 1}}),
        "{output}"
    );
    assert_eq!(suite["trials_without_tests"], 1, "{output}");
    let complaints: Vec<&String> = suite["complaints"].as_object().unwrap().keys().collect();
    assert_eq!(complaints.len(), 2, "{complaints:?}");
    assert!(complaints[0].ends_with("out.xml` is older than the trial, and was ignored"));
    assert!(complaints[1].starts_with("the report is damaged at byte "));
}

#[test]
fn json_lines_that_end_in_a_crash_name_the_running_test() {
    let sandbox = Sandbox::new();
    sandbox.write(
        "run-tests",
        r#"exec >>$1/tests
echo '{"event":"planned","cases":["a","b"]}'
echo '{"event":"start","case":"a"}'
echo '{"event":"end","case":"a"}'
[ $PROVOKE_TRIAL = 2 ] && { printf '{"event":"sta'; kill -SEGV $$; }
echo '{"event":"start","case":"b"}'
[ $PROVOKE_TRIAL = 3 ] && kill -ABRT $$
echo '{"event":"end","case":"b"}'
"#,
    );
    let args = words("--cases=jsonl:{dir}/tests -n 3 --capture off -- sh ./run-tests {dir}");
    let (report, output) = sandbox.report(&args);
    assert_eq!(
        ends_of(&report),
        json!({"a": {"passed": 3}, "b": {"passed": 1, "crashed": 1, "not_run": 1}}),
        "{output}"
    );
    assert_eq!(failure_of(&report, "b"), "SIGABRT");
}

/// A runner with TAP output, whose second test depends on $MODE and on the file `mode`.
const TAP_SUITE: &str = r#"mode=${MODE:-$(cat mode 2>/dev/null)}
echo 1..2
echo 'not ok 1 - always'
[ "$mode" = bad ] && echo 'not ok 2 - x[1,hang]' || echo 'ok 2 - x[1,hang]'
exit 1
"#;

#[test]
fn variants_are_compared_by_one_test_with_a_comma_in_its_name() {
    let sandbox = Sandbox::new();
    sandbox.write("run-tests", TAP_SUITE);
    let args = words(
        "compare -q -L MODE=good,bad -n 8 --cases=tap --only test:x[1,hang] -- sh ./run-tests",
    );
    let output = sandbox.provoke(&args);
    insta::assert_snapshot!(output, @r"
    DIFFERENT at 95 %: MODE=bad fails more often than MODE=good, by about 100 points
    ------- stderr -------
    [exit status: Some(1)]
    ");
}

#[test]
fn the_first_commit_at_which_a_test_fails_is_found() {
    needs!(program("git"));
    let sandbox = Sandbox::new();
    sandbox.write("run-tests", TAP_SUITE);
    let git = |args: &[&str]| {
        let identity = ["-c", "user.name=a", "-c", "user.email=a@b"];
        let mut git = Command::new("git");
        git.args(identity).args(args).current_dir(sandbox.path("."));
        let done = git.output().unwrap();
        assert!(done.status.success(), "{args:?}: {done:?}");
    };
    git(&["init", "-q", "-b", "main"]);
    for (number, mode) in ["good", "good", "bad", "bad"].iter().enumerate() {
        sandbox.write("mode", mode);
        sandbox.write("number", &number.to_string());
        git(&["add", "run-tests", "mode", "number"]);
        git(&["commit", "-q", "-m", &format!("commit {number}")]);
        git(&["tag", &format!("v{number}")]);
    }
    let args = words("bisect -q --git v0..v3 --cases=tap --only test:x[1,hang] -- sh ./run-tests");
    let output = sandbox.provoke(&args);
    assert_eq!(output.code, Some(0), "{output}");
    assert!(output.stdout.contains("commit 2"), "{output}");
}

#[test]
fn hosts_report_the_tests_of_their_trials() {
    needs![
        sshd(),
        program("ssh"),
        program("ssh-keygen"),
        python("pytest")
    ];
    let sandbox = Sandbox::new();
    let server = SshServer::start(&sandbox);
    sandbox.write(
        "test_it.py",
        "import os\n\n\ndef test_odd():\n    assert int(os.environ['PROVOKE_TRIAL']) % 2 == 0\n\n\ndef test_other():\n    pass\n",
    );
    let args = words(
        "--on ssh:a,b -n 6 --cases --rerun-failing=2 -- python3 -m pytest -q -p no:cacheprovider -p no:randomly",
    );
    let (report, output) = server.report(&sandbox, &args);
    assert_eq!(
        ends_of(&report),
        json!({
            "test_it.py::test_odd": {"passed": 3, "failed": 3},
            "test_it.py::test_other": {"passed": 6},
        }),
        "{output}"
    );
    let alone = json!({"test_it.py::test_odd": "1 of 2"});
    assert_eq!(lone_failures(&report), alone, "{output}");
    server.assert_nothing_left();
}

#[test]
fn the_tests_that_a_failure_needs_are_found_among_many_long_names() {
    needs!(python("pytest"));
    let sandbox = Sandbox::new();
    // Together, the names are longer than a variable of the environment can be.
    sandbox.write(
        "test_it.py",
        "import pytest\n\nstate = []\nNAMES = ['{dir}%03d ' % number + 'long ' * 160 for number in range(200)]\n\n\n\
         @pytest.mark.parametrize('name', NAMES, ids=NAMES)\ndef test_filler(name):\n    if '132' in name:\n        state.append(1)\n\n\n\
         def test_victim():\n    assert not state\n",
    );
    let suite = words("-- python3 -m pytest -q -p no:cacheprovider -p no:randomly");
    sandbox.report(&[&["--cases", "-n", "1"], &suite[..]].concat());
    let name = "test:test_it.py::test_victim";
    let output = sandbox.provoke(&["reduce", "--polluters", "last", "--only", name, "-q"]);
    let answer = "`test_it.py::test_filler[{dir}132 long ";
    assert!(output.stdout.starts_with(answer), "{output}");
    assert!(
        output.stdout.contains(" is needed; without it, "),
        "{output}"
    );
}

#[test]
#[ignore = "takes a minute"]
fn thousands_of_tests_in_hundreds_of_trials_need_bounded_memory_and_disk() {
    let sandbox = Sandbox::new();
    // Ten orders of 5,000 tests, of which about 1 % fail.
    sandbox.write(
        "write-streams.py",
        r#"
import json, random

names = ["tests/pkg_%02d/test_%03d.py::TestClass::test_number_%04d" % (i // 500, i // 50, i) for i in range(5000)]
for number in range(10):
    generator = random.Random(number)
    order = generator.sample(names, len(names))
    with open("stream%d" % number, "w") as stream:
        stream.write(json.dumps({"event": "planned", "cases": names}) + "\n")
        for name in order:
            outcome = "failed" if generator.random() < 0.01 else "passed"
            message = "assert %d == 2" % generator.randrange(1000)
            stream.write(json.dumps({"event": "start", "case": name, "pid": 1}) + "\n")
            line = {"event": "end", "case": name, "pid": 1, "outcome": outcome, "message": message}
            stream.write(json.dumps(line) + "\n")
"#,
    );
    let written = Command::new("python3")
        .arg("write-streams.py")
        .current_dir(sandbox.path("."))
        .status();
    assert!(written.unwrap().success());
    sandbox.write(
        "run-tests",
        "cp stream$((PROVOKE_TRIAL % 10)) $1/tests; exit 1\n",
    );
    // provoke measures the memory of a provoke within it, whose marks it must not fill in.
    sandbox.write(
        "measure",
        &format!("exec {PROVOKE} run --out inner '--cases=jsonl:{{dir}}/tests' -n 250 -j 2 --progress=none --capture off -- sh ./run-tests {{dir}}\n"),
    );
    let outer = words("run -n 1 -t 30m --leaks report -- sh ./measure");
    let output = sandbox.provoke(&outer);
    let report = sandbox.provoke(&["report", "./inner", "--json"]).stdout;
    let report: Value = serde_json::from_str(&report).unwrap_or_else(|_| panic!("{output}"));
    assert_eq!(report["variants"][0]["suite"]["trials"], 250, "{output}");
    let row = sandbox.provoke(&["report", "last", "--jsonl"]).stdout;
    let row: Value = serde_json::from_str(row.lines().next().unwrap()).unwrap();
    let memory = row["max_rss_kib"].as_u64().unwrap();
    assert!(memory < 150_000, "{memory} KiB");
    let journal = std::fs::metadata(sandbox.path("inner/events.jsonl")).unwrap();
    assert!(journal.len() < 8_000_000, "{} bytes", journal.len());
}

#[test]
fn names_that_change_from_trial_to_trial_are_reported_and_can_be_joined() {
    let sandbox = Sandbox::new();
    sandbox.write(
        "run-tests",
        "echo 1..2; echo ok 1 - stable; echo \"not ok 2 - draws <object at 0x7f$PROVOKE_TRIAL>\"; exit 1\n",
    );
    let run = ["--cases=tap", "-n", "3"];
    let command = ["--", "sh", "./run-tests"];
    let (_, output) = sandbox.report(&[&run[..], &command].concat());
    let line = "3 tests ran in one trial only, such as draws <object at *>: if such names are one test, --case-strip '0x[0-9a-fA-F]+' joins them";
    assert!(output.stdout.contains(line), "{output}");
    let strip = ["--case-strip", "0x[0-9a-fA-F]+"];
    let (report, output) = sandbox.report(&[&run[..], &strip, &command].concat());
    assert_eq!(
        ends_of(&report),
        json!({"draws <object at >": {"failed": 3}, "stable": {"passed": 3}}),
        "{output}"
    );
}

#[test]
fn two_runs_are_compared_by_their_tests() {
    let sandbox = Sandbox::new();
    sandbox.write(
        "run-tests",
        "mode=$(cat mode)\necho 1..3\necho ok 1 - same\n[ $mode = A ] && echo ok 2 - worse || echo not ok 2 - worse\necho ok 3 - only_$mode\n",
    );
    let args = ["--cases=tap", "-n", "10", "--", "sh", "./run-tests"];
    for mode in ["A", "B"] {
        sandbox.write("mode", mode);
        sandbox.report(&[&["--out", mode], &args[..]].concat());
    }
    let output = sandbox.provoke(&["diff", "./A", "./B"]).stdout;
    let lines: Vec<&str> = output
        .lines()
        .skip_while(|line| !line.contains("tests in both"))
        .take(4)
        .collect();
    assert_eq!(
        lines,
        [
            "  1 of 2 tests in both runs changed significantly (false discovery rate: 5 %)",
            "    worse fails more often in B: 0 of 10 in A, 10 of 10 in B",
            "    only in A: only_A",
            "    only in B: only_B",
        ],
        "{output}"
    );
}
