//! `doctor`: shows which evidence this machine can capture, and what to change.

use super::execute::Execute;
use super::exit::Exit;
use crate::doctor::{MachineFacts, crash_victim, hold_victim, run_checkup};
use crate::term;
use clap::Args;
use provoke_words::diagnostic::Diagnostic;

/// Check whether this machine can capture crashes and hangs
///
/// Checks limits, kernel settings, permissions and tools, crashes a test program to see whether its core
/// can be captured, and holds a thread of another one to see whether `provoke hunt` works. Changes nothing;
/// where a change would help, it shows the command. Exits with 0 if cores can be captured, and with 1 if
/// not.
#[derive(Args)]
#[command(after_help = "Examples:\n  provoke doctor")]
pub(super) struct DoctorArgs {
    /// Print every check and what can be captured as JSON
    #[arg(long)]
    json: bool,
}

impl Execute for DoctorArgs {
    fn execute_command(self) -> Result<Exit, Diagnostic> {
        let cwd = std::env::current_dir()?;
        let ourselves = std::env::current_exe()?;
        let crash = crash_victim(&ourselves);
        let hold = hold_victim(&ourselves, provoke_victim::racing_function());
        let report = run_checkup(&MachineFacts::look_from(&cwd, crash, hold));
        let printed = if self.json {
            term::print_result(&report.to_json())
        } else {
            let documents = report.documents();
            term::print_page(&term::format_documents(&documents, term::stdout_width()))
        };
        printed?;
        Ok(Exit::good_if(report.can.cores))
    }
}
