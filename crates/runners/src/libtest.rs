//! Test harness of Rust, libtest: `cargo test`, or a test binary.
//!
//! A script starts each test binary. It prints the process and the name of the binary, which Cargo writes to stderr, and lists
//! its tests, because stable libtest does not say which tests it starts: it prints a test that runs in parallel with others
//! at its end. If the binary dies, the tests without a result that had started may be the cause: libtest starts its tests
//! in the order of the list, and never more at once than it has threads.

use super::collector::{CaseCollector, join_ends};
use super::command::{RunnerCommand, cargo_subcommand, file_name, split_runner_words};
use super::lines::{Line, read_lines};
use super::nextest_report::parse_panic;
use super::runner::{OrderControl, RUNNER, Runner};
use super::setup::CASES_MARK;
use super::site::parse_site;
use super::text::clip_message;
use super::trial_report::STDOUT;
use provoke_model::{CaseEnd, CaseFailure, CaseName, Signal, Site, Text, TrialCases};
use provoke_words::format_count;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::BufRead;

/// The script that starts a test binary, in the folder of the reports.
const SCRIPT: &str = "libtest.sh";
const SCRIPT_TEXT: &str = r#"# Starts a test binary of Rust: prints its process and its name, and lists its tests in case it dies.
provoke_package=
if [ "$1" = cargo ]; then provoke_package=$CARGO_PKG_NAME; fi
shift
provoke_binary=${1##*/}
# A documentation test. rustdoc sets the variable if it starts the test itself.
if [ "$provoke_binary" = rust_out ]; then RUSTDOC_DOCTEST_BIN_PATH=$1 exec "$@"; fi
provoke_binary=${provoke_binary%-????????????????}
if [ "$PROVOKE_TEST" ]; then
    if [ "$provoke_package" ] && [ "$PROVOKE_TEST_BINARY" != "$provoke_package $provoke_binary" ]; then exit 0; fi
    provoke_program=$1
    shift
    for provoke_word; do
        shift
        case $provoke_word in
        --nocapture | --no-capture | --show-output | --ignored | --include-ignored | --test-threads=*)
            set -- "$@" "$provoke_word" ;;
        esac
    done
    set -- "$provoke_program" "$@" --exact "$PROVOKE_TEST"
    unset PROVOKE_TEST PROVOKE_TEST_BINARY
fi
provoke_threads=${RUST_TEST_THREADS:-$(nproc)}
provoke_last=
for provoke_word; do
    case $provoke_word in --test-threads=*) provoke_threads=${provoke_word#*=} ;; esac
    if [ "$provoke_last" = --test-threads ]; then provoke_threads=$provoke_word; fi
    provoke_last=$provoke_word
done
# Another harness may not know the arguments.
if grep -q RUST_TEST_THREADS "$1" 2>/dev/null; then
    "$@" --list </dev/null >"${0%/*}/$$.tests" 2>/dev/null
fi
printf '\nprovoke: process %s runs the tests of %s %s, at most %s at once\n' \
    $$ "$provoke_binary" "$provoke_package" "$provoke_threads"
exec "$@"
"#;
/// Variables of the script: the name of the only test to run, and the package and the name of its binary.
const TEST_VARIABLE: &str = "PROVOKE_TEST";
const BINARY_VARIABLE: &str = "PROVOKE_TEST_BINARY";
/// Group of documentation tests, which have no binary.
const DOCTEST: &str = "doctest";
/// Flags of Cargo that select targets.
const TARGET_FLAGS: [&str; 11] = [
    "--lib",
    "--bins",
    "--bin",
    "--tests",
    "--test",
    "--examples",
    "--example",
    "--benches",
    "--bench",
    "--all-targets",
    "--doc",
];
/// Bytes of output that are kept of a failed test.
const LONGEST_OUTPUT: usize = 16 << 10;

/// libtest, by its output.
pub(crate) static LIBTEST: Runner = Runner {
    name: "libtest",
    title: "libtest",
    recognize: |words| {
        let is_binary = words.first().is_some_and(|word| is_test_binary(word));
        if is_binary {
            Some(0)
        } else {
            find_cargo_test(words)
        }
    },
    order: OrderControl::Fixed("stable libtest runs its tests in the order of their names"),
    reads_stdout: true,
    adapt: |command, _| {
        let script = format!("{CASES_MARK}/{SCRIPT}");
        remove_quiet(command);
        if runs_cargo(command) {
            let runner = format!(r#"target."cfg(all())".runner=["sh","{script}","cargo"]"#);
            return command.insert(["--config".to_owned(), runner]);
        }
        command.check_no_shell_line()?;
        // Without a known name, the command is a test binary.
        let binary = command.name_end.unwrap_or(0);
        command.insert_at(binary, ["sh".to_owned(), script, "binary".to_owned()]);
        Ok(())
    },
    set_up: |_, _, _, setup| {
        setup
            .files
            .push((SCRIPT.to_owned(), SCRIPT_TEXT.to_owned()));
    },
    select: |case, command| {
        let is_cargo = runs_cargo(command);
        let words = split_runner_words(&command.actor.command).words;
        if case.suite == DOCTEST {
            // rustdoc divides arguments at spaces, so only the last word of the name can select it: its line.
            let line = case.name.rsplit(' ').next().unwrap_or_default();
            command.insert(["--doc".to_owned()])?;
            let separator = (!words.iter().any(|word| word == "--")).then(|| Text::from("--"));
            return command.append(separator.into_iter().chain([Text::from(line)]));
        }
        let suite = case.suite.split('#').next().unwrap_or_default();
        let binary = match suite.split_once("::") {
            Some((package, name)) => format!("{package} {name}"),
            None => format!("{suite} {}", suite.replace('-', "_")),
        };
        command.set_variable(TEST_VARIABLE, case.name.as_str());
        command.set_variable(BINARY_VARIABLE, binary);
        let selects_targets = words.iter().any(|word| {
            let flag = word.split('=').next().unwrap_or_default();
            TARGET_FLAGS.contains(&flag)
        });
        if is_cargo && !selects_targets {
            // Without documentation tests.
            command.insert(["--tests".to_owned()])?;
        }
        Ok(())
    },
    missing_report: Some(
        "libtest reported no tests: the build failed, or the configuration of Cargo names another `runner`",
    ),
    read: |report| {
        let list_tests = |pid: i32| {
            let mut tests = Vec::new();
            report.read_file(&format!("{pid}.tests"), |list| {
                read_lines(list, |line| {
                    tests.extend(parse_listed(line.text).map(str::to_owned));
                });
                TrialCases::default()
            });
            tests
        };
        report.read_file(STDOUT, |output| read_libtest(output, list_tests))
    },
    ..RUNNER
};

/// Returns the index of `test` in `cargo test`.
fn find_cargo_test(words: &[String]) -> Option<usize> {
    let subcommand = cargo_subcommand(words)?;
    let is_test = matches!(
        words.get(subcommand).map(String::as_str),
        Some("test" | "t")
    );
    is_test.then_some(subcommand)
}

/// Returns whether a word is a test binary as Cargo names it: `target/debug/deps/NAME-0123456789abcdef`.
fn is_test_binary(word: &str) -> bool {
    let hash = file_name(word).rsplit_once('-').map(|(_, hash)| hash);
    let is_hash =
        |hash: &str| hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
    word.contains("/deps/") && hash.is_some_and(is_hash)
}

/// Removes a flag with which only dots show the tests that passed.
fn remove_quiet(command: &mut RunnerCommand<'_>) {
    let first = command.name_end.unwrap_or(0) + 1;
    let words = &mut command.actor.command;
    let mut arguments = words.split_off(first.min(words.len()));
    arguments.retain(|word| ![Text::from("-q"), Text::from("--quiet")].contains(word));
    words.append(&mut arguments);
}

/// Returns whether the runner is Cargo, and not a test binary.
fn runs_cargo(command: &RunnerCommand<'_>) -> bool {
    let words = split_runner_words(&command.actor.command).words;
    let runner_words = command.name_end.map_or(0, |end| end + 1);
    let mut names = words.iter().take(runner_words);
    names.any(|word| file_name(word) == "cargo")
}

/// Parses a line of `--list`: `tests::adds: test`.
fn parse_listed(line: &str) -> Option<&str> {
    let name = line.strip_suffix(": test");
    name.or_else(|| line.strip_suffix(": benchmark"))
}

/// The test binary that is running, or whose documentation tests are.
#[derive(Default)]
struct TestBinary {
    suite: String,
    pid: Option<i32>,
    /// Tests that run at once, at most.
    threads: usize,
    /// Its tests, in the order of their starts.
    listed: Vec<String>,
    names: HashSet<String>,
    /// Tests with a result.
    ended: HashSet<String>,
    /// Tests that started, according to the output.
    started: Vec<String>,
    /// The test whose name was printed in front of its output.
    open: Option<String>,
    /// Tests that ended, and whose result is not in the output.
    unclear: Vec<String>,
    /// Test runs that have no summary: its own, and those in the output of its tests.
    open_runs: usize,
    /// Whether it printed its summary.
    has_summary: bool,
}

/// The part of an output.
#[derive(Default, PartialEq, Eq)]
enum Part {
    #[default]
    Results,
    /// After the results: the output of failed tests, and their names.
    Failures,
}

#[derive(Default)]
struct LibtestReader {
    collector: CaseCollector,
    binary: TestBinary,
    /// How many binaries have the same package and name.
    suites: BTreeMap<String, usize>,
    part: Part,
    /// The result at the end of the line before, which may follow output of a test.
    last_end: Option<CaseEnd>,
    /// A failed test whose output is being read.
    failed: Option<(String, String)>,
    /// Failed tests of the part after the results.
    failures: Vec<(String, CaseEnd, Option<CaseFailure>)>,
}

/// A line about a test.
enum TestLine<'a> {
    /// It started, and its output follows, as the text does.
    Start(&'a str, &'a str),
    End(&'a str, CaseEnd),
    /// It has been running for a minute.
    Slow(&'a str),
}

/// Reads the output of test binaries that the script started, one after the other. `list_tests` returns the tests of a
/// process.
///
/// A test that may have been running when its process died has the end [`CaseEnd::Unknown`].
pub fn read_libtest(input: impl BufRead, list_tests: impl Fn(i32) -> Vec<String>) -> TrialCases {
    let mut reader = LibtestReader::default();
    let complaint = read_lines(input, |line| reader.read_line(line, &list_tests));
    reader.end_binary();
    if let Some(complaint) = complaint {
        reader.collector.complain(complaint);
    }
    let mut cases = reader.collector.finish();
    sort_by_start(&mut cases);
    cases
}

/// Puts the results in the order of their starts. Tests that ran in parallel are printed in the order of their ends.
fn sort_by_start(cases: &mut TrialCases) {
    let planned = cases.planned.iter().flatten();
    let positions: HashMap<CaseName, usize> = planned.cloned().zip(0..).collect();
    cases.results.sort_by_cached_key(|result| {
        let position = positions.get(&result.case).copied();
        (position.unwrap_or(usize::MAX), result.case.name.clone())
    });
}

impl LibtestReader {
    fn read_line(&mut self, line: &Line<'_>, list_tests: &impl Fn(i32) -> Vec<String>) {
        let text = line.text;
        if let Some(binary) = self.parse_header(text) {
            self.end_binary();
            self.binary = binary;
            self.start_binary(list_tests);
        } else if is_start_of_run(text) {
            self.binary.open_runs += 1;
        } else if text.starts_with("test result: ") && self.binary.open_runs > 1 {
            self.binary.open_runs -= 1;
        } else if self.binary.is_summary(text) {
            if self.part == Part::Failures {
                self.last_end = None;
            }
            self.close_open_test();
            self.end_failures();
            self.read_summary();
        } else if let Some(test_line) = self.binary.parse_line(text)
            && (self.part == Part::Results || self.binary.is_outstanding(test_line.name()))
        {
            // If a result follows the failures, a test printed what looked like them.
            self.part = Part::Results;
            self.failed = None;
            self.failures.clear();
            self.read_test_line(&test_line);
        } else {
            if self.part == Part::Failures {
                self.read_failure(text);
            } else if text == "failures:" {
                self.part = Part::Failures;
            }
            self.last_end = parse_last_end(text);
        }
    }

    /// Parses the line of the script. Two binaries of a package with the same name are numbered.
    fn parse_header(&mut self, line: &str) -> Option<TestBinary> {
        let rest = line.strip_prefix("provoke: process ")?;
        let (pid, rest) = rest.split_once(" runs the tests of ")?;
        let (names, threads) = rest.strip_suffix(" at once")?.split_once(", at most ")?;
        let (name, package) = names.split_once(' ')?;
        let suite = if package.is_empty() || name == package.replace('-', "_") {
            package.to_owned()
        } else {
            format!("{package}::{name}")
        };
        let count = self.suites.entry(suite.clone()).or_default();
        *count += 1;
        Some(TestBinary {
            suite: if *count > 1 {
                format!("{suite}#{count}")
            } else {
                suite
            },
            pid: pid.parse().ok(),
            threads: threads.parse().unwrap_or(usize::MAX),
            ..TestBinary::default()
        })
    }

    fn start_binary(&mut self, list_tests: &impl Fn(i32) -> Vec<String>) {
        let binary = &mut self.binary;
        binary.listed = binary.pid.map(list_tests).unwrap_or_default();
        binary.names = binary.listed.iter().cloned().collect();
        if !binary.listed.is_empty() {
            let names = binary.listed.iter().map(|name| binary.case_name(name));
            self.collector.plan_cases(names);
        }
    }

    fn read_test_line(&mut self, line: &TestLine<'_>) {
        if is_doctest(line.name()) && self.binary.pid.is_some() {
            self.end_binary();
            self.binary = TestBinary::default();
        }
        match *line {
            TestLine::Start(name, output) => {
                self.close_open_test();
                self.binary.open = Some(name.to_owned());
                self.last_end = parse_last_end(output);
            }
            TestLine::End(name, end) => {
                self.close_open_test();
                self.end_test(name, end, None);
            }
            TestLine::Slow(name) => self.binary.started.push(name.to_owned()),
        }
    }

    /// Ends the test whose output was read. Its result is at the end of the line before.
    fn close_open_test(&mut self) {
        if let Some(name) = self.binary.open.take() {
            match self.last_end.take() {
                Some(end) => self.end_test(&name, end, None),
                None => {
                    self.binary.ended.insert(name.clone());
                    self.binary.unclear.push(name);
                }
            }
        }
    }

    fn end_test(&mut self, name: &str, end: CaseEnd, failure: Option<CaseFailure>) {
        let case = self.binary.case_name(name);
        if let Some((position, _)) = self.collector.find_or_insert(&case) {
            let result = self.collector.result_mut(position);
            join_ends(result, end, failure);
        }
        self.binary.ended.insert(name.to_owned());
    }

    fn read_summary(&mut self) {
        self.binary.has_summary = true;
        self.binary.open_runs = 0;
        // The names of all failed tests were listed before.
        for name in std::mem::take(&mut self.binary.unclear) {
            if self
                .collector
                .position_of(&self.binary.case_name(&name))
                .is_none()
            {
                self.end_test(&name, CaseEnd::Passed, None);
            }
        }
    }

    /// Reads a line after the results: `---- NAME stdout ----`, output, or the name of a failed test.
    fn read_failure(&mut self, text: &str) {
        let section = text
            .strip_prefix("---- ")
            .and_then(|rest| rest.strip_suffix(" stdout ----"));
        if let Some(name) = section.filter(|name| self.binary.has_result(name)) {
            self.end_failure();
            self.failed = Some((name.to_owned(), String::new()));
        } else if text == "failures:" {
            self.end_failure();
        } else if let Some((_, output)) = &mut self.failed {
            // The panic comes after all output of the test.
            if output.len() + text.len() >= LONGEST_OUTPUT && text.contains(" panicked at ") {
                output.clear();
            }
            if output.len() + text.len() < LONGEST_OUTPUT {
                output.push_str(text);
                output.push('\n');
            }
        } else if let Some(name) = text
            .strip_prefix("    ")
            .filter(|name| self.binary.has_result(name))
        {
            self.failures.push((name.to_owned(), CaseEnd::Failed, None));
        }
    }

    fn end_failure(&mut self) {
        if let Some((name, output)) = self.failed.take() {
            let (end, failure) = judge_output(&output, doctest_site(&name));
            self.failures.push((name, end, Some(failure)));
        }
    }

    /// Ends the part after the results.
    fn end_failures(&mut self) {
        self.end_failure();
        self.part = Part::Results;
        for (name, end, failure) in std::mem::take(&mut self.failures) {
            self.end_test(&name, end, failure);
        }
    }

    /// Finds the tests that may have been running when the binary ended.
    fn end_binary(&mut self) {
        if self.binary.has_outstanding() {
            // No result follows failures, so a test printed them before its process died.
            self.failed = None;
            self.failures.clear();
        }
        self.end_failures();
        let binary = &mut self.binary;
        let running: Vec<String> = if binary.has_summary || binary.open_runs == 0 {
            Vec::new()
        } else if let Some(open) = binary.open.take() {
            vec![open]
        } else {
            binary.find_running()
        };
        let missing = binary.listed.len().saturating_sub(binary.ended.len());
        if binary.has_summary && missing > 0 {
            let tests = format_count(missing as u64, "test");
            self.collector.complain(format!(
                "the output has no result of {tests}; leave out `--quiet`"
            ));
        }
        for name in running {
            let case = self.binary.case_name(&name);
            if let Some((position, _)) = self.collector.find_or_insert(&case) {
                self.collector.result_mut(position).pid = self.binary.pid;
            }
        }
    }
}

impl TestLine<'_> {
    fn name(&self) -> &str {
        match *self {
            TestLine::Start(name, _) | TestLine::End(name, _) | TestLine::Slow(name) => name,
        }
    }
}

impl TestBinary {
    /// Returns whether the result of a test was read, or may be in the output before the current line.
    fn has_result(&self, name: &str) -> bool {
        self.ended.contains(name) || self.open.as_deref() == Some(name)
    }

    /// Returns whether a listed test has no result.
    fn is_outstanding(&self, name: &str) -> bool {
        self.names.contains(name) && !self.has_result(name)
    }

    fn has_outstanding(&self) -> bool {
        self.listed.iter().any(|name| self.is_outstanding(name))
    }

    fn case_name(&self, name: &str) -> CaseName {
        CaseName {
            suite: if is_doctest(name) {
                DOCTEST.to_owned()
            } else {
                self.suite.clone()
            },
            name: name.to_owned(),
        }
    }

    /// Returns whether a text is the name of a test: output may contain lines of other test runs.
    fn is_test(&self, name: &str) -> bool {
        if is_doctest(name) {
            return true;
        }
        if self.listed.is_empty() {
            self.pid.is_some() && !name.is_empty() && !name.contains(' ')
        } else {
            self.names.contains(name)
        }
    }

    /// Returns whether a line is the summary of this binary: output may contain that of another one.
    fn is_summary(&self, line: &str) -> bool {
        let Some(counts) = line.strip_prefix("test result: ") else {
            return false;
        };
        let words: Vec<&str> = counts.split([' ', ';']).collect();
        let tests = words.windows(2).filter_map(|pair| match pair {
            [count, "passed" | "failed" | "ignored" | "measured"] => count.parse::<usize>().ok(),
            _ => None,
        });
        self.listed.is_empty() || tests.sum::<usize>() == self.listed.len()
    }

    /// Parses a line about a test. Output without a line end may be in front of it.
    fn parse_line<'a>(&self, line: &'a str) -> Option<TestLine<'a>> {
        line.match_indices("test ").find_map(|(index, mark)| {
            let rest = &line[index + mark.len()..];
            if let Some(name) = rest.strip_suffix(" has been running for over 60 seconds") {
                return self.is_test(name).then_some(TestLine::Slow(name));
            }
            let (name, end) = rest.split_once(" ... ")?;
            let name = [" - should panic", " - compile fail", " - compile"]
                .iter()
                .find_map(|suffix| name.strip_suffix(suffix))
                .unwrap_or(name);
            self.is_test(name).then(|| match parse_end(end) {
                Some(end) => TestLine::End(name, end),
                None => TestLine::Start(name, end),
            })
        })
    }

    /// Returns the tests without a result that had started. The next test starts as soon as one ends.
    fn find_running(&self) -> Vec<String> {
        let ended = self.listed.iter().filter(|name| self.ended.contains(*name));
        let started = ended.count().saturating_add(self.threads);
        let known = self
            .listed
            .iter()
            .take(if self.threads > 1 { started } else { 0 });
        let mut running: Vec<String> = known.chain(&self.started).cloned().collect();
        running.retain(|name| !self.ended.contains(name));
        running.dedup();
        running
    }
}

/// Returns whether a name is that of a documentation test.
fn is_doctest(name: &str) -> bool {
    doctest_site(name).is_some()
}

/// Returns the place of a documentation test from its name: `src/lib.rs - add (line 4)`.
fn doctest_site(name: &str) -> Option<Site> {
    let (file, rest) = name.split_once(" - ")?;
    let (_, line) = rest.strip_suffix(')')?.rsplit_once("(line ")?;
    Some(Site {
        file: file.to_owned(),
        line: line.parse().ok()?,
        ..Site::default()
    })
}

/// Returns whether a test run begins: `running 2 tests`.
fn is_start_of_run(line: &str) -> bool {
    let words = line.strip_prefix("running ");
    words.is_some_and(|words| words.ends_with(" test") || words.ends_with(" tests"))
}

/// Parses the result behind the name of a test.
fn parse_end(text: &str) -> Option<CaseEnd> {
    match text.split([' ', ',']).next()? {
        "ok" | "bench:" => Some(CaseEnd::Passed),
        "FAILED" => Some(CaseEnd::Failed),
        "ignored" => Some(CaseEnd::Skipped),
        _ => None,
    }
}

/// Parses the result at the end of a line with output.
fn parse_last_end(line: &str) -> Option<CaseEnd> {
    [("ok", CaseEnd::Passed), ("FAILED", CaseEnd::Failed)]
        .into_iter()
        .find_map(|(word, end)| line.ends_with(word).then_some(end))
}

/// Returns how a failed test ended, according to its output.
fn judge_output(output: &str, doctest: Option<Site>) -> (CaseEnd, CaseFailure) {
    let note = output
        .lines()
        .find_map(|line| line.strip_prefix("note: test did not panic as expected at "));
    if let Some(place) = note {
        let failure = CaseFailure {
            message: "the test did not panic as expected".to_owned(),
            site: place
                .rsplit_once(':')
                .and_then(|(site, _)| parse_site(site)),
            ..CaseFailure::default()
        };
        return (CaseEnd::Failed, failure);
    }
    if let Some((_, text)) = output.split_once("note: panic did not contain expected string\n") {
        let failure = CaseFailure {
            message: clip_message(&format!(
                "the panic did not contain the expected string\n{text}"
            )),
            ..CaseFailure::default()
        };
        return (CaseEnd::Failed, failure);
    }
    // Each documentation test has its own process.
    let signal = output
        .strip_prefix("Test executable failed (signal: ")
        .filter(|_| doctest.is_some())
        .and_then(|rest| Signal::from_name(rest.split([' ', ',']).next()?));
    let mut failure = parse_panic(output).unwrap_or_else(|| CaseFailure {
        message: clip_message(output),
        ..CaseFailure::default()
    });
    // A panic of a documentation test is in a generated file.
    failure.site = doctest.or(failure.site);
    failure.signal = signal;
    let end = if signal.is_some() {
        CaseEnd::Crashed
    } else {
        CaseEnd::Failed
    };
    (end, failure)
}
