//! Rewrites messages of the parser of command lines.

use crate::untrusted::SafeText;
use clap::Command;
use clap::error::{ContextKind, ContextValue};
use std::error::Error as _;
use std::ffi::OsString;
use std::num::{IntErrorKind, ParseIntError};

/// Rewrites the parser's message about a number, and removes its last line, which names no command.
pub fn plain_message(error: &clap::Error, message: &str) -> String {
    let text = message
        .split("For more information, try")
        .next()
        .unwrap_or_default()
        .trim_end();
    let Some(source) = error
        .source()
        .and_then(|source| source.downcast_ref::<ParseIntError>())
    else {
        return text.to_owned();
    };
    let value = text_of(error, ContextKind::InvalidValue).unwrap_or_default();
    let value = SafeText::from_line(&value);
    let plain = match source.kind() {
        IntErrorKind::Empty => "a whole number is missing".to_owned(),
        IntErrorKind::Zero => "must be at least 1".to_owned(),
        IntErrorKind::PosOverflow => format!("`{value}` is too large"),
        _ => format!("`{value}` is not a whole number"),
    };
    text.replace(&source.to_string(), &plain)
}

/// Returns the hint at the end of every error: how to show the help of the command.
pub fn closing_hint(args: &[OsString], commands: &Command) -> String {
    let command = args
        .get(1)
        .and_then(|word| word.to_str())
        .and_then(|word| commands.find_subcommand(word))
        .map_or(String::new(), |command| format!("{} ", command.get_name()));
    format!("`provoke {command}--help` describes the arguments")
}

/// Returns the text of this kind in an error of the parser.
pub(super) fn text_of(error: &clap::Error, kind: ContextKind) -> Option<String> {
    match error.get(kind)? {
        ContextValue::String(text) => Some(text.clone()),
        ContextValue::Strings(texts) => texts.first().cloned(),
        _ => None,
    }
}
