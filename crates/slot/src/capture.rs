//! Captures the output of a process: reads all of it, and keeps its beginning and end.

use provoke_messages as messages;
use regex::bytes::RegexSet;
use std::io::{self, Write};

/// Bytes kept from the beginning of a stream.
const HEAD: usize = 64 * 1024;
/// Bytes kept from the end of a stream.
const TAIL: usize = 256 * 1024;
/// A longer line is matched in parts of this size.
const LONGEST_LINE: usize = 64 * 1024;
/// Bytes of a line that are shown.
const SHOWN: usize = 300;

/// Head and tail of one stream, in bounded memory.
#[derive(Default)]
pub(super) struct StreamCapture {
    head: Vec<u8>,
    /// Ring buffer: when it is full, `next` is the position of the oldest byte.
    tail: Vec<u8>,
    next: usize,
    total: u64,
}

impl StreamCapture {
    /// Adds the next piece of the stream.
    pub(super) fn push_piece(&mut self, mut chunk: &[u8]) {
        self.total += chunk.len() as u64;
        let first = chunk.len().min(HEAD - self.head.len());
        self.head.extend_from_slice(&chunk[..first]);
        chunk = &chunk[first..];
        if chunk.len() >= TAIL {
            self.tail.clear();
            self.tail.extend_from_slice(&chunk[chunk.len() - TAIL..]);
            self.next = 0;
            return;
        }
        let room = (TAIL - self.tail.len()).min(chunk.len());
        self.tail.extend_from_slice(&chunk[..room]);
        // The ring is full, and the rest is shorter than it.
        let rest = &chunk[room..];
        let (to_end, wrapped) = rest.split_at(rest.len().min(TAIL - self.next));
        self.tail[self.next..][..to_end.len()].copy_from_slice(to_end);
        self.tail[..wrapped.len()].copy_from_slice(wrapped);
        self.next = (self.next + rest.len()) % TAIL;
    }

    /// Returns the number of received bytes.
    pub(super) fn total_bytes(&self) -> u64 {
        self.total
    }

    /// Returns the number of bytes in the middle that were not kept.
    pub(super) fn dropped_bytes(&self) -> u64 {
        self.total - (self.head.len() + self.tail.len()) as u64
    }

    fn kept_parts(&self) -> [&[u8]; 3] {
        let (newer, older) = self.tail.split_at(self.next.min(self.tail.len()));
        [&self.head, older, newer]
    }

    /// Writes the kept bytes, with a line in place of dropped bytes.
    pub(super) fn write_to(&self, mut out: impl Write) -> io::Result<()> {
        let [head, older, newer] = self.kept_parts();
        out.write_all(head)?;
        if self.dropped_bytes() > 0 {
            write!(
                out,
                "\n[provoke: {} bytes are not kept here]\n",
                self.dropped_bytes()
            )?;
        }
        out.write_all(older)?;
        out.write_all(newer)
    }

    /// Returns the last line that is neither blank nor printed after every failure, truncated for
    /// display.
    pub(super) fn last_line(&self) -> Option<String> {
        let [head, older, newer] = self.kept_parts();
        let near =
            |line_part: &[u8]| line_part[line_part.len().saturating_sub(4 * SHOWN)..].to_vec();
        let end = near(&[near(head), near(older), near(newer)].concat());
        let line = end.split(|byte| matches!(byte, b'\n' | b'\r'));
        let mut written = line.filter(|line| !line.trim_ascii().is_empty()).rev();
        let last = written.next()?;
        let crash_message = |line: &&[u8]| !messages::is_trailer(&String::from_utf8_lossy(line));
        Some(shown_line(
            [last]
                .into_iter()
                .chain(written)
                .find(crash_message)
                .unwrap_or(last),
        ))
    }

    /// Returns the end of the stream as text.
    pub(super) fn end_of_stream(&self, bytes: usize) -> String {
        let output = self.kept_parts().concat();
        String::from_utf8_lossy(&output[output.len().saturating_sub(bytes)..]).into_owned()
    }
}

fn shown_line(line: &[u8]) -> String {
    let line = line.trim_ascii();
    String::from_utf8_lossy(&line[..line.len().min(SHOWN)]).into_owned()
}

/// The user's patterns to search in the output. Most runs have none, and an empty [`RegexSet`] takes time to build.
#[derive(Default)]
pub(super) struct OutputPatterns(Option<RegexSet>);

impl OutputPatterns {
    /// Compiles the patterns.
    pub(super) fn compile<'a>(
        patterns: impl Iterator<Item = &'a String>,
    ) -> Result<Self, regex::Error> {
        let mut patterns = patterns.peekable();
        let has_patterns = patterns.peek().is_some();
        let set = has_patterns.then(|| RegexSet::new(patterns));
        set.transpose().map(Self)
    }

    /// Returns whether nothing is searched in the output.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_none()
    }
}

/// Searches every line of a stream for the user's patterns.
#[derive(Default)]
pub(super) struct PatternScanner {
    line: Vec<u8>,
    matches: Vec<(usize, String)>,
}

impl PatternScanner {
    /// Searches the next piece of the stream.
    pub(super) fn push_piece(&mut self, patterns: &OutputPatterns, mut chunk: &[u8]) {
        while let Some(end) = chunk.iter().position(|byte| *byte == b'\n') {
            self.line.extend_from_slice(&chunk[..end]);
            self.finish_line(patterns);
            chunk = &chunk[end + 1..];
        }
        for part in chunk.chunks(LONGEST_LINE) {
            self.line.extend_from_slice(part);
            if self.line.len() >= LONGEST_LINE {
                self.finish_line(patterns);
            }
        }
    }

    /// Searches the current line, and starts a new one.
    pub(super) fn finish_line(&mut self, patterns: &OutputPatterns) {
        let found = patterns.0.as_ref().map(|set| set.matches(&self.line));
        for rule in found.iter().flatten() {
            if !self.has_pattern(rule) {
                self.matches.push((rule, shown_line(&self.line)));
            }
        }
        self.line.clear();
    }

    /// Returns whether this pattern was found.
    pub(super) fn has_pattern(&self, pattern: usize) -> bool {
        self.matches
            .iter()
            .any(|(found_pattern, _)| *found_pattern == pattern)
    }

    /// Returns the patterns that were found, each with the first matching line.
    pub(super) fn found_patterns(self) -> Vec<(usize, String)> {
        self.matches
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn captured_bytes(capture: &StreamCapture) -> Vec<u8> {
        let mut out = Vec::new();
        capture.write_to(&mut out).unwrap();
        out
    }

    #[test]
    fn a_short_stream_is_kept_completely() {
        let mut capture = StreamCapture::default();
        capture.push_piece(b"one\n");
        capture.push_piece(b"two\n\n");
        assert_eq!(captured_bytes(&capture), b"one\ntwo\n\n");
        assert_eq!(capture.last_line().unwrap(), "two");
    }

    #[test]
    fn the_middle_of_a_long_stream_is_dropped_and_counted() {
        let mut capture = StreamCapture::default();
        let stream: Vec<u8> = (0..2_000_000_u32).flat_map(u32::to_le_bytes).collect();
        stream
            .chunks(10_007)
            .for_each(|piece| capture.push_piece(piece));
        let dropped = stream.len() - HEAD - TAIL;
        assert_eq!(capture.dropped_bytes(), dropped as u64);
        let out = captured_bytes(&capture);
        assert!(out.starts_with(&stream[..HEAD]));
        assert!(out.ends_with(&stream[stream.len() - TAIL..]));
    }

    proptest! {
        #[test]
        fn head_and_tail_do_not_depend_on_the_pieces(
            length in 0..3 * (HEAD + TAIL),
            size in 1..400_000_usize,
        ) {
            let stream: Vec<u8> = (0_u8..=255).cycle().take(length).collect();
            let mut whole = StreamCapture::default();
            whole.push_piece(&stream);
            let mut pieces = StreamCapture::default();
            stream.chunks(size).for_each(|piece| pieces.push_piece(piece));
            prop_assert!(captured_bytes(&whole) == captured_bytes(&pieces));
        }

        #[test]
        fn a_pattern_is_found_in_pieces_of_any_size(size in 1..40_usize) {
            let patterns = ["data race", "^second"].map(str::to_owned);
            let patterns = OutputPatterns::compile(patterns.iter()).unwrap();
            let mut scanner = PatternScanner::default();
            for piece in b"first\nsecond: a data race here\nthird\ndata race".chunks(size) {
                scanner.push_piece(&patterns, piece);
            }
            scanner.finish_line(&patterns);
            let line = "second: a data race here".to_owned();
            prop_assert_eq!(scanner.found_patterns(), vec![(0, line.clone()), (1, line)]);
        }
    }
}
