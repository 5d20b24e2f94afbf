//! The temporary directory of a worker, which is removed at its end, or by the next worker after a crash.

use rustix::fs::{FlockOperation, flock};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// File that a worker locks while it runs.
const LOCK: &str = "lock";

/// The temporary directory of a worker.
pub(super) struct WorkerFolder {
    path: PathBuf,
    _lock: File,
}

impl WorkerFolder {
    /// Creates a directory that only this user can read, and removes those of workers that were killed.
    pub(super) fn create() -> io::Result<Self> {
        let root = std::env::temp_dir();
        let prefix = own_prefix();
        remove_abandoned(&root, &prefix);
        // Containers on one machine may have equal process IDs.
        let started = SystemTime::now().duration_since(UNIX_EPOCH);
        let started = started.map_or(0, |time| time.as_nanos());
        let name = format!("{prefix}{}-{started:x}", std::process::id());
        // It gets its name when it is locked, so that no other worker removes it.
        let new_path = root.join(format!(".{name}"));
        fs::DirBuilder::new().mode(0o700).create(&new_path)?;
        let lock = File::create_new(new_path.join(LOCK))?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
        let path = root.join(name);
        fs::rename(&new_path, &path)?;
        let folder = Self { path, _lock: lock };
        fs::create_dir(folder.trials_path())?;
        Ok(folder)
    }

    /// Returns the directory of the trials.
    pub(super) fn trials_path(&self) -> PathBuf {
        self.path.join("trials")
    }
}

impl Drop for WorkerFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Returns the beginning of the names of these directories on this host: several hosts may share the root.
fn own_prefix() -> String {
    let system = rustix::system::uname();
    format!("provoke-worker-{}-", system.nodename().to_string_lossy())
}

/// Removes the directories of this user and this host whose workers no longer run.
fn remove_abandoned(root: &Path, prefix: &str) {
    let own_user = rustix::process::getuid().as_raw();
    for entry in fs::read_dir(root).into_iter().flatten().flatten() {
        let path = entry.path();
        let is_ours = entry.file_name().to_string_lossy().starts_with(prefix)
            && fs::symlink_metadata(&path)
                .is_ok_and(|metadata| metadata.is_dir() && metadata.uid() == own_user);
        let is_abandoned = || {
            let lock = File::open(path.join(LOCK));
            lock.is_ok_and(|lock| flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok())
        };
        if is_ours && is_abandoned() {
            let _ = fs::remove_dir_all(&path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_of_killed_workers_are_removed() {
        let root = tempfile::tempdir().unwrap();
        let folder = |name: &str| {
            let path = root.path().join(name);
            fs::create_dir(&path).unwrap();
            let lock = File::create(path.join(LOCK)).unwrap();
            (path, lock)
        };
        let (abandoned, _) = folder("provoke-worker-here-1");
        let (used, lock) = folder("provoke-worker-here-2");
        let (foreign, _) = folder("provoke-worker-there-1");
        flock(&lock, FlockOperation::NonBlockingLockExclusive).unwrap();
        remove_abandoned(root.path(), "provoke-worker-here-");
        assert_eq!(
            [abandoned, used, foreign].map(|path| path.exists()),
            [false, true, true]
        );
    }
}
