//! Opens and maps files whose names others control, and creates private folders.

use std::collections::HashMap;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

/// What tells one state of a file from another: device, inode, size, time of change.
type State = (u64, u64, u64, i64, i64);

static KNOWN: OnceLock<Mutex<HashMap<State, &'static [u8]>>> = OnceLock::new();

/// Attempts to find a free name for a new folder.
const DRAWS: u32 = 100;

/// A new folder for temporary files that only this user can enter; it is removed when dropped.
#[derive(Debug)]
pub struct PrivateFolder(PathBuf);

impl PrivateFolder {
    /// Makes it where temporary files belong. An existing entry, a link included, is never
    /// taken for it.
    pub fn new(purpose: &str) -> io::Result<Self> {
        Self::below(&std::env::temp_dir(), purpose)
    }

    fn below(parent: &Path, purpose: &str) -> io::Result<Self> {
        for _ in 0..DRAWS {
            let chance = RandomState::new().build_hasher().finish();
            let path = parent.join(format!("provoke-{purpose}-{chance:016x}"));
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Self(path)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    /// Returns where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for PrivateFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Makes a new file that only this user can read. An entry that is there is removed: the program
/// under test may have planted a link, or a pipe that nobody reads.
pub fn create_private(path: &Path) -> io::Result<File> {
    if let Err(error) = fs::remove_file(path)
        && error.kind() != io::ErrorKind::NotFound
    {
        return Err(error);
    }
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600).open(path)
}

/// Opens a regular file that is not behind a link: the program under test may have planted one.
pub fn regular_itself(path: &Path) -> io::Result<File> {
    open_regular(path, libc::O_NOFOLLOW)
}

/// Opens a regular file. Anything else is refused: a named pipe would keep us waiting for
/// its other end, and a device never ends.
pub fn regular(path: &Path) -> io::Result<File> {
    open_regular(path, 0)
}

fn open_regular(path: &Path, flags: i32) -> io::Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC | flags)
        .open(path)?;
    if file.metadata()?.is_file() {
        return Ok(file);
    }
    let kind = io::ErrorKind::InvalidInput;
    Err(io::Error::new(kind, "not a regular file"))
}

/// Returns the content of a regular file that holds a program, a library or their debug
/// information.
///
/// It stays mapped as long as the process lives: such files are few and looked into again
/// and again, a mapping costs address space and not memory, and what is never unmapped
/// needs no owner. A file that is written anew in place while it is being looked into may
/// be seen half old and half new; one that is cut short then ends the process, as it would
/// end every program that runs it.
pub fn program(path: &Path) -> io::Result<&'static [u8]> {
    let file = regular(path)?;
    let about = file.metadata()?;
    let state = (
        about.dev(),
        about.ino(),
        about.size(),
        about.mtime(),
        about.mtime_nsec(),
    );
    let known = KNOWN.get_or_init(Mutex::default);
    let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(bytes) = known.get(&state) {
        return Ok(bytes);
    }
    let bytes = map(&file, about.len())?;
    known.insert(state, bytes);
    Ok(bytes)
}

#[expect(unsafe_code, reason = "files are mapped by address")]
fn map(file: &File, length: u64) -> io::Result<&'static [u8]> {
    let length = usize::try_from(length).map_err(io::Error::other)?;
    if length == 0 {
        return Ok(&[]);
    }
    // SAFETY: the kernel chooses a place that nothing else uses, and the descriptor is open.
    let start = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            length,
            libc::PROT_READ,
            libc::MAP_PRIVATE,
            file.as_raw_fd(),
            0,
        )
    };
    if start == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `length` readable bytes begin there, and nobody ever unmaps them.
    Ok(unsafe { std::slice::from_raw_parts(start.cast::<u8>(), length) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_a_regular_file_is_refused() {
        assert!(program(Path::new("/dev/zero")).is_err());
        assert!(program(Path::new("/")).is_err());
    }

    #[test]
    fn a_private_folder_is_new_and_goes_with_its_owner() {
        let parent = tempfile::tempdir().unwrap();
        let first = PrivateFolder::below(parent.path(), "test").unwrap();
        let second = PrivateFolder::below(parent.path(), "test").unwrap();
        assert_ne!(first.path(), second.path());
        assert_eq!(first.path().metadata().unwrap().mode() & 0o7777, 0o700);
        let path = first.path().to_owned();
        fs::write(path.join("file"), "").unwrap();
        drop(first);
        assert!(!path.exists());
    }

    #[test]
    fn a_planted_link_is_neither_written_nor_read_through() {
        let folder = tempfile::tempdir().unwrap();
        let (link, target) = (folder.path().join("link"), folder.path().join("target"));
        fs::write(&target, "kept").unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        assert!(regular_itself(&link).is_err());
        assert!(regular_itself(&target).is_ok());
        drop(create_private(&link).unwrap());
        assert_eq!(fs::read(&target).unwrap(), b"kept");
        let about = fs::symlink_metadata(&link).unwrap();
        assert!(about.is_file());
        assert_eq!(about.mode() & 0o777, 0o600);
    }

    #[test]
    fn a_file_is_mapped_once_until_it_changes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, "first").unwrap();
        let first = program(&path).unwrap();
        assert_eq!(first.as_ptr(), program(&path).unwrap().as_ptr());
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "second one").unwrap();
        assert_eq!(program(&path).unwrap(), b"second one");
        assert_eq!(first, b"first");
    }
}
