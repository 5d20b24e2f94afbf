//! Prepares the directories of variants when they are needed.
//!
//! A directory is prepared in its final place, because many installed files contain their path. It counts as complete
//! once a mark beside it exists: a directory whose preparation was killed is prepared again. Shared directories are in
//! a cache for all runs. A lock beside each prevents that two processes prepare it at once, or that one removes it
//! while another uses it.

use super::tree::{FileTree, TreeSize};
use super::{apply_change, io_error_at, tree};
use provoke_model::{EditPlan, Preparation, ReducedSource, SearchSpace, VariantId, VariantPlan};
use provoke_sys::files;
use provoke_sys::held_folder::check_place;
use provoke_words::diagnostic::Diagnostic;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

/// Interval at which provoke checks whether another process has prepared a directory.
const AGAIN: Duration = Duration::from_millis(50);

/// Prepares the directories of variants, and removes directories beyond the disk budget.
#[derive(Debug, Default)]
pub struct VariantPreparer {
    sources: Vec<ReducedSource>,
    room: u64,
    folders: Mutex<BTreeMap<VariantId, VariantFolder>>,
}

/// A prepared directory.
#[derive(Debug)]
struct VariantFolder {
    path: PathBuf,
    shared: bool,
    bytes: u64,
    /// Number of trials that run in it.
    users: u64,
    /// Counter value of its last use; `None` if it was never used.
    last_use: Option<u64>,
    /// Lock that is held as long as this process may use it.
    _in_use: Option<File>,
}

/// State of a directory.
#[derive(Debug)]
pub enum FolderStage {
    /// It is complete.
    Made(ReservedFolder),
    /// It contains only the copied files.
    Reserved(ReservedFolder),
    /// The preparation was stopped.
    Halted,
}

/// A directory that no other process prepares or removes.
#[derive(Debug)]
pub struct ReservedFolder {
    path: PathBuf,
    shared: bool,
    /// Lock that is held during the preparation, and as long as the directory may be used.
    preparing: Option<File>,
    in_use: Option<File>,
}

impl ReservedFolder {
    /// Returns the path of the log of the preparation.
    pub fn log_path(&self) -> PathBuf {
        path_beside(&self.path, "log")
    }
}

impl VariantPreparer {
    /// Creates the preparation of the variants of a space.
    pub fn new(space: Option<&SearchSpace>) -> Self {
        Self {
            sources: space.map_or_else(Vec::new, |space| space.sources.clone()),
            room: space.map_or(u64::MAX, |space| space.room),
            folders: Mutex::default(),
        }
    }

    /// Begins to prepare the directory of a variant, unless it is complete. Waits for other processes that prepare the
    /// same, until `halt` is set.
    pub fn begin_folder(
        &self,
        variant: &VariantPlan,
        make: &Preparation,
        halt: &AtomicBool,
    ) -> Result<FolderStage, Diagnostic> {
        let path = PathBuf::from(make.folder.as_os_str());
        let parent = path.parent().unwrap_or(Path::new("/"));
        files::create_folders(parent)
            .and_then(|()| check_place(parent))
            .map_err(io_error_at(parent))?;
        let mut reserved = ReservedFolder {
            path,
            shared: make.shared,
            preparing: None,
            in_use: None,
        };
        let path = &reserved.path;
        let is_made = || is_complete(path);
        while make.shared && reserved.preparing.is_none() {
            // Many trials may use a complete directory at once.
            let in_use = lock_file(path, "used").map_err(io_error_at(path))?;
            let free = in_use.try_lock_shared().is_ok();
            if free && is_made() {
                reserved.in_use = Some(in_use);
                break;
            }
            let preparing = lock_file(path, "lock").map_err(io_error_at(path))?;
            if free && preparing.try_lock().is_ok() {
                (reserved.preparing, reserved.in_use) = (Some(preparing), Some(in_use));
                break;
            }
            drop(in_use);
            if halt.load(Ordering::Relaxed) {
                return Ok(FolderStage::Halted);
            }
            std::thread::sleep(AGAIN);
        }
        if is_made() {
            return Ok(FolderStage::Made(reserved));
        }
        remove_folder(path).map_err(io_error_at(path))?;
        match &make.copy {
            Some(root) => {
                let root = Path::new(root.as_os_str());
                if !self.copy_folder(root, path, &variant.edits, halt)? {
                    return Ok(FolderStage::Halted);
                }
            }
            None => files::create_folders(path).map_err(io_error_at(path))?,
        }
        Ok(FolderStage::Reserved(reserved))
    }

    /// Copies a directory with the changes of a variant; returns false if it was stopped.
    fn copy_folder(
        &self,
        root: &Path,
        target: &Path,
        edits: &[EditPlan],
        halt: &AtomicBool,
    ) -> Result<bool, Diagnostic> {
        // The directory of the run may be inside the copied one, and it grows all the time.
        let run: Vec<&Path> = target.parent().and_then(Path::parent).into_iter().collect();
        FileTree::new(root, &run)
            .until_halted(halt)
            .copy_to(target)?;
        if halt.load(Ordering::Relaxed) {
            return Ok(false);
        }
        for EditPlan { file, change } in edits {
            let path = target.join(file.as_os_str());
            let text = fs::read(&path).map_err(io_error_at(&path))?;
            match apply_change(&text, change, &self.sources)? {
                Some(text) => tree::replace_file(&path, &text).map_err(io_error_at(&path))?,
                None => files::remove_file(&path).map_err(io_error_at(&path))?,
            }
        }
        Ok(true)
    }

    /// Gives up a directory whose preparation failed.
    pub fn give_up_folder(&self, reserved: &ReservedFolder) {
        // A directory that cannot be removed now is removed before the next attempt.
        let _ = remove_folder(&reserved.path);
    }

    /// Marks a directory as complete.
    pub fn finish_folder(&self, id: VariantId, reserved: ReservedFolder) -> Result<(), Diagnostic> {
        let ReservedFolder {
            path,
            shared,
            preparing,
            in_use,
        } = reserved;
        let mark = path_beside(&path, "made");
        let known_mark = fs::read_to_string(&mark).ok();
        let bytes = match known_mark.and_then(|text| text.trim().parse().ok()) {
            Some(bytes) => {
                // The directory counts as just used, so that others are evicted first.
                let mark_file = files::update_itself(&mark);
                let _ = mark_file.and_then(|mark| mark.set_modified(SystemTime::now()));
                bytes
            }
            None => {
                let bytes = folder_bytes(&path)?;
                files::create_private(&mark)
                    .and_then(|mut mark| mark.write_all(bytes.to_string().as_bytes()))
                    .map_err(io_error_at(&mark))?;
                bytes
            }
        };
        // From now on other processes may use it, too.
        drop(preparing);
        let cache = if shared {
            path.parent().map(Path::to_owned)
        } else {
            None
        };
        let folder = VariantFolder {
            path,
            shared,
            bytes,
            users: 0,
            last_use: None,
            _in_use: in_use,
        };
        self.folders.lock().expect("no panic").insert(id, folder);
        if let Some(cache) = cache {
            clean_cache(&cache, self.room);
        }
        Ok(())
    }

    /// Reserves the directory of a variant until the returned value is dropped; `None` if it has no directory.
    pub fn use_of(self: &Arc<Self>, id: VariantId) -> Option<FolderGuard> {
        let mut folders = self.folders.lock().expect("no panic");
        let use_number = next_use(&folders);
        let folder = folders.get_mut(&id)?;
        folder.users += 1;
        folder.last_use = Some(use_number);
        Some(FolderGuard(Arc::clone(self), id))
    }

    /// Renames directories while they exceed the disk budget, the least recently used first, except those in use and
    /// those not used yet. Returns their variants, and the paths to delete.
    pub fn make_room(&self) -> (Vec<VariantId>, Vec<PathBuf>) {
        let mut folders = self.folders.lock().expect("no panic");
        let (mut removed, mut old) = (Vec::new(), Vec::new());
        let held_bytes = |folders: &BTreeMap<VariantId, VariantFolder>| {
            let own_folders = folders.values().filter(|folder| !folder.shared);
            own_folders.map(|folder| folder.bytes).sum::<u64>()
        };
        while held_bytes(&folders) > self.room {
            let idle = folders
                .iter()
                .filter(|(_, folder)| folder.users == 0 && !folder.shared)
                .filter_map(|(id, folder)| Some((folder.last_use?, *id)));
            let Some((_, oldest)) = idle.min() else {
                break;
            };
            if let Some(folder) = folders.remove(&oldest) {
                let _ = files::remove_file(&path_beside(&folder.path, "made"));
                let away = path_beside(&folder.path, "gone");
                if files::rename(&folder.path, &away).is_ok() {
                    old.push(away);
                }
            }
            removed.push(oldest);
        }
        (removed, old)
    }

    /// Removes the directories of a run except the directories of some variants, also if an earlier process created them.
    pub fn clean_up(&self, below: &Path, kept_variants: &[VariantId]) {
        let folders = self.folders.lock().expect("no panic");
        let kept_paths: Vec<&Path> = kept_variants
            .iter()
            .filter_map(|id| folders.get(id))
            .map(|folder| folder.path.as_path())
            .collect();
        for path in files::folder_entries(below).into_iter().flatten() {
            let is_removable = path
                .file_name()
                .is_some_and(|name| name != super::git::OURS);
            let is_folder = files::metadata_itself(&path).is_ok_and(|metadata| metadata.is_dir());
            if is_removable && is_folder && !kept_paths.contains(&path.as_path()) {
                // Errors are ignored.
                let _ = remove_folder(&path);
            }
        }
    }
}

/// Prevents the removal of a variant's directory while it exists.
#[derive(Debug)]
pub struct FolderGuard(Arc<VariantPreparer>, VariantId);

impl Drop for FolderGuard {
    fn drop(&mut self) {
        let mut folders = self.0.folders.lock().expect("no panic");
        if let Some(folder) = folders.get_mut(&self.1) {
            folder.users -= 1;
        }
    }
}

fn next_use(folders: &BTreeMap<VariantId, VariantFolder>) -> u64 {
    let uses = folders.values().filter_map(|folder| folder.last_use);
    uses.max().unwrap_or(0) + 1
}

/// Returns the cache of directories that other runs can use.
pub(super) fn cache_folder() -> PathBuf {
    let named = |name: &str| std::env::var_os(name).filter(|path| !path.is_empty());
    let home = named("HOME").map_or_else(std::env::temp_dir, PathBuf::from);
    let caches = named("XDG_CACHE_HOME").map_or_else(|| home.join(".cache"), PathBuf::from);
    caches.join("provoke")
}

/// Returns whether a directory was prepared completely.
pub fn is_complete(folder: &Path) -> bool {
    path_beside(folder, "made").exists() && folder.is_dir()
}

/// Returns the path of a file beside a directory.
fn path_beside(folder: &Path, suffix: &str) -> PathBuf {
    let mut name = folder.file_name().unwrap_or_default().to_owned();
    name.push(".");
    name.push(suffix);
    folder.with_file_name(name)
}

/// Opens a lock file beside a directory.
fn lock_file(folder: &Path, suffix: &str) -> io::Result<File> {
    let path = path_beside(folder, suffix);
    files::update_itself(&path)
}

/// Removes a directory, after its mark.
fn remove_folder(folder: &Path) -> io::Result<()> {
    let unless_gone = |result: io::Result<()>| match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    };
    unless_gone(files::remove_file(&path_beside(folder, "made")))?;
    unless_gone(files::remove_tree(folder))
}

fn folder_bytes(folder: &Path) -> Result<u64, Diagnostic> {
    let size = TreeSize {
        files: u64::MAX,
        bytes: u64::MAX,
    };
    let weight = FileTree::new(folder, &[]).weigh_up_to(size)?;
    Ok(weight.map_or(u64::MAX, |weight| weight.bytes))
}

/// Removes the least recently used directories from a cache while it is too large, and incomplete ones; directories
/// that a process prepares or uses stay.
fn clean_cache(cache: &Path, room: u64) {
    let entries = fs::read_dir(cache).into_iter().flatten().flatten();
    let folders = entries
        .map(|entry| entry.path())
        .filter(|path| path.is_dir());
    let mut caches: Vec<(Option<SystemTime>, u64, PathBuf)> = folders
        .map(|path| {
            let mark = path_beside(&path, "made");
            let used_at = fs::metadata(&mark)
                .and_then(|metadata| metadata.modified())
                .ok();
            let bytes = fs::read_to_string(&mark)
                .ok()
                .and_then(|text| text.trim().parse().ok())
                .unwrap_or(0);
            (used_at, bytes, path)
        })
        .collect();
    caches.sort();
    let mut total_bytes: u64 = caches.iter().map(|(_, bytes, _)| bytes).sum();
    for (used_at, bytes, folder) in caches {
        if used_at.is_some() && total_bytes <= room {
            return;
        }
        let locks = ["lock", "used"].map(|suffix| lock_file(&folder, suffix));
        let free =
            |lock: &io::Result<File>| lock.as_ref().is_ok_and(|lock| lock.try_lock().is_ok());
        if locks.iter().all(free) && remove_folder(&folder).is_ok() {
            total_bytes -= bytes;
        }
    }
}
