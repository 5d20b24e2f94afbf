//! Reads the places of source files.

use provoke_model::Site;
use std::ops::Range;

/// Parses `file:line` or `file:line:column` at the start of a text.
pub(super) fn first_place(text: &str) -> Option<Site> {
    let mut fields = text.trim().split(':');
    site_at(fields.next()?, fields.next()?)
}

/// Plausible line numbers.
const LINES: Range<u32> = 1..10_000_000;

/// Returns a plausible line of a source file.
pub(super) fn site_at(file: &str, line: &str) -> Option<Site> {
    let line = line
        .trim()
        .parse()
        .ok()
        .filter(|line| LINES.contains(line))?;
    let is_file = file.contains('.') && !file.contains(['<', '>', ' ']);
    is_file.then(|| Site {
        file: file.to_owned(),
        line,
        ..Site::default()
    })
}
