//! Flags that all questions share, and the way in which they start an experiment.

use super::args::{ExperimentFlags, OutputFlags};
use super::error::CliError;
use super::execution::begin_experiment;
use super::exit::Exit;
use crate::experiment::{BaselineRun, plan_from_file, plan_from_settings, plan_shrinking};
use crate::model::VariantId;
use crate::report;
use crate::scenario::Scenario;
use crate::term;
use crate::untrusted::Untrusted as _;
use crate::words;
use clap::Args;
use std::ffi::OsString;
use std::path::PathBuf;

/// The scenario file, the command and the flags of its trials.
#[derive(Args)]
pub(super) struct ExperimentArgs {
    /// Read the rest from a scenario file
    #[arg(long, value_name = "FILE", hide_short_help = true)]
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
    pub(super) fn ask_question(self, question: impl Fn(&mut Scenario)) -> Result<Exit, CliError> {
        self.flags.refuse_ambiguous()?;
        let command = super::utf8_words(self.command)?;
        let overlay = |scenario: &mut Scenario| {
            question(scenario);
            self.flags.overlay_scenario(&command, scenario);
        };
        let mut observer = self.output.observer();
        let plan = match self.file {
            Some(file) => plan_from_file(&file, overlay, &mut observer)?,
            None => {
                let (plan, chosen) = plan_from_settings(overlay, &mut observer)?;
                if let Some(chosen) = chosen.filter(|_| !self.output.talk.quiet) {
                    print_baseline(&chosen, &report::command_line(&plan, VariantId(0)));
                }
                plan
            }
        };
        begin_experiment(plan, &self.output, observer)
    }

    /// Reduces the load of a run to the part that its crash needs.
    pub(super) fn shrink_run(
        self,
        run: &str,
        more: impl Fn(&mut Scenario),
    ) -> Result<Exit, CliError> {
        self.flags.refuse_ambiguous()?;
        let command = super::utf8_words(self.command)?;
        let plan = plan_shrinking(run, |scenario| {
            more(scenario);
            self.flags.overlay_scenario(&command, scenario);
        })?;
        begin_experiment(plan, &self.output, self.output.observer())
    }
}

/// Prints the baseline of a fix, unless the user named it and the command is the same.
fn print_baseline(baseline: &BaselineRun, command: &str) {
    if !baseline.is_newest && baseline.command == command {
        return;
    }
    let other = if baseline.is_newest {
        " (--baseline changes it)"
    } else {
        ""
    };
    let more = match baseline.other_runs {
        0 => String::new(),
        runs => format!(
            " and {} of the program",
            words::format_count(runs, "other run")
        ),
    };
    term::print_message(&format!(
        "  baseline: run {}{more}, {} of {} trials failed{other}\n    {}",
        baseline.run.to_safe(),
        baseline.failures,
        baseline.trials,
        baseline.command.to_safe(),
    ));
}

/// Hides the flags that these questions refuse, because their answer ends the run.
pub(super) fn without_stop_rules(flag: clap::Arg) -> clap::Arg {
    let refused = ["fail_fast", "max_fail", "width", "expect", "max_rate"];
    let hide = flag.is_hide_set() || refused.iter().any(|name| flag.get_id() == *name);
    flag.hide(hide)
}

/// Describes `-n` as a limit, for a question that ends by itself.
pub(super) fn at_most(flag: clap::Arg) -> clap::Arg {
    flag.help("Run at most this many trials")
        .long_help("Run at most this many trials in all [default: until there is an answer]")
}
