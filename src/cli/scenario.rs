//! `scenario`: runs the experiment of a scenario file.

use super::args::{ExperimentFlags, OutputFlags};
use super::execute::Execute;
use super::exit::Exit;
use super::question_flags::ExperimentArgs;
use clap::Args;
use provoke_words::diagnostic::Diagnostic;
use std::ffi::OsString;
use std::path::PathBuf;

/// Run an experiment from a scenario file
///
/// Flags given here override the file.
#[derive(Args)]
#[command(after_help = SCENARIO_EXAMPLES)]
pub(super) struct ScenarioArgs {
    /// The scenario file (TOML)
    file: PathBuf,
    #[command(flatten)]
    flags: ExperimentFlags,
    #[command(flatten)]
    output: OutputFlags,
    /// Run this command instead of the command in the file
    #[arg(last = true, value_name = "CMD")]
    command: Vec<OsString>,
}

const SCENARIO_EXAMPLES: &str = "\
Examples:
  Run an experiment:
    provoke scenario crash.toml
  Run it with more trials and another command:
    provoke scenario crash.toml -n 500 -- ./program --arg";

impl Execute for ScenarioArgs {
    fn execute_command(self) -> Result<Exit, Diagnostic> {
        let experiment = ExperimentArgs {
            file: Some(self.file),
            flags: self.flags,
            output: self.output,
            command: self.command,
        };
        experiment.ask_question(|_| ())
    }
}
