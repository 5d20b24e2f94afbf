//! Removes folders with everything in them.

use rustix::fs::{AtFlags, Dir, Mode, OFlags, fstat, openat, unlinkat};
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

/// Opens a folder, and not through a link.
const A_FOLDER: OFlags = OFlags::DIRECTORY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// A folder on the way from the root of a tree to the folder whose entries are removed.
struct Level {
    /// Its name in its parent.
    name: CString,
    /// Device and inode.
    identity: (u64, u64),
    /// Folders in it that are not empty yet.
    subfolders: Vec<CString>,
}

impl Level {
    /// Removes everything in a folder except for its subfolders.
    fn empty(folder: &OwnedFd, name: &CStr) -> io::Result<Self> {
        let mut subfolders = Vec::new();
        for entry in Dir::read_from(folder)? {
            let entry = entry?;
            let name = entry.file_name();
            if ![c".", c".."].contains(&name) && unlinkat(folder, name, AtFlags::empty()).is_err() {
                subfolders.push(name.to_owned());
            }
        }
        Ok(Self {
            name: name.to_owned(),
            identity: identity_of(folder)?,
            subfolders,
        })
    }
}

/// Removes a folder with everything in it, and follows no links. Unlike that of the standard library, this function needs no
/// file descriptor for each level, so a program cannot make a tree that is too deep for it.
pub(super) fn remove_folder(parent: BorrowedFd<'_>, name: &CStr) -> io::Result<()> {
    let mut current = openat(parent, name, A_FOLDER, Mode::empty())?;
    let mut levels = vec![Level::empty(&current, name)?];
    while let Some(level) = levels.last_mut() {
        if let Some(name) = level.subfolders.pop() {
            current = openat(&current, &name, A_FOLDER, Mode::empty())?;
            levels.push(Level::empty(&current, &name)?);
        } else if let [.., above, child] = &levels[..] {
            current = openat(&current, c"..", A_FOLDER, Mode::empty())?;
            if identity_of(&current)? != above.identity {
                return Err(io::Error::other("a folder was moved while it was removed"));
            }
            unlinkat(&current, &child.name, AtFlags::REMOVEDIR)?;
            levels.pop();
        } else {
            break;
        }
    }
    Ok(unlinkat(parent, name, AtFlags::REMOVEDIR)?)
}

fn identity_of(folder: &OwnedFd) -> io::Result<(u64, u64)> {
    let stat = fstat(folder)?;
    Ok((stat.st_dev, stat.st_ino))
}

#[cfg(test)]
mod tests {
    use crate::files::remove_tree;
    use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};
    use rustix::process::{Resource, getrlimit, setrlimit};
    use std::fs;

    #[test]
    fn a_tree_is_removed_although_it_is_deeper_than_the_limit_of_open_files() {
        let parent = tempfile::tempdir().unwrap();
        let kept = parent.path().join("kept");
        fs::write(&kept, "").unwrap();
        let tree = parent.path().join("tree");
        fs::create_dir_all(tree.join("wide/empty")).unwrap();
        std::os::unix::fs::symlink(&parent, tree.join("wide/link")).unwrap();
        fs::write(tree.join("wide/file"), "").unwrap();
        let mut folder = openat(CWD, &tree, OFlags::DIRECTORY, Mode::empty()).unwrap();
        // Absolute paths cannot be this long.
        for _ in 0..1500 {
            mkdirat(&folder, "d", Mode::RWXU).unwrap();
            folder = openat(&folder, "d", OFlags::DIRECTORY, Mode::empty()).unwrap();
        }
        let mut limits = getrlimit(Resource::Nofile);
        limits.current = limits.current.map(|allowed| allowed.min(1024));
        setrlimit(Resource::Nofile, limits).unwrap();
        remove_tree(&tree).unwrap();
        assert!(!tree.exists() && kept.exists());
        remove_tree(&kept).unwrap();
        assert!(!kept.exists());
    }
}
