//! Recognizes reports that were written before a trial.
//!
//! The time of a file alone does not tell: the trial before may have ended a millisecond ago.

use super::file_pattern::find_files;
use std::collections::HashMap;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Longest step of the clock that the kernel uses for the times of files.
const CLOCK_STEP: Duration = Duration::from_millis(10);

/// The reports that exist before a trial.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EarlierReports(HashMap<PathBuf, FileState>);

/// Facts that a write to a file changes.
#[derive(Clone, Debug, PartialEq, Eq)]
struct FileState {
    inode: u64,
    size: u64,
    changed: (i64, i64),
}

impl FileState {
    fn of_metadata(metadata: &Metadata) -> Self {
        Self {
            inode: metadata.ino(),
            size: metadata.size(),
            changed: (metadata.mtime(), metadata.mtime_nsec()),
        }
    }
}

impl EarlierReports {
    /// Finds the reports that match a pattern of paths. Also returns how long to wait until a write to any of them gets
    /// another time.
    pub fn find(pattern: &Path) -> (Self, Duration) {
        let mut reports = Self::default();
        let mut wait = Duration::ZERO;
        let now = SystemTime::now();
        for path in find_files(pattern) {
            let Ok(metadata) = path.metadata() else {
                continue;
            };
            let age = metadata.modified().map(|time| now.duration_since(time));
            if let Ok(Ok(age)) = age {
                wait = wait.max(CLOCK_STEP.saturating_sub(age));
            }
            reports.0.insert(path, FileState::of_metadata(&metadata));
        }
        (reports, wait)
    }

    /// Returns whether a file is as it was before the trial.
    pub(super) fn has_unchanged(&self, path: &Path) -> bool {
        let metadata = path.metadata().ok();
        let state = metadata.map(|metadata| FileState::of_metadata(&metadata));
        state.is_some() && self.0.get(path) == state.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_file_that_is_written_again_is_not_an_earlier_report() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("a.xml"), "x").unwrap();
        fs::write(path("b.xml"), "x").unwrap();
        let (reports, wait) = EarlierReports::find(&path("*.xml"));
        assert!(wait <= CLOCK_STEP);
        std::thread::sleep(wait);
        fs::write(path("b.xml"), "x").unwrap();
        fs::write(path("c.xml"), "x").unwrap();
        let unchanged =
            ["a.xml", "b.xml", "c.xml", "d.xml"].map(|name| reports.has_unchanged(&path(name)));
        assert_eq!(unchanged, [true, false, false, false]);
    }
}
