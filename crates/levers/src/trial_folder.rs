//! A directory that each trial gets for itself, named by a variable.

use provoke_sys::files;
use provoke_sys::start_step::StartStep;
use serde::{Deserialize, Serialize};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// Bytes of a long path: more than the address of a Unix socket may have.
const LONG: usize = 200;

/// A directory that each trial gets for itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrialFolder {
    /// Variable with its path.
    pub variable: String,
    /// What is special about it.
    pub kind: FolderKind,
}

/// What is special about the directory of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FolderKind {
    /// Nothing: it is new and empty.
    Empty,
    /// Its path is long.
    Long,
    /// Its path contains a space.
    Space,
    /// It has room for 4096 bytes. Python does not use a directory to which it cannot write anything.
    Full,
    /// Nothing can be written to it.
    ReadOnly,
}

impl TrialFolder {
    /// Creates it in a directory. Returns its path, and the step with which a process makes it what it is.
    pub fn create_in(&self, parent: &Path) -> io::Result<(PathBuf, Option<StartStep>)> {
        let name = self.variable.to_lowercase();
        let path = match self.kind {
            FolderKind::Space => parent.join(format!("{name} with spaces")),
            FolderKind::Long => {
                let short = parent.join(&name).as_os_str().as_bytes().len();
                let filler = "-long".repeat(LONG.saturating_sub(short).div_ceil(5).max(1));
                parent.join(format!("{name}{filler}"))
            }
            FolderKind::Empty | FolderKind::Full | FolderKind::ReadOnly => parent.join(name),
        };
        // An earlier attempt whose slot was lost may have left files there.
        let _ = files::remove_tree(&path);
        files::create_folders(&path)?;
        let step = match self.kind {
            FolderKind::Full => Some(StartStep::MountFull(path.clone())),
            FolderKind::ReadOnly => Some(StartStep::MakeReadOnly(path.clone())),
            FolderKind::Empty | FolderKind::Long | FolderKind::Space => None,
        };
        Ok((path, step))
    }
}
