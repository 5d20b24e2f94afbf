//! Reader of the lines of `go test -json`.
//!
//! Each package is one process. A panic ends the process: the test that was running has a start and no end, parallel
//! tests that were paused did not run their bodies, and the remaining tests of the package do not appear.

use super::attribution::is_function_of;
use super::collector::{CaseCollector, join_ends};
use super::command::{REGEX, begins_with, escape};
use super::lines::{Line, read_lines};
use super::runner::{OrderControl, RUNNER, Runner};
use super::site::parse_site;
use super::test_output::TestOutput;
use super::text::clip_message;
use super::trial_report::STDOUT;
use provoke_model::{CaseEnd, CaseFailure, CaseName, CaseOrder, Site, TrialCases};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::BufRead;
use std::path::Path;
use std::time::Duration;

/// Packages whose end has not been read.
const MOST_PACKAGES: usize = 10_000;
/// Bytes of output that are kept of a crash.
const LONGEST_CRASH: usize = 16 << 10;

/// `go test`, by its JSON lines.
pub(crate) static GO: Runner = Runner {
    name: "go",
    title: "go test",
    recognize: |words| begins_with(words, "go", &["test"]).then_some(1),
    order: OrderControl::Seed,
    reads_stdout: true,
    adapt: |command, place| {
        // With the same files, go reports the result of an earlier run.
        let mut words = vec!["-json".to_owned(), "-count=1".to_owned()];
        match place.order {
            Some(CaseOrder::OfTrial) => words.push("-shuffle={seed}".to_owned()),
            Some(CaseOrder::OfSeed(seed)) => words.push(format!("-shuffle={seed}")),
            Some(CaseOrder::Reverse) | None => {}
        }
        let given: Vec<String> = command
            .actor
            .command
            .iter()
            .map(ToString::to_string)
            .collect();
        let name_of = |word: &str| {
            let name = word.trim_start_matches('-').split('=').next();
            name.unwrap_or_default().to_owned()
        };
        words.retain(|word| {
            !given
                .iter()
                .any(|own| own.starts_with('-') && name_of(own) == name_of(word))
        });
        command.insert(words)
    },
    select: |case, command| {
        command.remove_flag(&["-run", "--run", "-test.run"]);
        let parts = case.name.split('/');
        let patterns: Vec<String> = parts
            .map(|part| format!("^{}$", escape(part, REGEX)))
            .collect();
        command.insert([format!("-run={}", patterns.join("/"))])
    },
    read: |report| report.read_file(STDOUT, read_go),
    ..RUNNER
};

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "PascalCase")]
struct GoEvent {
    action: String,
    package: String,
    test: String,
    output: String,
    elapsed: f64,
    import_path: String,
}

/// A test that started and has no end yet.
#[derive(Default)]
struct OpenTest {
    is_paused: bool,
    output: TestOutput,
    /// The end in the output of another test. Output without a line end hides it from `go test`.
    hidden_end: Option<CaseEnd>,
}

#[derive(Default)]
struct GoPackage {
    open: BTreeMap<String, OpenTest>,
    /// Failed tests whose output contains a panic.
    panicked: Vec<String>,
    /// Everything from the panic on.
    crash: String,
    /// Whether the process reported its result, and did not die.
    has_result: bool,
}

#[derive(Default)]
struct GoReader {
    collector: CaseCollector,
    packages: BTreeMap<String, GoPackage>,
    repeated: usize,
}

/// Reads the output of `go test -json`. Other lines, such as messages of the compiler, are ignored.
pub fn read_go(input: impl BufRead) -> TrialCases {
    let mut reader = GoReader::default();
    let complaint = read_lines(input, |line| reader.read_line(line));
    if let Some(complaint) = complaint {
        reader.collector.complain(complaint);
    }
    // The packages whose end is missing: paused tests did not run, the others were running.
    for package in reader.packages.values_mut() {
        package.has_result = true;
    }
    let names: Vec<String> = reader.packages.keys().cloned().collect();
    for name in names {
        reader.end_package(&name);
    }
    if reader.repeated > 0 {
        reader.collector.complain(
            "tests ran several times in this trial: a case fails if any of its runs fails; use `-count=1`",
        );
    }
    reader.collector.finish()
}

impl GoReader {
    fn read_line(&mut self, line: &Line<'_>) {
        let Ok(event) = serde_json::from_str::<GoEvent>(line.text) else {
            if let Some(package) = failed_build(line.text) {
                self.complain_about_build(package);
            }
            return;
        };
        if self.packages.len() >= MOST_PACKAGES && !self.packages.contains_key(&event.package) {
            self.collector.complain(format!(
                "the trial has more than {MOST_PACKAGES} packages at once; the rest is ignored"
            ));
            return;
        }
        match (event.action.as_str(), event.test.is_empty()) {
            ("build-fail", _) => self.complain_about_build(&event.import_path),
            ("output", _) => self.add_output(&event),
            ("run", false) => self.start_test(&event),
            ("pause", false) => self.set_paused(&event, true),
            ("cont", false) => self.set_paused(&event, false),
            ("pass", false) => self.end_test(&event, CaseEnd::Passed),
            ("fail", false) => self.end_test(&event, CaseEnd::Failed),
            ("skip", false) => self.end_test(&event, CaseEnd::Skipped),
            ("pass" | "fail" | "skip", true) => self.end_package(&event.package),
            _ => {}
        }
    }

    fn complain_about_build(&mut self, package: &str) {
        // `go` names the test variant: `example.com/p [example.com/p.test]`.
        let package = package.split(' ').next().unwrap_or_default();
        self.collector.complain(format!(
            "the package `{package}` cannot be built: its tests did not run"
        ));
    }

    fn package(&mut self, event: &GoEvent) -> &mut GoPackage {
        self.packages.entry(event.package.clone()).or_default()
    }

    fn start_test(&mut self, event: &GoEvent) {
        if let Some((position, is_new)) = self.collector.find_or_insert(&case_name(event)) {
            self.collector.result_mut(position).attempts += 1;
            self.repeated += usize::from(!is_new);
            self.package(event)
                .open
                .insert(event.test.clone(), OpenTest::default());
        }
    }

    fn set_paused(&mut self, event: &GoEvent, is_paused: bool) {
        if let Some(test) = self.package(event).open.get_mut(&event.test) {
            test.is_paused = is_paused;
        }
    }

    fn add_output(&mut self, event: &GoEvent) {
        if let Some(package) = failed_build(&event.output) {
            self.complain_about_build(package);
        }
        let package = self.package(event);
        let line = event.output.trim_end_matches('\n');
        if event.test.is_empty() && matches!(line, "PASS" | "FAIL") {
            package.has_result = true;
        }
        let trimmed = line.trim_start();
        let is_crash_start = ["panic: ", "fatal error: ", "SIG"]
            .iter()
            .any(|start| trimmed.starts_with(start));
        // A line that begins a crash may only be a log line; the end of the package decides.
        if is_crash_start && !package.crash.contains("\ngoroutine ") {
            package.crash.clear();
        }
        if (is_crash_start || !package.crash.is_empty())
            && package.crash.len() + event.output.len() < LONGEST_CRASH
        {
            package.crash.push_str(&event.output);
        }
        if let Some((end, name)) = parse_end(line)
            && let Some(test) = package.open.get_mut(name)
        {
            test.hidden_end = Some(end);
        }
        if let Some(test) = package.open.get_mut(&event.test)
            && !trimmed.starts_with("=== ")
            && !trimmed.starts_with("--- ")
        {
            test.output.push(&event.output);
        }
    }

    fn end_test(&mut self, event: &GoEvent, end: CaseEnd) {
        let package = self.package(event);
        let test = package.open.remove(&event.test).unwrap_or_default();
        let has_panic = test
            .output
            .text()
            .lines()
            .any(|line| line.trim_start().starts_with("panic: "));
        if end == CaseEnd::Failed && has_panic {
            package.panicked.push(event.test.clone());
        }
        let Some((position, _)) = self.collector.find_or_insert(&case_name(event)) else {
            return;
        };
        let failure = (end != CaseEnd::Passed).then(|| describe_output(&test.output));
        let result = self.collector.result_mut(position);
        result.elapsed += Duration::try_from_secs_f64(event.elapsed).unwrap_or_default();
        join_ends(
            result,
            end,
            failure.filter(|failure| *failure != CaseFailure::default()),
        );
    }

    /// Decides about the tests of a package that have no end.
    fn end_package(&mut self, name: &str) {
        let Some(mut package) = self.packages.remove(name) else {
            return;
        };
        let open = std::mem::take(&mut package.open);
        let has_died = !package.has_result;
        let is_timeout = package.crash.contains("panic: test timed out after");
        // A test waits for its subtests, so only the innermost running tests count.
        let running: Vec<&String> = open
            .iter()
            .filter(|(_, test)| !test.is_paused && test.hidden_end.is_none())
            .map(|(name, _)| name)
            .collect();
        let innermost: Vec<&String> = running
            .iter()
            .copied()
            .filter(|test| {
                let subtests = format!("{test}/");
                !running.iter().any(|other| other.starts_with(&subtests))
            })
            .collect();
        let crash = parse_crash(&package.crash);
        let is_on_stack = |test: &str| {
            let case = CaseName::without_suite(test);
            let functions = crash.functions.iter();
            functions
                .clone()
                .any(|function| is_function_of(function, &case))
        };
        let mut ended: Vec<&String> = if has_died {
            package.panicked.iter().collect()
        } else {
            Vec::new()
        };
        if has_died && ended.is_empty() {
            ended.clone_from(&innermost);
            if ended.len() > 1 && is_timeout {
                ended.retain(|test| is_listed_as_running(&package.crash, test));
            } else if ended.len() > 1 {
                ended.retain(|test| is_on_stack(test));
            }
            // Several tests are as likely, and none is blamed.
            if ended.len() > 1 && !is_timeout {
                ended.clear();
            }
        }
        for test in ended.iter().copied() {
            self.set_end(name, test, |result| {
                let end = if is_timeout {
                    CaseEnd::TimedOut
                } else {
                    CaseEnd::Crashed
                };
                result.end = end;
                let mut failure = crash.failure.clone();
                if is_timeout {
                    // The stack is that of the timer.
                    "timeout".clone_into(&mut failure.kind);
                    failure.site = None;
                }
                if failure.message.is_empty() {
                    "the process of the package ended while the test was running"
                        .clone_into(&mut failure.message);
                }
                result.failure = Some(failure);
            });
        }
        for (test, state) in &open {
            if ended.contains(&test) {
                continue;
            }
            self.set_end(name, test, |result| match state.hidden_end {
                Some(end) => {
                    let failure = describe_output(&state.output);
                    let failure = (end != CaseEnd::Passed && failure != CaseFailure::default())
                        .then_some(failure);
                    join_ends(result, end, failure);
                }
                None if state.is_paused => result.end = CaseEnd::NotRun,
                None => result.end = CaseEnd::Unknown,
            });
        }
    }

    fn set_end(
        &mut self,
        package: &str,
        test: &str,
        change: impl FnOnce(&mut provoke_model::CaseResult),
    ) {
        let case = CaseName {
            suite: package.to_owned(),
            name: test.to_owned(),
        };
        if let Some((position, _)) = self.collector.find_or_insert(&case) {
            change(self.collector.result_mut(position));
        }
    }
}

fn case_name(event: &GoEvent) -> CaseName {
    CaseName {
        suite: event.package.clone(),
        name: event.test.clone(),
    }
}

/// Returns the package in the line `FAIL`, tab, `example.com/p [build failed]`.
fn failed_build(line: &str) -> Option<&str> {
    let rest = line.trim_end().strip_prefix("FAIL\t")?;
    rest.strip_suffix(" [build failed]")
        .or_else(|| rest.strip_suffix(" [setup failed]"))
}

/// Returns the end and the test in `--- PASS: TestName (0.02s)`, also after other output on the line.
fn parse_end(line: &str) -> Option<(CaseEnd, &str)> {
    let ends = [
        ("--- PASS: ", CaseEnd::Passed),
        ("--- FAIL: ", CaseEnd::Failed),
        ("--- SKIP: ", CaseEnd::Skipped),
    ];
    ends.into_iter().find_map(|(mark, end)| {
        let (_, rest) = line.rsplit_once(mark)?;
        let (name, time) = rest.rsplit_once(" (")?;
        time.ends_with("s)").then_some((end, name))
    })
}

/// Reads the lines that a test logged: `    p_test.go:4: got 1`. The message of an output that is too long to be kept begins
/// with the last of these lines.
fn describe_output(output: &TestOutput) -> CaseFailure {
    let text = output.text();
    let mut site = None;
    let mut message = Vec::new();
    for line in text.lines() {
        let line = line.strip_prefix("    ").unwrap_or(line);
        let logged = line
            .split_once(": ")
            .and_then(|(place, text)| Some((parse_site(place)?, text)))
            .filter(|(place, _)| Path::new(&place.file).extension() == Some(OsStr::new("go")));
        match logged {
            Some((place, text)) => {
                // The last line that is logged is usually the failure.
                site = Some(place);
                if output.is_cut() {
                    message.clear();
                }
                message.push(text);
            }
            None => message.push(line),
        }
    }
    CaseFailure {
        message: clip_message(&message.join("\n")),
        site,
        ..CaseFailure::default()
    }
}

/// A panic: its message, and the functions of the goroutine that panicked.
#[derive(Default)]
struct GoCrash {
    failure: CaseFailure,
    functions: Vec<String>,
}

fn parse_crash(text: &str) -> GoCrash {
    let mut crash = GoCrash::default();
    let mut lines = text.lines();
    let Some(first) = lines.next() else {
        return crash;
    };
    let (kind, message) = first
        .trim_start()
        .split_once(": ")
        .unwrap_or(("", first.trim_start()));
    crash.failure.kind = clip_message(kind);
    crash.failure.message = clip_message(message.trim_end_matches(" [recovered]"));
    let mut goroutines = 0;
    let mut function: Option<&str> = None;
    for line in lines {
        if line.starts_with("goroutine ") {
            goroutines += 1;
        }
        if goroutines != 1 || line.starts_with("goroutine ") {
            continue;
        }
        if let Some(place) = line.strip_prefix('\t') {
            let place = place.split(' ').next().and_then(parse_site);
            if let (Some(name), Some(place)) = (function.take(), place)
                && crash.failure.site.is_none()
                && !is_of_runtime(name)
            {
                let name = name.rsplit_once('(').map_or(name, |(name, _)| name);
                crash.failure.site = Some(Site {
                    function: Some(name.to_owned()),
                    ..place
                });
            }
        } else if !line.is_empty() {
            let name = line.strip_prefix("created by ").unwrap_or(line);
            crash.functions.push(name.to_owned());
            function = Some(name);
        }
    }
    crash
}

/// Returns whether a function belongs to the runtime or to the package `testing`.
fn is_of_runtime(function: &str) -> bool {
    ["runtime.", "testing.", "panic("]
        .iter()
        .any(|prefix| function.starts_with(prefix))
}

/// Returns whether a timeout lists a test: `running tests:`, then an indented line `TestName (1s)`.
fn is_listed_as_running(crash: &str, test: &str) -> bool {
    let Some((_, list)) = crash.split_once("running tests:\n") else {
        return false;
    };
    let lines = list.lines().take_while(|line| line.starts_with('\t'));
    lines
        .filter_map(|line| line.trim().rsplit_once(" ("))
        .any(|(name, _)| name == test)
}
