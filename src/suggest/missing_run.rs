//! Adds the command `run` to a command line that begins with a program.

use clap::Command;
use std::ffi::{OsStr, OsString};
use std::path::Path;

/// Adds the command `run` if the command line begins with a program, or with flags before one.
pub fn with_run(mut args: Vec<OsString>, commands: &Command) -> Vec<OsString> {
    if lacks_run(&args, commands) {
        args.insert(1, "run".into());
    }
    args
}

fn lacks_run(args: &[OsString], commands: &Command) -> bool {
    let [_, first, rest @ ..] = args else {
        return false;
    };
    let is_command = commands
        .get_subcommands()
        .any(|command| first == command.get_name());
    let is_of_provoke = ["-h", "--help", "-V", "--version", "help"]
        .iter()
        .any(|known| first == known);
    if is_command || is_of_provoke {
        return false;
    }
    let has_program = || rest.iter().any(|word| word == "--" || is_program(word));
    is_program(first) || (is_option(first) && (first == "--" || has_program()))
}

/// Returns whether a word is a path, or a file in this directory; a scenario file is not a program.
fn is_program(word: &OsStr) -> bool {
    let path = Path::new(word);
    let is_path = word.as_encoded_bytes().contains(&b'/') || path.is_file();
    is_path && !is_option(word) && !is_scenario(path)
}

fn is_option(word: &OsStr) -> bool {
    word.as_encoded_bytes().starts_with(b"-")
}

/// Returns whether a path names a scenario file.
pub(super) fn is_scenario(path: &Path) -> bool {
    path.extension().is_some_and(|end| end == "toml")
}
