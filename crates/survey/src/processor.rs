//! Finds the CPU that the programs of each variant see, if some of them run under an emulator.

use super::command::find_emulator;
use super::{MAINS, mains_of, name_of_variant};
use provoke_autopsy::CommandEnvironment;
use provoke_model::{Survey, Text, TrialsPlan};
use provoke_sys::emulator::Emulator;
use provoke_sys::host::field_of;
use provoke_sys::processor::{self, Processor};
use provoke_sys::tool;
use std::collections::BTreeMap;
use std::env::consts;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Hidden subcommand that prints the CPU that it sees; emulators run it.
pub const COMMAND: &str = "processor";

/// Time limit of all emulators together.
const PATIENCE: Duration = Duration::from_secs(30);
/// Limit of an answer in bytes.
const ANSWER: usize = 1 << 14;

/// Returns the output of [`COMMAND`] in the form of `/proc/cpuinfo`; `None` if the CPU cannot be
/// read.
pub fn describe_processor() -> Option<String> {
    let Processor { model, flags } = processor::visible_processor()?;
    Some(format!(
        "model name\t: {model}\nflags\t\t: {}\n",
        flags.join(" ")
    ))
}

/// Adds the CPU that the main command of each variant sees, if at least one runs under an emulator
/// that works.
///
/// Commands without an emulator are examined with CPUID, too: `/proc/cpuinfo` has more flags than a
/// program can read, and so would differ from all emulators.
pub(super) fn survey_processors(plan: &TrialsPlan, ourselves: &Path, survey: &mut Survey) {
    let deadline = Instant::now() + PATIENCE;
    let mut answers: BTreeMap<(PathBuf, Option<OsString>), Option<Processor>> = BTreeMap::new();
    let mut processors: Vec<(String, Option<Processor>)> = Vec::new();
    let mut emulated = false;
    let mains = plan.variants.iter().flat_map(mains_of);
    for (name, main) in mains.take(MAINS) {
        let environment = CommandEnvironment::of_actor(&plan.environment, main);
        let processor = match Emulator::find_in_command(&main.command) {
            // The files in an image cannot be read from here, and may be for another architecture.
            _ if main.container.is_some() => None,
            None => processor::visible_processor(),
            // A script may start the emulator with other options than in the command line.
            Some(_) => {
                let prefix = emulator_and_model(&environment, &main.command);
                let processor = prefix.and_then(|prefix| {
                    let answer = answers.entry(prefix).or_insert_with_key(|(file, model)| {
                        ask_emulator(file, model.as_ref(), ourselves, deadline)
                    });
                    answer.clone()
                });
                emulated |= processor.is_some();
                processor
            }
        };
        processors.push((name, processor));
    }
    if !emulated {
        return;
    }
    for (name, processor) in processors {
        let Some(Processor { model, flags }) = processor else {
            continue;
        };
        let key = |fact| match name.as_str() {
            "" => format!("cpu.emulated.{fact}"),
            name => name_of_variant(&format!("cpu.{fact}"), name),
        };
        survey.set_fact(key("model"), model);
        survey.set_fact(key("flags"), flags.join(" "));
    }
}

/// Returns the file of the emulator that a command starts, and its option for the CPU model.
fn emulator_and_model(
    environment: &CommandEnvironment<'_>,
    command: &[Text],
) -> Option<(PathBuf, Option<OsString>)> {
    let emulator = find_emulator(command)?;
    // An emulator of another architecture cannot run this program.
    if emulator.arch != consts::ARCH {
        return None;
    }
    let words_before = &command[..emulator.at];
    let setting = |word: &'_ Text| -> Option<OsString> {
        let value = word.as_bytes().strip_prefix(b"QEMU_CPU=")?;
        Some(OsStr::from_bytes(value).to_owned())
    };
    let model = emulator
        .model
        .map(OsStr::to_owned)
        .or_else(|| words_before.iter().rev().find_map(setting))
        .or_else(|| environment.get_variable("QEMU_CPU").map(OsStr::to_owned));
    Some((
        environment.find_program(command[emulator.at].as_os_str())?,
        model,
    ))
}

/// Runs this program under an emulator to read the CPU that it shows.
///
/// Only the model determines the CPU. The other options, and their variables, are left out: with
/// them the emulator could wait for a debugger, or overwrite the log of a trial.
fn ask_emulator(
    emulator: &Path,
    model: Option<&OsString>,
    ourselves: &Path,
    deadline: Instant,
) -> Option<Processor> {
    let mut words: Vec<&OsStr> = Vec::new();
    if let Some(model) = model {
        words.extend([OsStr::new("-cpu"), model]);
    }
    words.extend([ourselves.as_os_str(), OsStr::new(COMMAND)]);
    let output = tool::run_bare(emulator, &words, deadline, ANSWER).ok()?;
    let flags = field_of(&output, "flags")?;
    Some(Processor {
        model: field_of(&output, "model name")?,
        flags: flags.split_whitespace().map(str::to_owned).collect(),
    })
}
