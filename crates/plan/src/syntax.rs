//! Explains common mistakes in TOML syntax, and how to write the text instead.

use super::error::refuse_part;
use provoke_words::diagnostic::Diagnostic;
use toml::de::{DeTable, Error};

/// Parts of error messages of the TOML parser, with hints.
const HELPS: [(&str, &str); 9] = [
    (
        "duplicate key",
        "each name and each table such as `[env]` can appear once",
    ),
    (
        "missing comma",
        "items are separated by commas, and the list ends with `]`",
    ),
    ("unclosed array", "the list ends with `]`"),
    ("unclosed", "close the bracket in the same line"),
    (
        "escape",
        "write a backslash twice within \"...\", and once within '...'",
    ),
    (
        "cannot extend",
        "a name can be a value or a table, defined in one place",
    ),
    (
        "unicode value",
        "write a backslash twice within \"...\", and once within '...'",
    ),
    (
        "string, expected",
        "end text with the quote it began with, in the same line; use \"\"\"...\"\"\" for several lines",
    ),
    ("expected newline", "write one `name = value` per line"),
];

/// Explains an error of the TOML parser.
pub(super) fn explain_error(source: &str, error: &Error) -> Diagnostic {
    let span = error.span().unwrap_or(source.len()..source.len());
    let line = line_at(source, span.start);
    let (message, help) = match bare_value(line) {
        Some((message, help)) => (message, help),
        None if without_end(error.message()) => (
            "text without an end".to_owned(),
            help_for_line(line, error.message()),
        ),
        None => (
            error.message().to_owned(),
            help_for_line(line, error.message()),
        ),
    };
    refuse_part(message, span, help)
}

fn without_end(message: &str) -> bool {
    let quote = ["\"`", "'`"].iter().any(|end| message.ends_with(end));
    quote && message.contains("string, expected")
}

fn help_for_line(line: &str, message: &str) -> String {
    let help_entry = HELPS.iter().find(|(part, _)| message.contains(part));
    let help = if line.trim_start().starts_with('{') {
        "this looks like JSON; a scenario is TOML, with lines such as `runs = 30`"
    } else if !line.contains('=') && line.contains(':') {
        "TOML uses `=`: `runs = 30`"
    } else if let Some((_, help)) = help_entry {
        help
    } else {
        "a scenario is TOML, with lines such as `runs = 30` or `timeout = \"60s\"`, and tables such as `[env]`"
    };
    help.to_owned()
}

/// Returns the line at a position.
fn line_at(source: &str, offset: usize) -> &str {
    let boundary = |position: &usize| source.is_char_boundary(*position);
    let position = (0..=offset.min(source.len()))
        .rev()
        .find(boundary)
        .unwrap_or(0);
    let start = source[..position].rfind('\n').map_or(0, |end| end + 1);
    let end = source[position..]
        .find('\n')
        .map_or(source.len(), |end| position + end);
    source[start..end].trim_end()
}

/// Detects text without quotes, which is the most common mistake: it is one if quotes make the line valid.
fn bare_value(line: &str) -> Option<(String, String)> {
    let (key, value) = line.split_once('=')?;
    let (key, value) = (key.trim(), value.split(" #").next().unwrap_or(value).trim());
    let right = |value: &str| DeTable::parse(&format!("{key} = {value}")).is_ok();
    let bare = value.trim_matches(['\u{201c}', '\u{201d}', '\u{2018}', '\u{2019}']);
    let (message, better) = match value.to_ascii_lowercase().as_str() {
        "" => (format!("`{key}` has no value"), "\"...\"".to_owned()),
        "true" | "yes" | "on" => (
            "TOML only has `true` and `false`".to_owned(),
            "true".to_owned(),
        ),
        "false" | "no" | "off" => (
            "TOML only has `true` and `false`".to_owned(),
            "false".to_owned(),
        ),
        _ if bare != value => (
            "these are typographic quotes".to_owned(),
            toml::Value::from(bare).to_string(),
        ),
        _ if value.starts_with(['"', '\'', '[', '{']) => return None,
        _ => (
            "text needs quotes".to_owned(),
            toml::Value::from(value).to_string(),
        ),
    };
    let slip = !right(value) && right(&better);
    slip.then(|| (message, format!("write `{key} = {better}`")))
}
