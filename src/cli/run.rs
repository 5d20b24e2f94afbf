//! `run`: measures how often a command fails.

use super::args::{ExperimentFlags, OutputFlags};
use super::execute::Execute;
use super::exit::Exit;
use super::question_flags::ExperimentArgs;
use clap::Args;
use provoke_words::diagnostic::Diagnostic;
use std::ffi::OsString;

/// Run a command many times; report how often and how it fails
///
/// The command runs directly, without a shell. Its arguments may contain {trial}, {slot}, {seed},
/// {dir} and {variant}; its environment has PROVOKE_TRIAL, PROVOKE_SLOT, PROVOKE_SEED, PROVOKE_DIR and
/// PROVOKE_VARIANT. If the first five trials all fail with the same exit code and message, or in the same deadlock,
/// a run without -n stops (--keep-going runs all trials).
#[derive(Args)]
#[command(override_usage = "provoke run [OPTIONS] [--] CMD...", after_help = RUN_EXAMPLES)]
pub(super) struct RunArgs {
    /// Do not stop if the first trials all fail in the same way
    ///
    /// Without -n, --max-fail, --width, --expect and --max-rate, a run of one variant stops if its first
    /// five trials all fail with the same exit code and message (such a run is not used as a baseline), or in the same
    /// deadlock.
    #[arg(long, help_heading = "When to stop", hide_short_help = true)]
    keep_going: bool,
    #[command(flatten)]
    flags: ExperimentFlags,
    #[command(flatten)]
    output: OutputFlags,
    /// The command and its arguments
    #[arg(trailing_var_arg = true, value_name = "CMD")]
    command: Vec<OsString>,
}

const RUN_EXAMPLES: &str = "\
Examples:
  Run a program 100 times, 4 trials in parallel:
    provoke run -n 100 -j 4 -- ./program --arg
  Run a test for 8 hours, or until it has failed three times:
    provoke run -d 8h --max-fail 3 -- pytest -q test_flaky.py";

impl Execute for RunArgs {
    fn execute_command(self) -> Result<Exit, Diagnostic> {
        let experiment = ExperimentArgs {
            file: None,
            flags: self.flags,
            output: self.output,
            command: self.command,
        };
        experiment.ask_question(|scenario| scenario.stop.if_alike = !self.keep_going)
    }
}
