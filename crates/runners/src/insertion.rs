//! Inserts words into the command of a test runner.

use super::command::split_runner_words;
use super::error::{CaseSetupError, refuse, refuse_shell_line};
use super::runner::find_position;
use provoke_model::{ActorPlan, CaseRunner, Text};

/// Inserts words behind the name of the runner.
pub(super) fn insert_words(
    actor: &mut ActorPlan,
    runner: &CaseRunner,
    words: &[String],
) -> Result<(), CaseSetupError> {
    let runner_words = split_runner_words(&actor.command);
    if runner_words.is_shell_line {
        return Err(refuse_shell_line(runner));
    }
    let Some((_, last)) =
        find_position(&runner_words.words).filter(|(found_runner, _)| found_runner == runner)
    else {
        return Err(refuse(
            format!("the command does not contain `{}`", runner.name()),
            "name the runner in the command, or use --cases=junit:'reports/*.xml' with the reports that it writes",
        ));
    };
    let inserted = words.iter().map(Text::from);
    actor.command.splice((last + 1)..=last, inserted);
    Ok(())
}
