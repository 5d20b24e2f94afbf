//! Opens and maps files whose names others control, creates private folders, and removes trees of files.

use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags, fstat, openat, unlinkat};
use std::collections::HashMap;
use std::ffi::CString;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

/// Device, inode, size and modification time of a file, which identify its content.
type FileIdentity = (u64, u64, u64, i64, i64);

static KNOWN: OnceLock<Mutex<HashMap<FileIdentity, &'static [u8]>>> = OnceLock::new();

/// Attempts to find a free name for a new folder.
const DRAWS: u32 = 100;

/// A temporary folder that only this user can enter; dropping this value removes the folder.
#[derive(Debug)]
pub struct PrivateFolder(PathBuf);

impl PrivateFolder {
    /// Creates the folder in the directory for temporary files. Tries another name if an entry or a
    /// symlink with the name exists.
    pub fn new(purpose: &str) -> io::Result<Self> {
        Self::create_below(&std::env::temp_dir(), purpose)
    }

    fn create_below(parent: &Path, purpose: &str) -> io::Result<Self> {
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

    /// Returns the path of the folder.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for PrivateFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A directory on the way from the root of a tree to the directory whose entries are removed.
struct Level {
    /// Its name in its parent.
    name: CString,
    /// Device and inode.
    identity: (u64, u64),
    /// Directories in it that are not empty yet.
    subfolders: Vec<CString>,
}

impl Level {
    /// Removes everything in a directory except for its subdirectories.
    fn empty(folder: &OwnedFd, name: CString) -> io::Result<Self> {
        let mut subfolders = Vec::new();
        for entry in Dir::read_from(folder)? {
            let entry = entry?;
            let name = entry.file_name();
            if [c".", c".."].contains(&name) {
                continue;
            }
            if unlinkat(folder, name, AtFlags::empty()).is_err() {
                subfolders.push(name.to_owned());
            }
        }
        let identity = identity_of(folder)?;
        Ok(Self {
            name,
            identity,
            subfolders,
        })
    }
}

/// Removes a directory with everything in it, and follows no links. Unlike that of the standard library, this function needs
/// no file descriptor for each level, so a program cannot make a tree that is too deep for it.
pub fn remove_tree(folder: &Path) -> io::Result<()> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::RDONLY | OFlags::CLOEXEC;
    let mut current = openat(CWD, folder, flags, Mode::empty())?;
    let mut levels = vec![Level::empty(&current, CString::default())?];
    while let Some(level) = levels.last_mut() {
        if let Some(name) = level.subfolders.pop() {
            current = openat(&current, &name, flags, Mode::empty())?;
            levels.push(Level::empty(&current, name)?);
        } else if let [.., parent, child] = &levels[..] {
            current = openat(&current, c"..", flags, Mode::empty())?;
            if identity_of(&current)? != parent.identity {
                return Err(io::Error::other(
                    "a directory was moved while it was removed",
                ));
            }
            unlinkat(&current, &child.name, AtFlags::REMOVEDIR)?;
            levels.pop();
        } else {
            break;
        }
    }
    fs::remove_dir(folder)
}

fn identity_of(folder: &OwnedFd) -> io::Result<(u64, u64)> {
    let stat = fstat(folder)?;
    Ok((stat.st_dev, stat.st_ino))
}

/// Creates a file that only this user can read.
///
/// An existing entry is removed, because the program under test may have created a symlink, or a
/// pipe without a reader.
pub fn create_private(path: &Path) -> io::Result<File> {
    if let Err(error) = fs::remove_file(path)
        && error.kind() != io::ErrorKind::NotFound
    {
        return Err(error);
    }
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600).open(path)
}

/// Opens a regular file, but not through a symlink, because the program under test may have created
/// one.
pub fn regular_itself(path: &Path) -> io::Result<File> {
    open_regular(path, libc::O_NOFOLLOW)
}

/// Reads a regular file of at most this many bytes, but not through a symlink. A longer file is an error.
pub fn read_itself(path: &Path, max: u64) -> io::Result<Vec<u8>> {
    let file = regular_itself(path)?;
    let mut bytes = Vec::new();
    file.take(max + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > max {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok(bytes)
}

/// Reads at most this many bytes of the end of a regular file, but not through a symlink. Returns them and the number of
/// bytes before them.
pub fn read_end_of_itself(path: &Path, max: u64) -> io::Result<(Vec<u8>, u64)> {
    let mut file = regular_itself(path)?;
    let skipped = file.metadata()?.len().saturating_sub(max);
    file.seek(SeekFrom::Start(skipped))?;
    let mut bytes = Vec::new();
    file.take(max).read_to_end(&mut bytes)?;
    Ok((bytes, skipped))
}

/// Opens a regular file for appending, and creates it if it does not exist; not through a symlink.
pub fn append_to_itself(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC | libc::O_NOFOLLOW)
        .open(path)?;
    only_regular(file)
}

/// Opens a regular file. Other types are refused: opening a named pipe could block, and a device
/// may be endless.
pub fn open_regular_file(path: &Path) -> io::Result<File> {
    open_regular(path, 0)
}

fn open_regular(path: &Path, flags: i32) -> io::Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC | flags)
        .open(path)?;
    only_regular(file)
}

fn only_regular(file: File) -> io::Result<File> {
    if file.metadata()?.is_file() {
        return Ok(file);
    }
    let kind = io::ErrorKind::InvalidInput;
    Err(io::Error::new(kind, "not a regular file"))
}

/// Returns the content of a program, a library or a debug file, which must be a regular file.
///
/// The file stays mapped as long as the process lives: such files are few and read repeatedly, a
/// mapping uses address space but no memory, and a reference to it needs no owner. If the file is
/// overwritten in place, readers may see a mixture of old and new bytes. If it is truncated, this
/// process crashes, like every program that runs the file.
pub fn map_program(path: &Path) -> io::Result<&'static [u8]> {
    let file = open_regular_file(path)?;
    let metadata = file.metadata()?;
    let state = (
        metadata.dev(),
        metadata.ino(),
        metadata.size(),
        metadata.mtime(),
        metadata.mtime_nsec(),
    );
    let mut cache = KNOWN
        .get_or_init(Mutex::default)
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    if let Some(bytes) = cache.get(&state) {
        return Ok(bytes);
    }
    let bytes = map_file(&file, metadata.len())?;
    cache.insert(state, bytes);
    Ok(bytes)
}

#[expect(unsafe_code, reason = "files are mapped by address")]
fn map_file(file: &File, length: u64) -> io::Result<&'static [u8]> {
    let length = usize::try_from(length).map_err(io::Error::other)?;
    if length == 0 {
        return Ok(&[]);
    }
    // SAFETY: the kernel chooses an unused address, and the descriptor is open.
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
    // SAFETY: `length` readable bytes begin at `start`, and they are never unmapped.
    Ok(unsafe { std::slice::from_raw_parts(start.cast::<u8>(), length) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_are_mapped() {
        assert!(map_program(Path::new("/dev/zero")).is_err());
        assert!(map_program(Path::new("/")).is_err());
    }

    #[test]
    fn a_tree_is_removed_although_it_is_deeper_than_the_limit_of_open_files() {
        let parent = tempfile::tempdir().unwrap();
        let kept = parent.path().join("kept");
        fs::write(&kept, "").unwrap();
        let tree = parent.path().join("tree");
        fs::create_dir(&tree).unwrap();
        fs::create_dir_all(tree.join("wide/empty")).unwrap();
        std::os::unix::fs::symlink(&parent, tree.join("wide/link")).unwrap();
        fs::write(tree.join("wide/file"), "").unwrap();
        let mut folder = openat(CWD, &tree, OFlags::DIRECTORY, Mode::empty()).unwrap();
        // Absolute paths cannot be this long.
        for _ in 0..1500 {
            rustix::fs::mkdirat(&folder, "d", Mode::RWXU).unwrap();
            folder = openat(&folder, "d", OFlags::DIRECTORY, Mode::empty()).unwrap();
        }
        let limit = rustix::process::Resource::Nofile;
        let mut limits = rustix::process::getrlimit(limit);
        limits.current = limits.current.map(|allowed| allowed.min(1024));
        rustix::process::setrlimit(limit, limits).unwrap();
        remove_tree(&tree).unwrap();
        assert!(!tree.exists() && kept.exists());
        assert!(remove_tree(&kept).is_err(), "it is not a directory");
    }

    #[test]
    fn a_private_folder_is_new_and_is_removed_when_dropped() {
        let parent = tempfile::tempdir().unwrap();
        let first = PrivateFolder::create_below(parent.path(), "test").unwrap();
        let second = PrivateFolder::create_below(parent.path(), "test").unwrap();
        assert_ne!(first.path(), second.path());
        assert_eq!(first.path().metadata().unwrap().mode() & 0o7777, 0o700);
        let path = first.path().to_owned();
        fs::write(path.join("file"), "").unwrap();
        drop(first);
        assert!(!path.exists());
    }

    #[test]
    fn a_symlink_is_neither_written_nor_read_through() {
        let folder = tempfile::tempdir().unwrap();
        let (link, target) = (folder.path().join("link"), folder.path().join("target"));
        fs::write(&target, "kept").unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        assert!(regular_itself(&link).is_err());
        assert!(regular_itself(&target).is_ok());
        assert!(append_to_itself(&link).is_err());
        assert_eq!(read_itself(&target, 4).unwrap(), b"kept");
        assert!(read_itself(&target, 3).is_err());
        assert_eq!(
            read_end_of_itself(&target, 3).unwrap(),
            (b"ept".to_vec(), 1)
        );
        drop(create_private(&link).unwrap());
        assert_eq!(fs::read(&target).unwrap(), b"kept");
        let metadata = fs::symlink_metadata(&link).unwrap();
        assert!(metadata.is_file());
        assert_eq!(metadata.mode() & 0o777, 0o600);
    }

    #[test]
    fn a_file_is_mapped_once_until_it_changes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, "first").unwrap();
        let first = map_program(&path).unwrap();
        assert_eq!(first.as_ptr(), map_program(&path).unwrap().as_ptr());
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "second one").unwrap();
        assert_eq!(map_program(&path).unwrap(), b"second one");
        assert_eq!(first, b"first");
    }
}
