//! Finds the CPU that the programs of each variant see, if some of them run under an emulator.

use super::command::emulator;
use super::{Around, MAINS, mains_of, named};
use crate::model::{Plan, Survey, Text};
use crate::sys::emulator::Emulator;
use crate::sys::host::field_of;
use crate::sys::processor::{self, Processor};
use crate::sys::tool;
use std::collections::BTreeMap;
use std::env::consts;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The command of this program that says what it sees, and under which an emulator runs it.
pub const COMMAND: &str = "processor";

/// How long all emulators together may take to answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// Bytes of an answer that are read.
const ANSWER: usize = 1 << 14;

/// Returns what [`COMMAND`] prints, written as in `/proc/cpuinfo`; nothing where a processor
/// cannot be asked.
pub fn seen() -> Option<String> {
    let Processor { model, flags } = processor::seen()?;
    Some(format!(
        "model name\t: {model}\nflags\t\t: {}\n",
        flags.join(" ")
    ))
}

/// Adds what the main command of each variant sees, where one at least runs under an emulator
/// that answers. Those that run on the machine itself are asked the same way: what stands in
/// `/proc/cpuinfo` is more than a program can ask for, and so would differ from all of them.
pub(super) fn survey(plan: &Plan, ourselves: &Path, all: &mut Survey) {
    let until = Instant::now() + PATIENCE;
    let mut asked: BTreeMap<(PathBuf, Option<OsString>), Option<Processor>> = BTreeMap::new();
    let mut known: Vec<(String, Option<Processor>)> = Vec::new();
    let mut emulated = false;
    let mains = plan.variants.iter().flat_map(mains_of);
    for (name, main) in mains.take(MAINS) {
        let around = Around::of(plan, main);
        let seen = match Emulator::among(&main.command) {
            // What is in an image is not to be seen from here; it may be for another architecture.
            _ if main.container.is_some() => None,
            None => processor::seen(),
            // Behind a script it may be started otherwise than it stands there.
            Some(_) => {
                let prefix = prefix(&around, &main.command);
                let seen = prefix.and_then(|prefix| {
                    let answer = asked.entry(prefix);
                    let answer = answer.or_insert_with_key(|(file, model)| {
                        ask(file, model.as_ref(), ourselves, until)
                    });
                    answer.clone()
                });
                emulated |= seen.is_some();
                seen
            }
        };
        known.push((name, seen));
    }
    for (name, seen) in known.into_iter().filter(|_| emulated) {
        let Some(Processor { model, flags }) = seen else {
            continue;
        };
        let key = |what| match name.as_str() {
            "" => format!("cpu.emulated.{what}"),
            name => named(&format!("cpu.{what}"), name),
        };
        all.set(key("model"), model);
        all.set(key("flags"), flags.join(" "));
    }
}

/// Returns the file of the emulator that a command starts, and the model that it is told to show.
fn prefix(around: &Around<'_>, command: &[Text]) -> Option<(PathBuf, Option<OsString>)> {
    let emulator = emulator(command)?;
    // None of another architecture can run this program.
    if emulator.arch != consts::ARCH {
        return None;
    }
    let before = &command[..emulator.at];
    let setting = |word: &'_ Text| -> Option<OsString> {
        let value = word.as_bytes().strip_prefix(b"QEMU_CPU=")?;
        Some(OsStr::from_bytes(value).to_owned())
    };
    let told = emulator.model.map(OsStr::to_owned);
    let told = told.or_else(|| before.iter().rev().find_map(setting));
    let told = told.or_else(|| around.get("QEMU_CPU").map(OsStr::to_owned));
    Some((around.find(command[emulator.at].as_os_str())?, told))
}

/// Asks an emulator which processor it shows: has it run this program.
///
/// The model decides that alone, so the other options, and the variables that stand for them,
/// are left out: with them it may wait for a debugger, or write over the log of a trial.
fn ask(
    emulator: &Path,
    model: Option<&OsString>,
    ourselves: &Path,
    until: Instant,
) -> Option<Processor> {
    let mut words: Vec<&OsStr> = Vec::new();
    if let Some(model) = model {
        words.extend([OsStr::new("-cpu"), model]);
    }
    words.extend([ourselves.as_os_str(), OsStr::new(COMMAND)]);
    let said = tool::run_bare(emulator, &words, until, ANSWER).ok()?;
    let flags = field_of(&said, "flags")?;
    Some(Processor {
        model: field_of(&said, "model name")?,
        flags: flags.split_whitespace().map(str::to_owned).collect(),
    })
}
