//! The whole report as JSON.

use super::Report;
use std::io;

/// Writes the report as indented JSON.
pub(super) fn write(report: &Report, out: &mut dyn io::Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, report)?;
    out.write_all(b"\n")
}
