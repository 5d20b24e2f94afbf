//! The temporary directory of a worker, which is removed at its end, or by the next worker after a crash.

use provoke_sys::files;
use provoke_sys::held_folder::HeldFolder;
use rustix::fs::{FlockOperation, flock};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// File that a worker locks while it runs.
const LOCK: &str = "lock";

/// The temporary directory of a worker.
pub(super) struct WorkerFolder {
    path: PathBuf,
    held: Option<HeldFolder>,
    _lock: File,
}

impl WorkerFolder {
    /// Creates a directory that only this user can read, and removes those of workers that were killed.
    pub(super) fn create() -> io::Result<Self> {
        let root = fs::canonicalize(std::env::temp_dir())?;
        let prefix = own_prefix();
        remove_abandoned(&root, &prefix);
        // Containers on one machine may have equal process IDs.
        let started = SystemTime::now().duration_since(UNIX_EPOCH);
        let started = started.map_or(0, |time| time.as_nanos());
        let name = format!("{prefix}{}-{started:x}", std::process::id());
        // It gets its name when it is locked, so that no other worker removes it.
        let new_path = root.join(format!(".{name}"));
        files::create_private_folder(&new_path)?;
        let lock = files::create_new(&new_path.join(LOCK))?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
        let path = root.join(name);
        files::rename(&new_path, &path)?;
        let folder = Self {
            held: Some(HeldFolder::hold(&path)?),
            path,
            _lock: lock,
        };
        files::create_private_folder(&folder.trials_path())?;
        Ok(folder)
    }

    /// Returns the directory of the trials.
    pub(super) fn trials_path(&self) -> PathBuf {
        self.path.join("trials")
    }
}

impl Drop for WorkerFolder {
    fn drop(&mut self) {
        // A directory can be removed only by its name in another one.
        self.held = None;
        let _ = files::remove_tree(&self.path);
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
    for path in files::folder_entries(root).into_iter().flatten() {
        let name = path.file_name().unwrap_or_default();
        let is_ours = name.to_string_lossy().starts_with(prefix)
            && files::metadata_itself(&path)
                .is_ok_and(|metadata| metadata.is_dir() && metadata.uid() == own_user);
        let is_abandoned = || {
            let lock = files::regular_itself(&path.join(LOCK));
            lock.is_ok_and(|lock| flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok())
        };
        if is_ours && is_abandoned() {
            let _ = files::remove_tree(&path);
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
