//! Reader of streams: one JSON object per line, written while the cases run.
//!
//! The README of this crate documents the lines. A stream shows more than a report at the end: the case that was running
//! when the process died.

use super::INTERRUPTED;
use super::collector::{CaseCollector, describe_retries, join_ends};
use super::lines::{Line, read_lines};
use super::runner::{RUNNER, Runner, RunnerArgument};
use super::text::clip_message;
use provoke_model::{CaseEnd, CaseFailure, CaseName, Site, TrialCases};
use provoke_words as words;
use serde::Deserialize;
use std::io::BufRead;
use std::time::Duration;

/// Environment variable that names the file of the stream.
pub const STREAM_VARIABLE: &str = "PROVOKE_CASES";
/// Name of a stream in the folder of the reports.
pub(crate) const STREAM: &str = "stream.jsonl";

/// Any program, by JSON lines in a file.
pub(crate) static JSONL: Runner = Runner {
    name: "jsonl",
    title: "the JSON lines",
    argument: Some(RunnerArgument {
        mark: "FILE",
        about: None,
        required: None,
        in_trial: "{dir}/tests",
    }),
    set_up: |plan, _, _, setup| {
        if plan.runner.report_path().is_none() {
            setup.add_path_variable(STREAM_VARIABLE, STREAM);
        }
    },
    read: |report| match &report.pattern {
        Some(path) => report.read_fresh_files(std::slice::from_ref(path), read_stream),
        None => report.read_file(STREAM, read_stream),
    },
    missing_report: Some("the JSON lines show no tests"),
    ..RUNNER
};

/// One line of a stream. Unknown fields are ignored.
#[derive(Deserialize, Default)]
#[serde(default)]
struct StreamLine {
    event: String,
    suite: String,
    case: String,
    cases: Vec<String>,
    pid: Option<i32>,
    time: Option<f64>,
    seconds: Option<f64>,
    outcome: String,
    kind: Option<String>,
    message: Option<String>,
    file: Option<String>,
    line: Option<u32>,
    function: Option<String>,
    retried: bool,
    repeat: Option<u32>,
    text: String,
}

impl StreamLine {
    fn case_name(&self) -> CaseName {
        self.name_in_suite(&self.case)
    }

    fn name_in_suite(&self, name: &str) -> CaseName {
        CaseName {
            suite: self.suite.clone(),
            name: name.to_owned(),
        }
    }

    fn failure(&self) -> Option<CaseFailure> {
        let site = self.file.as_ref().map(|file| Site {
            file: file.clone(),
            line: self.line.unwrap_or_default(),
            function: self.function.clone().filter(|name| !name.is_empty()),
            ..Site::default()
        });
        let failure = CaseFailure {
            kind: clip_message(self.kind.as_deref().unwrap_or_default()),
            message: clip_message(self.message.as_deref().unwrap_or_default()),
            site,
            signal: None,
        };
        (failure != CaseFailure::default()).then_some(failure)
    }

    /// Returns the end that the outcome means; `None` if the outcome is unknown.
    fn end(&self) -> Option<CaseEnd> {
        let message = self.message.as_deref().unwrap_or_default();
        Some(match self.outcome.as_str() {
            "passed" => CaseEnd::Passed,
            // pytest-timeout reports a failure.
            "failed" if message.contains("from pytest-timeout") => CaseEnd::TimedOut,
            "failed" => CaseEnd::Failed,
            "error" => CaseEnd::Error,
            "skipped" => CaseEnd::Skipped,
            "xfailed" => CaseEnd::ExpectedFailure,
            "xpassed" => CaseEnd::UnexpectedPass,
            "timed_out" => CaseEnd::TimedOut,
            "crashed" => CaseEnd::Crashed,
            _ => return None,
        })
    }
}

/// The state of a case beside its result.
#[derive(Default)]
struct Progress {
    is_running: bool,
    /// Whether the present attempt has an outcome.
    has_outcome: bool,
    started: Option<f64>,
    first_result: FirstResult,
    repetition: Repetition,
    /// Whether the next attempt is counted already.
    is_counted: bool,
}

/// The result of the first attempt, which counts if the runner retries the case.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum FirstResult {
    /// Each attempt may still change the result.
    #[default]
    Open,
    /// The process ended during it, and the runner started the case again: the crash is reported later.
    Lost,
    /// Later attempts are not read.
    Final,
}

/// Why a case ran several times.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Repetition {
    #[default]
    None,
    /// It was asked for.
    Repeated,
    /// It failed.
    Retried,
}

impl Progress {
    /// Notes that the case runs several times. A retry weighs more.
    fn repeat(&mut self, repetition: Repetition) {
        self.repetition = self.repetition.max(repetition);
    }
}

#[derive(Default)]
struct StreamReader {
    collector: CaseCollector,
    /// In the order of the results.
    progress: Vec<Progress>,
    bad_lines: u64,
    first_bad_line: Option<(u64, String)>,
    lines: u64,
}

/// Reads the stream of the pytest plugin, or of any program that writes the same lines.
///
/// A case that was still running at the end of the stream has the end [`CaseEnd::Unknown`]. If the runner retried a case,
/// the first attempt counts. If a case ran several times for another reason, its worst end counts.
pub fn read_stream(input: impl BufRead) -> TrialCases {
    let mut reader = StreamReader::default();
    let complaint = read_lines(input, |line| reader.read_line(line));
    if let Some(complaint) = complaint {
        reader.collector.complain(complaint);
    }
    reader.finish()
}

impl StreamReader {
    fn read_line(&mut self, line: &Line<'_>) {
        self.lines += 1;
        if line.text.trim().is_empty() {
            return;
        }
        match serde_json::from_str::<StreamLine>(line.text) {
            Ok(parsed) => self.apply_line(&parsed),
            Err(error) => {
                self.bad_lines += 1;
                let reason = if line.is_whole {
                    error.to_string()
                } else {
                    "it has no end".to_owned()
                };
                self.first_bad_line.get_or_insert((self.lines, reason));
            }
        }
    }

    fn apply_line(&mut self, line: &StreamLine) {
        match line.event.as_str() {
            "planned" => {
                let names = line.cases.iter().map(|name| line.name_in_suite(name));
                self.collector.plan_cases(names);
            }
            "start" => self.start_case(line),
            "result" => {
                if let Some(position) = self.find_case(line) {
                    self.add_outcome(position, line);
                }
            }
            "end" => self.end_case(line),
            "note" => self.collector.complain(line.text.as_str()),
            "finish" => self.interrupt_cases(line.pid),
            _ => {}
        }
    }

    /// Returns the position of a case. A case without a start line starts here.
    fn find_case(&mut self, line: &StreamLine) -> Option<usize> {
        if line.case.is_empty() {
            self.collector
                .complain("a line of the stream does not name its case");
            return None;
        }
        let (position, is_new) = self.collector.find_or_insert(&line.case_name())?;
        if is_new {
            self.progress.push(Progress::default());
            let result = self.collector.result_mut(position);
            result.attempts = 1;
            // The controller of parallel workers reports a crash, but did not run the case.
            if line.outcome != "crashed" {
                result.pid = line.pid;
            }
        }
        Some(position)
    }

    fn start_case(&mut self, line: &StreamLine) {
        let was_known = self.collector.position_of(&line.case_name()).is_some();
        let Some(position) = self.find_case(line) else {
            return;
        };
        let progress = &mut self.progress[position];
        if was_known {
            if !std::mem::take(&mut progress.is_counted) {
                self.collector.result_mut(position).attempts += 1;
            }
            if progress.is_running && progress.first_result == FirstResult::Open {
                progress.first_result = FirstResult::Lost;
            }
            progress.repeat(match progress.first_result {
                FirstResult::Open => Repetition::Repeated,
                FirstResult::Lost | FirstResult::Final => Repetition::Retried,
            });
        }
        if line.repeat.is_some() {
            progress.repeat(Repetition::Repeated);
        }
        progress.is_running = true;
        progress.has_outcome = false;
        progress.started = line.time;
    }

    fn add_outcome(&mut self, position: usize, line: &StreamLine) {
        let Some(end) = line.end() else {
            let outcome = &line.outcome;
            self.collector
                .complain(format!("the stream has the unknown outcome `{outcome}`"));
            return;
        };
        let progress = &mut self.progress[position];
        let result = self.collector.result_mut(position);
        if progress.first_result == FirstResult::Open {
            join_ends(result, end, line.failure());
            progress.has_outcome = true;
        }
        if line.retried {
            result.attempts += 1;
            if progress.first_result == FirstResult::Open {
                progress.first_result = FirstResult::Final;
            }
            progress.repeat(Repetition::Retried);
            // Not every version of the plugins announces the next attempt.
            progress.is_counted = true;
        }
        if end == CaseEnd::Crashed {
            progress.is_running = false;
            if progress.first_result == FirstResult::Lost {
                // The controller reports the crash after the next start.
                progress.first_result = FirstResult::Final;
                join_ends(result, end, line.failure());
            }
        }
    }

    fn end_case(&mut self, line: &StreamLine) {
        let Some(position) = self.find_case(line) else {
            return;
        };
        if !line.outcome.is_empty() {
            self.add_outcome(position, line);
        }
        let progress = &mut self.progress[position];
        let result = self.collector.result_mut(position);
        if progress.first_result == FirstResult::Open && !progress.has_outcome {
            join_ends(result, CaseEnd::Passed, None);
        }
        let measured = line
            .seconds
            .or_else(|| Some(line.time? - progress.started?));
        if let Some(elapsed) =
            measured.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
            && result.elapsed.is_zero()
        {
            result.elapsed = elapsed;
        }
        progress.is_running = false;
        progress.has_outcome = false;
    }

    /// Marks the cases that a runner left when it stopped in an orderly way, for example after Ctrl-C.
    fn interrupt_cases(&mut self, pid: Option<i32>) {
        for (position, progress) in self.progress.iter_mut().enumerate() {
            let result = self.collector.result_mut(position);
            if progress.is_running && pid.is_some() && result.pid == pid {
                progress.is_running = false;
                result.end = CaseEnd::Unknown;
                result.failure = Some(CaseFailure {
                    kind: INTERRUPTED.to_owned(),
                    message: "the runner stopped while the case was running".to_owned(),
                    ..CaseFailure::default()
                });
            }
        }
    }

    fn finish(mut self) -> TrialCases {
        for (position, progress) in self.progress.iter().enumerate() {
            let is_lost = progress.first_result == FirstResult::Lost;
            if is_lost || progress.is_running {
                self.collector.result_mut(position).end = CaseEnd::Unknown;
            }
        }
        let count = |repetition: Repetition| {
            let cases = self.progress.iter();
            cases
                .filter(|progress| progress.repetition == repetition)
                .count()
        };
        let retried = count(Repetition::Retried);
        let repeated = count(Repetition::Repeated);
        if retried > 0 {
            self.collector.complain(describe_retries(retried));
        }
        if repeated > 0 {
            self.collector.complain(format!(
                "{} ran several times in this trial: a case fails if any of its runs fails",
                words::format_count(repeated as u64, "case")
            ));
        }
        if let Some((line, reason)) = self.first_bad_line {
            self.collector.complain(format!(
                "{} of {} lines of the stream cannot be read, the first is line {line}: {reason}",
                self.bad_lines, self.lines
            ));
        }
        self.collector.finish()
    }
}
