//! Text of a limited width.

use super::super::wrap_text;

/// Lines of a text with limited width.
pub(super) struct WrappedText {
    /// Maximum length of a line of prose, if its words allow that.
    pub(super) width: usize,
    text: String,
}

/// Blanks before the lines of details.
const INDENT: usize = 2;
/// Maximum indent of further lines after a head.
const HANG: usize = 4;

impl WrappedText {
    pub(super) fn new(width: usize) -> Self {
        Self {
            width,
            text: String::new(),
        }
    }

    /// Writes a line unchanged.
    pub(super) fn push_line(&mut self, line: &str) {
        self.text.push_str(line.trim_end());
        self.text.push('\n');
    }

    /// Writes an empty line, unless it would be the first.
    pub(super) fn push_gap(&mut self) {
        if !self.text.is_empty() && !self.text.ends_with("\n\n") {
            self.text.push('\n');
        }
    }

    /// Writes text after a head, in as many lines as it needs; further lines are aligned with the text of the first, up
    /// to a small indent.
    pub(super) fn push_prose(&mut self, head: &str, words: &str) {
        let indent = if head.trim().is_empty() {
            head.len()
        } else {
            head.len() - head.trim_start().len() + HANG
        };
        let words: Vec<&str> = words.split_whitespace().collect();
        let length = |text: &str| text.chars().count();
        for line in wrap_text(head, indent, &words.join(" "), Some(self.width), length) {
            self.push_line(&line);
        }
    }

    /// Writes a detail.
    pub(super) fn push_detail(&mut self, text: &str) {
        let words: Vec<&str> = text.split_whitespace().collect();
        let head = " ".repeat(INDENT);
        let length = |text: &str| text.chars().count();
        for line in wrap_text(
            &head,
            INDENT + 2,
            &words.join(" "),
            Some(self.width),
            length,
        ) {
            self.push_line(&line);
        }
    }

    /// Writes a line of a program with its indentation, in as many lines as it needs.
    pub(super) fn push_quoted(&mut self, text: &str) {
        let mut indent = INDENT;
        let mut rest = text.trim_end();
        let room = self.width.saturating_sub(indent);
        if ends_with_rule(rest) && rest.chars().count() > room {
            rest = rest
                .char_indices()
                .nth(room)
                .map_or(rest, |(position, _)| &rest[..position]);
        }
        while !rest.is_empty() {
            let (line, next) = rest.split_at(end_of_line(rest, self.width.saturating_sub(indent)));
            self.push_line(&format!("{}{line}", " ".repeat(indent)));
            rest = next.trim_start();
            indent = INDENT + HANG;
        }
    }

    pub(super) fn into_text(self) -> String {
        self.text
    }
}

/// Returns whether a line ends with a rule such as `=====`, which can be cut.
fn ends_with_rule(line: &str) -> bool {
    const RULE: usize = 5;
    let mut last = line.chars().rev();
    let first = last.next().filter(char::is_ascii_punctuation);
    first.is_some_and(|first| last.take_while(|letter| *letter == first).count() + 1 >= RULE)
}

/// Returns the length of the first line of a text in bytes: it is broken at a blank, otherwise after a `/`, never
/// within a name.
fn end_of_line(text: &str, room: usize) -> usize {
    let Some((beyond, _)) = text.char_indices().nth(room) else {
        return text.len();
    };
    let start = text.len() - text.trim_start().len();
    let blank = text[start..]
        .char_indices()
        .map(|(position, c)| (start + position, c))
        .filter(|(_, c)| c.is_whitespace())
        .map(|(position, _)| position);
    let slash = text.match_indices('/').map(|(position, _)| position + 1);
    let fits = |position: &usize| *position <= beyond;
    let last_fitting = blank.clone().take_while(fits).last();
    last_fitting
        .or_else(|| slash.clone().take_while(fits).last())
        .or_else(|| blank.chain(slash).min())
        .unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quoted_line_is_wrapped_with_an_indentation() {
        let quoted = |text: &str| {
            let mut lines = WrappedText::new(20);
            lines.push_quoted(text);
            lines.into_text()
        };
        assert_eq!(
            quoted("  0123456789 0123456789 0123"),
            "    0123456789\n      0123456789\n      0123\n"
        );
        assert_eq!(
            quoted("f (/opt/python/lib/server.py:424)"),
            "  f\n      (/opt/python/\n      lib/\n      server.py:424)\n"
        );
        let unbroken = "x".repeat(40);
        assert_eq!(quoted(&unbroken), format!("  {unbroken}\n"));
    }
}
