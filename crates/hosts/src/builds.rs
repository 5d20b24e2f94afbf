//! Builds the directories of variants here, in a directory that all hosts see.

use super::wire::SharedFile;
use provoke_exec::{Executor as _, ExecutorFuture};
use provoke_local::LocalExecutor;
use provoke_model::{Text, TrialsPlan};
use provoke_sys::files;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// Source of text that no other file contains.
const UUID: &str = "/proc/sys/kernel/random/uuid";

/// Builds variants for the hosts.
pub(super) struct HostBuilds {
    pub(super) executor: LocalExecutor,
    file: PathBuf,
}

impl HostBuilds {
    /// Starts the executor that builds, if variants of the plan have directories of their own. `trials` is below the directory
    /// of the run. The returned file shows a host whether it sees this directory.
    pub(super) fn start(
        plan: &TrialsPlan,
        trials: &Path,
    ) -> io::Result<Option<(Self, SharedFile)>> {
        if !plan.has_variant_directories() {
            return Ok(None);
        }
        let own_plan = TrialsPlan {
            hosts: None,
            ..plan.clone()
        };
        let executor = LocalExecutor::new(&own_plan, trials)?;
        files::create_folders(trials)?;
        let file = trials.join("shared");
        let contents = fs::read_to_string(UUID)?;
        files::create_readable(&file)?.write_all(contents.as_bytes())?;
        let shared = SharedFile {
            path: Text::from(file.as_os_str()),
            contents,
        };
        Ok(Some((Self { executor, file }, shared)))
    }

    pub(super) fn close(&self) -> ExecutorFuture<Vec<String>> {
        let _ = files::remove_file(&self.file);
        self.executor.close()
    }
}
