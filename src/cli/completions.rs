//! `completions`: prints the completions of a shell.

use super::exit::Exit;
use crate::term;
use clap::Args;
use provoke_words::diagnostic::Diagnostic;

/// Print shell completions
#[derive(Args)]
#[command(after_help = "Examples:\n  provoke completions bash")]
pub(super) struct CompletionsArgs {
    /// The shell
    shell: clap_complete::Shell,
}

impl CompletionsArgs {
    /// Prints the completions of these commands.
    pub(super) fn execute_command(self, mut commands: clap::Command) -> Result<Exit, Diagnostic> {
        let mut text = Vec::new();
        clap_complete::generate(self.shell, &mut commands, "provoke", &mut text);
        term::print_result(&String::from_utf8_lossy(&text))?;
        Ok(Exit::GoodAnswer)
    }
}
