//! `list`: shows the stored runs.

use super::execute::Execute;
use super::exit::Exit;
use crate::experiment::list_runs;
use crate::term;
use clap::Args;
use provoke_journal as journal;
use provoke_journal::default_root;
use provoke_words::diagnostic::Diagnostic;
use provoke_words::untrusted::Untrusted as _;

/// List the stored runs, the newest last
///
/// The first column is the shortest text that names the run in other commands. In the column CRASH, `+1` means that one
/// more kind of failure was seen. Runs are stored in the directory in which provoke was started. A run with `--out` is not listed: its
/// directory is its name.
#[derive(Args)]
#[command(after_help = "Examples:\n  provoke list")]
pub(super) struct ListArgs {}

impl Execute for ListArgs {
    fn execute_command(self) -> Result<Exit, Diagnostic> {
        let root = default_root();
        let (runs, errors) = list_runs(&root)?;
        if !runs.is_empty() {
            term::print_result(&term::format_runs(&runs, term::stdout_width()))?;
        }
        term::print_message(&term::describe_run_count(runs.len(), &root));
        // Other directories, below and above this one.
        if let Some(line) = term::format_runs_nearby(&journal::runs_nearby()) {
            term::print_message(&line);
        }
        for error in errors {
            term::print_message(&format!("warning: {}", error.to_string().to_safe()));
        }
        Ok(Exit::GoodAnswer)
    }
}
