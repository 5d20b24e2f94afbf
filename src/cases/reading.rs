//! Reads the cases of a trial from the report of its runner, and finds out which case crashed.

use super::attribution::attribute_running_cases;
use super::file_pattern::find_files;
use super::setup::{JUNIT, STREAM};
use crate::model::{CaseRunner, CasesPlan, Ending, Observation, TrialCases};
use crate::sys::files::open_regular_file;
use crate::untrusted::Untrusted as _;
use provoke_cases::{merge_reports, stream};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// File with the complete stdout of the trial, in the folder of the reports.
pub const STDOUT: &str = "stdout";

/// Where the report of a trial is.
pub struct TrialReport<'a> {
    /// The folder of the reports.
    pub folder: &'a Path,
    /// The working directory of the runner.
    pub cwd: &'a Path,
    /// The pattern of paths of the user, with all marks filled in.
    pub pattern: Option<PathBuf>,
    /// The start of the trial.
    pub began: SystemTime,
}

/// Returns the cases of a trial.
pub fn read_cases(
    plan: &CasesPlan,
    report: &TrialReport<'_>,
    observation: &Observation,
) -> TrialCases {
    let mut cases = read_report(&plan.runner, report);
    attribute_running_cases(&mut cases, observation);
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
            Some(path) => read_fresh_files(&[report.cwd.join(path)], report, stream::read_stream),
            None => read_if_any(in_folder(STREAM), stream::read_stream),
        },
        _ => TrialCases::default(),
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
    let is_old = |path: &Path| {
        let modified = path.metadata().and_then(|metadata| metadata.modified());
        modified.is_ok_and(|modified| modified < report.began)
    };
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

