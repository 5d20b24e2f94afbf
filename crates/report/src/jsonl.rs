//! Report in JSON Lines: one line for every trial.

use super::{ExportError, Report, rows};
use crate::store::RunFolder;
use provoke_sys::untrusted::safe_json;
use std::io;

/// Writes the trials of a run. The text of child processes is unchanged, with escapes for characters that could do harm
/// in a log.
pub(super) fn write_jsonl(
    folder: &RunFolder,
    report: &Report,
    out: &mut dyn io::Write,
) -> Result<(), ExportError> {
    rows::for_each_row(folder, report, |row| {
        let json = serde_json::to_string(&row)?;
        out.write_all(safe_json(&json).as_bytes())?;
        out.write_all(b"\n")
    })?;
    Ok(())
}
