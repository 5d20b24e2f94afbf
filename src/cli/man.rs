//! `man`: prints or writes the manual pages, one for each command.

use super::exit::Exit;
use crate::term;
use clap::Args;
use provoke_words::diagnostic::Diagnostic;
use provoke_words::untrusted::Untrusted as _;
use std::path::PathBuf;

/// Print a manual page, or write all of them
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct ManArgs {
    /// The command [default: the page of provoke itself]
    #[arg(value_name = "COMMAND")]
    command: Vec<String>,
    /// Write the pages of all commands to DIR
    #[arg(long, value_name = "DIR", conflicts_with = "command")]
    out: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  Read the page of `run`:
    provoke man run | man -l -
  Install all pages:
    provoke man --out ~/.local/share/man/man1";

impl ManArgs {
    /// Prints or writes pages of these commands.
    pub(super) fn execute_command(self, commands: clap::Command) -> Result<Exit, Diagnostic> {
        let mut commands = term::show_every_help(commands.disable_help_subcommand(true));
        commands.build();
        if let Some(folder) = &self.out {
            term::write_man_pages(&commands, folder).map_err(|error| {
                let message = format!("cannot write manual pages to `{}`", folder.to_safe());
                Diagnostic::could_not(message).because(error)
            })?;
            return Ok(Exit::GoodAnswer);
        }
        let mut command = &commands;
        for name in &self.command {
            command = command.find_subcommand(name).ok_or_else(|| {
                Diagnostic::usage(format!("there is no command `{}`", name.to_safe()))
                    .with_hint("`provoke --help` lists the commands")
            })?;
        }
        term::print_result(&term::render_man_page(command)?)?;
        Ok(Exit::GoodAnswer)
    }
}
