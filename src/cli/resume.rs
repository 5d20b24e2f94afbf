//! `resume`: continues a stored run.

use super::args::OutputFlags;
use super::execute::Execute;
use super::execution::{run_experiment, settings_of_flags};
use super::exit::Exit;
use crate::experiment::{Experiment, NewLimits};
use clap::Args;
use provoke_plan::{DurationValue, HostSettings};
use provoke_words::diagnostic::Diagnostic;

/// Resume an interrupted run
#[derive(Args)]
#[command(after_help = RESUME_EXAMPLES)]
pub(super) struct ResumeArgs {
    /// The run: its directory, its name, the start or end of the name, or `last`
    run: String,
    /// Go on until each variant has this many trials in all
    #[arg(short = 'n', long, value_name = "N", help_heading = LIMITS)]
    runs: Option<u64>,
    /// Go on until the run has taken this long in all
    #[arg(short, long, value_name = "TIME", help_heading = LIMITS)]
    duration: Option<DurationValue>,
    /// Go on until a fix that merely halves the failure rate is ruled out
    #[arg(long, help_heading = LIMITS)]
    exclude_half: bool,
    #[command(flatten)]
    hosts: HostSettings,
    /// Resume a run that belongs to another user or was copied
    #[arg(long)]
    trust: bool,
    #[command(flatten)]
    output: OutputFlags,
}

const LIMITS: &str = "New limits, instead of those of the run";

const RESUME_EXAMPLES: &str = "\
Examples:
  Resume the last run:
    provoke resume last
  Resume a run by the end of its name:
    provoke resume ab12
  Continue a finished run until it has 500 trials:
    provoke resume last -n 500";

impl Execute for ResumeArgs {
    fn execute_command(self) -> Result<Exit, Diagnostic> {
        let limits = NewLimits {
            trials: self.runs,
            duration: self.duration.map(|time| time.0),
            exclude_half: self.exclude_half,
        };
        let settings = settings_of_flags(&self.output);
        let experiment = Experiment::resume(&self.run, self.trust, limits, self.hosts, settings)?;
        if experiment.is_finished() {
            let run = experiment.run_name();
            crate::term::print_message(&format!("the run {run} is finished; its result:"));
        }
        run_experiment(experiment, &self.output, self.output.observer())
    }
}
