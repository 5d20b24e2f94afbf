//! Lines of a text: numbers, columns, and the part of a line that belongs to a single statement.

use provoke_model::{SourcePart, SourceParts};
use std::ops::Range;

/// Maximum number of characters of a line that are shown.
const SHOWN: usize = 100;
const BOM: &[u8] = b"\xef\xbb\xbf";

/// A text with the positions of its lines.
pub(super) struct SourceLines<'a> {
    text: &'a [u8],
    /// Start of each line, ascending, never empty.
    starts: Vec<usize>,
}

impl<'a> SourceLines<'a> {
    pub(super) fn new(text: &'a [u8]) -> Self {
        // A byte order mark belongs to the file, not to its first line.
        let first = if text.starts_with(BOM) { BOM.len() } else { 0 };
        let ends = text.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
        let starts = std::iter::once(first).chain(ends.map(|(end, _)| end + 1));
        Self {
            text,
            starts: starts.collect(),
        }
    }

    /// Returns the index of the line that contains a byte.
    fn index_at(&self, position: usize) -> usize {
        let after = self.starts.partition_point(|start| *start <= position);
        after.saturating_sub(1)
    }

    /// Returns the bytes of a line, with its end.
    fn span_of(&self, index: usize) -> Range<usize> {
        let end = self.starts.get(index + 1).copied();
        self.starts[index]..end.unwrap_or(self.text.len())
    }

    /// Returns the number of the line that contains a byte, from 1.
    pub(super) fn number_at(&self, position: usize) -> u32 {
        u32::try_from(self.index_at(position) + 1).unwrap_or(u32::MAX)
    }

    /// Returns the column of a byte in characters, from 1.
    pub(super) fn column_at(&self, position: usize) -> u32 {
        let start = self.starts[self.index_at(position)];
        let text_before = String::from_utf8_lossy(&self.text[start.min(position)..position]);
        u32::try_from(text_before.chars().count() + 1).unwrap_or(u32::MAX)
    }

    /// Returns the text of the line from a byte on, shortened for the user.
    pub(super) fn shown_from(&self, position: usize) -> String {
        let line = self.span_of(self.index_at(position));
        let line = String::from_utf8_lossy(&self.text[position.min(line.end)..line.end]);
        let line = line.trim();
        match line.char_indices().nth(SHOWN) {
            Some((end, _)) => format!("{}…", &line[..end]),
            None => line.to_owned(),
        }
    }

    /// Returns the text of the whole line that contains a byte, shortened for the user.
    pub(super) fn shown_whole(&self, position: usize) -> String {
        self.shown_from(self.starts[self.index_at(position)])
    }

    /// Returns a piece with these bytes, whose name begins at `head`.
    pub(super) fn make_piece(&self, span: Range<usize>, head: usize, end: usize) -> SourcePart {
        SourcePart {
            line: self.number_at(head),
            last_line: self.number_at(end.saturating_sub(1).max(head)),
            text: self.shown_from(head),
            span,
            instead: String::new(),
        }
    }

    /// Returns the bytes that are removed with a statement: the mark that ends it, and its whole lines if these contain
    /// nothing else but a comment on it; otherwise the blanks up to the next text on its line.
    pub(super) fn expand_statement(&self, statement: Range<usize>, comment: &[u8]) -> Range<usize> {
        let Range { start, mut end } = statement;
        let line = self.starts[self.index_at(start)].min(start);
        let mut next = self.after_blanks(end);
        if self.text.get(next) == Some(&b';') {
            end = next + 1;
            next = self.after_blanks(end);
        }
        let next_line = self.span_of(self.index_at(end)).end.max(next);
        let rest = &self.text[next..next_line];
        let nothing_follows = rest.trim_ascii().is_empty()
            // In Julia, such a comment may continue on the next line.
            || rest.starts_with(comment) && !rest.starts_with(b"#=");
        let nothing_before = self.text[line..start].trim_ascii().is_empty();
        match (nothing_before, nothing_follows) {
            (true, true) => line..next_line,
            (false, true) => start..end,
            (_, false) => start..next,
        }
    }

    fn after_blanks(&self, position: usize) -> usize {
        let rest = &self.text[position.min(self.text.len())..];
        let blank = |byte: &&u8| matches!(byte, b' ' | b'\t');
        position + rest.iter().take_while(blank).count()
    }
}

/// Finds the lines that are not empty.
pub(super) fn find_lines(text: &[u8]) -> SourceParts {
    let lines = SourceLines::new(text);
    let spans = (0..lines.starts.len()).map(|index| lines.span_of(index));
    let full = spans.filter(|span| !text[span.clone()].trim_ascii().is_empty());
    let pieces = full.map(|span| {
        let (head, end) = (span.start, span.end);
        lines.make_piece(span, head, end)
    });
    SourceParts {
        pieces: pieces.collect(),
        shells: Vec::new(),
    }
}
