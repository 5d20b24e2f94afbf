//! The files in which the runner of a trial reports its cases.

use super::collector::merge_reports;
use super::earlier_reports::EarlierReports;
use provoke_model::TrialCases;
use provoke_sys::files::open_regular_file;
use provoke_words::untrusted::Untrusted as _;
use std::fs::File;
use std::io::BufReader;
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

impl TrialReport<'_> {
    /// Reads a file in the folder of the reports; without the file there are no cases.
    pub(crate) fn read_file(
        &self,
        name: &str,
        read: impl FnOnce(BufReader<File>) -> TrialCases,
    ) -> TrialCases {
        let file = open_report(&self.folder.join(name));
        file.map(read).unwrap_or_default()
    }

    /// Reads the files that the trial has written. Older files belong to an earlier trial.
    pub(crate) fn read_fresh_files(
        &self,
        paths: &[PathBuf],
        read: impl Fn(BufReader<File>) -> TrialCases,
    ) -> TrialCases {
        let is_old = |path: &Path| self.earlier.has_unchanged(path);
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
}

fn open_report(path: &Path) -> Option<BufReader<File>> {
    open_regular_file(path).ok().map(BufReader::new)
}
