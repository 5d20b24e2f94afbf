//! Refuses flags of provoke after the program, where they would be arguments of the program.

use super::command_line::shell_line;
use super::flags::is_flag;
use provoke_words::diagnostic::Diagnostic;
use provoke_words::equivalents::{OFTEN_MISPLACED, has_word};
use provoke_words::quote_word;
use std::ffi::OsString;

/// Refuses a command with flags that were probably meant for provoke. A flag is not refused after `--`, or if it is also
/// given before the program: then the second one belongs to the program.
pub fn refuse_misplaced_flags(command: &[String]) -> Result<(), Diagnostic> {
    let args: Vec<OsString> = std::env::args_os().skip(1).collect();
    let Some((program, arguments)) = command.split_first() else {
        return Ok(());
    };
    if args.iter().any(|word| word == "--") {
        return Ok(());
    }
    let before: Vec<String> = args[..args.len().saturating_sub(command.len())]
        .iter()
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let subcommand = before.first().map_or("run", String::as_str);
    let (moved, kept) = split_flags(subcommand, arguments, &before);
    let Some(first) = moved.first() else {
        return Ok(());
    };
    let flag = first.split('=').next().unwrap_or(first);
    let with_command = match before.first() {
        Some(first) if !first.starts_with('-') => before,
        _ => [vec!["run".to_owned()], before].concat(),
    };
    let line = |flags: &[String], arguments: &[String]| {
        let end = ["--".to_owned(), program.clone()];
        let words = [&with_command, flags, &end, arguments].concat();
        format!("provoke {}", shell_line(&words))
    };
    let program_word = quote_word(program.as_ref());
    let message = format!("the flag `{flag}` comes after the program `{program_word}`");
    Err(Diagnostic::usage(message).with_hint(format!(
        "if it is a flag of provoke: {}\n      if it belongs to `{program_word}`: {}",
        line(&moved, &kept),
        line(&[], arguments),
    )))
}

/// Splits a program and its arguments into the flags that were probably meant for provoke, and the rest.
pub(super) fn flags_before_program(
    subcommand: &str,
    before: &[OsString],
    program: &[OsString],
) -> (Vec<OsString>, Vec<OsString>) {
    let as_text = |words: &[OsString]| {
        let words = words.iter().map(|word| word.to_str().map(str::to_owned));
        words.collect::<Option<Vec<String>>>()
    };
    let (Some(words), Some(before)) = (as_text(program), as_text(before)) else {
        return (Vec::new(), program.to_vec());
    };
    let (moved, kept) = split_flags(subcommand, &words, &before);
    let as_words = |words: Vec<String>| words.into_iter().map(OsString::from).collect();
    (as_words(moved), as_words(kept))
}

/// Splits the arguments of a program into the flags of provoke with their values, and the rest.
fn split_flags(
    subcommand: &str,
    arguments: &[String],
    before: &[String],
) -> (Vec<String>, Vec<String>) {
    let (mut moved, mut kept) = (Vec::new(), Vec::new());
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let is_one_of = |word: &str, names: &str| names.split(' ').any(|name| is_flag(word, name));
        let of_command = OFTEN_MISPLACED
            .iter()
            .filter(|(command, _)| command.is_empty() || *command == subcommand)
            .map(|(_, names)| *names);
        let names = of_command.into_iter().find(|names| {
            is_one_of(word, names) && !before.iter().any(|word| is_one_of(word, names))
        });
        match names {
            Some(names) => {
                moved.push(word.clone());
                if has_word(names, word) {
                    moved.extend(words.next().cloned());
                }
            }
            None => kept.push(word.clone()),
        }
    }
    (moved, kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misplaced_flags_are_moved_with_their_values() {
        let split = |line: &str, before: &str| {
            let words = |line: &str| line.split_whitespace().map(str::to_owned).collect();
            let (arguments, before): (Vec<String>, Vec<String>) = (words(line), words(before));
            let subcommand = before.first().unwrap().clone();
            let (moved, kept) = split_flags(&subcommand, &arguments, &before);
            format!("{} | {}", moved.join(" "), kept.join(" "))
        };
        for (line, before, expected) in [
            ("-n 5 file", "run", "-n 5 | file"),
            ("-n5 -x", "run", "-n5 | -x"),
            ("a --runs=5 b", "run", "--runs=5 | a b"),
            ("-j 2 -d 8s", "run", "-j 2 -d 8s | "),
            ("-n 5 -j 2", "run -n 3", "-j 2 | -n 5"),
            ("-n 5", "run --runs=3", " | -n 5"),
            ("-n", "run", "-n | "),
            ("-L A=1,2 b", "compare", "-L A=1,2 | b"),
            ("-L A=1,2 b", "run", " | -L A=1,2 b"),
            ("-c 1..8 b", "load", "-c 1..8 | b"),
            (
                "-name x --number 3 -dev",
                "run",
                " | -name x --number 3 -dev",
            ),
        ] {
            assert_eq!(split(line, before), expected, "{before} ./a {line}");
        }
    }
}
