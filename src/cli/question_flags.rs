//! Flags that all questions share, and the way in which they start an experiment.

use super::args::{ExperimentFlags, OutputFlags};
use super::execution::begin_experiment;
use super::exit::Exit;
use crate::experiment::{plan_from_file, plan_from_settings};
use clap::Args;
use provoke_plan::{QuestionSettings, Scenario};
use provoke_words::diagnostic::Diagnostic;
use std::ffi::OsString;
use std::path::PathBuf;

/// The scenario file, the command and the flags of its trials.
#[derive(Args)]
pub(super) struct ExperimentArgs {
    /// Read the rest from a scenario file
    #[arg(
        long,
        value_name = "FILE",
        help_heading = "Command and environment",
        hide_short_help = true
    )]
    pub(super) file: Option<PathBuf>,
    #[command(flatten)]
    pub(super) flags: ExperimentFlags,
    #[command(flatten)]
    pub(super) output: OutputFlags,
    /// The command and its arguments
    #[arg(trailing_var_arg = true, value_name = "CMD")]
    pub(super) command: Vec<OsString>,
}

impl ExperimentArgs {
    /// Runs a question with the command line, or with a scenario file.
    pub(super) fn ask_question(self, question: impl Fn(&mut Scenario)) -> Result<Exit, Diagnostic> {
        let add_flags = self.flags.with_command(self.command)?;
        let overlay = |scenario: &mut Scenario| {
            question(scenario);
            add_flags(scenario);
        };
        let mut observer = self.output.observer();
        let plan = match self.file {
            Some(file) => plan_from_file(&file, &overlay, &mut observer)?,
            None => plan_from_settings(&overlay, &mut observer)?,
        };
        begin_experiment(plan, &self.output, observer)
    }

    /// Runs a question with its settings, which may look for the failure of an earlier run.
    pub(super) fn ask_about_run(
        self,
        question: QuestionSettings,
        baseline: Option<&String>,
        settings: impl Fn(&mut Scenario),
    ) -> Result<Exit, Diagnostic> {
        self.ask_question(|scenario| {
            scenario.outline.ask = Some(question);
            settings(scenario);
            if let Some(baseline) = baseline {
                scenario.baseline.baseline = Some(baseline.clone());
            }
        })
    }
}

/// Hides the flags that questions with an answer refuse: it ends the run, and no tests are run again.
pub(super) fn without_flags_of_run(flag: clap::Arg) -> clap::Arg {
    let refused = [
        "fail_fast",
        "max_fail",
        "width",
        "expect",
        "max_rate",
        "rerun_failing",
    ];
    let hide = flag.is_hide_set() || refused.iter().any(|name| flag.get_id() == *name);
    flag.hide(hide)
}

/// Hides the flags that questions about one variant refuse, too.
pub(super) fn for_one_variant(flag: clap::Arg) -> clap::Arg {
    let flag = without_flags_of_run(flag);
    let hide = flag.is_hide_set() || flag.get_id() == "matrix";
    flag.hide(hide)
}

/// Describes `-n` as a limit, for a question that ends by itself.
pub(super) fn at_most(flag: clap::Arg) -> clap::Arg {
    flag.help("Run at most this many trials")
        .long_help("Run at most this many trials in all [default: until there is an answer]")
}
