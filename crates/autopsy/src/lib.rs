//! Analyses a core file: process, signal, fault and stacks.
//!
#![doc = include_str!("../README.md")]
//!
//! # Design
//!
//! A core holds the private memory of the process and the names of its mapped files. `dump` and
//! `notes` read the core. `modules` finds the mapped files (with `link_map` if the core lacks their
//! names) and checks whether they are unchanged. `address_space` combines both. `unwind` unwinds the stacks
//! with the call frame information of `cfi`, `original_fault` finds the original fault behind a handler
//! that raised the signal again, `symbols` resolves names, and `examine` combines the findings.
//!
//! The offset of a frame is the link-time address in its file, as `objdump -d` and `nm` show it, so
//! it is the same in every process. The offset of a caller is the instruction behind the call; its
//! function and line belong to the call itself.
//!
//! `examiner_process` does all this in a process of its own, which `examiner_client` starts and asks.
//!
//! The content of a core is not trusted: numbers are bounded before use, and invalid content
//! becomes a gap in the analysis.

mod abort;
mod address_space;
mod bytes;
mod cfi;
mod command_environment;
pub mod cpu_features;
mod debug;
mod dump;
mod elf;
mod elf_headers;
mod error;
mod examine;
mod examiner_client;
pub mod examiner_process;
pub mod fault;
pub mod fault_context;
mod file_cache;
mod instruction;
mod library_search;
mod link_map;
mod modules;
mod notes;
mod original_fault;
mod phase;
mod recursion;
mod signal_frame;
mod symbols;
pub mod tools;
mod unwind;

pub use command_environment::CommandEnvironment;
pub use elf_headers::{ElfHeaders, dynamic_loader, read_elf};
pub use error::CoreError;
pub use examiner_client::ExaminerClient;
pub use library_search::{Library, LoaderSettings, find_libraries};

use dump::Dump;
use elf::Layout;
use file_cache::FileCache;
use modules::LoadedModules;
use notes::ParsedNotes;
use provoke_model::{Autopsy, Frame, Signal, Text};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

const CUT_SHORT: &str =
    "the core is cut short: the disk was full, or the limit on cores too low (`ulimit -c`)";

/// Folders in which files are searched, and the system on which the program ran.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ExaminerSettings {
    /// Folders of debug files.
    pub debug_dirs: Vec<Text>,
    /// The program's root directory if it ran in a container.
    pub root: Option<Text>,
    /// The program's working directory, which relative file names begin at.
    pub folder: Text,
    /// The program, if it is no longer at the path that the core names.
    pub program: Option<Text>,
    /// The flags of the CPU that ran the program, as in `/proc/cpuinfo`.
    pub processor: Option<BTreeSet<String>>,
}

impl Default for ExaminerSettings {
    fn default() -> Self {
        Self {
            debug_dirs: vec!["/usr/lib/debug".into()],
            root: None,
            folder: "".into(),
            program: None,
            processor: None,
        }
    }
}

impl ExaminerSettings {
    /// Returns the present path of one of the program's files.
    fn file_place(&self, path: &str) -> PathBuf {
        match &self.root {
            Some(root) => Path::new(root).join(path.trim_start_matches('/')),
            None => PathBuf::from(path),
        }
    }
}

/// Reads cores, and caches the symbols and debug information of their files.
pub struct Examiner {
    settings: ExaminerSettings,
    file_cache: FileCache,
}

impl Examiner {
    /// Creates an examiner with an empty cache.
    pub fn new(settings: ExaminerSettings) -> Self {
        Self {
            settings,
            file_cache: FileCache::default(),
        }
    }

    /// Returns the paths of the libraries that the loader finds for a program, without symlinks.
    pub fn libraries_of(&self, program: &Path, settings: &LoaderSettings) -> BTreeSet<PathBuf> {
        let libraries = find_libraries(program, settings).into_values();
        let paths = libraries.filter_map(|library| library.file);
        paths
            .filter_map(|path| fs::canonicalize(path).ok())
            .collect()
    }

    /// Returns the function and the line at an address of a program or a library, as linked. Functions that were inlined
    /// there come before their callers.
    pub fn frames_at(&mut self, file: &Path, address: u64) -> Vec<Frame> {
        self.frames_in(file, |_| Some(address))
    }

    /// Returns the same at an offset in the file.
    pub fn frames_at_offset(&mut self, file: &Path, offset: u64) -> Vec<Frame> {
        self.frames_in(file, |layout| layout.address_of(offset))
    }

    fn frames_in(
        &mut self,
        file: &Path,
        find_address: impl Fn(&Layout) -> Option<u64>,
    ) -> Vec<Frame> {
        let file = self.settings.file_place(&file.to_string_lossy());
        let Some(number) = self.file_cache.find_file(&self.settings, &file) else {
            return Vec::new();
        };
        let book = self.file_cache.book_mut(number);
        let address = find_address(&book.layout);
        address.map_or(Vec::new(), |address| {
            book.symbols.frames_at(address).to_vec()
        })
    }

    /// Returns the variable at each of these addresses in the process of a core, by the symbols of
    /// its files: `audit`, `pool+0x28`.
    pub fn variables_at(&mut self, core: &Path, addresses: &[u64]) -> Vec<Option<String>> {
        let no_values = vec![None; addresses.len()];
        let Ok(dump) = Dump::open_core(core) else {
            return no_values;
        };
        if dump.foreign.is_some() {
            return no_values;
        }
        let notes = ParsedNotes::of_core(&dump);
        let (settings, file_cache) = (&self.settings, &mut self.file_cache);
        let modules = LoadedModules::of_core(&notes, &dump, file_cache, settings, &mut Vec::new());
        let name = |address: &u64| {
            // Zeroed data lies behind the mapped part of the file.
            let modules_below = modules.list.iter().filter(|module| module.base <= *address);
            let module = modules_below.max_by_key(|module| module.base)?;
            let symbols = &self.file_cache.book_at(module.book?).symbols;
            symbols.variable_at(module.link_offset(*address))
        };
        addresses.iter().map(name).collect()
    }

    /// Reads a core.
    pub fn examine_core(&mut self, core: &Path) -> Result<Autopsy, CoreError> {
        let dump = Dump::open_core(core)?;
        let notes = ParsedNotes::of_core(&dump);
        let owner = notes
            .core_owner(dump.truncated)
            .ok_or_else(|| CoreError::without_owner(core))?;
        let mut autopsy = Autopsy::default();
        autopsy.crash.pid = owner.pid;
        autopsy.crash.program = owner.program;
        autopsy.crash.signal = (owner.signal > 0).then_some(Signal(owner.signal));
        if dump.truncated {
            autopsy.gaps.push(CUT_SHORT.to_owned());
        }
        if dump.foreign.is_some() {
            autopsy.gaps.push(dump.foreign_error(core).to_string());
        } else {
            examine::examine_crash(
                &mut autopsy,
                &dump,
                &notes,
                &self.settings,
                &mut self.file_cache,
            );
        }
        Ok(autopsy)
    }
}

/// Process that a core belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoreOwner {
    /// Process id.
    pub pid: i32,
    /// Process id of the parent.
    pub ppid: i32,
    /// Session id.
    pub session: i32,
    /// Name as the kernel knows it: at most 15 bytes.
    pub program: String,
    /// Signal that killed the process; 0 if it was alive.
    pub signal: i32,
    /// The core is incomplete.
    pub truncated: bool,
}

/// Returns the mapped files that a core lists.
pub fn mapped_paths(core: &Path) -> Result<BTreeSet<PathBuf>, CoreError> {
    let dump = Dump::open_core(core)?;
    let notes = ParsedNotes::of_core(&dump);
    let files = notes.files.into_iter().map(|file| PathBuf::from(file.path));
    Ok(files.filter(|file| file.is_absolute()).collect())
}

/// In the auxiliary vector: address of the program's name, which the kernel puts behind the
/// environment variables.
const AT_EXECFN: u64 = 31;
/// Bytes of environment variables that are searched.
const VARIABLES: usize = 256 * 1024;

/// Returns the value that an environment variable had when the process of a core started.
pub fn start_variable(core: &Path, name: &str) -> Option<String> {
    let dump = Dump::open_core(core).ok()?;
    let end = ParsedNotes::of_core(&dump).auxv_value(AT_EXECFN)?;
    let begin = dump
        .segment_at(end)?
        .start
        .max(end.saturating_sub(VARIABLES as u64));
    let mut bytes = vec![0; usize::try_from(end - begin).ok()?];
    let length = dump.read_memory(begin, &mut bytes);
    let mut words = bytes[..length].rsplit(|byte| *byte == 0);
    let value = words.find_map(|word| word.strip_prefix(name.as_bytes())?.strip_prefix(b"="))?;
    Some(String::from_utf8_lossy(value).into_owned())
}

/// Returns the owner of a core, without unwinding any stack.
pub fn core_owner(core: &Path) -> Result<CoreOwner, CoreError> {
    let dump = Dump::open_core(core)?;
    let notes = ParsedNotes::of_core(&dump);
    notes
        .core_owner(dump.truncated)
        .ok_or_else(|| CoreError::without_owner(core))
}
