//! Folder of a run, and the search for it.

use super::StoreError;
use jiff::tz::TimeZone;
use std::fs::{self, DirBuilder, OpenOptions};
use std::hash::{BuildHasher as _, Hasher as _};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// The link to the newest run.
const LAST: &str = "last";
/// The journal's name in its folder.
const JOURNAL: &str = "events.jsonl";

/// Letters of a run's name that tell its time.
const NAME_OF_TIME: usize = "20261121-043012".len();

/// The folder of a run.
#[derive(Clone, Debug)]
pub struct Folder {
    path: PathBuf,
}

/// Returns where runs are kept: `PROVOKE_HOME`, or `provoke-out` here.
pub fn default_root() -> PathBuf {
    std::env::var_os("PROVOKE_HOME").map_or_else(|| "provoke-out".into(), PathBuf::from)
}

impl Folder {
    /// Makes the folder of a new run: this one, or a new one below the root.
    pub fn create(out: Option<&Path>, root: &Path) -> Result<Self, StoreError> {
        let path = match out {
            Some(path) => path.to_owned(),
            None => root.join(new_name()),
        };
        let io = |what| {
            let path = path.clone();
            move |source| StoreError::Io { what, path, source }
        };
        // The journal holds the environment, so it is nobody else's to read.
        let make = |path: &Path| DirBuilder::new().recursive(true).mode(0o700).create(path);
        make(&path).map_err(io("create the directory"))?;
        if fs::read_dir(&path)
            .map_err(io("read the directory"))?
            .next()
            .is_some()
        {
            return Err(StoreError::NotEmpty(path));
        }
        make(&path.join("trials")).map_err(io("create a directory in"))?;
        let folder = Self {
            path: fs::canonicalize(&path).map_err(io("find the directory"))?,
        };
        if out.is_none() {
            folder.become_last(root);
            ignore(root);
        }
        Ok(folder)
    }

    /// Lets the processes of another user reach the folders of their trials.
    pub fn let_through(&self, root: &Path) -> io::Result<()> {
        let_through(&self.path)?;
        let_through(&self.trials())?;
        if self.path.parent() == fs::canonicalize(root).ok().as_deref() {
            let_through(root)?;
        }
        Ok(())
    }

    /// Points the link to this run; a convenience that may fail.
    fn become_last(&self, root: &Path) {
        let new = root.join(".last");
        let made = std::os::unix::fs::symlink(self.name(), &new);
        if made.is_err() || fs::rename(&new, root.join(LAST)).is_err() {
            let _ = fs::remove_file(&new);
        }
    }

    /// Finds a run: by its folder, its name or the beginning of it, or `last`.
    pub fn find(name: &str, root: &Path) -> Result<Self, StoreError> {
        let beginning = root.join(name);
        for path in [Path::new(name), beginning.as_path()] {
            if path.join(JOURNAL).is_file() {
                let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
                return Ok(Self { path });
            }
        }
        let mut several = Self::all(root).map_err(|_| StoreError::NoRun {
            name: name.to_owned(),
            root: root.to_owned(),
        })?;
        several.retain(|folder| folder.name().starts_with(name) || folder.name().ends_with(name));
        match several.len() {
            1 => {
                let path = several.remove(0).path;
                let path = fs::canonicalize(&path).unwrap_or(path);
                Ok(Self { path })
            }
            0 => Err(StoreError::NoRun {
                name: name.to_owned(),
                root: root.to_owned(),
            }),
            _ => Err(StoreError::Ambiguous {
                name: name.to_owned(),
                several: several.iter().map(Self::name).collect(),
            }),
        }
    }

    /// Returns every run below the root, the oldest first.
    pub fn all(root: &Path) -> io::Result<Vec<Self>> {
        let entries = fs::read_dir(root)?.flatten();
        let folders = entries
            .filter(|entry| entry.file_name() != LAST)
            .map(|entry| entry.path());
        let mut all: Vec<Self> = folders
            .filter(|path| path.join(JOURNAL).is_file())
            .map(|path| Self { path })
            .collect();
        // The time in their names, and within the same second the time of their journals.
        all.sort_by_key(|folder| {
            let name: String = folder.name().chars().take(NAME_OF_TIME).collect();
            (
                name,
                fs::metadata(folder.journal())
                    .and_then(|file| file.modified())
                    .ok(),
            )
        });
        Ok(all)
    }

    /// Returns the shortest way to name the run: `last` if it is the newest one.
    pub fn shortest_reference(&self, root: &Path) -> String {
        let path = fs::canonicalize(&self.path).unwrap_or_else(|_| self.path.clone());
        if Self::find(LAST, root).is_ok_and(|last| last.path == path) {
            LAST.to_owned()
        } else {
            self.reference(root)
        }
    }

    /// Returns by what the run is found from here: its name, or else its path. It does not begin
    /// with `-`, as an option does.
    pub fn reference(&self, root: &Path) -> String {
        let name = self.name();
        if Self::find(&name, root).is_ok_and(|found| found.path == self.path) {
            return not_an_option(name);
        }
        let here = std::env::current_dir().ok();
        let near = here.and_then(|here| self.path.strip_prefix(here).ok());
        let path = near.unwrap_or(&self.path).to_string_lossy();
        not_an_option(path.into_owned())
    }

    /// Returns the shortest text that names each of these runs, which are all below the root: `last`, the end of
    /// the name, or the name.
    pub fn shortest_references(all: &[Self], root: &Path) -> Vec<String> {
        let last = fs::canonicalize(root.join(LAST)).ok();
        let names: Vec<String> = all.iter().map(Self::name).collect();
        let matches = |end: &str| {
            let matching = |name: &&String| name.starts_with(end) || name.ends_with(end);
            names.iter().filter(matching).count()
        };
        // Another run may be found at this path.
        let is_path = |end: &str| {
            [Path::new(end), &root.join(end)]
                .iter()
                .any(|path| path.join(JOURNAL).exists())
        };
        let reference = |(folder, name): (&Self, &String)| {
            if last.is_some() && fs::canonicalize(&folder.path).ok() == last {
                return LAST.to_owned();
            }
            let end = end_of_name(name).filter(|end| matches(end) == 1 && !is_path(end));
            end.map_or_else(|| not_an_option(name.clone()), str::to_owned)
        };
        all.iter().zip(&names).map(reference).collect()
    }

    /// Returns the path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the run's name.
    pub fn name(&self) -> String {
        self.path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned()
    }

    /// Returns where the run lies that follows from this one, where that is not a new one below the
    /// root: whoever chose a folder finds it there.
    pub fn next(&self, root: &Path) -> Option<PathBuf> {
        let root = fs::canonicalize(root).ok();
        let below = root.is_some_and(|root| self.path.parent() == Some(&root));
        (!below).then(|| self.path.join("merged"))
    }

    /// Returns the path of the journal.
    pub fn journal(&self) -> PathBuf {
        self.path.join(JOURNAL)
    }

    /// Returns where copies are that variants run in.
    pub fn variants(&self) -> PathBuf {
        self.path.join("variants")
    }

    /// Returns where evidence of trials is kept.
    pub fn trials(&self) -> PathBuf {
        self.path.join("trials")
    }
}

/// Returns another spelling of a relative path that would be taken for an option, or is empty.
fn not_an_option(path: String) -> String {
    if path.is_empty() || path.starts_with('-') {
        return format!("./{path}");
    }
    path
}

/// Lets every user through a folder, without a look into it.
pub fn let_through(folder: &Path) -> io::Result<()> {
    fs::set_permissions(folder, fs::Permissions::from_mode(0o711))
}

/// Lets git pass over the runs that are kept in a work tree.
fn ignore(root: &Path) {
    // Never through a link that is there. A convenience that may fail.
    let mut options = OpenOptions::new();
    let file = options
        .write(true)
        .create_new(true)
        .open(root.join(".gitignore"));
    let _ = file.and_then(|mut file| file.write_all(b"*\n"));
}

/// Returns the last four letters of a name that was made by [`new_name`].
fn end_of_name(name: &str) -> Option<&str> {
    let (time, end) = (name.get(..NAME_OF_TIME)?, name.get(NAME_OF_TIME..)?);
    let is_time = time
        .bytes()
        .all(|byte| byte.is_ascii_digit() || byte == b'-');
    let end = end.strip_prefix('-').filter(|_| is_time)?;
    let is_end = end.len() == 4 && end.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_end.then_some(end)
}

/// A name that sorts by time and can be told apart by its last four letters.
fn new_name() -> String {
    let chance = std::hash::RandomState::new().build_hasher().finish() & 0xffff;
    let now = jiff::Timestamp::now().to_zoned(TimeZone::UTC);
    format!("{}-{chance:04x}", now.strftime("%Y%m%d-%H%M%S"))
}
