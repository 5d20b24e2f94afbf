//! Lines of a journal, and the checksum that links each to all lines before it.
//!
//! ```text
//! {"trial_started":{"id":1,...},"sum":"8c2f8d2a9be31f07"}
//! ```
//!
//! The checksum covers the event and the checksum of the line before it, so the first line that was changed, removed,
//! repeated or moved is found. Journals of earlier versions have no checksums. When such a run is resumed, its further
//! lines have checksums, and the first of these covers all lines before it.

use super::JournalDamage;
use std::io::{self, BufRead};

/// Maximum length of a line. The longest event is the plan of a search with the names of all candidates: a million commits
/// take 52 MB. The names of all tests of a suite, and the failures of a trial, are limited to half of it.
pub(super) const LONGEST_LINE: usize = 64 << 20;

/// Bytes of memory that are kept for the next line.
const LONGEST_KEPT: usize = 1 << 20;

/// The text before a checksum.
const BEFORE_SUM: &[u8] = b",\"sum\":\"";
const AFTER_SUM: &[u8] = b"\"}";
const HEX_DIGITS: usize = 16;
const SUM_LENGTH: usize = BEFORE_SUM.len() + HEX_DIGITS + AFTER_SUM.len();

/// The running checksum of a journal (FNV-1a, 64 bits).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Checksum(u64);

impl Default for Checksum {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Checksum {
    fn continue_with(self, bytes: &[u8]) -> Self {
        let hash = bytes.iter().fold(self.0, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        Self(hash)
    }

    /// Finishes the line that holds an event and begins at `start`: adds the checksum and the newline.
    pub(super) fn finish_line(&mut self, lines: &mut Vec<u8>, start: usize) {
        // The checksum is inserted before the brace that closes the event.
        lines.pop();
        *self = self.continue_with(&lines[start..]);
        lines.extend_from_slice(BEFORE_SUM);
        lines.extend_from_slice(format!("{:016x}", self.0).as_bytes());
        lines.extend_from_slice(AFTER_SUM);
        lines.push(b'\n');
    }
}

/// Splits a line into its event, without the closing brace, and its checksum.
fn split_sum(line: &[u8]) -> Option<(&[u8], Checksum)> {
    let (event, end) = line.split_at_checked(line.len().checked_sub(SUM_LENGTH)?)?;
    let digits = end
        .strip_prefix(BEFORE_SUM)?
        .strip_suffix(AFTER_SUM)
        .filter(|digits| {
            digits
                .iter()
                .all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'))
        })?;
    let sum = u64::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()?;
    Some((event, Checksum(sum)))
}

/// Reads the lines of a journal, and checks that each follows the one before.
pub(super) struct JournalLines<R> {
    source: R,
    line: Vec<u8>,
    /// Number of the last line that was read, from 1.
    pub(super) number: u64,
    /// Start of the last line.
    pub(super) start: u64,
    /// End of the last complete line.
    pub(super) end: u64,
    pub(super) checksum: Checksum,
    /// Whether a line had a checksum, so that all further lines must have one.
    pub(super) has_sums: bool,
}

/// The reason why reading ended early.
#[derive(Debug)]
pub(super) enum LineError {
    Io(io::Error),
    Damage(JournalDamage),
}

impl<R: BufRead> JournalLines<R> {
    pub(super) fn new(source: R) -> Self {
        Self {
            source,
            line: Vec::new(),
            number: 0,
            start: 0,
            end: 0,
            checksum: Checksum::default(),
            has_sums: false,
        }
    }

    /// Returns the event of the next line as JSON; `None` at the end. A last line without a newline was incomplete when
    /// provoke was killed, and is left out.
    pub(super) fn next_event(&mut self) -> Result<Option<&[u8]>, LineError> {
        self.number += 1;
        self.start = self.end;
        if !self.read_line()? {
            return Ok(None);
        }
        if memchr::memchr(0, &self.line).is_some() {
            return Err(LineError::Damage(JournalDamage::Zeros));
        }
        self.end += self.line.len() as u64 + 1;
        match split_sum(&self.line) {
            Some((event, sum)) => {
                self.checksum = self.checksum.continue_with(event);
                if self.checksum != sum {
                    return Err(LineError::Damage(JournalDamage::Checksum));
                }
                let length = event.len();
                self.line.truncate(length);
                self.line.push(b'}');
                self.has_sums = true;
            }
            None if self.has_sums => return Err(LineError::Damage(JournalDamage::NoChecksum)),
            None => self.checksum = self.checksum.continue_with(&self.line),
        }
        Ok(Some(&self.line))
    }

    /// Reads a line without its newline; returns false without a complete line.
    fn read_line(&mut self) -> Result<bool, LineError> {
        // A long line keeps no memory for the lines after it.
        self.line.clear();
        self.line.shrink_to(LONGEST_KEPT);
        loop {
            let chunk = match self.source.fill_buf() {
                Ok(chunk) => chunk,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(LineError::Io(error)),
            };
            if chunk.is_empty() {
                return Ok(false);
            }
            let newline = memchr::memchr(b'\n', chunk);
            let chunk_line = &chunk[..newline.unwrap_or(chunk.len())];
            if self.line.len() + chunk_line.len() > LONGEST_LINE {
                return Err(LineError::Damage(JournalDamage::TooLong));
            }
            if self.line.try_reserve(chunk_line.len()).is_err() {
                return Err(LineError::Io(io::ErrorKind::OutOfMemory.into()));
            }
            self.line.extend_from_slice(chunk_line);
            let consumed = chunk_line.len() + usize::from(newline.is_some());
            self.source.consume(consumed);
            if newline.is_some() {
                return Ok(true);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn journal_bytes(events: &[&str]) -> Vec<u8> {
        let (mut lines, mut checksum) = (Vec::new(), Checksum::default());
        for event in events {
            let start = lines.len();
            lines.extend_from_slice(event.as_bytes());
            checksum.finish_line(&mut lines, start);
        }
        lines
    }

    /// Returns the events, and the error that ended the reading.
    fn read(bytes: &[u8]) -> (Vec<String>, Option<LineError>) {
        let (mut lines, mut events) = (JournalLines::new(bytes), Vec::new());
        loop {
            match lines.next_event() {
                Ok(Some(event)) => events.push(String::from_utf8_lossy(event).into_owned()),
                Ok(None) => return (events, None),
                Err(error) => return (events, Some(error)),
            }
        }
    }

    #[test]
    fn written_lines_are_read_unchanged() {
        let events = ["{\"a\":1}", "{\"b\":{}}", "{\"a\":1}"];
        let bytes = journal_bytes(&events);
        let (seen, error) = read(&bytes);
        assert_eq!(seen, events);
        assert!(error.is_none());
        let text = String::from_utf8(bytes).unwrap();
        assert_eq!(
            text.lines().next(),
            Some("{\"a\":1,\"sum\":\"c0cb48a96902d276\"}")
        );
    }

    #[test]
    fn a_checksum_covers_earlier_lines_without_checksums() {
        let old = b"{\"a\":1}\n{\"b\":2}\n";
        assert_eq!(read(old).0.len(), 2);
        let mut lines = JournalLines::new(&old[..]);
        while lines.next_event().unwrap().is_some() {}
        let mut resumed = old.to_vec();
        resumed.extend_from_slice(b"{\"c\":3}");
        lines.checksum.finish_line(&mut resumed, old.len());
        assert_eq!(read(&resumed).0.len(), 3);
        resumed[5] = b'7';
        let (seen, error) = read(&resumed);
        assert_eq!(seen.len(), 2);
        assert!(matches!(
            error,
            Some(LineError::Damage(JournalDamage::Checksum))
        ));
        let mut mixed = journal_bytes(&["{\"a\":1}"]);
        mixed.extend_from_slice(b"{\"b\":2}\n");
        let (_, error) = read(&mixed);
        assert!(matches!(
            error,
            Some(LineError::Damage(JournalDamage::NoChecksum))
        ));
    }

    #[test]
    fn an_endless_line_is_refused_with_bounded_memory() {
        let first = io::Cursor::new(journal_bytes(&["{\"a\":1}"]));
        let endless = io::Read::chain(first, io::repeat(b'x'));
        let mut lines = JournalLines::new(io::BufReader::with_capacity(1 << 20, endless));
        assert!(lines.next_event().unwrap().is_some());
        let error = lines.next_event().unwrap_err();
        assert!(matches!(error, LineError::Damage(JournalDamage::TooLong)));
        assert!(lines.line.capacity() <= 2 * LONGEST_LINE);
    }
}
