//! Report in CSV: one row for every trial.
//!
//! Text that a child can choose is made safe twice. Control characters are shown as escapes, so
//! that a row is a line. And where a cell begins like a formula (`=`, `+`, `-`, `@`), an apostrophe
//! is put before it: spreadsheets compute such a cell, and the text of a program under test must not
//! become a command on the machine of whoever opens the table. JSON Lines have the text as it was.

use super::{ExportError, Report, Row, rows, words};
use crate::store::Folder;
use ::csv::{ErrorKind, WriterBuilder};
use std::io;

/// The names of the columns, which are the names of the fields of [`Row`] in their order.
pub(super) const COLUMNS: [&str; 34] = [
    "trial",
    "variant",
    "slot",
    "seed",
    "attempt",
    "started",
    "seconds",
    "outcome",
    "class",
    "signature",
    "title",
    "depth",
    "detail",
    "exit_code",
    "signal",
    "core_dumped",
    "cpu_seconds",
    "max_rss_kib",
    "leaked_processes",
    "leaked_objects",
    "stdout_bytes",
    "stderr_bytes",
    "stage",
    "clients",
    "requests",
    "answers",
    "errors",
    "ends",
    "served_before_death",
    "in_flight_at_death",
    "last_words",
    "kept",
    "verdict",
    "lane",
];

/// Writes the trials of a run, after a line with the names of the columns.
pub(super) fn write(
    folder: &Folder,
    report: &Report,
    out: &mut dyn io::Write,
) -> Result<(), ExportError> {
    let mut table = WriterBuilder::new().has_headers(false).from_writer(out);
    table.write_record(COLUMNS).map_err(plain)?;
    rows::each(folder, report, |mut row: Row| {
        let texts = [&mut row.variant, &mut row.detail, &mut row.last_words];
        texts
            .into_iter()
            .chain(&mut row.title)
            .chain(&mut row.ends)
            .for_each(make_safe);
        table.serialize(row).map_err(plain)
    })?;
    Ok(table.flush()?)
}

/// The error below the one of the library, whose kind tells whether the reader went away.
fn plain(error: ::csv::Error) -> io::Error {
    match error.into_kind() {
        ErrorKind::Io(error) => error,
        other => io::Error::other(format!("{other:?}")),
    }
}

fn make_safe(text: &mut String) {
    // Mostly there is nothing to do, and a million rows to do it for.
    if !text
        .bytes()
        .all(|byte| byte.is_ascii_graphic() || byte == b' ')
    {
        *text = words::sanitize(text);
    }
    if text.starts_with(['=', '+', '-', '@']) {
        text.insert(0, '\'');
    }
}
