//! Holds folders open, so that their paths lead to the same folders although others can rename or replace them.

use rustix::fs::{CWD, Mode, OFlags, openat};
use serde::{Deserialize, Serialize};
use std::fs::{self, File, Metadata};
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// The folders that are held now.
static HELD: Mutex<Vec<Weak<OpenFolder>>> = Mutex::new(Vec::new());

/// A folder that is open. While it is, the functions of [`super::files`] reach the paths below its path through its
/// descriptor, and follow no link on the way.
#[derive(Clone, Debug)]
pub struct HeldFolder(Arc<OpenFolder>);

#[derive(Debug)]
struct OpenFolder {
    path: PathBuf,
    folder: File,
}

/// Device and inode of a folder, by which another process recognizes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FolderIdentity(u64, u64);

impl FolderIdentity {
    fn of_metadata(metadata: &Metadata) -> Self {
        Self(metadata.dev(), metadata.ino())
    }
}

impl HeldFolder {
    /// Opens the folder at an absolute path without links.
    pub fn hold(path: &Path) -> io::Result<Self> {
        let place = Location::of_path(path)?;
        let folder = openat(place.folder(), place.name, TO_A_FOLDER, Mode::empty())?;
        let folder = Arc::new(OpenFolder {
            path: path.to_owned(),
            folder: File::from(folder),
        });
        let mut held = lock_held();
        held.retain(|folder| folder.strong_count() > 0);
        held.push(Arc::downgrade(&folder));
        Ok(Self(folder))
    }

    /// Opens a folder that another process holds, unless it was replaced meanwhile.
    pub fn hold_same(path: &Path, identity: FolderIdentity) -> io::Result<Self> {
        let folder = Self::hold(path)?;
        if folder.identity()? == identity {
            return Ok(folder);
        }
        Err(replaced(path))
    }

    /// Returns the folder that is held and contains this path.
    pub fn above(path: &Path) -> Option<Self> {
        let held = lock_held();
        let folders = held.iter().filter_map(Weak::upgrade);
        let above = folders.filter(|folder| path.starts_with(&folder.path));
        // Of two folders that had the same path, the first is the one that is in use.
        let longest = above.min_by_key(|folder| std::cmp::Reverse(folder.path.as_os_str().len()));
        longest.map(Self)
    }

    /// Returns the path at which the folder was opened.
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// Returns what another process needs to recognize the folder.
    pub fn identity(&self) -> io::Result<FolderIdentity> {
        Ok(FolderIdentity::of_metadata(&self.0.folder.metadata()?))
    }
}

/// Fails if this path is below a folder that is held, but no longer leads there. Other processes are given only paths
/// that pass this check.
pub fn check_place(path: &Path) -> io::Result<()> {
    let Some(folder) = HeldFolder::above(path) else {
        return Ok(());
    };
    let found = fs::symlink_metadata(folder.path());
    match found {
        Ok(found) if FolderIdentity::of_metadata(&found) == folder.identity()? => Ok(()),
        _ => Err(replaced(folder.path())),
    }
}

fn replaced(path: &Path) -> io::Error {
    let path = provoke_words::untrusted::Untrusted::to_safe(path);
    io::Error::other(format!(
        "`{path}` was renamed or replaced while it was in use"
    ))
}

fn lock_held() -> MutexGuard<'static, Vec<Weak<OpenFolder>>> {
    HELD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Opens a folder only as the beginning of other paths, and not through a link.
const TO_A_FOLDER: OFlags = OFlags::PATH
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// Where a system call finds a path: an open folder, and the name in it.
pub(super) struct Location<'p> {
    held: Option<HeldFolder>,
    /// A folder below the one that is held.
    below: Option<OwnedFd>,
    /// The name in the folder; the whole path if no folder is held.
    pub(super) name: &'p Path,
}

impl<'p> Location<'p> {
    /// Opens the folders on the way to a path.
    pub(super) fn of_path(path: &'p Path) -> io::Result<Self> {
        let mut location = Self {
            held: HeldFolder::above(path),
            below: None,
            name: path,
        };
        let Some(held) = &location.held else {
            return Ok(location);
        };
        let names = path.strip_prefix(held.path()).unwrap_or(path);
        let mut names = names.components();
        let Some(last) = names.next_back() else {
            location.name = Path::new(".");
            return Ok(location);
        };
        for component in names {
            let next = openat(
                location.folder(),
                plain_name(component)?,
                TO_A_FOLDER,
                Mode::empty(),
            )?;
            location.below = Some(next);
        }
        location.name = plain_name(last)?;
        Ok(location)
    }

    /// Returns the folder.
    pub(super) fn folder(&self) -> BorrowedFd<'_> {
        match (&self.below, &self.held) {
            (Some(below), _) => below.as_fd(),
            (None, Some(held)) => held.0.folder.as_fd(),
            (None, None) => CWD,
        }
    }
}

/// Returns a component, unless it leads upwards.
fn plain_name(component: Component<'_>) -> io::Result<&Path> {
    match component {
        Component::Normal(name) => Ok(Path::new(name)),
        _ => Err(io::ErrorKind::InvalidInput.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::files;
    use super::*;
    use std::io::Write as _;
    use std::os::unix::fs::symlink;

    struct TestFolders {
        _parent: tempfile::TempDir,
        run: PathBuf,
        moved: PathBuf,
        other: PathBuf,
    }

    /// Returns a folder, a place for it to go, and a folder of somebody else.
    fn test_folders() -> TestFolders {
        let parent = tempfile::tempdir().unwrap();
        let [run, moved, other] = ["run", "moved", "other"].map(|name| parent.path().join(name));
        fs::create_dir(&run).unwrap();
        fs::create_dir(&other).unwrap();
        TestFolders {
            _parent: parent,
            run,
            moved,
            other,
        }
    }

    fn write_file(path: &Path, text: &str) -> io::Result<()> {
        files::create_private(path)?.write_all(text.as_bytes())
    }

    #[test]
    fn a_held_folder_is_used_although_a_link_took_its_place() {
        let TestFolders {
            _parent,
            run,
            moved,
            other,
        } = test_folders();
        let held = HeldFolder::hold(&run).unwrap();
        check_place(&run.join("file")).unwrap();
        fs::rename(&run, &moved).unwrap();
        symlink(&other, &run).unwrap();
        assert!(check_place(&run.join("file")).is_err());
        files::create_folders(&run.join("trials/1")).unwrap();
        write_file(&run.join("trials/1/stdout"), "text").unwrap();
        assert_eq!(
            files::read_itself(&run.join("trials/1/stdout"), 9).unwrap(),
            b"text"
        );
        let listed = files::folder_entries(&run.join("trials/1")).unwrap();
        assert_eq!(listed, [run.join("trials/1/stdout")]);
        assert!(moved.join("trials/1/stdout").is_file());
        files::remove_tree(&run.join("trials")).unwrap();
        assert!(fs::read_dir(&moved).unwrap().next().is_none());
        assert!(fs::read_dir(&other).unwrap().next().is_none());
        drop(held);
        write_file(&run.join("file"), "").unwrap();
        assert!(other.join("file").is_file());
    }

    #[test]
    fn no_link_below_a_held_folder_is_followed() {
        let TestFolders {
            _parent,
            run,
            moved,
            other,
        } = test_folders();
        let _held = HeldFolder::hold(&run).unwrap();
        symlink(&other, run.join("trials")).unwrap();
        fs::write(other.join("file"), "kept").unwrap();
        let file = run.join("trials/file");
        assert!(write_file(&file, "").is_err());
        assert!(files::regular_itself(&file).is_err());
        assert!(files::metadata_itself(&file).is_err());
        assert!(files::remove_file(&file).is_err());
        assert!(files::rename(&file, &run.join("file")).is_err());
        assert!(files::create_folders(&run.join("trials/1")).is_err());
        assert!(files::folder_entries(&run.join("trials")).is_err());
        assert!(write_file(&run.join("../other/new"), "").is_err());
        files::remove_tree(&run.join("trials")).unwrap();
        assert_eq!(fs::read(other.join("file")).unwrap(), b"kept");
        assert!(!moved.exists() && !other.join("1").exists());
    }

    #[test]
    fn another_process_recognizes_a_replaced_folder() {
        let TestFolders {
            _parent,
            run,
            moved,
            ..
        } = test_folders();
        let identity = HeldFolder::hold(&run).unwrap().identity().unwrap();
        assert!(HeldFolder::hold_same(&run, identity).is_ok());
        fs::rename(&run, moved).unwrap();
        fs::create_dir(&run).unwrap();
        assert!(HeldFolder::hold_same(&run, identity).is_err());
    }
}
