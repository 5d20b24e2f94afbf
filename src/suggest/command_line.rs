//! Reads and corrects the typed command line.

use provoke_words::diagnostic::Diagnostic;
use provoke_words::equivalents::FORMATS;
use provoke_words::quote_word;
use provoke_words::untrusted::Untrusted as _;
use std::ffi::{OsStr, OsString};

/// Returns the flag whose file this separate word is: `--json FILE`.
pub fn file_of_flag(word: &OsStr) -> Option<String> {
    let args: Vec<OsString> = std::env::args_os().collect();
    let at = args.iter().position(|argument| argument == word)?;
    let flag = args[at.checked_sub(1)?].to_str()?.strip_prefix("--")?;
    let format = FORMATS.own_names().find(|format| *format == flag)?;
    Some(format!("--{format}={}", quote_word(word)))
}

/// Returns the arguments of a command as text. A plan is human-readable, so it contains only UTF-8.
pub fn command_as_text(command: Vec<OsString>) -> Result<Vec<String>, Diagnostic> {
    let words = command.into_iter().map(OsString::into_string);
    words.collect::<Result<_, _>>().map_err(|word| {
        Diagnostic::usage(format!("the argument `{}` is not UTF-8", word.to_safe()))
            .with_hint("pass it in a file or an environment variable")
    })
}

/// Joins arguments into a shell line.
pub fn shell_line<W: AsRef<OsStr>>(words: &[W]) -> String {
    let quoted = words.iter().map(|word| quote_word(word.as_ref()));
    quoted.collect::<Vec<_>>().join(" ")
}

/// Returns a line of provoke: a command, and the words after it.
pub(super) fn provoke_line(command: &str, rest: &[OsString]) -> String {
    shell_line(&[&["provoke".into(), command.into()], rest].concat())
}

/// Returns the command line with another end, from the program `name` on.
pub fn retyped_line(name: &OsStr, end: &str) -> String {
    let args: Vec<OsString> = std::env::args_os().skip(1).collect();
    let is_scenario = args.first().is_some_and(|first| first == "scenario");
    let Some(at) = args.iter().position(|word| word == name) else {
        return end.to_owned();
    };
    if is_scenario {
        return end.to_owned();
    }
    let before = match &args[..at] {
        [before @ .., last] if last == "--" => before,
        before => before,
    };
    let gap = if before.is_empty() { "" } else { " " };
    format!("provoke {}{gap}{end}", shell_line(before))
}

/// Returns the value given with a flag, quoted for a shell.
pub(super) fn value_of(flag: &str, args: &[OsString]) -> Option<String> {
    let at = args.iter().position(|word| {
        let word = word.to_string_lossy();
        word == flag || is_assigned(&word, flag)
    })?;
    let word = args[at].to_string_lossy();
    let value = match word.split_once('=') {
        Some((_, value)) => OsString::from(value),
        None => args.get(at + 1)?.clone(),
    };
    if value.as_encoded_bytes().starts_with(b"-") {
        None
    } else {
        Some(quote_word(&value))
    }
}

/// Returns whether a word is this flag with a value: `--runs=5`.
pub(super) fn is_assigned(word: &str, flag: &str) -> bool {
    word.strip_prefix(flag)
        .is_some_and(|rest| rest.starts_with('='))
}
