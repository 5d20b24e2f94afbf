//! Fills the templates of requests.

use super::super::LoadError;
use super::draw::DrawnRequest;
use super::rows::{CsvRows, escape_path};
use std::ops::Range;

/// Text with placeholders.
#[derive(Clone, Debug, Default)]
pub(super) struct RequestTemplate(pub(super) Vec<TemplatePart>);

#[derive(Clone, Debug)]
pub(super) enum TemplatePart {
    Plain(Vec<u8>),
    Column(usize),
    Seq,
    Rand,
}

/// Part of a request that contains a text.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum TemplateLocation {
    Path,
    Header,
    Body,
}

impl RequestTemplate {
    pub(super) fn new(
        text: &str,
        rows: &CsvRows,
        location: TemplateLocation,
    ) -> Result<Self, LoadError> {
        let mut template = Self::default();
        let escape = |bytes: &[u8]| match location {
            TemplateLocation::Path => escape_path(bytes),
            _ => bytes.to_vec(),
        };
        let mut rest = text;
        while let Some(position) = rest.find('{') {
            template.push_plain(&escape(&rest.as_bytes()[..position]));
            rest = &rest[position..];
            let (mark, length) = match parse_mark(rest) {
                Some(TemplatePlaceholder::Seq) => (TemplatePart::Seq, "{seq}".len()),
                Some(TemplatePlaceholder::Rand) => (TemplatePart::Rand, "{rand}".len()),
                Some(TemplatePlaceholder::Row(name)) => (
                    TemplatePart::Column(rows.find_column(&rest[name.clone()])?),
                    name.end + 1,
                ),
                Some(TemplatePlaceholder::Env(name)) => {
                    let variable = std::env::var_os(&rest[name.clone()])
                        .ok_or_else(|| LoadError::Environment(rest[name.clone()].to_owned()))?;
                    let value = variable.as_encoded_bytes();
                    (TemplatePart::Plain(escape(value)), name.end + 1)
                }
                // Other braces are plain text, because JSON contains many.
                None => (TemplatePart::Plain(escape(b"{")), 1),
            };
            template.0.push(mark);
            rest = &rest[length..];
        }
        template.push_plain(&escape(rest.as_bytes()));
        if location == TemplateLocation::Path {
            // In a path, use the escaped copy of a column.
            for part in &mut template.0 {
                if let TemplatePart::Column(column) = part {
                    *column += rows.columns.len();
                }
            }
        }
        template.join_plain_pieces();
        Ok(template)
    }

    pub(super) fn push_plain(&mut self, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.0.push(TemplatePart::Plain(bytes.to_vec()));
        }
    }

    /// Merges adjacent plain pieces.
    pub(super) fn join_plain_pieces(&mut self) {
        let pieces = std::mem::take(&mut self.0);
        for part in pieces {
            match (self.0.last_mut(), part) {
                (Some(TemplatePart::Plain(previous)), TemplatePart::Plain(bytes)) => {
                    previous.extend(bytes);
                }
                (_, part) => self.0.push(part),
            }
        }
    }

    pub(super) fn as_plain(&self) -> Option<&[u8]> {
        match &self.0[..] {
            [] => Some(&[]),
            [TemplatePart::Plain(bytes)] => Some(bytes),
            _ => None,
        }
    }

    pub(super) fn write_filled(&self, choice: &DrawnRequest, rows: &CsvRows, buffer: &mut Vec<u8>) {
        use std::io::Write as _;
        for part in &self.0 {
            // Writing to memory cannot fail.
            match part {
                TemplatePart::Plain(bytes) => buffer.extend_from_slice(bytes),
                TemplatePart::Column(column) => {
                    buffer.extend_from_slice(rows.cell_bytes(choice.row, *column));
                }
                TemplatePart::Seq => drop(write!(buffer, "{}", choice.seq)),
                TemplatePart::Rand => drop(write!(buffer, "{}", choice.rand)),
            }
        }
    }
}

impl TemplatePart {
    /// Returns whether the text may contain a line break or NUL, which would end the line of a
    /// header.
    pub(super) fn breaks_lines(&self, rows: &CsvRows) -> bool {
        let breaks = |bytes: &[u8]| bytes.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0));
        match self {
            Self::Plain(bytes) => breaks(bytes),
            Self::Column(column) => {
                (0..rows.row_count()).any(|row| breaks(rows.cell_bytes(row, *column)))
            }
            Self::Seq | Self::Rand => false,
        }
    }
}

/// Content of braces, with the position of the name.
enum TemplatePlaceholder {
    Seq,
    Rand,
    Row(Range<usize>),
    Env(Range<usize>),
}

fn parse_mark(text: &str) -> Option<TemplatePlaceholder> {
    if text.starts_with("{seq}") {
        return Some(TemplatePlaceholder::Seq);
    }
    if text.starts_with("{rand}") {
        return Some(TemplatePlaceholder::Rand);
    }
    let end = text.find('}')?;
    if text.starts_with("{row.") {
        return Some(TemplatePlaceholder::Row("{row.".len()..end));
    }
    let env = text.starts_with("{env.");
    env.then(|| TemplatePlaceholder::Env("{env.".len()..end))
}
