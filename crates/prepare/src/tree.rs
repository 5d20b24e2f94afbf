//! Measures and copies a tree of files.

use super::io_error_at;
use provoke_sys::files;
use provoke_words::diagnostic::Diagnostic;
use std::convert::identity;
use std::fs::{self, DirEntry, File, Metadata};
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// The directory of runs, which is not copied.
const OURS: &str = "provoke-out";

/// Size of a tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct TreeSize {
    pub(super) files: u64,
    pub(super) bytes: u64,
}

/// A directory with its contents, without the excluded parts.
pub(super) struct FileTree<'a> {
    root: PathBuf,
    apart: Vec<PathBuf>,
    halt: Option<&'a AtomicBool>,
}

/// Mode bits that make directories of a copy changeable and removable.
const WRITABLE: u32 = 0o700;

impl<'a> FileTree<'a> {
    /// Creates a tree whose root contains no symlinks.
    pub(super) fn new(root: &Path, apart: &[&Path]) -> Self {
        let real = |path: &&Path| fs::canonicalize(path).ok();
        Self {
            root: root.to_owned(),
            apart: apart.iter().filter_map(real).collect(),
            halt: None,
        }
    }

    /// Stops a copy when this is set.
    pub(super) fn until_halted(self, halt: &'a AtomicBool) -> Self {
        let halt = Some(halt);
        Self { halt, ..self }
    }

    /// Returns the size; `None` if it exceeds this one.
    pub(super) fn weigh_up_to(&self, max_size: TreeSize) -> Result<Option<TreeSize>, Diagnostic> {
        let mut total = TreeSize::default();
        let mut folders = vec![self.root.clone()];
        while let Some(folder) = folders.pop() {
            for (entry, metadata) in self.copied_entries(&folder)? {
                total.files += 1;
                if metadata.is_dir() {
                    folders.push(entry.path());
                } else if metadata.is_file() {
                    total.bytes = total.bytes.saturating_add(metadata.len());
                }
                if total.files > max_size.files || total.bytes > max_size.bytes {
                    return Ok(None);
                }
            }
        }
        Ok(Some(total))
    }

    /// Returns the paths of its files, without the data of git.
    pub(super) fn list_files(&self) -> Result<Vec<PathBuf>, Diagnostic> {
        let mut files = Vec::new();
        let mut folders = vec![self.root.clone()];
        while let Some(folder) = folders.pop() {
            for (entry, metadata) in self.copied_entries(&folder)? {
                let path = entry.path();
                if metadata.is_dir() && entry.file_name() != ".git" {
                    folders.push(path);
                } else if metadata.is_file()
                    && let Ok(inside) = path.strip_prefix(&self.root)
                {
                    files.push(inside.to_owned());
                }
            }
        }
        Ok(files)
    }

    /// Copies it to a new directory.
    pub(super) fn copy_to(mut self, target: &Path) -> Result<(), Diagnostic> {
        let metadata = fs::metadata(&self.root).map_err(io_error_at(&self.root))?;
        if let Some(folder) = target.parent() {
            files::create_folders(folder).map_err(io_error_at(folder))?;
            // The target may be inside the copied directory.
            self.apart
                .push(fs::canonicalize(folder).map_err(io_error_at(folder))?);
        }
        self.copy_folder(&self.root, target, target, &metadata)
    }

    /// Copies a directory of the tree; the whole copy begins at `top`.
    fn copy_folder(
        &self,
        source: &Path,
        target: &Path,
        top: &Path,
        metadata: &Metadata,
    ) -> Result<(), Diagnostic> {
        files::create_private_folder(target).map_err(io_error_at(target))?;
        for (entry, about) in self.copied_entries(source)? {
            if self.halt.is_some_and(|halt| halt.load(Ordering::Relaxed)) {
                break;
            }
            let (from, to) = (entry.path(), target.join(entry.file_name()));
            if about.is_dir() {
                self.copy_folder(&from, &to, top, &about)?;
            } else if about.is_symlink() {
                let link_target = fs::read_link(&from).map(|link| self.in_copy(link, top));
                let link = link_target.and_then(|link| files::create_symlink(&link, &to));
                unless_gone(link).map_err(io_error_at(&from))?;
            } else if about.is_file() {
                unless_gone(copy_file(&from, &to, &about)).map_err(io_error_at(&from))?;
            }
        }
        let mode = metadata.permissions().mode() | WRITABLE;
        files::set_folder_mode(target, mode).map_err(io_error_at(target))
    }

    /// Redirects an absolute link into the tree to the same file in the copy.
    fn in_copy(&self, link: PathBuf, top: &Path) -> PathBuf {
        match link.strip_prefix(&self.root) {
            Ok(inside) => top.join(inside),
            Err(_) => link,
        }
    }

    /// Returns the entries of a directory that are copied: no sockets, pipes or devices. A directory that disappeared
    /// since its parent was read has none.
    fn copied_entries(&self, folder: &Path) -> Result<Vec<(DirEntry, Metadata)>, Diagnostic> {
        let mut entries = Vec::new();
        let listing = match fs::read_dir(folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && folder != self.root => {
                return Ok(entries);
            }
            listing => listing.map_err(io_error_at(folder))?,
        };
        for entry in listing {
            let entry = entry.map_err(io_error_at(folder))?;
            if entry.file_name() == OURS || self.apart.contains(&entry.path()) {
                continue;
            }
            match entry.metadata() {
                Ok(metadata)
                    if metadata.is_dir() || metadata.is_file() || metadata.is_symlink() =>
                {
                    entries.push((entry, metadata));
                }
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(io_error_at(&entry.path())(error)),
            }
        }
        Ok(entries)
    }
}

/// Copies a file with its mode and its time, so that files built from it are still newer.
fn copy_file(source: &Path, target: &Path, metadata: &Metadata) -> io::Result<()> {
    let mut copied = File::open(source)?;
    let mut file = files::create_new(target)?;
    io::copy(&mut copied, &mut file)?;
    file.set_permissions(metadata.permissions())?;
    // A file without its time is still a copy.
    let _ = file.set_modified(metadata.modified()?);
    Ok(())
}

/// Ignores a file that disappeared before it was copied.
fn unless_gone(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

/// Replaces a file by a new one with the same mode.
pub(super) fn replace_file(path: &Path, content: &[u8]) -> io::Result<()> {
    let mode = fs::metadata(path)?.permissions();
    let write = |mut file: File| {
        file.write_all(content)?;
        file.set_permissions(mode)?;
        file.sync_all()
    };
    files::replace(path, write, identity)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_cannot_be_replaced_is_unchanged() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("source");
        fs::write(&file, "old").unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&file, &link).unwrap();
        replace_file(&link, b"new").unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"old");
        assert_eq!(fs::read(&link).unwrap(), b"new");
        // A folder has the name of the temporary file.
        fs::create_dir(
            folder
                .path()
                .join(format!("source.{}.tmp", std::process::id())),
        )
        .unwrap();
        assert!(replace_file(&file, b"new").is_err());
        assert_eq!(fs::read(&file).unwrap(), b"old");
    }

    #[test]
    fn a_directory_that_disappears_during_a_copy_is_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let tree = FileTree::new(folder.path(), &[]);
        let gone = folder.path().join("gone");
        assert!(tree.copied_entries(&gone).unwrap().is_empty());
        assert!(FileTree::new(&gone, &[]).copied_entries(&gone).is_err());
    }
}
