//! Finds the CPU that the programs of each variant see, if some of them run under an emulator.

use super::command::find_emulator;
use super::{MAINS, mains_of, name_of_variant};
use provoke_autopsy::CommandEnvironment;
use provoke_model::{Survey, Text, TrialsPlan};
use provoke_sys::emulator::Emulator;
use provoke_sys::processor::{self, Processor};
use std::collections::BTreeMap;
use std::env::consts;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Time limit of all emulators together.
const PATIENCE: Duration = Duration::from_secs(30);
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
                        processor::emulated_processor(file, model.as_deref(), ourselves, deadline)
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
