//! Directory of a run, and the search for it.

use super::StoreError;
use super::trust::foreign_owner;
use jiff::tz::TimeZone;
use provoke_sys::files;
use provoke_sys::held_folder::HeldFolder;
use std::fs;
use std::hash::{BuildHasher as _, Hasher as _};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// Name of the root directory of runs in a working directory.
const ROOT: &str = "provoke-out";
/// Maximum number of entries of the working directory in which runs are looked for.
const MAX_ENTRIES: usize = 1000;
/// Name of the link to the newest run.
const LAST: &str = "last";
/// Name of the journal in its directory.
const JOURNAL: &str = "events.jsonl";

/// Length of the time in a run's name.
const NAME_OF_TIME: usize = "20261121-043012".len();

/// The directory of a run.
#[derive(Clone, Debug)]
pub struct RunFolder {
    path: PathBuf,
    /// The directory itself, unless only its journal is read.
    held: Option<HeldFolder>,
    /// Another user, who owns a link that leads to it.
    pub(super) link_owner: Option<String>,
}

/// Returns the root directory of runs: `PROVOKE_HOME`, or `provoke-out` in the working directory.
pub fn default_root() -> PathBuf {
    std::env::var_os("PROVOKE_HOME").map_or_else(|| ROOT.into(), PathBuf::from)
}

impl RunFolder {
    /// Creates the directory of a new run: this one, or a new one below the root.
    pub fn create_run(output: Option<&Path>, root: &Path) -> Result<Self, StoreError> {
        let shown = output.unwrap_or(root);
        // The journal contains the environment, so other users must not read it.
        let chosen = hold_new(shown).map_err(StoreError::io("create the directory", shown))?;
        let held = if output.is_some() {
            chosen
        } else {
            check_default_root(root, chosen.path())?;
            create_unused(chosen.path()).map_err(StoreError::io("create a directory in", root))?
        };
        let folder = Self {
            held: Some(held.clone()),
            ..Self::at(held.path().to_owned())
        };
        let entries = files::folder_entries(&folder.path);
        if !entries
            .map_err(StoreError::io("read the directory", shown))?
            .is_empty()
        {
            return Err(StoreError::NotEmpty(shown.to_owned()));
        }
        let trials = files::create_private_folder(&folder.trials_path());
        trials.map_err(StoreError::io("create a directory in", shown))?;
        if output.is_none() {
            // Git ignores the runs.
            let file = files::create_new(&folder.path.with_file_name(".gitignore"));
            let _ = file.and_then(|mut file| file.write_all(b"*\n"));
        }
        folder.become_last(root);
        Ok(folder)
    }

    fn at(path: PathBuf) -> Self {
        Self {
            path,
            held: None,
            link_owner: None,
        }
    }

    /// Opens the directory, so that this process uses the same one to its end.
    pub fn hold(mut self) -> io::Result<Self> {
        if self.held.is_none() {
            self.held = Some(HeldFolder::hold(&self.path)?);
        }
        Ok(self)
    }

    /// Closes the directory.
    pub fn close(&mut self) {
        self.held = None;
    }

    /// Lets the processes of another user reach the directories of their trials.
    pub fn let_through(&self, root: &Path) -> io::Result<()> {
        files::let_through(&self.path)?;
        files::let_through(&self.trials_path())?;
        let root = fs::canonicalize(root).ok();
        if let Some(root) = root.filter(|root| self.path.parent() == Some(root.as_path())) {
            files::let_through(&root)?;
        }
        Ok(())
    }

    /// Points the link in the root to this run, if the root exists; errors are ignored.
    fn become_last(&self, root: &Path) {
        let Ok(path) = fs::canonicalize(root) else {
            return;
        };
        if check_default_root(root, &path).is_err() {
            return;
        }
        let (link, last) = (path.join(".last"), path.join(LAST));
        // A run elsewhere has an absolute path.
        let target = self.path.strip_prefix(&path).unwrap_or(&self.path);
        let created = files::create_symlink(target, &link);
        if created.is_err() || files::rename(&link, &last).is_err() {
            let _ = files::remove_file(&link);
        }
    }

    /// Finds a run: by its directory, its name or the beginning of the name, or `last`.
    pub fn find_run(name: &str, root: &Path) -> Result<Self, StoreError> {
        let beginning = root.join(name);
        for path in [Path::new(name), beginning.as_path()] {
            if is_run(path) {
                return Self::found_at(path);
            }
            if let Err(source) = fs::symlink_metadata(path.join(JOURNAL))
                && source.kind() == io::ErrorKind::PermissionDenied
            {
                return Err(StoreError::io("read the directory", path)(source));
            }
        }
        let mut several = Self::all_runs(root)?;
        several.retain(|folder| {
            folder.run_name().starts_with(name) || folder.run_name().ends_with(name)
        });
        match several.len() {
            1 => Self::found_at(&several.remove(0).path),
            0 => Err(StoreError::NoRun {
                name: name.to_owned(),
                root: root.to_owned(),
            }),
            _ => Err(StoreError::Ambiguous {
                name: name.to_owned(),
                several: several.iter().map(Self::run_name).collect(),
            }),
        }
    }

    /// Opens the run to which a path leads, perhaps through links.
    fn found_at(path: &Path) -> Result<Self, StoreError> {
        let owner_of = |path: &Path| {
            let metadata = fs::symlink_metadata(path).ok()?;
            metadata.is_symlink().then(|| foreign_owner(&metadata))?
        };
        let folder = Self {
            link_owner: path.ancestors().find_map(owner_of),
            ..Self::at(fs::canonicalize(path).unwrap_or_else(|_| path.to_owned()))
        };
        folder
            .hold()
            .map_err(StoreError::io("open the directory", path))
    }

    /// Returns every run below the root, the oldest first; none if the root does not exist.
    pub fn all_runs(root: &Path) -> Result<Vec<Self>, StoreError> {
        let entries = match fs::read_dir(root) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(StoreError::io("read the directory", root))?,
        };
        let folders = entries
            .flatten()
            .filter(|entry| entry.file_name() != LAST)
            .map(|entry| entry.path());
        let runs = folders.filter(|path| is_run(path));
        let mut runs: Vec<Self> = runs.map(Self::at).collect();
        // Sorted by the time in their names, and within the same second by the time of their journals.
        runs.sort_by_key(|folder| {
            let name: String = folder.run_name().chars().take(NAME_OF_TIME).collect();
            (
                name,
                files::metadata_itself(&folder.journal_path())
                    .and_then(|file| file.modified())
                    .ok(),
            )
        });
        Ok(runs)
    }

    /// Returns the shortest text that always names the run: the end of its name, if no other run has it.
    pub fn shortest_reference(&self, root: &Path) -> String {
        let path = fs::canonicalize(&self.path).unwrap_or_else(|_| self.path.clone());
        let is_found =
            |end: &&str| Self::find_run(end, root).is_ok_and(|folder| folder.path == path);
        let name = self.run_name();
        let end = end_of_name(&name).filter(is_found);
        end.map_or_else(|| self.run_reference(root), str::to_owned)
    }

    /// Returns a reference to the run in the working directory: its name, or else its path. The reference does not
    /// begin with `-`, as an option does.
    pub fn run_reference(&self, root: &Path) -> String {
        let name = self.run_name();
        if Self::find_run(&name, root).is_ok_and(|folder| folder.path == self.path) {
            return not_an_option(name);
        }
        let cwd = std::env::current_dir().ok();
        let near = cwd.and_then(|cwd| self.path.strip_prefix(cwd).ok());
        let path = near.unwrap_or(&self.path).to_string_lossy();
        not_an_option(path.into_owned())
    }

    /// Returns the shortest text that always names each of these runs, which are all below the root: the end of the
    /// name, or the name.
    pub fn shortest_references(runs: &[Self], root: &Path) -> Vec<String> {
        let names: Vec<String> = runs.iter().map(Self::run_name).collect();
        let matches = |end: &str| {
            let matching = |name: &&String| name.starts_with(end) || name.ends_with(end);
            names.iter().filter(matching).count()
        };
        // Another run may be at this path.
        let is_path = |end: &str| {
            [Path::new(end), &root.join(end)]
                .iter()
                .any(|path| is_run(path))
        };
        let reference = |name: &String| {
            let end = end_of_name(name).filter(|end| matches(end) == 1 && !is_path(end));
            end.map_or_else(|| not_an_option(name.clone()), str::to_owned)
        };
        names.iter().map(reference).collect()
    }

    /// Returns the path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the run's name.
    pub fn run_name(&self) -> String {
        self.path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned()
    }

    /// Returns the directory of the run that follows from this one, if this run is not directly below the root: it is
    /// inside the directory of this run, which the user chose.
    pub fn following_run_path(&self, root: &Path) -> Option<PathBuf> {
        let root = fs::canonicalize(root).ok();
        let is_below = root.is_some_and(|root| self.path.parent() == Some(&root));
        (!is_below).then(|| self.path.join("merged"))
    }

    /// Returns the path of the journal.
    pub fn journal_path(&self) -> PathBuf {
        self.path.join(JOURNAL)
    }

    /// Returns the directory of the copies in which variants run.
    pub fn variants_path(&self) -> PathBuf {
        self.path.join("variants")
    }

    /// Returns the directory of the evidence of trials.
    pub fn trials_path(&self) -> PathBuf {
        self.path.join("trials")
    }
}

/// Counts the runs of other working directories, which are directly below or above this one. Each is named as a path
/// relative to this directory.
pub fn runs_nearby() -> Vec<(PathBuf, usize)> {
    if std::env::var_os("PROVOKE_HOME").is_some() {
        return Vec::new();
    }
    let mut folders_below: Vec<PathBuf> = fs::read_dir(".")
        .into_iter()
        .flatten()
        .flatten()
        .take(MAX_ENTRIES)
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.file_name().into())
        .collect();
    folders_below.sort();
    folders_below
        .into_iter()
        .chain(["..".into()])
        .filter_map(|folder| {
            let runs = RunFolder::all_runs(&folder.join(ROOT)).ok()?;
            (!runs.is_empty()).then_some((folder, runs.len()))
        })
        .collect()
}

/// Returns another spelling of a relative path that is empty or looks like an option.
fn not_an_option(path: String) -> String {
    if path.is_empty() || path.starts_with('-') {
        return format!("./{path}");
    }
    path
}

/// Returns whether a path leads to the directory of a run.
fn is_run(path: &Path) -> bool {
    files::is_regular(&path.join(JOURNAL))
}

/// Returns the last four letters of a name that [`new_name`] created.
fn end_of_name(name: &str) -> Option<&str> {
    let (time, end) = (name.get(..NAME_OF_TIME)?, name.get(NAME_OF_TIME..)?);
    let is_time = time
        .bytes()
        .all(|byte| byte.is_ascii_digit() || byte == b'-');
    let end = end.strip_prefix('-')?;
    let is_end = end.len() == 4 && end.bytes().all(|byte| byte.is_ascii_hexdigit());
    (is_time && is_end).then_some(end)
}

/// Refuses the root directory of runs in the working directory if another user owns it or a link to it, who could replace
/// runs later. A directory in `PROVOKE_HOME` is the user's choice.
fn check_default_root(root: &Path, path: &Path) -> Result<(), StoreError> {
    if root != Path::new(ROOT) {
        return Ok(());
    }
    let found = [fs::symlink_metadata(root), files::metadata_itself(path)];
    let mut found = found.iter().flatten();
    match found.find_map(foreign_owner) {
        None => Ok(()),
        Some(owner) => Err(StoreError::ForeignRoot {
            path: root.to_owned(),
            owner,
        }),
    }
}

/// Opens a directory, which is created if it does not exist.
fn hold_new(path: &Path) -> io::Result<HeldFolder> {
    if !path.exists() {
        files::create_private_folders(path)?;
    }
    HeldFolder::hold(&fs::canonicalize(path)?)
}

/// Creates a directory for a new run. Two runs of the same second may get the same random letters.
fn create_unused(root: &Path) -> io::Result<HeldFolder> {
    loop {
        let path = root.join(new_name());
        match files::create_private_folder(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            created => return created.and_then(|()| HeldFolder::hold(&path)),
        }
    }
}

/// Returns a name that sorts by time and is distinguishable by its last four letters.
fn new_name() -> String {
    let chance = std::hash::RandomState::new().build_hasher().finish() & 0xffff;
    let now = jiff::Timestamp::now().to_zoned(TimeZone::UTC);
    format!("{}-{chance:04x}", now.strftime("%Y%m%d-%H%M%S"))
}
