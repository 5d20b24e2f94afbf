//! Results of ctest: its output, which names signals, and its XML, which has the output of each test.

use super::collector::CaseCollector;
use super::command::{REGEX, begins_with, escape};
use super::junit::{self, REPORT};
use super::lines::read_lines;
use super::runner::{OrderControl, RUNNER, Runner};
use super::setup::CASES_MARK;
use super::trial_report::STDOUT;
use provoke_model::{CaseEnd, CaseFailure, CaseName, CaseResult, Signal, TrialCases};
use std::collections::{HashMap, HashSet};
use std::io::BufRead;
use std::time::Duration;

/// Words of ctest for signals, and the signals.
const EXCEPTIONS: [(&str, Signal); 8] = [
    ("SegFault", Signal::SEGV),
    ("Illegal", Signal(4)),
    ("Interrupt", Signal::INT),
    ("Numerical", Signal(8)),
    ("Bus error", Signal(7)),
    ("Subprocess aborted", Signal::ABRT),
    ("Subprocess terminated", Signal::TERM),
    ("Subprocess killed", Signal::KILL),
];

/// CTest, by its JUnit report and its output.
pub(crate) static CTEST: Runner = Runner {
    name: "ctest",
    title: "ctest",
    recognize: |words| begins_with(words, "ctest", &[]).then_some(0),
    order: OrderControl::Isolated,
    reads_stdout: true,
    adapt: |command, _| {
        command.insert([
            "--output-junit".to_owned(),
            format!("{CASES_MARK}/{REPORT}"),
        ])
    },
    select: |case, command| {
        command.remove_flag(&["-R", "--tests-regex"]);
        let pattern = format!("^{}$", escape(&case.name, REGEX));
        command.insert(["-R".to_owned(), pattern])
    },
    read: |report| {
        let mut cases = report.read_file(REPORT, junit::read_ctest);
        add_endings(&mut cases, report.read_file(STDOUT, read_output));
        cases
    },
    ..RUNNER
};

/// Reads the output of ctest, which shows the running tests if ctest was killed.
pub fn read_output(input: impl BufRead) -> TrialCases {
    let mut collector = CaseCollector::default();
    let complaint = read_lines(input, |line| {
        if let Some(name) = parse_start(line.text) {
            collector.find_or_insert(&CaseName::without_suite(name));
        } else if let Some(ended) = parse_end(line.text)
            && let Some((position, _)) =
                collector.find_or_insert(&CaseName::without_suite(ended.case.name.clone()))
        {
            let result = collector.result_mut(position);
            // With `--repeat`, only the first attempt counts.
            result.attempts += 1;
            if result.attempts == 1 {
                result.end = ended.end;
                result.elapsed = ended.elapsed;
                result.failure = ended.failure;
            }
        }
    });
    if let Some(complaint) = complaint {
        collector.complain(complaint);
    }
    collector.finish()
}

/// Adds signals and time limits from the output of ctest to the cases of its XML, and cases that are only in the output.
pub fn add_endings(cases: &mut TrialCases, output: TrialCases) {
    let mut endings: HashMap<CaseName, CaseResult> = output
        .results
        .iter()
        .map(|result| (result.case.clone(), result.clone()))
        .collect();
    for result in &mut cases.results {
        let Some(ended) = endings.remove(&result.case) else {
            continue;
        };
        let is_specific = matches!(ended.end, CaseEnd::Crashed | CaseEnd::TimedOut);
        if is_specific && result.end.is_failure() {
            result.end = ended.end;
            let failure = result.failure.get_or_insert_default();
            let ended_failure = ended.failure.unwrap_or_default();
            failure.kind = ended_failure.kind;
            failure.signal = ended_failure.signal;
        }
        result.attempts = result.attempts.max(ended.attempts);
    }
    // In the order of their starts.
    let missing: HashSet<CaseName> = endings.into_keys().collect();
    let added = output
        .results
        .into_iter()
        .filter(|result| missing.contains(&result.case));
    cases.results.extend(added);
}

/// Parses `      Start 17: fixture_setup`.
fn parse_start(line: &str) -> Option<&str> {
    let rest = line.trim_start().strip_prefix("Start ")?;
    let (number, name) = rest.split_once(": ")?;
    let number = number.trim();
    (!number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())).then_some(name)
}

/// Parses ` 7/21 Test  #6: Dies.Crashes ........***Exception: SegFault  0.00 sec`.
fn parse_end(line: &str) -> Option<CaseResult> {
    let (progress, rest) = line.split_once(" Test ")?;
    let (done, total) = progress.trim().split_once('/')?;
    let is_count = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_count(done) || !is_count(total) {
        return None;
    }
    let (_, rest) = rest.split_once(": ")?;
    let (rest, seconds) = rest.strip_suffix(" sec")?.rsplit_once(' ')?;
    // The dots fill a column. A name may contain dots, so the last group of them counts.
    let (name, status) = rest
        .rsplit_once("...")
        .map(|(name, status)| (name.trim_end_matches('.'), status))?;
    let name = name.strip_suffix(' ').unwrap_or(name);
    let status = status.trim_start_matches('.').trim();
    let (end, kind, signal) = judge_ending(status);
    let failure = CaseFailure {
        kind,
        signal,
        ..CaseFailure::default()
    };
    Some(CaseResult {
        case: CaseName::without_suite(name),
        end,
        elapsed: Duration::try_from_secs_f64(seconds.parse().ok()?).ok()?,
        failure: end.is_failure().then_some(failure),
        ..CaseResult::default()
    })
}

/// Returns the end, the kind and the signal that a status such as `***Exception: SegFault` means.
fn judge_ending(status: &str) -> (CaseEnd, String, Option<Signal>) {
    let plain = |end| (end, String::new(), None);
    // `Subprocess aborted***Exception:` has the reason in front.
    let Some((before, word)) = status.split_once("***") else {
        let end = match status {
            "Passed" => CaseEnd::Passed,
            _ => CaseEnd::Unknown,
        };
        return plain(end);
    };
    if let Some(name) = word.strip_prefix("Exception:") {
        let reason = [name.trim(), before.trim()]
            .into_iter()
            .find(|reason| !reason.is_empty())
            .unwrap_or_default();
        let signal = EXCEPTIONS
            .iter()
            .find(|(prefix, _)| reason.starts_with(prefix))
            .map(|(_, signal)| *signal);
        return (CaseEnd::Crashed, reason.to_owned(), signal);
    }
    match word.trim_end() {
        word if word.starts_with("Timeout") => (CaseEnd::TimedOut, "timeout".to_owned(), None),
        word if word.starts_with("Skipped") => plain(CaseEnd::Skipped),
        word if word.starts_with("Not Run (Disabled)") => plain(CaseEnd::Skipped),
        word if word.starts_with("Not Run") => plain(CaseEnd::NotRun),
        _ => plain(CaseEnd::Failed),
    }
}
