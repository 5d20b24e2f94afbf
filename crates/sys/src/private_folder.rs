//! A temporary folder of this process. It is removed at its end, or after a crash by the next process that needs one.

use super::files;
use super::held_folder::HeldFolder;
use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};
use std::fs::{self, File};
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Attempts to find a free name for a new folder.
const DRAWS: u32 = 100;

/// A temporary folder that only this user can enter; dropping this value removes the folder.
#[derive(Debug)]
pub struct PrivateFolder {
    path: PathBuf,
    held: Option<HeldFolder>,
    /// Is locked while the folder is in use.
    _lock: File,
}

impl PrivateFolder {
    /// Creates the folder in the directory for temporary files. Removes those for the same purpose whose processes were killed.
    pub fn new(purpose: &str) -> io::Result<Self> {
        // Several hosts may share the directory. Workers of earlier versions, which lock a file in their folders, have names
        // that begin with `provoke-worker-`.
        let system = rustix::system::uname();
        let host = system.nodename().to_string_lossy().replace('/', "_");
        let parent = fs::canonicalize(std::env::temp_dir())?;
        Self::create_below(&parent, &format!("provoke-{host}-{purpose}-"))
    }

    /// Tries another name if an entry or a symlink with the name exists.
    fn create_below(parent: &Path, prefix: &str) -> io::Result<Self> {
        remove_abandoned(parent, prefix);
        for _ in 0..DRAWS {
            let chance = RandomState::new().build_hasher().finish();
            let path = parent.join(format!("{prefix}{chance:016x}"));
            match files::create_private_folder(&path) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(error),
            }
            // Another process may remove it before it is locked.
            let Ok(lock) = lock_folder(&path) else {
                continue;
            };
            let held = HeldFolder::hold(&path)?;
            return Ok(Self {
                path,
                held: Some(held),
                _lock: lock,
            });
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    /// Returns the path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for PrivateFolder {
    fn drop(&mut self) {
        // A folder can be removed only by its name in another one.
        self.held = None;
        let _ = files::remove_tree(&self.path);
    }
}

/// Locks a folder that no process uses.
fn lock_folder(path: &Path) -> io::Result<File> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder = File::from(open(path, flags, Mode::empty())?);
    flock(&folder, FlockOperation::NonBlockingLockExclusive)?;
    let (now, locked) = (files::metadata_itself(path)?, folder.metadata()?);
    if (now.dev(), now.ino()) == (locked.dev(), locked.ino()) {
        Ok(folder)
    } else {
        Err(io::ErrorKind::NotFound.into())
    }
}

/// Removes the folders of this user that no process uses.
fn remove_abandoned(parent: &Path, prefix: &str) {
    let own_user = rustix::process::getuid().as_raw();
    for path in files::folder_entries(parent).into_iter().flatten() {
        let name = path.file_name().unwrap_or_default();
        let is_ours = name.to_string_lossy().starts_with(prefix)
            && files::metadata_itself(&path)
                .is_ok_and(|metadata| metadata.is_dir() && metadata.uid() == own_user);
        if is_ours && let Ok(_lock) = lock_folder(&path) {
            let _ = files::remove_tree(&path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_private_folder_is_new_and_is_removed_when_dropped() {
        let parent = tempfile::tempdir().unwrap();
        let create = || PrivateFolder::create_below(parent.path(), "provoke-test-").unwrap();
        let (first, second) = (create(), create());
        assert_ne!(first.path(), second.path());
        assert_eq!(first.path().metadata().unwrap().mode() & 0o7777, 0o700);
        let path = first.path().to_owned();
        fs::write(path.join("file"), "").unwrap();
        drop(first);
        assert!(!path.exists() && second.path().exists());
    }

    #[test]
    fn folders_of_killed_processes_are_removed() {
        let parent = tempfile::tempdir().unwrap();
        let folder = |name: &str| {
            let path = parent.path().join(name);
            fs::create_dir(&path).unwrap();
            path
        };
        let abandoned = folder("provoke-test-here-1");
        let foreign = folder("provoke-test-there-1");
        let used = PrivateFolder::create_below(parent.path(), "provoke-test-here-").unwrap();
        fs::create_dir(abandoned.with_file_name("provoke-test-here-2")).unwrap();
        remove_abandoned(parent.path(), "provoke-test-here-");
        let left = files::folder_entries(parent.path()).unwrap();
        assert_eq!(left, [used.path().to_owned(), foreign]);
    }
}
