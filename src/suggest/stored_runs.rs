//! Recognizes stored runs that are given as programs, and programs that are given as stored runs.

use super::command_line::{retyped_line, shell_line};
use provoke_words::diagnostic::Diagnostic;
use provoke_words::quote_word;
use std::ffi::{OsStr, OsString};

/// Explains that stored runs are not programs to compare.
pub fn runs_as_programs(
    command: &[OsString],
    is_run: impl Fn(&OsStr) -> bool,
) -> Option<Diagnostic> {
    if command.len() < 2 || !command.iter().all(|word| is_run(word)) {
        return None;
    }
    let message = "`provoke compare` compares programs, and these are stored runs";
    let hint = format!(
        "to compare stored runs: provoke diff {}",
        shell_line(command)
    );
    Some(Diagnostic::usage(message).with_hint(hint))
}

/// Explains that programs are not stored runs to compare.
pub fn programs_as_runs(names: &[&str], is_program: impl Fn(&OsStr) -> bool) -> Option<Diagnostic> {
    if !names.iter().all(|name| is_program(name.as_ref())) {
        return None;
    }
    let values = quote_word(names.join(",").as_ref());
    let message = "`provoke diff` compares stored runs, and these are programs";
    let hint = format!("to compare programs: provoke compare -L bin={values} -- {{bin}}");
    Some(Diagnostic::usage(message).with_hint(hint))
}

/// The meanings of a word of the command line.
#[derive(Clone, Copy, Debug)]
pub struct WordKind {
    /// A program, here or in `PATH`.
    pub is_program: bool,
    /// A stored run.
    pub is_run: bool,
    /// A stored hunt.
    pub is_hunt: bool,
}

/// Explains that a command begins with the name of a stored run, which is probably the baseline.
pub fn run_as_command(
    command: &[OsString],
    kind_of_word: impl Fn(&OsStr) -> WordKind,
) -> Option<Diagnostic> {
    let (name, rest) = command.split_first()?;
    // After `--`, only the program may have such a name.
    if std::env::args_os().nth(2).is_some_and(|word| word == "--") {
        return None;
    }
    let kind = kind_of_word(name);
    // Many systems have a program `last`, which lists logins.
    if !kind.is_run || (kind.is_program && name != "last") {
        return None;
    }
    let run = quote_word(name);
    let with_rest = match rest {
        [] => String::new(),
        [first, rest @ ..] if first == "--" => format!(" -- {}", shell_line(rest)),
        rest => format!(" -- {}", shell_line(rest)),
    };
    let flag = if kind.is_hunt { "--held" } else { "--baseline" };
    let baseline = retyped_line(name, &format!("{flag} {run}{with_rest}"));
    let program = if kind.is_program {
        let program = retyped_line(name, &format!("-- {}", shell_line(command)));
        format!(" To run the program: {program}")
    } else {
        String::new()
    };
    let message = format!("`{run}` is a stored run, not a command");
    Some(Diagnostic::usage(message).with_hint(format!("did you mean `{baseline}`?{program}")))
}
