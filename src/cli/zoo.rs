//! `zoo`: lists small programs with a bug each, and writes their files.

mod bugs;

use super::execute::Execute;
use super::exit::Exit;
use crate::term;
use bugs::{BUGS, Bug};
use clap::Args;
use clap::builder::PossibleValuesParser;
use provoke_report::wrap_text;
use provoke_sys::files;
use provoke_words::diagnostic::Diagnostic;
use provoke_words::untrusted::{Untrusted as _, shell_word};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// List small programs with a bug each, or write the files of one
///
/// Each program fails only sometimes, and shows one question that provoke answers. With NAME, its files are
/// written to a new directory, and the commands to run are printed. docs/zoo has a page about each.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct ZooArgs {
    /// The bug whose files are written [default: list the bugs]
    #[arg(value_name = "NAME", value_parser = PossibleValuesParser::new(BUGS.iter().map(|bug| bug.name)))]
    name: Option<String>,
    /// Write the files to this new directory [default: NAME]
    #[arg(short, long, value_name = "DIR", requires = "name")]
    out: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  List the bugs:
    provoke zoo
  Write the files of one, and print the commands to run:
    provoke zoo deadlock";

impl Execute for ZooArgs {
    fn execute_command(self) -> Result<Exit, Diagnostic> {
        let named = self.name.as_deref();
        match BUGS.iter().find(|bug| Some(bug.name) == named) {
            Some(bug) => write_bug(bug, &self.out.unwrap_or_else(|| bug.name.into()))?,
            None => print_bugs()?,
        }
        Ok(Exit::GoodAnswer)
    }
}

fn print_bugs() -> io::Result<()> {
    let room = term::stdout_width();
    let describe = |bug: &Bug| {
        let name = format!("  {:<16}  ", bug.name);
        let hang = name.len();
        let mut lines = wrap_text(&name, hang, bug.description, room, str::len);
        lines.extend(wrap_text(
            &" ".repeat(hang),
            hang,
            bug.question,
            room,
            str::len,
        ));
        lines.join("\n") + "\n"
    };
    term::print_result(&BUGS.iter().map(describe).collect::<String>())?;
    term::print_message("\nwrite the files of one   provoke zoo NAME");
    Ok(())
}

/// Writes the files of a bug, and prints the commands to run. Only the first one goes to stdout.
fn write_bug(bug: &Bug, folder: &Path) -> Result<(), Diagnostic> {
    write_files(bug, folder).map_err(|error| {
        let message = format!("cannot write to a new directory `{}`", folder.to_safe());
        Diagnostic::could_not(message)
            .because(error)
            .with_hint("choose another directory with `-o`")
    })?;
    let names: Vec<_> = bug.files.iter().map(|(name, _)| *name).collect();
    let message = format!(
        "wrote {} to `{}`; next:",
        names.join(", "),
        folder.to_safe()
    );
    term::print_message(&message);
    let command = format!("cd {} && {}\n", shell_word(folder.as_os_str()), bug.command);
    term::print_result(&command)?;
    term::say_as_it_is(&format!("then:\n{}", bug.next.join("\n")));
    Ok(())
}

fn write_files(bug: &Bug, folder: &Path) -> io::Result<()> {
    files::create_private_folder(folder)?;
    for (name, text) in bug.files {
        files::create_new(&folder.join(name))?.write_all(text.as_bytes())?;
    }
    Ok(())
}
