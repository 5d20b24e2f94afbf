//! Lenient reader of JUnit XML.
//!
//! The format has no standard. The reader accepts what pytest, nextest, ctest, surefire, gtest, jest,
//! go-junit-report and others write: one or no `<testsuites>`, nested suites, missing counts, unknown elements, commas in
//! times. Of a torn file it keeps the whole cases. It reads no entities but the five of XML and characters by number, and
//! no DTD.

use super::collector::{CaseCollector, describe_retries, join_results};
use super::ctest_report;
use super::file_pattern::find_files;
use super::limits::{DEEPEST_NESTING, LONGEST_LINE, MOST_BYTES};
use super::lines::too_large;
use super::nextest_report;
use super::runner::{RUNNER, Runner, RunnerArgument};
use super::site::parse_site;
use super::text::{clip_message, truncate_text};
use provoke_model::{CaseEnd, CaseFailure, CaseName, CaseResult, Site, TrialCases};
use quick_xml::escape::{resolve_predefined_entity, unescape_with};
use quick_xml::events::{BytesStart, Event};
use quick_xml::reader::Reader;
use std::io::BufRead;
use std::time::Duration;

/// Name of a report in the folder of the reports.
pub(crate) const REPORT: &str = "junit.xml";

/// Any program, by the JUnit reports that match a pattern of paths.
pub(crate) static JUNIT: Runner = Runner {
    name: "junit",
    title: "the JUnit reports",
    argument: Some(RunnerArgument {
        mark: "GLOB",
        about: Some("JUnit reports"),
        required: Some("'reports/*.xml'"),
        in_trial: "{dir}/*.xml",
    }),
    read: |report| {
        let pattern = report.pattern.clone().unwrap_or_default();
        report.read_fresh_files(&find_files(&pattern), read_junit)
    },
    missing_report: Some("the JUnit reports show no tests"),
    ..RUNNER
};

/// The program that wrote a report.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Dialect {
    Any,
    Nextest,
    Ctest,
}

/// Reads a report of any test runner.
pub fn read_junit(input: impl BufRead) -> TrialCases {
    read_report(input, Dialect::Any)
}

/// Reads the report of `cargo nextest`, which names signals and time limits.
pub fn read_nextest(input: impl BufRead) -> TrialCases {
    read_report(input, Dialect::Nextest)
}

/// Reads the report of `ctest --output-junit`.
///
/// It does not contain signals and time limits. [`crate::ctest::add_endings`] takes them from the output of ctest.
pub fn read_ctest(input: impl BufRead) -> TrialCases {
    read_report(input, Dialect::Ctest)
}

fn read_report(input: impl BufRead, dialect: Dialect) -> TrialCases {
    let mut report = ReportReader {
        dialect,
        collector: CaseCollector::default(),
        elements: Vec::new(),
        suites: Vec::new(),
        case: None,
        texts: Vec::new(),
        duplicates: 0,
        retried: 0,
        unnamed: 0,
        has_root: false,
    };
    let mut limited = input.take(MOST_BYTES);
    report.read_events(&mut limited);
    if limited.limit() == 0 {
        report.collector.complain(too_large());
    }
    report.finish()
}

/// An element whose end has not been read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Element {
    Suites,
    Suite,
    Case,
    /// `failure`, `error` and their relatives for attempts, `skipped`.
    Outcome(OutcomeKind),
    Output,
    Other,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum OutcomeKind {
    Failure,
    Error,
    Skipped,
    /// A failed attempt before one that passed.
    Flaky,
    /// A failed attempt after the first.
    Rerun,
}

/// An outcome of the case that is being read.
struct CaseOutcome {
    kind: OutcomeKind,
    failure_type: String,
    message: String,
    text: String,
}

/// The case that is being read.
#[derive(Default)]
struct OpenCase {
    name: String,
    class: String,
    file: String,
    suite: String,
    status: String,
    result: String,
    elapsed: Duration,
    outcomes: Vec<CaseOutcome>,
    output: String,
}

struct ReportReader {
    dialect: Dialect,
    collector: CaseCollector,
    elements: Vec<Element>,
    suites: Vec<String>,
    case: Option<OpenCase>,
    /// Texts of the open elements inside of a case.
    texts: Vec<String>,
    duplicates: usize,
    retried: usize,
    unnamed: usize,
    has_root: bool,
}

impl ReportReader {
    fn read_events(&mut self, input: &mut impl BufRead) {
        let mut reader = Reader::from_reader(input);
        let settings = reader.config_mut();
        settings.check_end_names = false;
        settings.allow_unmatched_ends = true;
        settings.allow_dangling_amp = true;
        let mut buffer = Vec::new();
        loop {
            buffer.clear();
            let event = match reader.read_event_into(&mut buffer) {
                Ok(event) => event,
                Err(error) => {
                    let place = reader.error_position();
                    self.collector.complain(format!(
                        "the report is damaged at byte {place}, the cases before it are read: {error}"
                    ));
                    return;
                }
            };
            match event {
                Event::Start(start) => {
                    if !self.open_element(&start) {
                        return;
                    }
                }
                Event::Empty(start) => {
                    if !self.open_element(&start) {
                        return;
                    }
                    self.close_element();
                }
                Event::End(_) => self.close_element(),
                Event::Text(text) => self.add_text(&String::from_utf8_lossy(&text)),
                Event::CData(text) => self.add_text(&String::from_utf8_lossy(&text)),
                Event::GeneralRef(reference) => {
                    let name = String::from_utf8_lossy(&reference).into_owned();
                    self.add_text(&unescape_text(&format!("&{name};")));
                }
                Event::Eof => {
                    if !self.elements.is_empty() {
                        self.collector.complain(
                            "the report ends in the middle: the runner was stopped while it wrote it; the whole \
                             cases before it are read",
                        );
                    }
                    return;
                }
                Event::Comment(_) | Event::Decl(_) | Event::PI(_) | Event::DocType(_) => {}
            }
        }
    }

    /// Enters an element; returns false if the rest cannot be read.
    fn open_element(&mut self, start: &BytesStart<'_>) -> bool {
        let name = start.local_name();
        let element = match name.as_ref() {
            b"testsuites" => Element::Suites,
            b"testsuite" => Element::Suite,
            b"testcase" => Element::Case,
            b"failure" => Element::Outcome(OutcomeKind::Failure),
            b"error" => Element::Outcome(OutcomeKind::Error),
            b"skipped" => Element::Outcome(OutcomeKind::Skipped),
            b"flakyFailure" | b"flakyError" => Element::Outcome(OutcomeKind::Flaky),
            b"rerunFailure" | b"rerunError" => Element::Outcome(OutcomeKind::Rerun),
            b"system-out" => Element::Output,
            _ => Element::Other,
        };
        if !self.has_root {
            self.has_root = true;
            if !matches!(element, Element::Suites | Element::Suite) {
                let root = String::from_utf8_lossy(name.as_ref()).into_owned();
                self.collector.complain(format!(
                    "the file is not a JUnit report: it begins with `{}`, not with `testsuites` or `testsuite`",
                    truncate_text(&root, 80)
                ));
                return false;
            }
        }
        if self.elements.len() >= DEEPEST_NESTING {
            self.collector.complain(format!(
                "the report has more than {DEEPEST_NESTING} levels; the rest is ignored"
            ));
            return false;
        }
        match element {
            Element::Suite => self.suites.push(attribute(start, "name")),
            Element::Case => {
                self.case = Some(OpenCase {
                    name: attribute(start, "name"),
                    class: attribute(start, "classname"),
                    file: attribute(start, "file"),
                    suite: self.suites.last().cloned().unwrap_or_default(),
                    status: attribute(start, "status"),
                    result: attribute(start, "result"),
                    elapsed: parse_seconds(&attribute(start, "time")),
                    ..OpenCase::default()
                });
                self.texts.clear();
            }
            Element::Outcome(kind) => {
                // An outcome of a suite, such as a failed setup of a class, belongs to no case.
                if let Some(case) = &mut self.case {
                    case.outcomes.push(CaseOutcome {
                        kind,
                        failure_type: attribute(start, "type"),
                        message: attribute(start, "message"),
                        text: String::new(),
                    });
                }
            }
            Element::Suites | Element::Output | Element::Other => {}
        }
        self.elements.push(element);
        self.texts.push(String::new());
        true
    }

    fn add_text(&mut self, text: &str) {
        if self.case.is_none() {
            return;
        }
        if let Some(present) = self.texts.last_mut() {
            let room = LONGEST_LINE.saturating_sub(present.len());
            present.push_str(truncate_text(text, room));
        }
    }

    fn close_element(&mut self) {
        let Some(element) = self.elements.pop() else {
            return;
        };
        let text = self.texts.pop().unwrap_or_default();
        match element {
            Element::Suite => {
                self.suites.pop();
            }
            Element::Outcome(_) => {
                // The outcome that was opened last is the one that ends: outcomes are not nested.
                let outcomes = self.case.as_mut().map(|case| &mut case.outcomes);
                if let Some(outcome) = outcomes.and_then(|outcomes| outcomes.last_mut())
                    && outcome.text.is_empty()
                {
                    outcome.text = text;
                }
            }
            Element::Output => {
                let is_of_case = self.elements.last() == Some(&Element::Case);
                if let Some(case) = &mut self.case
                    && is_of_case
                {
                    case.output = text;
                }
            }
            Element::Case => {
                if let Some(case) = self.case.take() {
                    self.add_case(case);
                }
            }
            Element::Suites | Element::Other => {}
        }
    }

    fn add_case(&mut self, case: OpenCase) {
        if case.name.is_empty() {
            self.unnamed += 1;
            return;
        }
        let result = self.judge_case(case);
        self.retried += usize::from(result.attempts > 1);
        // pytest writes a second entry if the test and its teardown fail.
        let is_teardown = result
            .failure
            .as_ref()
            .is_some_and(|failure| failure.message.starts_with("failed on teardown with "));
        if is_teardown && let Some(position) = self.collector.position_of(&result.case) {
            join_results(self.collector.result_mut(position), result);
        } else if !self.collector.add_result(result) {
            self.duplicates += 1;
        }
    }

    fn judge_case(&self, case: OpenCase) -> CaseResult {
        let attempts = case
            .outcomes
            .iter()
            .filter(|outcome| matches!(outcome.kind, OutcomeKind::Flaky | OutcomeKind::Rerun))
            .count();
        let failures = case.outcomes.iter().filter(|outcome| {
            matches!(
                outcome.kind,
                OutcomeKind::Failure | OutcomeKind::Error | OutcomeKind::Flaky
            )
        });
        let failures: Vec<&CaseOutcome> = failures.collect();
        let skipped = case
            .outcomes
            .iter()
            .find(|outcome| outcome.kind == OutcomeKind::Skipped);
        let (end, failure) = match (&failures[..], skipped) {
            (&[first, ..], _) => {
                let (end, mut failure) = judge_failure(first, self.dialect);
                // Of attempts, only the first counts. Several failures of one attempt have one message each.
                if attempts == 0 {
                    let messages = failures
                        .iter()
                        .map(|other| judge_failure(other, self.dialect));
                    let messages: Vec<String> =
                        messages.map(|(_, failure)| failure.message).collect();
                    failure.message = clip_message(&messages.join("\n"));
                }
                let is_failed = failures
                    .iter()
                    .any(|outcome| outcome.kind == OutcomeKind::Failure);
                let end = if end == CaseEnd::Error && is_failed {
                    CaseEnd::Failed
                } else {
                    end
                };
                (end, Some(failure))
            }
            ([], Some(skipped)) => {
                let (site, message) = split_first_site(&skipped.message);
                let reason = CaseFailure {
                    message: clip_message(message),
                    site,
                    ..CaseFailure::default()
                };
                let end = match skipped.failure_type.as_str() {
                    "pytest.xfail" => CaseEnd::ExpectedFailure,
                    _ if self.dialect == Dialect::Ctest => {
                        ctest_report::judge_skip(&skipped.message)
                    }
                    _ => CaseEnd::Skipped,
                };
                (end, (!reason.message.is_empty()).then_some(reason))
            }
            ([], None) => (judge_status(&case.status, &case.result), None),
        };
        let mut result = CaseResult {
            end,
            elapsed: case.elapsed,
            attempts: u32::try_from(attempts + 1).unwrap_or(u32::MAX),
            failure,
            ..CaseResult::default()
        };
        if self.dialect == Dialect::Ctest && end.is_failure() {
            ctest_report::add_message(&mut result, &case.output);
        }
        result.case = self.name_case(case);
        result
    }

    /// Returns the name of a case: its class, or else its file or its suite, and its name.
    fn name_case(&self, case: OpenCase) -> CaseName {
        let suite = match self.dialect {
            Dialect::Ctest => String::new(),
            Dialect::Nextest => nextest_report::strip_stress_suffix(&case.class).to_owned(),
            // jest-junit repeats the name, a sentence, as the class.
            Dialect::Any if case.class == case.name && case.name.contains(' ') => String::new(),
            Dialect::Any => [case.class, case.file, case.suite]
                .into_iter()
                .find(|group| !group.is_empty())
                .unwrap_or_default(),
        };
        CaseName {
            suite,
            name: case.name,
        }
    }

    fn finish(mut self) -> TrialCases {
        if !self.has_root {
            self.collector
                .complain("the report is empty or not XML: no case is known");
        }
        if self.retried > 0 {
            self.collector.complain(describe_retries(self.retried));
        }
        if self.duplicates > 0 {
            self.collector.complain(format!(
                "the report has {} repeated entries of cases: the worst end counts; if the runner retries, switch it \
                 off",
                self.duplicates
            ));
        }
        if self.unnamed > 0 {
            self.collector.complain(format!(
                "the report has {} cases without a name; they are ignored",
                self.unnamed
            ));
        }
        self.collector.finish()
    }
}

/// Returns how a case ended that has neither a failure nor a reason to skip it.
fn judge_status(status: &str, result: &str) -> CaseEnd {
    match (status, result) {
        ("fail" | "failed", _) => CaseEnd::Failed,
        ("error", _) => CaseEnd::Error,
        ("skipped" | "disabled", _) | (_, "suppressed" | "skipped") => CaseEnd::Skipped,
        ("notrun", _) => CaseEnd::NotRun,
        _ => CaseEnd::Passed,
    }
}

fn judge_failure(outcome: &CaseOutcome, dialect: Dialect) -> (CaseEnd, CaseFailure) {
    if dialect == Dialect::Nextest {
        return nextest_report::judge_failure(
            &outcome.failure_type,
            &outcome.message,
            &outcome.text,
        );
    }
    let is_empty = matches!(outcome.message.trim(), "" | "Failed") && !outcome.text.is_empty();
    let message = if is_empty {
        &outcome.text
    } else {
        &outcome.message
    };
    let (site, message) = split_first_site(message);
    let end = if is_worker_crash(message) {
        CaseEnd::Crashed
    } else if outcome.kind == OutcomeKind::Error {
        CaseEnd::Error
    } else {
        CaseEnd::Failed
    };
    let (last_site, last_kind) = split_last_site(&outcome.text);
    let kind = if outcome.failure_type.is_empty() {
        last_kind
    } else {
        &outcome.failure_type
    };
    let failure = CaseFailure {
        kind: clip_message(kind),
        message: clip_message(message),
        site: site.or(last_site),
        signal: None,
    };
    (end, failure)
}

/// Returns whether pytest-xdist reports that a worker died, as in `failed on setup with "worker 'gw1' crashed while
/// running 'test_it.py::test_crash'"`.
fn is_worker_crash(message: &str) -> bool {
    message.contains("worker '") && message.contains("crashed while running")
}

/// Splits the line `file.cc:12` from the front of a message of googletest.
fn split_first_site(message: &str) -> (Option<Site>, &str) {
    message
        .split_once('\n')
        .and_then(|(first, rest)| Some((Some(parse_site(first)?), rest)))
        .unwrap_or((None, message))
}

/// Returns the line of source code and the exception at the end of a failure of pytest:
/// `test_it.py:12: AssertionError`.
fn split_last_site(text: &str) -> (Option<Site>, &str) {
    let last = text.trim_end().lines().next_back().unwrap_or_default();
    let Some((place, kind)) = last.rsplit_once(": ") else {
        return (None, "");
    };
    let is_kind = kind
        .chars()
        .all(|c| c.is_alphanumeric() || c == '_' || c == '.');
    match parse_site(place) {
        Some(site) if is_kind => (Some(site), kind),
        _ => (None, ""),
    }
}

fn attribute(start: &BytesStart<'_>, name: &str) -> String {
    let mut attributes = start.html_attributes();
    attributes.with_checks(false);
    attributes
        .flatten()
        .find(|attribute| attribute.key.local_name().as_ref() == name.as_bytes())
        .map(|attribute| {
            let raw = String::from_utf8_lossy(&attribute.value);
            unescape_text(truncate_text(&raw, LONGEST_LINE))
        })
        .unwrap_or_default()
}

/// Replaces the five entities of XML and characters by number; text with others stays as it is.
fn unescape_text(raw: &str) -> String {
    unescape_with(raw, resolve_predefined_entity)
        .map_or_else(|_| raw.to_owned(), std::borrow::Cow::into_owned)
}

/// Parses seconds such as `0.25` or `1,234.5`.
fn parse_seconds(text: &str) -> Duration {
    let seconds: f64 = text.replace(',', "").trim().parse().unwrap_or_default();
    Duration::try_from_secs_f64(seconds).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_commas_and_may_be_damaged() {
        for (text, millis) in [
            ("1,234.5", 1_234_500),
            ("0.25", 250),
            ("", 0),
            ("-1", 0),
            ("NaN", 0),
            ("1e300", 0),
        ] {
            assert_eq!(parse_seconds(text).as_millis(), millis, "{text}");
        }
    }
}
