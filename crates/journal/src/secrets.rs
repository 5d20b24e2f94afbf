//! Masks secrets in all shared data: variables and request headers with secret names.

use provoke_model::{
    Event, RequestBody, RequestPlan, TrialsPlan, encode_hex, is_secret, parse_untrusted_json,
};
use regex::bytes::{Regex, RegexBuilder};
use serde_json::Value;
use std::borrow::Cow;
use std::ops::Range;
use std::string::FromUtf8Error;
use std::sync::LazyLock;

/// Minimum length of a secret: a shorter value may also be a common word.
const SHORTEST: usize = 8;
/// Minimum length of a part of a secret at a cut.
const SHORTEST_PART: usize = 4;
/// Visible bytes of text that are searched at once.
const WINDOW: usize = 1 << 20;
/// Size limit of the pattern that matches all secrets.
const PATTERN_LIMIT: usize = 64 << 20;

/// What may be inside a secret in text without changing what people read: colours and other terminal sequences, also in
/// escaped form, and the end of a line where text is folded.
const INVISIBLE: &str = r"(?:\x1b|\\x1b|\\u001b|\\u\{1b\}|\\e|\\033)(?:\[[ -?]*[@-~]|[()][0-9A-Z])|\x1b\][^\x07\x1b\n]*(?:\x07|\x1b\\)|\r?\n[ \t]*|\x08|\xe2\x80\x8b";
/// The same in JSON text.
const INVISIBLE_IN_JSON: &str = r"\\u001b(?:\[[ -?]*[@-~]|[()][0-9A-Z])|\\[rnt]|[ \t]";

static INVISIBLE_PARTS: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(&format!("(?-u)(?:{INVISIBLE})+")).expect("a pattern"));

/// Replacement of a secret value.
pub(super) const MASK: &str = "***";

/// The secret values of a run, which are masked in all shared data.
#[derive(Debug, Default)]
pub struct Secrets {
    /// The values, longer ones first, so that of two with the same beginning the longer one is masked completely.
    values: Vec<Vec<u8>>,
    whole: Option<Regex>,
    /// Pattern of the values, and of parts of them at a cut, in JSON text.
    in_json: Option<Regex>,
}

impl Secrets {
    /// Finds the secrets of the trials of a run.
    pub fn of_trials(trials: &TrialsPlan) -> Self {
        let template = trials.space.iter().map(|space| &space.template);
        let actors = trials.variants.iter().chain(template);
        let own_variables = actors
            .flat_map(|variant| &variant.actors)
            .flat_map(|actor| &actor.env)
            .filter_map(|(name, value)| Some((name, value.as_ref()?)));
        let variables = trials.environment.iter().map(|(name, value)| (name, value));
        let mut values: Vec<Vec<u8>> = Vec::new();
        for (name, value) in variables.chain(own_variables) {
            if is_secret(&name.as_os_str().to_string_lossy()) {
                values.extend(printed_parts(value.as_bytes()));
            } else {
                values.extend(password_of_url(value.as_bytes()));
            }
        }
        let requests = trials.load.iter().flat_map(|load| &load.requests);
        for (name, value) in requests.flat_map(|request| &request.headers) {
            if is_secret(name) {
                values.extend(printed_parts(value.as_bytes()));
            }
        }
        Self::new(values)
    }

    fn new(mut values: Vec<Vec<u8>>) -> Self {
        // In text, bytes that are not UTF-8 are replaced.
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
        let forms = values
            .iter()
            .flat_map(|value| [json_quoted(value), encode_hex(value).into_bytes()]);
        let in_json = forms.flat_map(|form| {
            let length = SHORTEST_PART.min(form.len());
            [
                form[..length].to_vec(),
                form[form.len() - length..].to_vec(),
            ]
        });
        Self {
            whole: any_of(values.iter().cloned(), ""),
            in_json: any_of(in_json, INVISIBLE_IN_JSON),
            values,
        }
    }

    /// Returns whether there is nothing to mask.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Masks secrets in text. If the text was cut, a part of a secret may remain at its end or at its beginning.
    pub fn mask_text<'a>(&self, text: &'a [u8]) -> Cow<'a, [u8]> {
        let Some(pattern) = &self.whole else {
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

    /// Adds text with its secrets masked. The text may have been cut inside a secret. It is searched in windows, because it
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
            // Text that follows does not change which secrets begin before this position.
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

    /// Parses JSON with the secrets in its strings masked.
    pub fn parse_masked<T>(
        &self,
        json: &[u8],
        parse: impl Fn(&[u8]) -> serde_json::Result<T>,
    ) -> serde_json::Result<T> {
        if !self.is_in_json(json) {
            return parse(json);
        }
        // Text is parsed again: code that reads values would double the code that reads journals.
        let parse_masked = |words_too| {
            let masked = self.masked_value(parse_untrusted_json(json)?, words_too);
            let json = serde_json::to_vec(&masked)?;
            drop(masked);
            parse(&json)
        };
        // A secret may equal a word of the format, such as the name of a state.
        parse_masked(true).or_else(|_| parse_masked(false))
    }

    /// Masks secrets in the strings of JSON; in all of them, or only in strings that are not a single plain word.
    fn masked_value(&self, value: Value, words_too: bool) -> Value {
        let is_word = |text: &str| {
            let mut letters = text.chars();
            letters.all(|c| c.is_ascii_lowercase() || c == '_')
        };
        match value {
            Value::String(text) if !words_too && is_word(&text) => Value::String(text),
            Value::String(text) if text.starts_with('\0') && self.is_in_json(text.as_bytes()) => {
                Value::String(MASK.to_owned())
            }
            Value::String(text) => {
                let masked = self.mask_text(text.as_bytes()).into_owned();
                let replaced =
                    |error: FromUtf8Error| String::from_utf8_lossy(error.as_bytes()).into_owned();
                Value::String(String::from_utf8(masked).unwrap_or_else(replaced))
            }
            Value::Array(values) => {
                let values = values.into_iter();
                values
                    .map(|value| self.masked_value(value, words_too))
                    .collect()
            }
            Value::Object(fields) => {
                let fields = fields.into_iter();
                let masked =
                    fields.map(|(name, value)| (name, self.masked_value(value, words_too)));
                Value::Object(masked.collect())
            }
            other_value => other_value,
        }
    }

    fn is_in_json(&self, json: &[u8]) -> bool {
        let pattern = self.in_json.as_ref();
        pattern.is_some_and(|pattern| pattern.is_match(json))
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

/// Returns a value and the parts of it that programs print: its lines, and the text after `Bearer`.
fn printed_parts(value: &[u8]) -> Vec<Vec<u8>> {
    let words = value.split(u8::is_ascii_whitespace);
    let lines = value.split(|byte| *byte == b'\n');
    let trimmed = [value]
        .into_iter()
        .chain(lines)
        .chain(words)
        .map(<[u8]>::trim_ascii);
    let long = trimmed.filter(|part| part.len() >= SHORTEST);
    long.map(<[u8]>::to_vec).collect()
}

/// Returns the password in `scheme://user:password@host`.
fn password_of_url(value: &[u8]) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(value).ok()?;
    let (_, rest) = text.split_once("://")?;
    let host = rest.split(['/', '?', '#']).next()?;
    let (user, _) = host.rsplit_once('@')?;
    let (_, password) = user.split_once(':')?;
    (password.len() >= SHORTEST).then(|| password.as_bytes().to_vec())
}

/// Returns the form of a value in a JSON string.
fn json_quoted(value: &[u8]) -> Vec<u8> {
    let json = serde_json::to_string(&String::from_utf8_lossy(value)).unwrap_or_default();
    let inside = json
        .strip_prefix('"')
        .and_then(|rest| rest.strip_suffix('"'));
    inside.unwrap_or_default().as_bytes().to_vec()
}

/// Returns a pattern of any of these values, whose bytes this pattern may separate.
fn any_of(values: impl Iterator<Item = Vec<u8>>, separator: &str) -> Option<Regex> {
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

/// The data of a run that are shared in addition to the reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SharedData {
    /// The values of all variables that are not secret.
    pub environment: bool,
    /// Core files.
    pub cores: bool,
    /// Request headers and bodies.
    pub requests: bool,
}

impl SharedData {
    /// Returns the names of the data that are not shared.
    pub fn left_out(self) -> Vec<&'static str> {
        [
            ("environment", self.environment),
            ("cores", self.cores),
            ("requests", self.requests),
        ]
        .into_iter()
        .filter(|(_, is_shared)| !is_shared)
        .map(|(name, _)| name)
        .collect()
    }

    /// Removes from an event the data that are not shared.
    pub(super) fn strip_event(self, mut event: Event) -> Event {
        if let Event::RunStarted { plan, .. } = &mut event {
            if !self.environment {
                strip_environment(&mut plan.trials);
            }
            if !self.requests
                && let Some(load) = &mut plan.trials.load
            {
                strip_query(&mut load.target.base);
                for request in &mut load.requests {
                    strip_request(request);
                }
            }
        }
        event
    }
}

fn strip_request(request: &mut RequestPlan) {
    for (_, value) in &mut request.headers {
        MASK.clone_into(value);
    }
    if let RequestBody::Text(text) = &mut request.body {
        MASK.clone_into(text);
    }
    strip_query(&mut request.path);
}

/// Masks the text after the path of a URL.
fn strip_query(url: &mut String) {
    if let Some((path, _)) = url.split_once('?') {
        *url = format!("{path}?{MASK}");
    }
}

/// Masks the values of all environment variables.
pub fn strip_environment(trials: &mut TrialsPlan) {
    for (_, value) in &mut trials.environment {
        *value = MASK.into();
    }
    let template = trials.space.iter_mut().map(|space| &mut space.template);
    let actors = trials.variants.iter_mut().chain(template);
    for (_, value) in actors
        .flat_map(|variant| &mut variant.actors)
        .flat_map(|actor| &mut actor.env)
    {
        *value = value.take().map(|_| MASK.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mask_text(values: &[&[u8]], text: &[u8]) -> String {
        let secrets = Secrets::new(values.iter().map(|value| value.to_vec()).collect());
        String::from_utf8_lossy(&secrets.mask_text(text)).into_owned()
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

    #[test]
    fn a_coloured_secret_in_json_is_masked() {
        let secrets = Secrets::new(vec![b"hunter2hunter2".to_vec()]);
        let json = br#"{"message":"h\u001b[1munter2hunte\u001b[0mr2"}"#;
        let value: Value = secrets
            .parse_masked(json, |json| serde_json::from_slice(json))
            .unwrap();
        assert_eq!(value["message"], "***");
    }

    #[test]
    fn masking_keeps_json_keys_and_numbers() {
        #[derive(serde::Deserialize, PartialEq, Debug)]
        #[serde(rename_all = "snake_case")]
        enum State {
            Interrupted,
        }
        let secrets = Secrets::new(vec![b"environment".to_vec(), b"60000000".to_vec()]);
        let json = br#"{"environment": 60000000, "kind": "an environment", "hex": "\u0000hex:656e7669726f6e6d656e74"}"#;
        let value: Value = secrets
            .parse_masked(json, |json| serde_json::from_slice(json))
            .unwrap();
        assert_eq!(value["environment"], 60_000_000);
        assert_eq!(value["kind"], "an ***");
        assert_eq!(value["hex"], "***");
        let secrets = Secrets::new(vec![b"interrupted".to_vec()]);
        let state: State = secrets
            .parse_masked(b"\"interrupted\"", |json| serde_json::from_slice(json))
            .unwrap();
        assert_eq!(state, State::Interrupted);
    }

    #[test]
    fn secrets_are_divided_into_parts_that_programs_print() {
        let parts = |text: &str| -> Vec<String> {
            let parts = printed_parts(text.as_bytes()).into_iter();
            parts.map(|part| String::from_utf8(part).unwrap()).collect()
        };
        assert!(parts("Bearer abcdefgh").contains(&"abcdefgh".to_owned()));
        assert!(parts("line one\nline two").contains(&"line two".to_owned()));
        assert!(parts("short").is_empty());
        let url = |text: &str| password_of_url(text.as_bytes());
        assert_eq!(
            url("postgres://u:hunter2hunter2@h/db").unwrap(),
            b"hunter2hunter2"
        );
        assert_eq!(url("http://host:8080/a@b"), None);
    }
}
