//! `confirm`: checks whether a failure is fixed.

use super::error::CliError;
use super::exit::Exit;
use super::given::Given;
use super::question_flags::{ExperimentArgs, at_most, is_program, without_stop_rules};
use crate::experiment::StoredReport;
use crate::questions::Answer;
use crate::scenario::{
    BaselineSettings, ConfirmSettings, CountSettings, QuestionSettings, Scenario,
};
use crate::store::{RunFolder, default_root};
use crate::suggest::{retyped_line, shell_line};
use crate::words;
use clap::Args;
use std::ffi::{OsStr, OsString};

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
    mut_args(without_stop_rules),
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

impl ConfirmArgs {
    pub(super) fn execute_command(self) -> Result<Exit, CliError> {
        let overlay = |scenario: &mut Scenario| {
            scenario.outline.ask = Some(QuestionSettings::Confirm);
            self.baseline.apply_to(&mut scenario.baseline);
            self.confirm.apply_to(&mut scenario.confirm);
            self.count.apply_to(&mut scenario.count);
        };
        match run_as_command(&self.rest.command) {
            Some(error) => Err(error),
            None => self.rest.ask_question(overlay),
        }
    }
}

/// Returns whether a name is that of a stored hunt.
fn is_hunt(name: &OsStr) -> bool {
    let stored = name.to_str().and_then(|name| StoredReport::read(name).ok());
    stored.is_some_and(|stored| matches!(stored.report.answer, Some(Answer::Hunt(_))))
}

/// Refuses a command that begins with the name of a stored run, because the run is probably the baseline.
fn run_as_command(command: &[OsString]) -> Option<CliError> {
    let (name, rest) = command.split_first()?;
    // After `--`, only the program may have such a name.
    if std::env::args_os().nth(2).is_some_and(|word| word == "--") {
        return None;
    }
    let is_program = is_program(name);
    // Many systems have a program `last`, which lists logins.
    if (is_program && name != "last")
        || RunFolder::find_run(name.to_str()?, &default_root()).is_err()
    {
        return None;
    }
    let run = words::quote_word(name);
    let with_rest = match rest {
        [] => String::new(),
        [first, rest @ ..] if first == "--" => format!(" -- {}", shell_line(rest)),
        rest => format!(" -- {}", shell_line(rest)),
    };
    let flag = if is_hunt(name) {
        "--held"
    } else {
        "--baseline"
    };
    let baseline = retyped_line(name, &format!("{flag} {run}{with_rest}"));
    let program = if is_program {
        let words = shell_line(command);
        let program = retyped_line(name, &format!("-- {words}"));
        format!(" To run the program: {program}")
    } else {
        String::new()
    };
    let error = anyhow::anyhow!("`{run}` is a stored run, not a command");
    Some(CliError::usage(error).with_hint(format!("did you mean `{baseline}`?{program}")))
}
