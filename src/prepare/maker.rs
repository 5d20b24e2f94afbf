//! Folders that variants are tried in, made when they are needed.
//!
//! A folder is made where it is used, since much of what is installed remembers its place. It
//! counts as made once a mark beside it says so: one that a kill cut off in the middle is begun
//! anew. What is shared lies in a cache for all runs; a lock beside it keeps two from making it at
//! once, and one from removing what another uses.

use super::tree::{Tree, Weight};
use super::{Unready, at, changed, tree};
use crate::model::{Edit, Make, Source, Space, VariantId, VariantPlan};
use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::SystemTime;

/// Makes the folders of variants, and removes those that there is no more room for.
#[derive(Debug, Default)]
pub struct Maker {
    sources: Vec<Source>,
    room: u64,
    folders: Mutex<BTreeMap<VariantId, Folder>>,
}

/// A folder that is made.
#[derive(Debug)]
struct Folder {
    path: PathBuf,
    shared: bool,
    bytes: u64,
    /// Trials that run in it.
    users: u64,
    /// When it was used last, in counts.
    used: u64,
    /// Held as long as we may use it.
    _lock: Option<File>,
}

/// How far a folder is.
#[derive(Debug)]
pub enum Stage {
    /// It is made.
    Made(Reserved),
    /// It holds what is copied, and nothing else.
    Begun(Reserved),
}

/// A folder that nobody else makes or removes.
#[derive(Debug)]
pub struct Reserved {
    path: PathBuf,
    shared: bool,
    lock: Option<File>,
}

impl Reserved {
    /// Returns where what is said while it is made is written down.
    pub fn log(&self) -> PathBuf {
        beside(&self.path, "log")
    }
}

impl Maker {
    /// Returns what makes the variants of a space.
    pub fn new(space: Option<&Space>) -> Self {
        Self {
            sources: space.map_or_else(Vec::new, |space| space.sources.clone()),
            room: space.map_or(u64::MAX, |space| space.room),
            folders: Mutex::default(),
        }
    }

    /// Begins to make the folder of a variant, unless it is there. Waits for another run that
    /// makes the same.
    pub fn begin(&self, variant: &VariantPlan, make: &Make) -> Result<Stage, Unready> {
        let path = PathBuf::from(make.folder.as_os_str());
        let above = path.parent().unwrap_or(Path::new("/"));
        fs::create_dir_all(above).map_err(at(above))?;
        let lock = if make.shared {
            Some(locked(&path).map_err(at(&path))?)
        } else {
            None
        };
        let reserved = Reserved {
            path,
            shared: make.shared,
            lock,
        };
        let path = &reserved.path;
        if beside(path, "made").exists() && path.is_dir() {
            return Ok(Stage::Made(reserved));
        }
        remove(path).map_err(at(path))?;
        match &make.copy {
            Some(root) => self.copy(Path::new(root.as_os_str()), path, &variant.edits)?,
            None => fs::create_dir(path).map_err(at(path))?,
        }
        Ok(Stage::Begun(reserved))
    }

    /// Makes a copy of a folder with what a variant has otherwise.
    fn copy(&self, root: &Path, to: &Path, edits: &[Edit]) -> Result<(), Unready> {
        // The folder of the run may lie in the one that is copied, and grows all the time.
        let run = to.parent().and_then(Path::parent);
        Tree::new(root, &run.into_iter().collect::<Vec<_>>()).copy(to)?;
        for Edit { file, change } in edits {
            let path = to.join(file.as_os_str());
            let text = fs::read(&path).map_err(at(&path))?;
            match changed(&text, change, &self.sources)? {
                Some(text) => tree::replace(&path, &text).map_err(at(&path))?,
                None => fs::remove_file(&path).map_err(at(&path))?,
            }
        }
        Ok(())
    }

    /// Gives a folder up that could not be made.
    pub fn fail(&self, reserved: &Reserved) {
        // What cannot be removed now is removed before the next attempt.
        let _ = remove(&reserved.path);
    }

    /// Takes a folder as made. Returns the variants whose folders had to go for it.
    pub fn finish(&self, id: VariantId, reserved: Reserved) -> Result<Vec<VariantId>, Unready> {
        let Reserved { path, shared, lock } = reserved;
        let mark = beside(&path, "made");
        let bytes = match fs::read_to_string(&mark)
            .ok()
            .and_then(|text| text.trim().parse().ok())
        {
            Some(bytes) => {
                // It was used now: others go first.
                let now = File::options().write(true).open(&mark);
                let _ = now.and_then(|mark| mark.set_modified(SystemTime::now()));
                bytes
            }
            None => {
                let bytes = weight(&path)?;
                fs::write(&mark, bytes.to_string()).map_err(at(&mark))?;
                bytes
            }
        };
        if let Some(lock) = &lock {
            // From now on others may use it, too.
            lock.lock_shared().map_err(at(&path))?;
        }
        let mut folders = self.folders.lock().expect("no panic");
        let used = next_use(&folders);
        let folder = Folder {
            path,
            shared,
            bytes,
            users: 0,
            used,
            _lock: lock,
        };
        folders.insert(id, folder);
        let gone = self.make_room(&mut folders, id);
        if let Some(cache) = folders[&id].path.parent().filter(|_| shared) {
            clean(cache, self.room);
        }
        Ok(gone)
    }

    /// Says that a trial of a variant runs, until what is returned says that it does not.
    pub fn use_of(&self, id: VariantId) -> Use<'_> {
        let mut folders = self.folders.lock().expect("no panic");
        let used = next_use(&folders);
        if let Some(folder) = folders.get_mut(&id) {
            folder.users += 1;
            folder.used = used;
        }
        Use(self, id)
    }

    /// Removes what was used longest ago, as long as there is too much: all but this one, and what
    /// is in use.
    fn make_room(
        &self,
        folders: &mut BTreeMap<VariantId, Folder>,
        but: VariantId,
    ) -> Vec<VariantId> {
        let mut gone = Vec::new();
        let own = |folder: &Folder| !folder.shared;
        while folders
            .values()
            .filter(|one| own(one))
            .map(|one| one.bytes)
            .sum::<u64>()
            > self.room
        {
            let unused = folders
                .iter()
                .filter(|(id, folder)| **id != but && folder.users == 0 && own(folder));
            let Some(oldest) = unused.min_by_key(|(_, one)| one.used).map(|(id, _)| *id) else {
                break;
            };
            if let Some(folder) = folders.remove(&oldest) {
                let _ = remove(&folder.path);
            }
            gone.push(oldest);
        }
        gone
    }

    /// Removes the folders of this run but for some.
    pub fn clean_up(&self, kept: &[VariantId]) {
        let mut folders = self.folders.lock().expect("no panic");
        let goes = |id: &VariantId, one: &Folder| !one.shared && !kept.contains(id);
        for (_, folder) in folders.iter().filter(|(id, one)| goes(id, one)) {
            // There is nobody to tell.
            let _ = remove(&folder.path);
        }
        folders.retain(|id, one| !goes(id, one));
    }
}

/// While it is there, the folder of a variant is not removed.
#[derive(Debug)]
pub struct Use<'a>(&'a Maker, VariantId);

impl Drop for Use<'_> {
    fn drop(&mut self) {
        let mut folders = self.0.folders.lock().expect("no panic");
        if let Some(folder) = folders.get_mut(&self.1) {
            folder.users -= 1;
        }
    }
}

fn next_use(folders: &BTreeMap<VariantId, Folder>) -> u64 {
    folders
        .values()
        .map(|folder| folder.used)
        .max()
        .unwrap_or(0)
        + 1
}

/// Returns where folders lie that other runs can use.
pub(super) fn cache() -> PathBuf {
    let named = |name: &str| std::env::var_os(name).filter(|path| !path.is_empty());
    let home = named("HOME").map_or_else(std::env::temp_dir, PathBuf::from);
    let caches = named("XDG_CACHE_HOME").map_or_else(|| home.join(".cache"), PathBuf::from);
    caches.join("provoke")
}

/// Returns the path of what is known about a folder.
fn beside(folder: &Path, what: &str) -> PathBuf {
    let mut name = folder.file_name().unwrap_or_default().to_owned();
    name.push(".");
    name.push(what);
    folder.with_file_name(name)
}

/// Returns the lock of a folder, when nobody else has it.
fn locked(folder: &Path) -> io::Result<File> {
    let path = beside(folder, "lock");
    let lock = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(path)?;
    // What is made may be used by many at once.
    if beside(folder, "made").exists() {
        lock.lock_shared()?;
        if beside(folder, "made").exists() {
            return Ok(lock);
        }
        lock.unlock()?;
    }
    lock.lock()?;
    Ok(lock)
}

/// Removes a folder, and first the mark that it is made.
fn remove(folder: &Path) -> io::Result<()> {
    let unless_gone = |done: io::Result<()>| match done {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    };
    unless_gone(fs::remove_file(beside(folder, "made")))?;
    unless_gone(fs::remove_dir_all(folder))
}

fn weight(folder: &Path) -> Result<u64, Unready> {
    let all = Weight {
        files: u64::MAX,
        bytes: u64::MAX,
    };
    let weight = Tree::new(folder, &[]).weigh(all)?;
    Ok(weight.map_or(u64::MAX, |weight| weight.bytes))
}

/// Removes what was used longest ago from a cache, as long as it holds too much; what another run
/// uses stays.
fn clean(cache: &Path, room: u64) {
    let marks = fs::read_dir(cache).into_iter().flatten().flatten();
    let mut all: Vec<(SystemTime, u64, PathBuf)> = marks
        .filter_map(|entry| {
            let path = entry.path();
            path.extension().filter(|kind| *kind == "made")?;
            let bytes = fs::read_to_string(&path).ok()?.trim().parse().ok()?;
            let used = entry.metadata().ok()?.modified().ok()?;
            Some((used, bytes, path.with_extension("")))
        })
        .collect();
    all.sort();
    let mut held: u64 = all.iter().map(|(_, bytes, _)| bytes).sum();
    for (_, bytes, folder) in all {
        if held <= room {
            return;
        }
        let path = beside(&folder, "lock");
        let lock = File::options().write(true).open(&path);
        if let Ok(lock) = lock
            && !matches!(lock.try_lock(), Err(TryLockError::WouldBlock))
            && remove(&folder).is_ok()
        {
            held -= bytes;
        }
    }
}
