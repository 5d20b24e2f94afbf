//! Opens, creates and removes the files of runs and other files whose names others control, and maps programs.
//!
//! The functions follow no symlink in the last component of a path, open only regular files, and work in the folder
//! that is held, if the path is below one ([`super::held_folder`]).

use super::held_folder::Location;
use super::tree_removal::remove_folder;
use rustix::fs::{
    AtFlags, Dir, FileType, Gid, MemfdFlags, Mode, OFlags, Uid, chmodat, chownat, fchmod, linkat,
    mkdirat, mknodat, openat, renameat, symlinkat, unlinkat,
};
use rustix::io::Errno;
use std::collections::HashMap;
use std::ffi::{CString, OsStr, OsString};
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::{Mutex, OnceLock, PoisonError};

/// Device, inode, size and modification time of a file, which identify its content.
type FileIdentity = (u64, u64, u64, i64, i64);

static KNOWN: OnceLock<Mutex<HashMap<FileIdentity, &'static [u8]>>> = OnceLock::new();

/// Creates a file that only this user can read and write.
///
/// An existing entry is removed, because the program under test may have created a symlink, or a
/// pipe without a reader.
pub fn create_private(path: &Path) -> io::Result<File> {
    remove_file(path).or_else(unless_missing)?;
    create_new(path)
}

/// Creates a file that every user can read, in place of an existing entry.
pub fn create_readable(path: &Path) -> io::Result<File> {
    let file = create_private(path)?;
    fchmod(&file, Mode::from_raw_mode(0o644))?;
    Ok(file)
}

/// Creates a file that only this user can read and write, and fails if the entry exists.
pub fn create_new(path: &Path) -> io::Result<File> {
    open_itself(path, OFlags::RDWR | OFlags::CREATE | OFlags::EXCL)
}

/// Opens a regular file, but not through a symlink, because the program under test may have created
/// one.
pub fn regular_itself(path: &Path) -> io::Result<File> {
    open_itself(path, OFlags::RDONLY)
}

/// Opens a regular file for reading and writing, and creates it if it does not exist; not through a symlink.
pub fn update_itself(path: &Path) -> io::Result<File> {
    open_itself(path, OFlags::RDWR | OFlags::CREATE)
}

/// Opens a regular file for appending, and creates it if it does not exist; not through a symlink.
pub fn append_to_itself(path: &Path) -> io::Result<File> {
    open_itself(path, OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE)
}

fn open_itself(path: &Path, flags: OFlags) -> io::Result<File> {
    let location = Location::of_path(path)?;
    let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let mode = Mode::RUSR | Mode::WUSR;
    let file = openat(location.folder(), location.name, flags, mode)?;
    only_regular(File::from(file))
}

/// Reads a regular file of at most this many bytes, but not through a symlink. A longer file is an error.
pub fn read_itself(path: &Path, max: u64) -> io::Result<Vec<u8>> {
    let bytes = read_beginning_of_itself(path, max + 1)?;
    if bytes.len() as u64 > max {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok(bytes)
}

/// Reads at most this many bytes of the beginning of a regular file, but not through a symlink.
pub fn read_beginning_of_itself(path: &Path, max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    regular_itself(path)?.take(max).read_to_end(&mut bytes)?;
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

/// Returns the metadata of an entry, which may be a symlink.
pub fn metadata_itself(path: &Path) -> io::Result<Metadata> {
    let location = Location::of_path(path)?;
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let entry = openat(location.folder(), location.name, flags, Mode::empty())?;
    File::from(entry).metadata()
}

/// Returns whether an entry is a regular file, and not a symlink.
pub fn is_regular(path: &Path) -> bool {
    metadata_itself(path).is_ok_and(|metadata| metadata.is_file())
}

/// Returns the paths of the entries of a folder, sorted.
pub fn folder_entries(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let location = Location::of_path(folder)?;
    let names = entry_names(&open_folder(&location)?)?;
    let mut paths: Vec<PathBuf> = names.iter().map(|name| folder.join(name)).collect();
    paths.sort();
    Ok(paths)
}

fn open_folder(location: &Location<'_>) -> io::Result<OwnedFd> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat(
        location.folder(),
        location.name,
        flags,
        Mode::empty(),
    )?)
}

fn entry_names(folder: &OwnedFd) -> io::Result<Vec<OsString>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(folder)? {
        let name = OsStr::from_bytes(entry?.file_name().to_bytes()).to_owned();
        if name != "." && name != ".." {
            names.push(name);
        }
    }
    Ok(names)
}

/// Creates a folder and those above it, as far as they do not exist.
pub fn create_folders(path: &Path) -> io::Result<()> {
    create_folders_as(path, Mode::from_raw_mode(0o777))
}

/// Creates a folder and those above it, as far as they do not exist, that only this user can enter.
pub fn create_private_folders(path: &Path) -> io::Result<()> {
    create_folders_as(path, Mode::RWXU)
}

fn create_folders_as(path: &Path, mode: Mode) -> io::Result<()> {
    let create = || -> io::Result<()> {
        let location = Location::of_path(path)?;
        Ok(mkdirat(location.folder(), location.name, mode)?)
    };
    let created = match (create(), path.parent()) {
        // In some file systems, such as /proc, nothing can be created although the folder above exists.
        (Err(error), Some(parent)) if error.kind() == io::ErrorKind::NotFound => {
            create_folders_as(parent, mode)?;
            create()
        }
        (created, _) => created,
    };
    match created {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let is_folder = metadata_itself(path)?.is_dir();
            if is_folder { Ok(()) } else { Err(error) }
        }
        created => created,
    }
}

/// Creates a folder that only this user can enter.
pub fn create_private_folder(path: &Path) -> io::Result<()> {
    let location = Location::of_path(path)?;
    Ok(mkdirat(location.folder(), location.name, Mode::RWXU)?)
}

/// Removes a file or a symlink.
pub fn remove_file(path: &Path) -> io::Result<()> {
    let location = Location::of_path(path)?;
    Ok(unlinkat(
        location.folder(),
        location.name,
        AtFlags::empty(),
    )?)
}

/// Removes a folder if it is empty.
pub fn remove_empty_folder(path: &Path) -> io::Result<()> {
    let location = Location::of_path(path)?;
    Ok(unlinkat(
        location.folder(),
        location.name,
        AtFlags::REMOVEDIR,
    )?)
}

/// Removes a file, a symlink, or a folder with all that is in it, through no symlink.
pub fn remove_tree(path: &Path) -> io::Result<()> {
    let location = Location::of_path(path)?;
    match unlinkat(location.folder(), location.name, AtFlags::empty()) {
        // POSIX requires EPERM instead.
        Err(Errno::ISDIR | Errno::PERM) => {
            let name = CString::new(location.name.as_os_str().as_bytes())?;
            remove_folder(location.folder(), &name)
        }
        removed => Ok(removed?),
    }
}

/// Renames an entry; a symlink is renamed itself.
pub fn rename(from: &Path, to: &Path) -> io::Result<()> {
    let (from, to) = (Location::of_path(from)?, Location::of_path(to)?);
    Ok(renameat(from.folder(), from.name, to.folder(), to.name)?)
}

/// Creates a private file, in place of an existing one. After any end, the old or the complete new file is there. A symlink
/// is replaced, and its target unchanged.
pub fn replace<E>(
    path: &Path,
    write: impl FnOnce(File) -> Result<(), E>,
    describe: impl Fn(io::Error) -> E,
) -> Result<(), E> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.tmp", process::id()));
    let temporary = path.with_file_name(name);
    let file = create_new(&temporary).map_err(&describe)?;
    let replaced = write(file).and_then(|()| rename(&temporary, path).map_err(&describe));
    if replaced.is_err() {
        let _ = remove_file(&temporary);
    }
    replaced
}

/// Moves a regular file, also to another file system.
pub fn move_file(from: &Path, to: &Path) -> io::Result<()> {
    match rename(from, to) {
        Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
            io::copy(&mut regular_itself(from)?, &mut create_private(to)?)?;
            remove_file(from)
        }
        result => result,
    }
}

/// Creates a symlink.
pub fn create_symlink(target: &Path, link: &Path) -> io::Result<()> {
    let location = Location::of_path(link)?;
    Ok(symlinkat(target, location.folder(), location.name)?)
}

/// Creates another name of a file.
pub fn create_hard_link(file: &Path, name: &Path) -> io::Result<()> {
    let (file, name) = (Location::of_path(file)?, Location::of_path(name)?);
    Ok(linkat(
        file.folder(),
        file.name,
        name.folder(),
        name.name,
        AtFlags::empty(),
    )?)
}

/// Creates a named pipe that every user can read.
pub fn create_pipe(path: &Path) -> io::Result<()> {
    let location = Location::of_path(path)?;
    let mode = Mode::from_raw_mode(0o644);
    mknodat(location.folder(), location.name, FileType::Fifo, mode, 0)?;
    Ok(chmodat(
        location.folder(),
        location.name,
        mode,
        AtFlags::empty(),
    )?)
}

/// Gives an entry to another user; a symlink is given away itself.
pub fn give_to(path: &Path, uid: u32, gid: u32) -> io::Result<()> {
    let location = Location::of_path(path)?;
    Ok(chownat(
        location.folder(),
        location.name,
        Some(Uid::from_raw(uid)),
        Some(Gid::from_raw(gid)),
        AtFlags::SYMLINK_NOFOLLOW,
    )?)
}

/// Lets every user pass through a folder, without reading it.
pub fn let_through(folder: &Path) -> io::Result<()> {
    set_folder_mode(folder, 0o711)
}

/// Sets the mode of a folder.
pub fn set_folder_mode(folder: &Path, mode: u32) -> io::Result<()> {
    let folder = open_folder(&Location::of_path(folder)?)?;
    Ok(fchmod(folder, Mode::from_raw_mode(mode))?)
}

/// Accepts that an entry to remove does not exist.
fn unless_missing(error: io::Error) -> io::Result<()> {
    if error.kind() == io::ErrorKind::NotFound {
        return Ok(());
    }
    Err(error)
}

/// Opens a regular file. Other types are refused: opening a named pipe could block, and a device
/// may be endless.
pub fn open_regular_file(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
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

/// Creates a file in memory for several processes; returns one end for writing, which they inherit, and one for reading.
pub fn create_in_memory(name: &str) -> io::Result<[File; 2]> {
    let memory = File::from(rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC)?);
    let reader = File::open(format!("/proc/self/fd/{}", memory.as_raw_fd()))?;
    Ok([memory, reader])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn only_regular_files_are_mapped() {
        assert!(map_program(Path::new("/dev/zero")).is_err());
        assert!(map_program(Path::new("/")).is_err());
    }

    #[test]
    fn a_file_system_without_new_folders_is_an_error() {
        assert!(create_folders(Path::new("/proc/provoke/folder")).is_err());
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
        assert_eq!(read_beginning_of_itself(&target, 3).unwrap(), b"kep");
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
