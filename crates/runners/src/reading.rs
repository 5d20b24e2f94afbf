//! Reads the cases of a trial from the report of its runner, and finds out which case crashed.

use super::earlier_reports::EarlierReports;
use super::file_pattern::find_files;
use super::setup::{JUNIT, STREAM};
use crate::attribution::{EndedProcess, TrialEnding, attribute_ends};
use crate::names::join_names;
use crate::{ctest, go, gtest, junit, merge_reports, stream, tap};
use provoke_model::{CaseRunner, CasesPlan, Ending, Observation, TrialCases};
use provoke_sys::files::open_regular_file;
use provoke_words::untrusted::Untrusted as _;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

/// File with the complete stdout of the trial, in the folder of the reports.
pub const STDOUT: &str = "stdout";

/// Where the report of a trial is.
pub struct TrialReport<'a> {
    /// The folder of the reports.
    pub folder: &'a Path,
    /// The pattern of paths of the user, with all marks filled in, from the working directory of the runner.
    pub pattern: Option<PathBuf>,
    /// The reports that existed before the trial.
    pub earlier: EarlierReports,
}

/// Returns the cases of a trial.
pub fn read_cases(
    plan: &CasesPlan,
    report: &TrialReport<'_>,
    observation: &Observation,
) -> TrialCases {
    let mut cases = read_report(&plan.runner, report);
    let pattern = plan.strip.as_deref().map(regex::bytes::Regex::new);
    if let Some(Ok(pattern)) = pattern {
        cases = join_names(cases, |name| {
            let rest = pattern.replace_all(name.as_bytes(), &b""[..]);
            String::from_utf8_lossy(&rest).into_owned()
        });
    }
    let attribution = attribute_ends(&mut cases, &trial_ending(observation));
    if !attribution.undecided.is_empty() {
        let names: Vec<String> = attribution
            .undecided
            .iter()
            .take(4)
            .map(ToString::to_string)
            .collect();
        cases.complaints.push(format!(
            "the process died while {} tests were running, and it is not known which of them is the cause: {}",
            attribution.undecided.len(),
            names.join(", "),
        ));
    }
    let has_ended = !observation.interrupted && observation.lost.is_none();
    if has_ended && cases.results.is_empty() && cases.complaints.is_empty() {
        cases.complaints.push(describe_missing_report(&plan.runner));
    }
    cases
}

fn describe_missing_report(runner: &CaseRunner) -> String {
    match runner {
        CaseRunner::Pytest => "pytest reported no tests; if another program starts it, such as tox, that program must pass on the variables PYTHONPATH, PYTEST_PLUGINS and PROVOKE_CASES".to_owned(),
        CaseRunner::Jsonl(_) | CaseRunner::Junit(_) => format!("{} show no tests", runner.name()),
        runner => format!("{} reported no tests", runner.name()),
    }
}

fn read_report(runner: &CaseRunner, report: &TrialReport<'_>) -> TrialCases {
    let in_folder = |name: &str| open_report(&report.folder.join(name));
    match runner {
        CaseRunner::Pytest => read_if_any(in_folder(STREAM), stream::read_stream),
        CaseRunner::Jsonl(_) => match &report.pattern {
            Some(path) => read_fresh_files(std::slice::from_ref(path), report, stream::read_stream),
            None => read_if_any(in_folder(STREAM), stream::read_stream),
        },
        CaseRunner::Nextest => read_if_any(in_folder(JUNIT), junit::read_nextest),
        CaseRunner::Ctest => {
            let mut cases = read_if_any(in_folder(JUNIT), junit::read_ctest);
            let output = read_if_any(in_folder(STDOUT), ctest::read_output);
            ctest::add_endings(&mut cases, output);
            cases
        }
        CaseRunner::Go => read_if_any(in_folder(STDOUT), go::read_go),
        CaseRunner::Tap => read_if_any(in_folder(STDOUT), tap::read_tap),
        CaseRunner::Gtest => read_if_any(in_folder(STDOUT), gtest::read_gtest),
        CaseRunner::Junit(_) => {
            let pattern = report.pattern.clone().unwrap_or_default();
            let files = find_files(&pattern);
            read_fresh_files(&files, report, junit::read_junit)
        }
    }
}

fn open_report(path: &Path) -> Option<BufReader<File>> {
    open_regular_file(path).ok().map(BufReader::new)
}

fn read_if_any<R: BufRead>(file: Option<R>, read: impl FnOnce(R) -> TrialCases) -> TrialCases {
    file.map(read).unwrap_or_default()
}

/// Reads the files that the trial has written. Older files belong to an earlier trial.
fn read_fresh_files(
    paths: &[PathBuf],
    report: &TrialReport<'_>,
    read: impl Fn(BufReader<File>) -> TrialCases,
) -> TrialCases {
    let is_old = |path: &Path| report.earlier.has_unchanged(path);
    let (old_paths, new_paths): (Vec<&PathBuf>, Vec<&PathBuf>) =
        paths.iter().partition(|path| is_old(path));
    let files = new_paths.into_iter().filter_map(|path| open_report(path));
    let mut cases = merge_reports(files.map(read));
    if let Some(path) = old_paths.first() {
        cases.complaints.push(format!(
            "`{}` is older than the trial, and was ignored",
            path.to_safe()
        ));
    }
    cases
}

/// Returns how the processes of the trial ended.
fn trial_ending(observation: &Observation) -> TrialEnding {
    let functions_of = |pid: i32| {
        let crashes = observation
            .cores
            .iter()
            .filter_map(|core| core.crash.as_ref());
        let crash_frames = crashes
            .filter(|crash| crash.pid == pid)
            .flat_map(|crash| crash.python.iter().chain(&crash.frames));
        let hung_threads = observation.hang.iter().flat_map(|hang| &hang.threads);
        let hung_frames = hung_threads
            .filter(|thread| thread.pid == pid)
            .flat_map(|thread| &thread.frames);
        let frames = crash_frames.chain(hung_frames);
        frames
            .filter_map(|frame| frame.function.clone())
            .collect::<Vec<String>>()
    };
    let threads_of = |pid: i32| {
        let hung_threads = observation.hang.iter().flat_map(|hang| &hang.threads);
        let crashed_threads = observation
            .cores
            .iter()
            .filter_map(|core| core.crash.as_ref())
            .filter(|crash| crash.pid == pid)
            .filter_map(|crash| crash.thread_name.clone());
        hung_threads
            .filter(|thread| thread.pid == pid)
            .map(|thread| thread.name.clone())
            .chain(crashed_threads)
            .collect::<Vec<String>>()
    };
    let actors = observation.actors.iter().map(|actor| {
        let (signal, exit_code) = match actor.ending {
            Ending::Signaled(signal, _) => (Some(signal), None),
            Ending::Exited(code) => (None, Some(code)),
            _ => (None, None),
        };
        EndedProcess {
            pid: actor.pid,
            arguments: Vec::new(),
            signal,
            exit_code,
            functions: functions_of(actor.pid),
            threads: threads_of(actor.pid),
        }
    });
    let crashed_children = observation
        .crashed_children
        .iter()
        .map(|process| EndedProcess {
            pid: process.pid,
            arguments: vec![process.program.clone()],
            signal: process.signal,
            exit_code: None,
            functions: functions_of(process.pid),
            threads: threads_of(process.pid),
        });
    let timed_out = |ending: &Ending| matches!(ending, Ending::TimedOut { .. });
    TrialEnding {
        timed_out: observation
            .actors
            .iter()
            .any(|actor| timed_out(&actor.ending)),
        processes: actors.chain(crashed_children).collect(),
    }
}
