//! `differ`: finds what failing trials do differently.

use super::execute::Execute;
use super::exit::Exit;
use super::given_flags::Given;
use super::question_flags::{ExperimentArgs, at_most, for_one_variant};
use clap::Args;
use provoke_plan::{DifferSettings, QuestionSettings};
use provoke_words::diagnostic::Diagnostic;

/// Find what failing runs do differently before they fail
///
/// provoke observes which code the threads of a program run and in which order, its system calls and their results, and the
/// lines of Python programs, in failing and in passing trials. It names the difference that comes first, and says how
/// often each trial had it. Observation changes how often a program fails, so plain trials run alongside. The program is
/// not changed, and no privileges are needed. Linux on x86-64 only.
#[derive(Args)]
#[command(
    override_usage = "provoke differ [OPTIONS] [--] [CMD]...",
    after_help = DIFFER_EXAMPLES,
    mut_args(for_one_variant),
    mut_arg("runs", at_most),
)]
pub(super) struct DifferArgs {
    #[command(flatten, next_help_heading = "Observation")]
    differ: Given<DifferSettings>,
    /// Look for the failure of this run
    ///
    /// provoke uses the command and the flags of that run; flags given here override them.
    #[arg(long, value_name = "RUN", help_heading = "Observation")]
    baseline: Option<String>,
    #[command(flatten)]
    rest: ExperimentArgs,
}

const DIFFER_EXAMPLES: &str = "\
Examples:
  Find out what failing runs of a program do differently:
    provoke differ -- ./program
  Look for the failure that was seen before:
    provoke differ --baseline last
  Observe the code of a library, too, under a condition that makes it fail:
    provoke differ --observe-in program --observe-in libqueue --under cpus=1 -- ./program";

impl Execute for DifferArgs {
    fn execute_command(self) -> Result<Exit, Diagnostic> {
        self.rest.ask_about_run(
            QuestionSettings::Differ,
            self.baseline.as_ref(),
            |scenario| self.differ.apply_to(&mut scenario.differ),
        )
    }
}
