//! The output of a test: keeps its beginning and its end.

/// Bytes kept of each.
const KEPT: usize = 8 << 10;

/// Beginning and end of the output of a test, in bounded memory.
#[derive(Default)]
pub(crate) struct TestOutput {
    head: String,
    tail: String,
    dropped: usize,
}

impl TestOutput {
    /// Adds the next piece of the output.
    pub(crate) fn push(&mut self, piece: &str) {
        if self.tail.is_empty() && self.head.len() + piece.len() <= KEPT {
            self.head.push_str(piece);
            return;
        }
        self.tail.push_str(piece);
        if self.tail.len() > 2 * KEPT {
            let mut end = self.tail.len() - KEPT;
            while !self.tail.is_char_boundary(end) {
                end += 1;
            }
            let line = self.tail[end..].find('\n').map_or(end, |at| end + at + 1);
            // A piece may be one long line.
            let start = if line < self.tail.len() { line } else { end };
            self.tail.drain(..start);
            self.dropped += start;
        }
    }

    /// Returns whether the middle is missing.
    pub(crate) fn is_cut(&self) -> bool {
        self.dropped > 0
    }

    /// Returns the kept text, with a line in place of the missing middle.
    pub(crate) fn text(&self) -> String {
        let Self {
            head,
            tail,
            dropped,
        } = self;
        if self.is_cut() {
            format!("{head}\n[provoke: {dropped} bytes are not kept here]\n{tail}")
        } else {
            format!("{head}{tail}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_output_has_its_beginning_and_its_end() {
        let mut output = TestOutput::default();
        output.push("first\n");
        output.push("second\n");
        assert_eq!(output.text(), "first\nsecond\n");
        for number in 0..10_000 {
            output.push(&format!("line {number}\n"));
        }
        output.push("last");
        let text = output.text();
        assert!(text.starts_with("first\nsecond\nline 0\n"), "{text}");
        assert!(text.ends_with("\nline 9999\nlast"), "{text}");
        assert!(text.contains(" bytes are not kept here]\nline "), "{text}");
        assert!(text.len() < 3 * KEPT + 100);
    }

    #[test]
    fn a_long_line_is_cut_between_two_characters() {
        let mut output = TestOutput::default();
        output.push(&"é".repeat(KEPT * 4));
        output.push("end");
        let text = output.text();
        assert!(
            text.ends_with("ééend") && text.len() <= KEPT + 100,
            "{}",
            text.len()
        );
    }
}
