//! Makes text from outside safe to show: output, names, messages of other programs, journals.
//!
//! A terminal obeys control characters, characters that reorder or hide text mislead readers, and a CI server executes
//! some words of its log. [`SafeText`] contains none of them. All text that is printed, listed or exported is created
//! with it; `clippy.toml` forbids the `display` of paths and of the operating system's strings, which is the other way
//! to print a name.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::fmt::{self, Write as _};
use std::ops::Deref;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// Text that is safe to show anywhere.
///
/// The following is shown as escapes, as in the source code of a program:
/// * control characters, and characters that reorder, hide or join text;
/// * the beginnings of words that CI servers execute: `##[command]`, `##vso[`, `##teamcity[` (anywhere in a line) and
///   `::command` (at the beginning of a word, because lines are wrapped).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SafeText(String);

impl SafeText {
    /// Escapes a single line: line ends and tabs are escaped, too.
    pub fn from_line(text: &str) -> Self {
        Self(escape_text(text, |_, _| false))
    }

    /// Escapes lines: line ends and tabs are kept.
    pub fn from_lines(text: &str) -> Self {
        Self(escape_text(&text.replace("\r\n", "\n"), |c, _| {
            matches!(c, '\n' | '\t')
        }))
    }

    /// Escapes lines of text that provoke formatted: its colours are kept, too, if `colours` is set.
    pub fn laid_out(text: &str, colours: bool) -> Self {
        Self(escape_text(text, |c, rest| {
            matches!(c, '\n' | '\t') || colours && c == '\u{1b}' && is_colour(rest)
        }))
    }

    /// Returns the text itself.
    pub fn into_string(self) -> String {
        self.0
    }
}

impl fmt::Display for SafeText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Deref for SafeText {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

/// Strings that come from outside, such as names.
pub trait Untrusted {
    /// Returns the text in one line with escapes; bytes that are not UTF-8 are replaced.
    fn to_safe(&self) -> SafeText;
}

impl Untrusted for str {
    fn to_safe(&self) -> SafeText {
        SafeText::from_line(self)
    }
}

impl Untrusted for OsStr {
    fn to_safe(&self) -> SafeText {
        SafeText::from_line(&self.to_string_lossy())
    }
}

impl Untrusted for Path {
    fn to_safe(&self) -> SafeText {
        self.as_os_str().to_safe()
    }
}

/// Quotes an argument in one line, so that a shell reads the same bytes.
///
/// An argument that needs escapes is written as in `$'a\033'`, which bash, zsh, ksh and busybox read.
pub fn shell_word(word: &OsStr) -> SafeText {
    quote_word(word, SafeText::from_line)
}

/// Does the same, but keeps line ends and tabs, so that every shell reads an argument of several lines.
pub fn shell_lines(word: &OsStr) -> SafeText {
    quote_word(word, SafeText::from_lines)
}

fn quote_word(word: &OsStr, show: impl Fn(&str) -> SafeText) -> SafeText {
    let shell_quoted = word.to_str().and_then(|word| shlex::try_quote(word).ok());
    if let Some(quoted) = shell_quoted
        && *quoted == *show(&quoted)
    {
        return SafeText(quoted.into_owned());
    }
    let mut quoted = String::from("$'");
    let escape_bytes = |quoted: &mut String, bytes: &[u8]| {
        for byte in bytes {
            let _ = write!(quoted, "\\{byte:03o}");
        }
    };
    for chunk in word.as_bytes().utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\n' => quoted.push_str("\\n"),
                '\t' => quoted.push_str("\\t"),
                '\'' | '\\' => quoted.extend(['\\', c]),
                '#' | ':' => escape_bytes(&mut quoted, &[c as u8]),
                _ if is_misleading(c) => {
                    escape_bytes(&mut quoted, c.encode_utf8(&mut [0; 4]).as_bytes());
                }
                _ => quoted.push(c),
            }
        }
        escape_bytes(&mut quoted, chunk.invalid());
    }
    quoted.push('\'');
    SafeText(quoted)
}

/// Returns JSON with the same meaning that is safe to show: unsafe characters occur only in strings, and are written
/// with the escapes of JSON strings.
pub fn safe_json(json: &str) -> Cow<'_, str> {
    let mut safe = String::new();
    let mut kept_until = 0;
    for (position, c) in json.char_indices() {
        let escaped = is_misleading(c) && c != '\n' || c == '#' && is_command(&json[position..]);
        if escaped {
            safe.push_str(&json[kept_until..position]);
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ = write!(safe, "\\u{unit:04x}");
            }
            kept_until = position + c.len_utf8();
        }
    }
    if kept_until == 0 {
        return Cow::Borrowed(json);
    }
    safe.push_str(&json[kept_until..]);
    Cow::Owned(safe)
}

/// Escapes all characters that are not to be kept; `keep` receives a character and the text from it on.
fn escape_text(text: &str, keep: impl Fn(char, &str) -> bool) -> String {
    let mut safe = String::with_capacity(text.len());
    let mut begins_word = true;
    for (position, c) in text.char_indices() {
        let rest = &text[position..];
        match c {
            '#' if is_command(rest) => safe.push_str("\\x23"),
            ':' if begins_word && is_workflow_command(rest) => safe.push_str("\\x3a"),
            _ if !is_misleading(c) || keep(c, rest) => safe.push(c),
            '\u{1b}' => safe.push_str("\\x1b"), // in the usual form
            _ => safe.extend(c.escape_default()),
        }
        begins_word = c.is_whitespace();
    }
    safe
}

/// Returns whether a text begins with `##[command]`, `##vso[` or a similar command.
fn is_command(text: &str) -> bool {
    text.strip_prefix("##").is_some_and(|rest| {
        rest.trim_start_matches(|c: char| c.is_ascii_alphanumeric())
            .starts_with('[')
    })
}

/// Returns whether a text begins with `::command`.
fn is_workflow_command(text: &str) -> bool {
    let name = text.strip_prefix("::");
    name.is_some_and(|name| name.starts_with(|c: char| c.is_ascii_alphabetic()))
}

/// Returns whether a text begins with a sequence that only sets colours: `ESC [ 1;31 m`.
fn is_colour(text: &str) -> bool {
    text.strip_prefix("\u{1b}[").is_some_and(|rest| {
        rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';')
            .starts_with('m')
    })
}

/// Returns whether a character does something other than being visible at its position.
fn is_misleading(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{180e}' | '\u{200b}'
            | '\u{200e}' | '\u{200f}' | '\u{2800}' | '\u{3164}' | '\u{ffa0}' | '\u{e0100}'..='\u{e01ef}'
            | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}' | '\u{fffe}' | '\u{ffff}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOSTILE: &str =
        "a\u{1b}[31mred\u{7}\r\n\tb\u{9b}2J\u{202e}drow\u{feff} gr\u{fc}n \u{1f980}";

    #[test]
    fn control_characters_are_shown_as_escapes() {
        insta::assert_snapshot!(SafeText::from_line(HOSTILE), @r"a\x1b[31mred\u{7}\r\n\tb\u{9b}2J\u{202e}drow\u{feff} grün 🦀");
        insta::assert_snapshot!(SafeText::from_lines("a\r\n\tb\u{0}"), @r"
        a
        	b\u{0}
        ");
        let all: String = (0..=0x10_ffff).filter_map(char::from_u32).collect();
        assert!(!SafeText::from_line(&all).chars().any(is_misleading));
    }

    #[test]
    fn commands_of_ci_servers_are_escaped() {
        for (text, safe) in [
            ("x ##[error]y", "x \\x23#[error]y"),
            ("##vso[task.setvariable]", "\\x23#vso[task.setvariable]"),
            ("##teamcity[buildStop]", "\\x23#teamcity[buildStop]"),
            ("###[group]", "#\\x23#[group]"),
            ("  ::add-mask::1", "  \\x3a:add-mask::1"),
            ("a ::error file=x::m", "a \\x3a:error file=x::m"),
            ("std::vector::at", "std::vector::at"),
            ("# C #1 ## x [y]", "# C #1 ## x [y]"),
            ("[::1]:80 ::", "[::1]:80 ::"),
        ] {
            assert_eq!(&*SafeText::from_line(text), safe);
            assert_eq!(&*SafeText::laid_out(text, true), safe);
        }
        assert_eq!(
            &*SafeText::from_lines("a\n\t::stop-commands::x"),
            "a\n\t\\x3a:stop-commands::x"
        );
    }

    #[test]
    fn a_shell_reads_a_quoted_word_unchanged() {
        let invalid = OsStr::from_bytes(b"\xff1\xfe'");
        let words = [
            "plain",
            "",
            "it's",
            "a b",
            HOSTILE,
            "\\ \\n",
            "x ##[error]",
            "::error",
        ];
        for word in words.map(OsStr::new).into_iter().chain([invalid]) {
            for quoted in [shell_word(word), shell_lines(word)] {
                assert_eq!(SafeText::from_lines(&quoted), quoted);
                let mut shell = std::process::Command::new("bash");
                let read = shell
                    .args(["-c", &format!("printf %s {}", &*quoted)])
                    .output()
                    .unwrap();
                assert_eq!(OsStr::from_bytes(&read.stdout), word, "{quoted}");
            }
            assert_eq!(SafeText::from_line(&shell_word(word)), shell_word(word));
        }
        assert_eq!(&*shell_word(OsStr::new("a b")), "'a b'");
        assert_eq!(&*shell_word(OsStr::new("a\u{1b}'\n")), r"$'a\033\'\n'");
        assert_eq!(&*shell_lines(OsStr::new("a\n\tb")), "'a\n\tb'");
    }

    #[test]
    fn only_colours_are_kept_and_only_if_allowed() {
        let text = "\u{1b}[1;31merror\u{1b}[0m: \u{1b}[2J\u{1b}]0;title\u{7}\n";
        insta::assert_snapshot!(SafeText::laid_out(text, true).escape_debug(), @r"\u{1b}[1;31merror\u{1b}[0m: \\x1b[2J\\x1b]0;title\\u{7}\n");
        insta::assert_snapshot!(SafeText::laid_out(text, false).escape_debug(), @r"\\x1b[1;31merror\\x1b[0m: \\x1b[2J\\x1b]0;title\\u{7}\n");
    }

    #[test]
    fn safe_json_has_the_same_value_and_no_control_characters() {
        let value = serde_json::json!({ "a": format!("{HOSTILE} ##[error] \u{e0001}"), "b": [1] });
        let json = serde_json::to_string_pretty(&value).unwrap();
        let safe = safe_json(&json);
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&safe).unwrap(),
            value
        );
        assert!(!safe.contains("##["), "{safe}");
        assert!(
            !safe.chars().any(|c| c != '\n' && is_misleading(c)),
            "{safe}"
        );
        assert!(matches!(safe_json("{\"a\": \"b\"}\n"), Cow::Borrowed(_)));
    }
}
