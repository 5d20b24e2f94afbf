//! Report in CSV: one row for every trial.
//!
//! Text that a child process can choose is escaped twice. Control characters are shown as escapes, so that a row is a
//! line. If a cell begins like a formula (`=`, `+`, `-`, `@`), an apostrophe is put before it: spreadsheets compute
//! such a cell, and the text of a program under test must not become a command on the reader's machine. JSON Lines
//! contain the original text.

use super::{ExportError, ExportOptions, Exporter, MaskedRun, TrialRow, rows};
use ::csv::{ErrorKind, WriterBuilder};
use provoke_words as words;
use std::io;

/// The names of the columns, which are the names of the fields of [`TrialRow`] in their order.
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
    "host",
    "verdict",
    "lane",
];

/// The rows of the trials as a table, after a header line; see [`TrialRow`].
pub static CSV: Exporter = Exporter::new("csv", "Write CSV, one row per trial", write);

fn write(
    run: &MaskedRun<'_>,
    _: &ExportOptions,
    out: &mut dyn io::Write,
) -> Result<(), ExportError> {
    let mut table = WriterBuilder::new().has_headers(false).from_writer(out);
    table.write_record(COLUMNS).map_err(into_io_error)?;
    rows::for_each_row(run, |mut row: TrialRow| {
        let texts = [
            &mut row.variant,
            &mut row.detail,
            &mut row.last_words,
            &mut row.host,
        ];
        texts
            .into_iter()
            .chain(&mut row.title)
            .chain(&mut row.ends)
            .for_each(make_safe);
        table.serialize(row).map_err(into_io_error)
    })?;
    Ok(table.flush()?)
}

/// Returns the I/O error inside an error of the library; its kind shows a closed pipe.
pub(super) fn into_io_error(error: ::csv::Error) -> io::Error {
    match error.into_kind() {
        ErrorKind::Io(error) => error,
        other => io::Error::other(format!("{other:?}")),
    }
}

pub(super) fn make_safe(text: &mut String) {
    // Most cells need no change, and a run may have a million rows.
    let is_plain = text
        .bytes()
        .all(|byte| byte.is_ascii_graphic() || byte == b' ');
    if !is_plain || text.contains("##") || text.contains("::") {
        *text = words::sanitize_line(text);
    }
    if text.starts_with(['=', '+', '-', '@']) {
        text.insert(0, '\'');
    }
}
