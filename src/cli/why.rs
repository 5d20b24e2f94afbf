//! `why`: finds the conditions under which a program fails.

use super::execute::Execute;
use super::exit::Exit;
use super::given_flags::Given;
use super::question_flags::{ExperimentArgs, at_most, for_one_variant};
use crate::experiment::{SilentObserver, condition_table, plan_from_settings};
use crate::term;
use clap::Args;
use provoke_plan::{QuestionSettings, Scenario, WhySettings};
use provoke_words::diagnostic::Diagnostic;

/// Find the conditions under which a program fails
///
/// Tries the program on a slow processor, with pauses, at another date, in another time zone, with a full disk, without a
/// network and under many more conditions, with plain trials between. A condition that matters is confirmed in fresh
/// pairs of trials. At most 1 of 20 such searches names a wrong condition. With --cases, each test of the suite has its own
/// conditions.
#[derive(Args)]
#[command(
    override_usage = "provoke why [OPTIONS] [--] CMD...",
    after_help = WHY_EXAMPLES,
    mut_args(for_one_variant),
    mut_arg("runs", at_most),
)]
pub(super) struct WhyArgs {
    #[command(flatten, next_help_heading = "Conditions")]
    why: Given<WhySettings>,
    /// List all conditions, and say which of them this machine can set
    #[arg(long, help_heading = "Conditions")]
    list: bool,
    /// Look for the failure of this run
    ///
    /// provoke uses the command and the flags of that run; flags given here override them.
    #[arg(long, value_name = "RUN", help_heading = "Conditions")]
    baseline: Option<String>,
    #[command(flatten)]
    rest: ExperimentArgs,
}

const WHY_EXAMPLES: &str = "\
Examples:
  Find out why a program fails on another machine only:
    provoke why -- ./program
  Try dates and time zones only:
    provoke why --try date,clock,tz -- ./program
  Find the conditions of each test of a suite:
    provoke why --cases -- pytest -q
  Find the condition of a failure that was seen before:
    provoke why --baseline last";

impl Execute for WhyArgs {
    fn execute_command(self) -> Result<Exit, Diagnostic> {
        if self.list {
            return list_conditions();
        }
        self.rest
            .ask_about_run(QuestionSettings::Why, self.baseline.as_ref(), |scenario| {
                self.why.apply_to(&mut scenario.why);
            })
    }
}

/// Prints the table of all conditions.
fn list_conditions() -> Result<Exit, Diagnostic> {
    let any_command = |scenario: &mut Scenario| {
        scenario.program.command = Some(vec!["true".to_owned()]);
    };
    let plan = plan_from_settings(&any_command, &mut SilentObserver)?;
    let table = condition_table(&plan.trials);
    term::print_result(&term::format_table(&table, term::stdout_width()))?;
    Ok(Exit::GoodAnswer)
}
