//! Command line: executes it, and prints help and errors.

mod args;
mod bisect;
mod ci_flags;
mod commands;
mod compare;
mod completions;
mod confirm;
mod diff;
mod differ;
mod doctor;
mod execute;
mod execution;
mod exit;
mod explain;
mod export_flags;
mod given_flags;
mod hunt;
mod list;
mod load;
mod man;
mod plan;
mod question_flags;
mod reduce;
mod replay;
mod report;
mod resume;
mod run;
mod scenario;
mod signals;
mod why;
mod zoo;

use crate::suggest;
use crate::term;
use commands::{execute_line, name_commands};
use exit::Exit;
use provoke_words::diagnostic::Diagnostic;
use std::ffi::OsString;
use std::process::ExitCode;

pub use commands::build_command;

/// Hint for a filter of the trace that is not valid.
const TRACE_HINT: &str =
    "the targets are run, trial, slot and host, for example PROVOKE_LOG=run=info,slot=debug";

/// Runs the program.
pub fn main() -> ExitCode {
    if let Err(text) = crate::trace::begin() {
        term::print_error(&Diagnostic::usage(text).with_hint(TRACE_HINT));
        return Exit::Usage.into();
    }
    crate::experiment::serve_if_helper();
    // A command line that begins with a program is a `run`.
    let args = suggest::with_run(std::env::args_os().collect(), &name_commands());
    execute_line(&args).unwrap_or_else(|message| {
        if message.use_stderr() {
            return refuse_line(&message, &args).into();
        }
        // Help or the version. An error in printing it cannot be reported.
        let _ = term::print_result(&term::render_parser_message(&message, &args));
        Exit::GoodAnswer.into()
    })
}

/// Prints the error in the command line, which quotes it.
fn refuse_line(error: &clap::Error, args: &[OsString]) -> Exit {
    let commands = build_command();
    match suggest::explain_refusal(error, args, &commands) {
        Some(correction) => term::print_error(&correction),
        None => {
            let text = term::render_parser_message(error, args);
            term::print_message(&suggest::plain_message(error, &text));
            term::print_hint(&suggest::closing_hint(error, args, &commands));
        }
    }
    Exit::Usage
}
