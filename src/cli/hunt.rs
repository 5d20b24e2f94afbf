//! `hunt`: makes a rare failure happen.

use super::execute::Execute;
use super::exit::Exit;
use super::given_flags::Given;
use super::question_flags::{ExperimentArgs, at_most, for_one_variant};
use clap::Args;
use provoke_plan::{HuntSettings, QuestionSettings};
use provoke_words::diagnostic::Diagnostic;

/// Find a schedule of threads under which a rare failure happens
///
/// provoke holds one thread at one point of the program until the other threads wait, tries every point
/// that the program reaches, and then pairs of points. It reports the hold under which the program fails
/// most often, the source lines of the window, and both sides of a data race. Plain trials run alongside
/// for comparison. The program is not changed, and no privileges are needed. Linux on x86-64 only.
#[derive(Args)]
#[command(
    override_usage = "provoke hunt [OPTIONS] [--] [CMD]...",
    after_help = HUNT_EXAMPLES,
    mut_args(for_one_variant),
    mut_arg("runs", at_most),
    mut_arg("held", |flag| flag.hide(true)),
)]
pub(super) struct HuntArgs {
    #[command(flatten, next_help_heading = "Holds")]
    hunt: Given<HuntSettings>,
    /// Hold threads first in the functions where this run crashed
    ///
    /// provoke uses the command and the flags of that run; flags given here override them.
    #[arg(long, value_name = "RUN", help_heading = "Holds")]
    baseline: Option<String>,
    #[command(flatten)]
    rest: ExperimentArgs,
}

const HUNT_EXAMPLES: &str = "\
Examples:
  Make a program fail that fails once in thousands of runs:
    provoke hunt -- ./program
  Make a failure that was seen before happen more often:
    provoke hunt --baseline last
  Hold threads in a library, too, for at most 5 minutes:
    provoke hunt --hold-in program --hold-in libqueue -d 5m -- ./program";

impl Execute for HuntArgs {
    fn execute_command(self) -> Result<Exit, Diagnostic> {
        self.rest
            .ask_about_run(QuestionSettings::Hunt, self.baseline.as_ref(), |scenario| {
                self.hunt.apply_to(&mut scenario.hunt);
            })
    }
}
