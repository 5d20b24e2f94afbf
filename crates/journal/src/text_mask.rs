//! Masks secret values in text: also across colours and folded lines, and parts of them where the text was cut.

use regex::bytes::{Regex, RegexBuilder};
use std::borrow::Cow;
use std::ops::Range;
use std::sync::LazyLock;

/// Replacement of a secret value.
pub(super) const MASK: &str = "***";

/// Minimum length of a secret: a shorter value may also be a common word.
pub(super) const SHORTEST: usize = 8;
/// Minimum length of a part of a secret at a cut.
pub(super) const SHORTEST_PART: usize = 4;
/// Visible bytes of text that are searched at once.
const WINDOW: usize = 1 << 20;
/// Size limit of the pattern that matches all secrets.
const PATTERN_LIMIT: usize = 64 << 20;

/// What may be inside a secret in text without changing what people read: colours and other terminal sequences, also in
/// escaped form, the end of a line where text is folded, and characters that are not shown.
static INVISIBLE: LazyLock<String> = LazyLock::new(|| {
    let sequences = r"(?:\x1b|\\x1b|\\u001b|\\u\{1b\}|\\e|\\033)(?:\[[ -?]*[@-~]|[()][0-9A-Z])|\x1b\][^\x07\x1b\n]*(?:\x07|\x1b\\)";
    format!(r"{sequences}|\r?\n[ \t]*|[\x00-\x08\x0b-\x1a\x1c-\x1f\x7f]|{NOT_SHOWN}")
});
static INVISIBLE_PARTS: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(&format!("(?-u)(?:{})+", *INVISIBLE)).expect("a pattern"));

/// Characters outside of ASCII that a terminal and a browser do not show, in UTF-8: controls, the soft hyphen, joiners, marks of
/// direction, fillers, variation selectors and tags.
pub(super) const NOT_SHOWN: &str = r"\xc2[\x80-\x9f\xad]|\xcd\x8f|\xd8\x9c|\xe1\x85[\x9f\xa0]|\xe1\xa0[\x8b-\x8f]|\xe2\x80[\x8b-\x8f\xa8-\xae]|\xe2\x81[\xa0-\xaf]|\xe3\x85\xa4|\xef\xb8[\x80-\x8f]|\xef\xbb\xbf|\xef\xbe\xa0|\xf3\xa0[\x80-\x87][\x80-\xbf]";

/// Values that are masked in text.
#[derive(Debug, Default)]
pub(super) struct TextMask {
    /// Longer ones first, so that of two with the same beginning the longer one is masked completely.
    values: Vec<Vec<u8>>,
    pattern: Option<Regex>,
}

impl TextMask {
    /// Masks these values, also without what is invisible in them, and as text in which other bytes than UTF-8 are replaced.
    pub(super) fn new(mut values: Vec<Vec<u8>>) -> Self {
        let lossy: Vec<Vec<u8>> = values
            .iter()
            .map(|value| String::from_utf8_lossy(value))
            .map(|text| text.into_owned().into_bytes())
            .collect();
        values.extend(lossy);
        let seen: Vec<Vec<u8>> = values
            .iter()
            .map(|value| {
                let pieces = visible_pieces(value).map(|piece| &value[piece]);
                pieces.collect::<Vec<_>>().concat()
            })
            .collect();
        values.extend(seen);
        values.retain(|value| value.len() >= SHORTEST);
        values.sort_by(|a, b| b.len().cmp(&a.len()).then(a.cmp(b)));
        values.dedup();
        Self {
            pattern: any_of(values.iter().cloned(), ""),
            values,
        }
    }

    /// Returns the masked values.
    pub(super) fn values(&self) -> &[Vec<u8>] {
        &self.values
    }

    /// Masks the values in text. If the text was cut, a part of a secret may remain at its end or at its beginning.
    pub(super) fn mask<'a>(&self, text: &'a [u8]) -> Cow<'a, [u8]> {
        let Some(pattern) = &self.pattern else {
            return Cow::Borrowed(text);
        };
        let mut masked = Vec::with_capacity(text.len());
        let (mut start, mut position) = (0, 0);
        for line in text.split_inclusive(|byte| *byte == b'\n') {
            let end = position + line.len();
            if line.starts_with(b"[provoke: ") && line.ends_with(b" not kept here]\n") {
                self.mask_segment(pattern, &text[start..position], &mut masked);
                masked.extend_from_slice(line);
                start = end;
            }
            position = end;
        }
        self.mask_segment(pattern, &text[start..], &mut masked);
        Cow::Owned(masked)
    }

    /// Adds text with the values masked. The text may have been cut inside a value. It is searched in windows, because it
    /// may be large.
    fn mask_segment(&self, pattern: &Regex, text: &[u8], masked: &mut Vec<u8>) {
        let longest = self.values.first().map_or(0, Vec::len);
        let length_of = |values_end: &dyn Fn(&[u8], usize) -> bool, limit: usize| {
            let lengths = self.values.iter().filter_map(|value| {
                let max = value.len().saturating_sub(1).min(limit);
                let mut lengths = (SHORTEST_PART..=max).rev();
                lengths.find(|length| values_end(value, *length))
            });
            lengths.max()
        };
        let mut pieces = visible_pieces(text);
        let mut window = VisibleWindow::default();
        let mut output = MaskedOutput {
            text,
            masked,
            end: 0,
        };
        let (mut is_first, mut searched) = (true, 0);
        loop {
            let is_last = !window.fill(text, &mut pieces, WINDOW + longest);
            let bytes = window.bytes.as_slice();
            if std::mem::take(&mut is_first) {
                let ends_with =
                    |value: &[u8], length: usize| bytes.starts_with(&value[value.len() - length..]);
                if let Some(length) = length_of(&ends_with, bytes.len()) {
                    output.mask_range(&window, 0..length);
                }
            }
            // Text that follows does not change which values begin before this position.
            let decided = if is_last {
                bytes.len()
            } else {
                bytes.len() - longest
            };
            let end = end_of_cut_text(bytes);
            let begins = |value: &[u8], length: usize| bytes[..end].ends_with(&value[..length]);
            let cut_length = if is_last {
                length_of(&begins, end)
            } else {
                None
            };
            let mut cut = cut_length.map(|length| end - length..end);
            let first = searched;
            for found in pattern.find_iter(&bytes[first..]) {
                let range = first + found.start()..first + found.end();
                if range.start >= decided {
                    break;
                }
                searched = range.end;
                if let Some(cut) = cut.take_if(|cut| cut.start < range.start) {
                    output.mask_range(&window, cut);
                }
                output.mask_range(&window, range);
            }
            if let Some(cut) = cut {
                output.mask_range(&window, cut);
            }
            if is_last {
                return output.finish();
            }
            searched = searched.max(decided) - decided;
            window.drain(decided);
        }
    }
}

/// Returns the ranges of text between what is invisible in it. None is long.
fn visible_pieces(text: &[u8]) -> impl Iterator<Item = Range<usize>> {
    let invisible = INVISIBLE_PARTS.find_iter(text).map(|part| part.range());
    let with_end = invisible.chain(std::iter::once(text.len()..text.len()));
    let visible = with_end.scan(0, |end, part| {
        let start = std::mem::replace(end, part.end);
        Some(start..part.start)
    });
    visible.flat_map(|range| {
        let starts = range.clone().step_by(WINDOW);
        starts.map(move |start| start..range.end.min(start + WINDOW))
    })
}

/// A part of a text without what is invisible in it.
#[derive(Default)]
struct VisibleWindow {
    bytes: Vec<u8>,
    /// Positions in `bytes`, and the positions of the same bytes in the text, of each visible piece.
    positions: Vec<(usize, usize)>,
}

impl VisibleWindow {
    /// Adds pieces until the window has enough bytes; returns whether it has.
    fn fill(
        &mut self,
        text: &[u8],
        pieces: &mut impl Iterator<Item = Range<usize>>,
        enough: usize,
    ) -> bool {
        while self.bytes.len() < enough {
            let Some(piece) = pieces.next() else {
                return false;
            };
            self.positions.push((self.bytes.len(), piece.start));
            self.bytes.extend_from_slice(&text[piece]);
        }
        true
    }

    /// Removes this many bytes of the beginning.
    fn drain(&mut self, length: usize) {
        self.bytes.drain(..length);
        let removed = self
            .positions
            .partition_point(|(start, _)| *start <= length);
        self.positions.drain(..removed.saturating_sub(1));
        for (start, in_text) in &mut self.positions {
            *in_text += length.saturating_sub(*start);
            *start = start.saturating_sub(length);
        }
    }

    /// Returns the position in the text of a visible byte.
    fn position_in_text(&self, visible: usize) -> usize {
        let after = self
            .positions
            .partition_point(|(start, _)| *start <= visible);
        let (start, in_text) = self.positions[after - 1];
        in_text + visible - start
    }
}

/// Text of which ranges are replaced by a mask, in order.
struct MaskedOutput<'a> {
    text: &'a [u8],
    masked: &'a mut Vec<u8>,
    /// Position behind the text that was copied or masked.
    end: usize,
}

impl MaskedOutput<'_> {
    /// Masks a range of visible bytes, which may overlap the last one.
    fn mask_range(&mut self, window: &VisibleWindow, range: Range<usize>) {
        if range.is_empty() {
            return;
        }
        let start = window.position_in_text(range.start);
        let end = window.position_in_text(range.end - 1) + 1;
        if start >= self.end {
            self.masked.extend_from_slice(&self.text[self.end..start]);
            self.masked.extend_from_slice(MASK.as_bytes());
        }
        self.end = end.max(self.end);
    }

    fn finish(self) {
        self.masked.extend_from_slice(&self.text[self.end..]);
    }
}

/// Returns the end of a text without the spaces or the ellipsis after its last word.
fn end_of_cut_text(text: &[u8]) -> usize {
    let trimmed = text.trim_ascii_end();
    let end = trimmed.strip_suffix("\u{2026}".as_bytes());
    end.unwrap_or(trimmed).len()
}

/// Returns a pattern of any of these values, whose bytes this pattern may separate.
pub(super) fn any_of(values: impl Iterator<Item = Vec<u8>>, separator: &str) -> Option<Regex> {
    let between = if separator.is_empty() {
        String::new()
    } else {
        format!("(?:{separator})*")
    };
    let escaped = |value: Vec<u8>| -> String {
        let bytes: Vec<String> = value.iter().map(|byte| format!("\\x{byte:02x}")).collect();
        bytes.join(&between)
    };
    let patterns: Vec<String> = values.map(escaped).collect();
    if patterns.is_empty() {
        return None;
    }
    let pattern = format!("(?-u){}", patterns.join("|"));
    let pattern = RegexBuilder::new(&pattern)
        .size_limit(PATTERN_LIMIT)
        .build();
    // Masks everything if the pattern cannot be compiled.
    Some(pattern.unwrap_or_else(|_| Regex::new(".+").expect("a pattern")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mask_text(values: &[&[u8]], text: &[u8]) -> String {
        let mask = TextMask::new(values.iter().map(|value| value.to_vec()).collect());
        String::from_utf8_lossy(&mask.mask(text)).into_owned()
    }

    #[test]
    fn a_secret_is_masked_at_every_position() {
        assert_eq!(
            mask_text(&[b"hunter2hunter2"], b"xhunter2hunter2y"),
            "x***y"
        );
        assert_eq!(mask_text(&[b"hunter2hunter2"], b"a hunt b"), "a hunt b");
        assert_eq!(
            mask_text(&[b"\xffcanary-1234"], b"=\xffcanary-1234="),
            "=***="
        );
        assert_eq!(
            mask_text(&[b"\xffcanary-1234"], "=\u{fffd}canary-1234=".as_bytes()),
            "=***="
        );
        assert_eq!(
            mask_text(&[b"abcdefgh", b"abcdefghij"], b"abcdefghij"),
            "***"
        );
    }

    #[test]
    fn a_secret_with_characters_that_are_not_shown_is_masked() {
        let hidden = [
            '\0',
            '\u{7}',
            '\r',
            '\u{7f}',
            '\u{85}',
            '\u{ad}',
            '\u{34f}',
            '\u{200b}',
            '\u{200c}',
            '\u{200d}',
            '\u{202e}',
            '\u{2060}',
            '\u{3164}',
            '\u{fe0f}',
            '\u{feff}',
            '\u{e0041}',
            '\u{e0100}',
        ];
        for letter in hidden {
            let text = format!("a hunter2{letter}hunter2 b");
            let masked = mask_text(&[b"hunter2hunter2"], text.as_bytes());
            assert_eq!(masked, "a *** b", "{letter:?}");
        }
    }

    #[test]
    fn a_part_of_a_secret_at_a_truncation_is_masked() {
        assert_eq!(
            mask_text(&[b"hunter2hunter2"], b"token hunter2hu"),
            "token ***"
        );
        assert_eq!(
            mask_text(&[b"hunter2hunter2"], "token hunter\u{2026}".as_bytes()),
            "token ***\u{2026}"
        );
        assert_eq!(
            mask_text(&[b"hunter2hunter2"], b"hunter2 rest\n"),
            "*** rest\n"
        );
        let cut = b"a hunter2h\n[provoke: 9 bytes are not kept here]\nunter2 b\n";
        assert_eq!(
            mask_text(&[b"hunter2hunter2"], cut),
            "a ***\n[provoke: 9 bytes are not kept here]\n*** b\n"
        );
    }

    #[test]
    fn a_secret_is_masked_across_colours_and_folded_lines() {
        let secret = b"hunter2hunter2".as_slice();
        let masked = |text: &str| mask_text(&[secret], text.as_bytes());
        assert_eq!(masked("a \x1b[1mhunt\x1b[0mer2hunter2 b"), "a \x1b[1m*** b");
        assert_eq!(
            masked("a hunt\x1b(B\x1b[mer2hunter2\x1b[0m b"),
            "a ***\x1b[0m b"
        );
        assert_eq!(masked(r"a hunt\x1b[31mer2hunter2 b"), "a *** b");
        assert_eq!(masked("a hunter2\r\n  hunter2 b\nc"), "a *** b\nc");
        assert_eq!(masked("token hunter\x1b[1m2hu\n"), "token ***\n");
        assert_eq!(masked("nter\x1b[1m2 rest"), "*** rest");
        let two_lines = mask_text(&[b"secret line\nshort"], b"x secret line\nshort y");
        assert_eq!(two_lines, "x *** y");
    }

    #[test]
    fn secrets_at_every_position_of_a_large_text_are_masked() {
        let secret = b"hunter2hunter2".as_slice();
        for visible in (0..=secret.len()).chain([WINDOW / 2, WINDOW + 1]) {
            for invisible in ["", "\n", "\u{1b}[1m"] {
                let before = "x".repeat(WINDOW + visible);
                let text = format!("{before}{invisible}hunter2h{invisible}unter2y");
                let expected = format!("{before}{invisible}***y");
                assert!(
                    mask_text(&[secret], text.as_bytes()) == expected,
                    "{visible} {invisible:?}"
                );
            }
        }
        // Each visible byte is a separate piece, and both ends of the text are parts of the secret.
        let lines = "a\n".repeat(WINDOW);
        let text = format!("er2hunter2{lines}hunter2hunter2{lines}hunt");
        let expected = format!("***{lines}***{lines}***");
        assert!(mask_text(&[secret], text.as_bytes()) == expected);
    }
}
