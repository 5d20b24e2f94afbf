//! Analyses a core file: process, signal, fault and stacks.
//!
//! A core holds the memory that the process had for itself, and the names of the files that
//! it had mapped. `dump` and `notes` read the core, `modules` finds those files (by `link_map`, where the core
//! lacks the names) and sees whether they are still the same, `space` puts both together. `unwind` follows
//! the stacks with what `cfi` knows of each file, `recover` looks behind handlers that
//! raised a signal again, `symbols` gives names, and `examine` makes it one story.
//!
//! The offset of a frame is the link-time address in its file, as `objdump -d` and `nm` show
//! it, so that it is the same in every process; of a caller it is the instruction behind the
//! call, while its function and line are those of the call itself.
//!
//! Nothing that stands in a core is believed: numbers are bounded before they are used, and
//! what makes no sense is a gap in the story.

mod abort;
mod bytes;
mod cfi;
mod collapse;
mod debug;
mod dump;
mod elf;
mod error;
mod examine;
pub mod fault;
mod instruction;
mod link_map;
mod models;
mod modules;
mod notes;
mod phase;
pub mod processor;
mod recover;
pub mod scene;
mod shelf;
mod signal_frame;
mod space;
mod symbols;
pub mod tools;
mod unwind;

pub use error::Error;

use crate::model::{Autopsy, Signal};
use dump::Dump;
use modules::Modules;
use notes::Notes;
use shelf::Shelf;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

const CUT_SHORT: &str =
    "the core is cut short: the disk was full, or the limit on cores too low (`ulimit -c`)";

/// Where things are looked for, and on what the program ran.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Folders of debug files.
    pub debug_dirs: Vec<PathBuf>,
    /// What was `/` for the program: the root of a container.
    pub root: Option<PathBuf>,
    /// What relative names of files begin at: the folder that the program was started in.
    pub folder: PathBuf,
    /// The program, where it is no longer at the place that the core names.
    pub program: Option<PathBuf>,
    /// The flags of the processor that it ran on, as `/proc/cpuinfo` spells them.
    pub processor: Option<BTreeSet<String>>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            debug_dirs: vec![PathBuf::from("/usr/lib/debug")],
            root: None,
            folder: PathBuf::new(),
            program: None,
            processor: None,
        }
    }
}

impl Settings {
    /// Where a file of the program's is now.
    fn place(&self, path: &str) -> PathBuf {
        match &self.root {
            Some(root) => root.join(path.trim_start_matches('/')),
            None => PathBuf::from(path),
        }
    }
}

/// Reads cores; what it has learned of a file it does not work out twice.
pub struct Examiner {
    settings: Settings,
    shelf: Shelf,
}

impl Examiner {
    /// Has learned nothing yet.
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            shelf: Shelf::default(),
        }
    }

    /// Says of the next ones what was `/` for them, in which folder they were started, and on which processor.
    pub fn ran(
        &mut self,
        root: Option<PathBuf>,
        folder: &Path,
        processor: Option<BTreeSet<String>>,
    ) {
        self.settings.root = root;
        folder.clone_into(&mut self.settings.folder);
        self.settings.processor = processor;
    }

    /// Returns the function at a place in a program or a library, by its symbols.
    pub fn function(&mut self, file: &Path, offset: u64) -> Option<String> {
        let number = self.shelf.file(&self.settings, file)?;
        let book = self.shelf.book(number);
        book.symbols.function(book.layout.address_of(offset)?)
    }

    /// Returns the variable at each of these addresses in the process of a core, by the symbols of its files:
    /// `audit`, `pool+0x28`.
    pub fn variables(&mut self, core: &Path, addresses: &[u64]) -> Vec<Option<String>> {
        let none = vec![None; addresses.len()];
        let Ok(dump) = Dump::open(core) else {
            return none;
        };
        if dump.foreign.is_some() {
            return none;
        }
        let notes = Notes::read(&dump.notes, dump.wide);
        let (settings, shelf) = (&self.settings, &mut self.shelf);
        let modules = Modules::find(&notes, &dump, shelf, settings, &mut Vec::new());
        let name = |address: &u64| {
            // Zeroed data lies behind what is mapped of the file.
            let below = modules.list.iter().filter(|module| module.base <= *address);
            let module = below.max_by_key(|module| module.base)?;
            let symbols = &self.shelf.book(module.book?).symbols;
            symbols.variable(module.offset(*address))
        };
        addresses.iter().map(name).collect()
    }

    /// Reads a core.
    pub fn examine(&mut self, core: &Path) -> Result<Autopsy, Error> {
        let dump = Dump::open(core)?;
        let notes = Notes::read(&dump.notes, dump.wide);
        let owner = notes
            .owner(dump.truncated)
            .ok_or_else(|| Error::ownerless(core))?;
        let mut autopsy = Autopsy::default();
        autopsy.crash.pid = owner.pid;
        autopsy.crash.program = owner.program;
        autopsy.crash.signal = (owner.signal > 0).then_some(Signal(owner.signal));
        if dump.truncated {
            autopsy.gaps.push(CUT_SHORT.to_owned());
        }
        if dump.foreign.is_some() {
            autopsy.gaps.push(dump.refusal(core).to_string());
        } else {
            examine::examine(&mut autopsy, &dump, &notes, &self.settings, &mut self.shelf);
        }
        Ok(autopsy)
    }
}

/// What a core says of whose it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The process.
    pub pid: i32,
    /// Its parent.
    pub ppid: i32,
    /// Its session.
    pub session: i32,
    /// Its name, as the kernel knows it: at most 15 bytes.
    pub program: String,
    /// What it died of; 0 for a process that was alive.
    pub signal: i32,
    /// The core is not whole.
    pub truncated: bool,
}

/// Returns the files that a core says its process had mapped.
pub fn files(core: &Path) -> Result<BTreeSet<PathBuf>, Error> {
    let dump = Dump::open(core)?;
    let notes = Notes::read(&dump.notes, dump.wide);
    let files = notes.files.iter().map(|file| PathBuf::from(&file.path));
    Ok(files.filter(|file| file.is_absolute()).collect())
}

/// Where the kernel put the name of the program: behind the variables that it was started with.
const AT_EXECFN: u64 = 31;
/// Bytes of variables that are looked through.
const VARIABLES: usize = 256 * 1024;

/// Returns the value that a variable had when the process of a core was started.
pub fn variable(core: &Path, name: &str) -> Option<String> {
    let dump = Dump::open(core).ok()?;
    let end = Notes::read(&dump.notes, dump.wide).told(AT_EXECFN)?;
    let begin = dump
        .segment(end)?
        .start
        .max(end.saturating_sub(VARIABLES as u64));
    let mut bytes = vec![0; usize::try_from(end - begin).ok()?];
    let there = dump.memory(begin, &mut bytes);
    let mut words = bytes[..there].rsplit(|byte| *byte == 0);
    let value = words.find_map(|word| word.strip_prefix(name.as_bytes())?.strip_prefix(b"="))?;
    Some(String::from_utf8_lossy(value).into_owned())
}

/// Says whose a core is, without looking at any stack.
pub fn owner(core: &Path) -> Result<Owner, Error> {
    let dump = Dump::open(core)?;
    let notes = Notes::read(&dump.notes, dump.wide);
    notes
        .owner(dump.truncated)
        .ok_or_else(|| Error::ownerless(core))
}
