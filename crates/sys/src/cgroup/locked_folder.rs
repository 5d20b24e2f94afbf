//! Directories of cgroups that are locked while they are in use.

use rustix::fs::{FlockOperation, flock};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

/// Controllers that a slot uses.
pub(super) const CONTROLLERS: [&str; 2] = ["memory", "pids"];
/// Prefix of the names of slot cgroups.
pub(super) const PREFIX: &str = "provoke-run-";
/// Attempts to create and lock a cgroup: another run may remove a new cgroup just before it is
/// locked.
const ATTEMPTS: u32 = 20;

/// The directory of a cgroup, which is locked while it is in use. The kernel releases the lock when this process ends,
/// however it ends, so a cgroup that can be locked belongs to a dead run.
#[derive(Debug)]
pub(super) struct LockedFolder {
    pub(super) path: PathBuf,
    _lock: File,
}

impl LockedFolder {
    pub(super) fn try_create(path: PathBuf) -> Option<Self> {
        for _ in 0..ATTEMPTS {
            if let Err(error) = fs::create_dir(&path)
                && error.kind() != io::ErrorKind::AlreadyExists
            {
                return None;
            }
            if let Some(lock) = lock_group(&path) {
                return Some(Self { path, _lock: lock });
            }
            sleep(Duration::from_millis(1));
        }
        None
    }
}

/// Locks the directory of a cgroup; returns `None` if its run is alive or the cgroup is gone.
pub(super) fn lock_group(path: &Path) -> Option<File> {
    let folder = File::open(path).ok()?;
    flock(&folder, FlockOperation::NonBlockingLockExclusive).ok()?;
    // Another run may have removed the directory before it was locked.
    let is_there = fs::metadata(path).ok()?.ino() == folder.metadata().ok()?.ino();
    is_there.then_some(folder)
}

/// Returns whether a file has a word.
pub(super) fn has_word(file: &Path, word: &str) -> bool {
    fs::read_to_string(file)
        .is_ok_and(|text| text.split_ascii_whitespace().any(|other| other == word))
}
