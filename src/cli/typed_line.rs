//! Reads and corrects the typed command line.

use crate::words::quote_word;
use std::ffi::{OsStr, OsString};

/// The formats of reports, and their names in file names and other tools.
pub(super) const FORMATS: &[(&str, &[&str])] = &[
    ("json", &["json"]),
    ("jsonl", &["jsonl", "ndjson"]),
    ("csv", &["csv"]),
    ("junit", &["junit", "xml", "junitxml"]),
    ("md", &["md", "markdown"]),
];

/// Returns the flag whose file this separate word is: `--json FILE`.
pub(super) fn file_of_flag(word: &OsStr) -> Option<String> {
    let args: Vec<OsString> = std::env::args_os().collect();
    let at = args.iter().position(|argument| argument == word)?;
    let flag = args[at.checked_sub(1)?].to_str()?.strip_prefix("--")?;
    let is_format = FORMATS.iter().any(|(format, _)| *format == flag);
    is_format.then(|| format!("--{flag}={}", quote_word(word)))
}

/// Joins arguments into a shell line.
pub(super) fn shell_line(words: &[OsString]) -> String {
    let words = words.iter().map(|word| quote_word(word));
    words.collect::<Vec<_>>().join(" ")
}

/// Returns the command line with another end, from the program `name` on.
pub(super) fn retyped_line(name: &OsStr, end: &str) -> String {
    let args: Vec<OsString> = std::env::args_os().skip(1).collect();
    let at = args.iter().position(|word| word == name);
    let Some(at) = at.filter(|_| args.first().is_some_and(|first| first != "scenario")) else {
        return end.to_owned();
    };
    let mut before = &args[..at];
    if let [rest @ .., last] = before
        && last == "--"
    {
        before = rest;
    }
    let before = shell_line(before);
    let gap = if before.is_empty() { "" } else { " " };
    format!("provoke {before}{gap}{end}")
}
