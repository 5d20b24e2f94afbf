//! The whole report as JSON.

use super::Report;
use crate::untrusted::safe_json;
use std::io;

/// Writes the report as indented JSON.
pub(super) fn write(report: &Report, out: &mut dyn io::Write) -> io::Result<()> {
    let json = serde_json::to_string_pretty(report)?;
    out.write_all(safe_json(&json).as_bytes())?;
    out.write_all(b"\n")
}
