//! Runs the helpers of an experiment, which are processes of the running program.

use super::worker;
use provoke_autopsy::examiner_process;
use provoke_hosts as hosts;
use provoke_slot as slot;
use provoke_sys::processor;
use provoke_words::diagnostic::Diagnostic;
use std::ffi::{OsStr, OsString};
use std::io::{self, Write as _};
use std::path::PathBuf;

/// Runs a helper, and ends the process, if an experiment started this process as a helper: with `slot`, `worker`,
/// `examiner` or `processor` as its first argument. Otherwise does nothing.
///
/// Every program that runs an experiment calls this at the beginning of `main`.
#[expect(clippy::exit, reason = "a helper does nothing else")]
pub fn serve_if_helper() {
    let mut arguments = std::env::args_os().skip(1);
    let Some(command) = arguments.next().filter(|first| is_command(first)) else {
        return;
    };
    let result = if command == slot::COMMAND {
        slot::main(&arguments.map(PathBuf::from).collect::<Vec<_>>())
    } else if command == hosts::COMMAND {
        worker::serve()
    } else if command == examiner_process::COMMAND {
        examiner_process::serve()
    } else {
        let description = processor::describe_processor().unwrap_or_default();
        io::stdout().write_all(description.as_bytes())
    };
    std::process::exit(result.is_err().into());
}

/// Refuses a process that an experiment started as a helper. Without this check, each helper would begin the work of its
/// parent again, and start further helpers.
pub(super) fn refuse_helper() -> Result<(), Diagnostic> {
    let first: Option<OsString> = std::env::args_os().nth(1);
    if first.is_some_and(|first| is_command(&first)) {
        let message = "this process is a helper of another experiment";
        return Err(Diagnostic::could_not(message).with_hint(
            "call `provoke::experiment::serve_if_helper()` at the beginning of `main`",
        ));
    }
    Ok(())
}

fn is_command(word: &OsStr) -> bool {
    let commands = [
        slot::COMMAND,
        hosts::COMMAND,
        examiner_process::COMMAND,
        processor::COMMAND,
    ];
    commands.iter().any(|command| word == *command)
}
