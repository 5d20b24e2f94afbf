//! One line of JSON for every trial.

use super::{ExportError, Report, rows};
use crate::store::Folder;
use std::io;

/// Writes the trials of a run. Text is as the child wrote it.
pub(super) fn write(
    folder: &Folder,
    report: &Report,
    out: &mut dyn io::Write,
) -> Result<(), ExportError> {
    rows::each(folder, report, |row| {
        serde_json::to_writer(&mut *out, &row)?;
        out.write_all(b"\n")
    })
}
