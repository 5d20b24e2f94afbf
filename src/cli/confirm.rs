//! `confirm`: checks whether a failure is fixed.

use super::execute::Execute;
use super::exit::Exit;
use super::given_flags::Given;
use super::question_flags::{ExperimentArgs, at_most, for_one_variant};
use crate::experiment::kind_of_word;
use crate::suggest::run_as_command;
use clap::Args;
use provoke_plan::{BaselineSettings, ConfirmSettings, CountSettings, QuestionSettings, Scenario};
use provoke_words::diagnostic::Diagnostic;

/// Check whether a failure is fixed
///
/// The baseline says how often the command failed before the fix. The first failure of the same bug
/// means NOT FIXED; enough passing trials mean FIXED. Without --baseline, the newest run of the
/// command with failures is the baseline. If no run of this command failed, runs of another command count,
/// unless there are several. If the baseline is a run, provoke uses the command and the flags of that run;
/// flags given here override them.
#[derive(Args)]
#[command(
    override_usage = "provoke confirm [OPTIONS] [--] [CMD]...",
    after_help = CONFIRM_EXAMPLES,
    mut_args(for_one_variant),
    mut_arg("runs", at_most),
)]
pub(super) struct ConfirmArgs {
    #[command(flatten, next_help_heading = "Baseline")]
    baseline: Given<BaselineSettings>,
    #[command(flatten, next_help_heading = "Baseline")]
    confirm: Given<ConfirmSettings>,
    #[command(flatten, next_help_heading = "Baseline")]
    count: Given<CountSettings>,
    #[command(flatten)]
    rest: ExperimentArgs,
}

const CONFIRM_EXAMPLES: &str = "\
Examples:
  Compare with the newest run that failed:
    provoke confirm -- ./program
  It failed 3 times in 30 trials before the fix:
    provoke confirm --baseline 3/30 -- ./program
  Try it:
    provoke confirm --baseline 3/30 -- provoke victim segv --rate 0";

impl Execute for ConfirmArgs {
    fn execute_command(self) -> Result<Exit, Diagnostic> {
        let overlay = |scenario: &mut Scenario| {
            scenario.outline.ask = Some(QuestionSettings::Confirm);
            self.baseline.apply_to(&mut scenario.baseline);
            self.confirm.apply_to(&mut scenario.confirm);
            self.count.apply_to(&mut scenario.count);
        };
        if let Some(correction) = run_as_command(&self.rest.command, kind_of_word) {
            return Err(correction);
        }
        self.rest.ask_question(overlay)
    }
}
