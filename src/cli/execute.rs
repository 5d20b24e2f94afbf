//! Executes the arguments of a command.

use super::error::CliError;
use super::exit::Exit;
use clap::Args;

/// The arguments of a command.
pub(super) trait Execute: Args {
    /// Executes the command.
    fn execute_command(self) -> Result<Exit, CliError>;
}
