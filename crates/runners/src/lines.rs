//! Lines of a report, read within limits.

use super::limits::{LONGEST_LINE, MOST_BYTES};
use std::io::BufRead;

/// One line, without its end.
pub(crate) struct Line<'a> {
    /// The text; bytes that are not UTF-8 are replaced.
    pub(crate) text: &'a str,
    /// Whether the line is whole: neither shortened nor without its end.
    pub(crate) is_whole: bool,
}

/// Calls `handle` with each line, and returns a complaint if not the whole input was read.
pub(crate) fn read_lines(input: impl BufRead, mut handle: impl FnMut(&Line<'_>)) -> Option<String> {
    let mut input = input.take(MOST_BYTES);
    let mut line = Vec::new();
    loop {
        line.clear();
        let (is_whole, is_end) = match read_line(&mut input, &mut line) {
            Ok(read) => read,
            Err(error) => return Some(format!("the report cannot be read: {error}")),
        };
        if !line.is_empty() || is_whole {
            let text = String::from_utf8_lossy(&line);
            let text = text.trim_end_matches('\r');
            handle(&Line { text, is_whole });
        }
        if is_end {
            return (input.limit() == 0).then(too_large);
        }
    }
}

/// Returns the complaint about a report above the limit.
pub(crate) fn too_large() -> String {
    format!(
        "the report is larger than {} MB; the rest is ignored",
        MOST_BYTES >> 20
    )
}

/// Reads up to the end of a line and keeps its beginning. Returns whether it is whole, and whether the input ended.
fn read_line(input: &mut impl BufRead, line: &mut Vec<u8>) -> std::io::Result<(bool, bool)> {
    let mut is_shortened = false;
    loop {
        let available = match input.fill_buf() {
            Ok(available) => available,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        if available.is_empty() {
            return Ok((false, true));
        }
        let end = available.iter().position(|byte| *byte == b'\n');
        let part = &available[..end.unwrap_or(available.len())];
        let kept = part.len().min(LONGEST_LINE - line.len());
        line.extend_from_slice(&part[..kept]);
        is_shortened |= kept < part.len();
        let consumed = part.len() + usize::from(end.is_some());
        input.consume(consumed);
        if end.is_some() {
            return Ok((!is_shortened, false));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines_of(input: &[u8]) -> Vec<(String, bool)> {
        let mut lines = Vec::new();
        let complaint = read_lines(input, |line| {
            lines.push((line.text.to_owned(), line.is_whole));
        });
        assert_eq!(complaint, None);
        lines
    }

    #[test]
    fn a_line_without_its_end_is_not_whole() {
        let expected = [("one", true), ("", true), ("t\u{fffd}wo", false)];
        let expected = expected.map(|(text, is_whole)| (text.to_owned(), is_whole));
        assert_eq!(lines_of(b"one\r\n\nt\xffwo"), expected);
        assert!(lines_of(b"").is_empty());
    }

    #[test]
    fn a_long_line_is_shortened_and_the_next_one_is_read() {
        let mut input = vec![b'x'; 3 * LONGEST_LINE];
        input.extend_from_slice(b"\nnext\n");
        let lines = lines_of(&input);
        assert_eq!(lines[0].0.len(), LONGEST_LINE);
        assert!(!lines[0].1);
        assert_eq!(lines[1], ("next".to_owned(), true));
    }
}
