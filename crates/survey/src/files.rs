//! Compares the files that a command may read with those of another run.
//!
//! These are the files in the working directory, all files that the command or a hook names, and
//! all files in folders where languages search modules. Files of provoke, version control, editors,
//! logs and caches are left out, and so are packages, whose versions are recorded separately. One
//! digest of all files is recorded. A file that is not read, because it is large or there are too
//! many files, is represented by its size and modification time.
//!
//! Files that the command names, and modules, belong to the program. Whether the program reads the
//! other files of the working directory is not known.

use super::build::{hash_file, update_hash};
use super::main_facts::of_main;
use super::{MAINS, mains_of, name_of_variant};
use provoke_autopsy::CommandEnvironment;
use provoke_model::{ActorPlan, Survey, Text, TrialsPlan, VariantPlan};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Name of the fact with the digest of all files, or the reason why there is none.
pub(super) const FILES: &str = "files.digest";
/// Name of the fact with a digest of each file that the command names, and of each entry of the folders that it names.
const NAMED: &str = "files.named";
/// Name of the fact with a digest of each other file below the working directory.
const BESIDE: &str = "files.beside";
/// Name of the fact with a digest of each other entry of the working directory, if there are too many files.
const ENTRIES: &str = "files.entries";
/// Prefix of the value if the digest is unknown; the reason follows.
pub(super) const UNKNOWN: &str = "unknown: ";

/// Limit of files; with more files, the digest is unknown.
const MAX_FILES: usize = 10_000;
/// Limit of bytes of a file that is read.
const LARGEST: u64 = 1 << 20;
/// Limit of bytes that are read of all files together.
const MAX_BYTES: u64 = 16 << 20;
/// Limit of digests; with more files, entries of folders are recorded, and with more entries only the digest of all files.
const MAX_ENTRIES: usize = 300;
/// Limit of arguments of commands and hooks that may name files.
const MAX_WORDS: usize = 2_000;

/// Folder names that are left out everywhere. Modules that Node.js and Python install are recorded
/// as packages.
const LEFT_OUT: [&str; 12] = [
    ".git",
    ".hg",
    ".idea",
    ".jj",
    ".svn",
    ".vs",
    ".vscode",
    "__pycache__",
    "lost+found",
    "node_modules",
    "provoke-out",
    ".cache",
];
/// Files that mark a folder to leave out: a cache by the standard of
/// <https://bford.info/cachedir/>, a virtual environment of Python, or a run.
const MARKS: [&str; 3] = ["CACHEDIR.TAG", "pyvenv.cfg", "events.jsonl"];
/// System folders: a file in them that a command names is included, but not a folder.
const SYSTEM: [&str; 10] = [
    "/bin", "/dev", "/etc", "/lib", "/lib64", "/proc", "/run", "/sbin", "/sys", "/usr",
];
/// Folders that commands usually name to write into them.
const SHARED: [&str; 3] = ["/", "/tmp", "/var/tmp"];
/// Variables with folders in which languages search modules.
const MODULES: [&str; 5] = [
    "CLASSPATH",
    "NODE_PATH",
    "PERL5LIB",
    "PYTHONPATH",
    "RUBYLIB",
];

/// Adds the digest of the files that each main command may read, except for those at `own_folders`, which
/// provoke writes itself.
pub fn add_files(survey: &mut Survey, plan: &TrialsPlan, own_folders: &[PathBuf]) {
    let own_paths: Vec<PathBuf> = own_folders
        .iter()
        .filter_map(|folder| folder.canonicalize().ok())
        .collect();
    let mut digests: BTreeMap<InputRoots, FileDigests> = BTreeMap::new();
    let mut first: Option<FileDigests> = None;
    let mains = plan
        .variants
        .iter()
        .flat_map(|variant| mains_of(variant).map(move |(name, main)| (variant, name, main)));
    for (variant, name, main) in mains.take(MAINS) {
        let roots = input_roots(plan, variant, main, &name, survey);
        let value = digests
            .entry(roots)
            .or_insert_with_key(|roots| digest_files(roots, &own_paths));
        match &first {
            None => {
                value.add_facts(survey, str::to_owned);
                first = Some(value.clone());
            }
            Some(first) if first == value => {}
            Some(_) => value.add_facts(survey, |fact| name_of_variant(fact, &name)),
        }
    }
}

/// The digests of the files that a command may read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct FileDigests {
    /// The digest of all files together, or why there is none.
    digest: String,
    /// A line for each file that the command names, and for each file or entry of the folders that it names: digest and
    /// path.
    named: Vec<String>,
    /// The same for the rest of the working directory.
    beside: Vec<String>,
    /// Whether the lines stand for entries of folders, because there are too many files.
    are_entries: bool,
}

impl FileDigests {
    fn unknown(reason: &str) -> Self {
        Self {
            digest: format!("{UNKNOWN}{reason}"),
            ..Self::default()
        }
    }

    fn add_facts(&self, survey: &mut Survey, name: impl Fn(&str) -> String) {
        survey.set_fact(name(FILES), self.digest.clone());
        if self.named.len() + self.beside.len() <= MAX_ENTRIES {
            let beside = if self.are_entries { ENTRIES } else { BESIDE };
            survey.set_fact(name(NAMED), self.named.join("\n"));
            survey.set_fact(name(beside), self.beside.join("\n"));
        }
    }
}

/// How the files of two runs differ.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FileComparison {
    /// Files that belong to the program and have other contents, or that only one run had.
    pub of_program: Vec<EntryDifference>,
    /// Other files of the working directory with other contents.
    pub changed: Vec<EntryDifference>,
    /// Other files of the working directory that only one run had.
    pub added: Vec<EntryDifference>,
}

/// A file or folder that differs, with its digests; `None` if the run did not have it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct EntryDifference {
    /// Its path, relative to the working directory if it is below it.
    pub path: String,
    /// Its digest in the first run.
    pub left: Option<String>,
    /// Its digest in the second run.
    pub right: Option<String>,
}

/// Compares the recorded files of two runs; `None` if they differ and were not recorded one by one.
pub(super) fn compare_files(
    left: &BTreeMap<String, &str>,
    right: &BTreeMap<String, &str>,
) -> Option<FileComparison> {
    if left.get(FILES) == right.get(FILES) {
        return Some(FileComparison::default());
    }
    // A list without files is not recorded.
    let list = |facts: &BTreeMap<String, &str>| {
        let mut lists = [ENTRIES, BESIDE, NAMED].into_iter();
        let recorded = lists.find(|name| facts.contains_key(*name))?;
        Some(if recorded == ENTRIES { ENTRIES } else { BESIDE })
    };
    let beside = list(left).filter(|name| list(right) == Some(*name))?;
    let differing = |name: &str| {
        let lists = [left, right].map(|facts| facts.get(name).copied().unwrap_or_default());
        differing_entries(lists[0], lists[1])
    };
    let of_program = differing(NAMED);
    let (changed, added) = differing(beside)
        .into_iter()
        .filter(|entry| of_program.iter().all(|other| other.path != entry.path))
        .partition(|entry| entry.left.is_some() && entry.right.is_some());
    Some(FileComparison {
        of_program,
        changed,
        added,
    })
}

/// Returns the entries of two lists that are not the same in both, by path.
fn differing_entries(left: &str, right: &str) -> Vec<EntryDifference> {
    let [left, right] = [left, right].map(read_entries);
    let paths: BTreeSet<&&str> = left.keys().chain(right.keys()).collect();
    let entries = paths.into_iter().map(|path| EntryDifference {
        path: (*path).to_owned(),
        left: left.get(*path).map(|digest| (*digest).to_owned()),
        right: right.get(*path).map(|digest| (*digest).to_owned()),
    });
    entries.filter(|entry| entry.left != entry.right).collect()
}

/// Reads lines of a digest and a path.
fn read_entries(text: &str) -> BTreeMap<&str, &str> {
    text.lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(digest, path)| (path, digest))
        .collect()
}

/// The folders and files that a main command may read; folders stand for all their files.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct InputRoots {
    /// The working directory, which is one of the paths.
    cwd: PathBuf,
    paths: BTreeSet<PathBuf>,
}

/// Returns the folders and files that a main command may read.
fn input_roots(
    plan: &TrialsPlan,
    variant: &VariantPlan,
    main: &ActorPlan,
    name: &str,
    survey: &Survey,
) -> InputRoots {
    let environment = CommandEnvironment::of_actor(&plan.environment, main);
    let Ok(cwd) = environment.cwd.canonicalize() else {
        return InputRoots::default();
    };
    let hooks = [&plan.hooks, &variant.hooks].into_iter();
    let hooks = hooks.flat_map(|hooks| [&hooks.setup, &hooks.prepare, &hooks.conclude]);
    let commands = variant.actors.iter().flat_map(|actor| &actor.command);
    let texts = commands.chain(hooks.flatten()).chain(&main.stdin);
    let words = texts.flat_map(path_like_words).take(MAX_WORDS);
    let named = words.filter_map(|word| cwd.join(word).canonicalize().ok());
    let modules = MODULES
        .iter()
        .flat_map(|name| environment.list_paths(name))
        .filter_map(|folder| folder.canonicalize().ok());
    let facts = of_main(main, name, survey);
    let script = facts.get("program.script.path").map(Path::new);
    let script_folder =
        script.and_then(|file| file.canonicalize().ok()?.parent().map(Path::to_owned));
    let of_system = |path: &PathBuf| SYSTEM.iter().any(|folder| path.starts_with(folder));
    let home = environment.get_variable("HOME").map(Path::new);
    let is_read = |path: &PathBuf| {
        let shared = SHARED.iter().any(|folder| path == Path::new(folder));
        let is_above = cwd.starts_with(path) || home == Some(path.as_path());
        path.is_file() || !shared && !is_above && !of_system(path) && path.is_dir()
    };
    let mut paths: BTreeSet<PathBuf> = named
        .chain(modules)
        .chain(script_folder)
        .filter(is_read)
        .collect();
    paths.insert(cwd.clone());
    InputRoots { cwd, paths }
}

/// Returns the parts of a text that may be paths: those between shell separators.
fn path_like_words(text: &Text) -> impl Iterator<Item = &OsStr> {
    let separates = |byte: &u8| byte.is_ascii_whitespace() || b"'\"`;|&()<>=,:".contains(byte);
    let whole_text = std::iter::once(text.as_bytes());
    let pieces = whole_text
        .chain(text.as_bytes().split(separates))
        .filter(|word| !word.is_empty() && word.len() < 4096);
    pieces.map(OsStr::from_bytes)
}

/// Returns the digests of all files below these paths.
fn digest_files(roots: &InputRoots, own_folders: &[PathBuf]) -> FileDigests {
    if roots.paths.is_empty() {
        return FileDigests::unknown("the working directory is created later");
    }
    let mut files = BTreeMap::new();
    for root in &roots.paths {
        if let Err(reason) = list_below(root, own_folders, &mut files) {
            return FileDigests::unknown(&reason);
        }
    }
    let is_folder = |path: &Path| files.get(path).is_some_and(Metadata::is_dir);
    let are_entries = files.values().filter(|file| !file.is_dir()).count() > MAX_ENTRIES;
    let mut budget = MAX_BYTES;
    let mut sum = 0;
    let mut entries: BTreeMap<&Path, u64> = BTreeMap::new();
    for (path, metadata) in &files {
        let name = path.as_os_str().as_bytes();
        let contents = digest_contents(path, metadata, &mut budget);
        sum = update_hash(update_hash(sum, name), contents.as_bytes());
        let entry = if are_entries {
            entry_of(path, roots)
        } else {
            path.as_path()
        };
        let entry = entries.entry(entry).or_default();
        *entry = update_hash(update_hash(*entry, name), contents.as_bytes());
    }
    // A folder is represented by its files or entries.
    entries.retain(|path, _| !is_folder(path) || are_entries && !roots.paths.contains(*path));
    let line = |(path, digest): (&Path, u64)| {
        let relative = path.strip_prefix(&roots.cwd).unwrap_or(path);
        let shown = relative.to_string_lossy().replace('\n', "?");
        format!("{digest:016x} {shown}")
    };
    let (named, beside): (BTreeMap<&Path, u64>, BTreeMap<&Path, u64>) =
        entries.into_iter().partition(|(path, _)| {
            let mut roots_above = path.ancestors().filter(|path| roots.paths.contains(*path));
            roots_above.next() != Some(roots.cwd.as_path())
        });
    FileDigests {
        digest: format!("hash:{sum:016x}"),
        named: named.into_iter().map(line).collect(),
        beside: beside.into_iter().map(line).collect(),
        are_entries,
    }
}

/// Returns the entry that stands for a file: the file itself, if the command names it, or the entry of a folder that
/// contains it.
fn entry_of<'a>(path: &'a Path, roots: &InputRoots) -> &'a Path {
    if roots.paths.contains(path) {
        return path;
    }
    let mut entry = path;
    while let Some(folder) = entry.parent() {
        if roots.paths.contains(folder) {
            break;
        }
        entry = folder;
    }
    entry
}

/// Adds a path and all entries below it on the same file system.
fn list_below(
    root: &Path,
    own_folders: &[PathBuf],
    entries: &mut BTreeMap<PathBuf, Metadata>,
) -> Result<(), String> {
    let Ok(metadata) = fs::symlink_metadata(root) else {
        return Ok(());
    };
    let device = metadata.dev();
    let mut open = vec![(root.to_owned(), metadata)];
    while let Some((path, metadata)) = open.pop() {
        let is_full = entries.len() >= MAX_FILES;
        let Entry::Vacant(place) = entries.entry(path) else {
            continue;
        };
        if is_full {
            let root = root.to_string_lossy();
            return Err(format!("there are more than {MAX_FILES} files in `{root}`"));
        }
        if metadata.is_dir() && metadata.dev() == device {
            let inside = fs::read_dir(place.key())
                .into_iter()
                .flatten()
                .flatten()
                .filter_map(|entry| Some((entry.path(), entry.metadata().ok()?)));
            open.extend(inside.filter(|(path, about)| !is_left_out(path, about, own_folders)));
        }
        place.insert(metadata);
    }
    Ok(())
}

/// Returns whether provoke, version control, an editor or a cache wrote the entry, or it is a log or a core.
fn is_left_out(path: &Path, metadata: &Metadata, own_folders: &[PathBuf]) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    if own_folders.iter().any(|folder| folder == path) {
        return true;
    }
    if metadata.is_dir() {
        return LEFT_OUT.contains(&name.as_ref())
            || MARKS.iter().any(|mark| path.join(mark).is_file());
    }
    let of_editor = name.ends_with('~')
        || name.starts_with(".#")
        || name.starts_with('#') && name.ends_with('#')
        || name.starts_with('.') && [".swp", ".swo"].iter().any(|end| name.ends_with(end));
    if of_editor || name.ends_with(".log") || name == "nohup.out" || name == ".DS_Store" {
        return true;
    }
    let number = name
        .strip_prefix("core")
        .map(|rest| rest.trim_start_matches('.'));
    number.is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Returns a text that identifies the contents of a file.
fn digest_contents(path: &Path, metadata: &Metadata, budget: &mut u64) -> String {
    let kind = metadata.mode();
    if metadata.is_dir() {
        // The files of a folder have separate entries.
        return format!("{kind:o}");
    }
    let (link, linked) = if metadata.is_symlink() {
        (
            fs::read_link(path).unwrap_or_default(),
            fs::metadata(path).ok(),
        )
    } else {
        (PathBuf::new(), None)
    };
    // A symlink to a folder is not followed.
    let target = linked.as_ref().filter(|target| target.is_file());
    let target = target.unwrap_or(metadata);
    let read = if target.is_file() && target.len() <= LARGEST {
        hash_file(path, budget)
    } else {
        None
    };
    let digest = read.unwrap_or_else(|| {
        format!(
            "{} {}.{}",
            target.len(),
            target.mtime(),
            target.mtime_nsec()
        )
    });
    format!("{kind:o} {} {digest}", link.to_string_lossy())
}
