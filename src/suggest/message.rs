//! Rewrites messages of the parser of command lines.

use clap::Command;
use clap::error::{ContextKind, ContextValue};
use provoke_words::untrusted::SafeText;
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

/// Returns the hint at the end of an error: the probably intended value, or how to show the help of the command.
pub fn closing_hint(error: &clap::Error, args: &[OsString], commands: &Command) -> String {
    if let Some(hint) = hint_at_value(error) {
        return hint;
    }
    let command = args
        .get(1)
        .and_then(|word| word.to_str())
        .and_then(|word| commands.find_subcommand(word))
        .map_or(String::new(), |command| format!("{} ", command.get_name()));
    format!("`provoke {command}--help` describes the arguments")
}

/// Suggests a value in the form that provoke reads: `-n 1000` for `1k`, `-c 1..8` for `1-8`.
fn hint_at_value(error: &clap::Error) -> Option<String> {
    let value = text_of(error, ContextKind::InvalidValue)?;
    let flag = text_of(error, ContextKind::InvalidArg)?;
    let flag = flag.split(' ').next()?;
    let is_whole = error
        .source()
        .and_then(|source| source.downcast_ref::<ParseIntError>())
        .is_some();
    let intended = match flag {
        "--shell" if value.is_empty() => {
            return Some("give the line as one argument: --shell './program | cat'".to_owned());
        }
        "--jobs" if ["auto", "max", "all", "nproc", "0"].contains(&value.as_str()) => {
            std::thread::available_parallelism().ok()?.to_string()
        }
        "--clients" | "--rate" => number_range(&value)?,
        _ if is_whole => whole_number(&value)
            .filter(|number| *number > 0)?
            .to_string(),
        _ => return None,
    };
    Some(format!("did you mean `{flag} {intended}`?"))
}

/// Reads `1-8` as a range.
fn number_range(text: &str) -> Option<String> {
    let (low, high) = text.split_once('-')?;
    let (low, high): (u64, u64) = (low.parse().ok()?, high.parse().ok()?);
    Some(format!("{low}..{high}"))
}

/// Reads `1k`, `2M`, `1_000` and `1,000`.
fn whole_number(text: &str) -> Option<u64> {
    let (digits, factor) = match text.strip_suffix(['k', 'K']) {
        Some(digits) => (digits, 1_000),
        None => match text.strip_suffix(['m', 'M']) {
            Some(digits) => (digits, 1_000_000),
            None => (text, 1),
        },
    };
    let number: u64 = digits.replace(['_', ','], "").parse().ok()?;
    number.checked_mul(factor)
}

/// Returns the text of this kind in an error of the parser.
pub(super) fn text_of(error: &clap::Error, kind: ContextKind) -> Option<String> {
    match error.get(kind)? {
        ContextValue::String(text) => Some(text.clone()),
        ContextValue::Strings(texts) => texts.first().cloned(),
        _ => None,
    }
}
