//! `man`: prints or writes the manual pages, one for each command.

use super::error::CliError;
use super::exit::Exit;
use crate::term;
use crate::untrusted::Untrusted as _;
use clap::Args;
use clap_mangen::Man;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

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
    pub(super) fn execute_command(self, commands: clap::Command) -> Result<Exit, CliError> {
        let mut commands = show_every_help(commands.disable_help_subcommand(true));
        commands.build();
        if let Some(folder) = &self.out {
            write_pages(&commands, folder).map_err(|error| {
                let message = format!("cannot write manual pages to `{}`", folder.to_safe());
                CliError::could_not(anyhow::Error::new(error).context(message))
            })?;
            return Ok(Exit::Hoped);
        }
        let mut command = &commands;
        for name in &self.command {
            command = command.find_subcommand(name).ok_or_else(|| {
                let error = anyhow::anyhow!("there is no command `{}`", name.to_safe());
                CliError::usage(error).with_hint("`provoke --help` lists the commands")
            })?;
        }
        term::print_result(&render_page(command)?)?;
        Ok(Exit::Hoped)
    }
}

/// Returns the command with a description of each flag: a page leaves out what the short help hides.
fn show_every_help(command: clap::Command) -> clap::Command {
    command
        .mut_args(|flag| flag.hide_short_help(false))
        .mut_subcommands(show_every_help)
}

/// Returns the manual page of a command.
fn render_page(command: &clap::Command) -> io::Result<String> {
    let man = Man::new(command.clone())
        .source(concat!("provoke ", env!("CARGO_PKG_VERSION")))
        .manual("provoke");
    let mut page = Vec::new();
    man.render(&mut page)?;
    let page = String::from_utf8_lossy(&page);
    // Without a date, the library leaves out an argument of the title.
    let title = man_title(command);
    Ok(page
        .replace(&format!(".TH {title} 1  "), &format!(".TH {title} 1 \"\" "))
        .replace(".SH EXTRA\nExamples:", ".SH EXAMPLES")
        .replace(".SH EXTRA\nExit codes:", ".SH EXIT STATUS"))
}

fn man_title(command: &clap::Command) -> &str {
    command
        .get_display_name()
        .unwrap_or_else(|| command.get_name())
}

/// Writes the pages of a command and its subcommands.
fn write_pages(command: &clap::Command, folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let file = folder.join(format!("{}.1", man_title(command)));
    fs::write(file, render_page(command)?)?;
    command
        .get_subcommands()
        .filter(|subcommand| !subcommand.is_hide_set())
        .try_for_each(|subcommand| write_pages(subcommand, folder))
}
