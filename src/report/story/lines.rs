//! Text of a limited width.

/// No line of prose is longer, if its words allow that.
const WIDTH: usize = 100;

/// Lines that are being written.
#[derive(Default)]
pub(super) struct Lines {
    text: String,
}

impl Lines {
    /// Writes a line as it is.
    pub(super) fn line(&mut self, line: &str) {
        self.text.push_str(line.trim_end());
        self.text.push('\n');
    }

    /// Leaves a line empty, unless that is the first.
    pub(super) fn gap(&mut self) {
        if !self.text.is_empty() {
            self.text.push('\n');
        }
    }

    /// Writes words behind a head, in as many lines as they need; the further ones are
    /// as far in as the words of the first, but not deeper than a little.
    pub(super) fn prose(&mut self, head: &str, words: &str) {
        let indent = if head.trim().is_empty() {
            head.len()
        } else {
            head.len() - head.trim_start().len() + 4
        };
        let indent = " ".repeat(indent);
        let mut line = head.to_owned();
        let mut empty = true;
        for word in words.split_whitespace() {
            if !empty && line.chars().count() + 1 + word.chars().count() > WIDTH {
                self.line(&line);
                line.clone_from(&indent);
                empty = true;
            }
            if !empty {
                line.push(' ');
            }
            line.push_str(word);
            empty = false;
        }
        self.line(&line);
    }

    pub(super) fn finish(self) -> String {
        self.text
    }
}
