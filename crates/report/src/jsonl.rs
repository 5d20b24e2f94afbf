//! Report in JSON Lines: one line for every trial.

use super::{ExportError, ExportOptions, Exporter, MaskedRun, rows};
use provoke_words::untrusted::safe_json;
use std::io;

/// One line for every trial; see [`super::TrialRow`]. The text of child processes is unchanged, with escapes for characters that
/// could do harm in a log.
pub static JSONL: Exporter = Exporter::new("jsonl", "Write JSON Lines, one line per trial", write);

fn write(
    run: &MaskedRun<'_>,
    _: &ExportOptions,
    out: &mut dyn io::Write,
) -> Result<(), ExportError> {
    rows::for_each_row(run, |row| {
        let json = serde_json::to_string(&row)?;
        out.write_all(safe_json(&json).as_bytes())?;
        out.write_all(b"\n")
    })?;
    Ok(())
}
