//! Executes the arguments of a command.

use super::exit::Exit;
use clap::Args;
use provoke_words::diagnostic::Diagnostic;

/// The arguments of a command.
pub(super) trait Execute: Args {
    /// Executes the command.
    fn execute_command(self) -> Result<Exit, Diagnostic>;
}
