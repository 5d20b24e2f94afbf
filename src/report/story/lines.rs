//! Text of a limited width.

use super::super::wrap;

/// Lines that are being written.
pub(super) struct Lines {
    /// No line of prose is longer, if its words allow that.
    pub(super) width: usize,
    text: String,
}

/// Blanks before the lines of details.
const INDENT: usize = 2;
/// The further lines of text behind a head are so much further in.
const HANG: usize = 4;

impl Lines {
    pub(super) fn new(width: usize) -> Self {
        Self {
            width,
            text: String::new(),
        }
    }

    /// Writes a line as it is.
    pub(super) fn line(&mut self, line: &str) {
        self.text.push_str(line.trim_end());
        self.text.push('\n');
    }

    /// Leaves a line empty, unless that is the first.
    pub(super) fn gap(&mut self) {
        if !self.text.is_empty() && !self.text.ends_with("\n\n") {
            self.text.push('\n');
        }
    }

    /// Writes words behind a head, in as many lines as they need; the further ones are
    /// as far in as the words of the first, but not deeper than a little.
    pub(super) fn prose(&mut self, head: &str, words: &str) {
        let indent = if head.trim().is_empty() {
            head.len()
        } else {
            head.len() - head.trim_start().len() + HANG
        };
        let words: Vec<&str> = words.split_whitespace().collect();
        let length = |text: &str| text.chars().count();
        for line in wrap(head, indent, &words.join(" "), Some(self.width), length) {
            self.line(&line);
        }
    }

    /// Writes a detail.
    pub(super) fn detail(&mut self, text: &str) {
        let words: Vec<&str> = text.split_whitespace().collect();
        let head = " ".repeat(INDENT);
        let length = |text: &str| text.chars().count();
        for line in wrap(
            &head,
            INDENT + 2,
            &words.join(" "),
            Some(self.width),
            length,
        ) {
            self.line(&line);
        }
    }

    /// Writes a line of a program with its blanks, in as many lines as it needs.
    pub(super) fn quoted(&mut self, text: &str) {
        let mut indent = INDENT;
        let mut rest: Vec<char> = text.trim_end().chars().collect();
        loop {
            let room = self.width.saturating_sub(indent).max(1).min(rest.len());
            let line: String = rest.drain(..room).collect();
            self.line(&format!("{}{line}", " ".repeat(indent)));
            if rest.is_empty() {
                break;
            }
            indent = INDENT + HANG;
        }
    }

    pub(super) fn finish(self) -> String {
        self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_a_program_is_broken_with_an_indentation() {
        let mut lines = Lines::new(20);
        lines.quoted("  0123456789 0123456789 0123");
        insta::assert_snapshot!(lines.finish(), @"
            0123456789 01234
              56789 0123
        ");
    }
}
