//! Text of reports: shortened to its limits, without terminal colours.

use super::limits::{LONGEST_MESSAGE, LONGEST_NAME, MOST_MESSAGE_LINES};
use std::borrow::Cow;

/// Returns the longest beginning of a text that has at most `bytes` bytes.
pub(crate) fn truncate_text(text: &str, bytes: usize) -> &str {
    let mut end = bytes.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// Returns a name within its limit. Two long names with the same beginning become one.
pub(crate) fn clip_name(name: &str) -> String {
    truncate_text(name, LONGEST_NAME).to_owned()
}

/// Returns the first lines of a message, without terminal colours and without blank lines at its ends.
pub(crate) fn clip_message(message: &str) -> String {
    // Removing colours cannot make the text longer, so a multiple of the limit is enough.
    let plain = remove_colours(truncate_text(message, 8 * LONGEST_MESSAGE));
    let lines = plain.trim_matches(['\n', '\r']).lines();
    let kept: Vec<&str> = lines
        .map(str::trim_end)
        .skip_while(|line| line.is_empty())
        .take(MOST_MESSAGE_LINES)
        .collect();
    let text = kept.join("\n");
    truncate_text(text.trim_end(), LONGEST_MESSAGE).to_owned()
}

/// Removes escape sequences of colours: ESC, `[`, parameters, a letter.
fn remove_colours(text: &str) -> Cow<'_, str> {
    if !text.contains("\u{1b}[") {
        return Cow::Borrowed(text);
    }
    let mut parts = text.split("\u{1b}[");
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let rest = part.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';');
        match rest.strip_prefix('m') {
            Some(rest) => plain.push_str(rest),
            None => {
                plain.push_str("\u{1b}[");
                plain.push_str(part);
            }
        }
    }
    Cow::Owned(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_name_ends_between_two_characters() {
        let name = "é".repeat(LONGEST_NAME);
        assert_eq!(clip_name(&name), "é".repeat(LONGEST_NAME / 2));
    }

    #[test]
    fn a_message_has_no_colours_and_few_lines() {
        let text = "\n\n\u{1b}[31;1mError\u{1b}[0m: \u{1b}[2Kx  \nsecond\n\n";
        assert_eq!(clip_message(text), "Error: \u{1b}[2Kx\nsecond");
        let long = "line\n".repeat(1_000);
        assert_eq!(clip_message(&long).lines().count(), MOST_MESSAGE_LINES);
    }
}
