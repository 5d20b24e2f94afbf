//! Renders manual pages from the definitions of commands.

use clap::Command;
use clap_mangen::Man;
use std::fs;
use std::io;
use std::path::Path;

/// Returns the command with a description of each flag: a page leaves out what the short help hides.
pub fn show_every_help(command: Command) -> Command {
    command
        .mut_args(|flag| flag.hide_short_help(false))
        .mut_subcommands(show_every_help)
}

/// Returns the manual page of a command.
pub fn render_man_page(command: &Command) -> io::Result<String> {
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

fn man_title(command: &Command) -> &str {
    command
        .get_display_name()
        .unwrap_or_else(|| command.get_name())
}

/// Writes the pages of a command and its subcommands.
pub fn write_man_pages(command: &Command, folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let file = folder.join(format!("{}.1", man_title(command)));
    fs::write(file, render_man_page(command)?)?;
    command
        .get_subcommands()
        .filter(|subcommand| !subcommand.is_hide_set())
        .try_for_each(|subcommand| write_man_pages(subcommand, folder))
}
