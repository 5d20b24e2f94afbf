//! Writes a report in any format.

use super::issue::Issue;
use super::{Report, csv, json, jsonl, junit, markdown};
use crate::store::{self, RunFolder, Secrets, StoreError};
use std::io::{self, BufWriter, Write as _};
use std::str::FromStr;

/// The formats of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// The whole report; see [`Report`].
    Json,
    /// JSON Lines with one line per trial; see [`super::TrialRow`].
    Jsonl,
    /// The same rows as a table.
    Csv,
    /// `JUnit` XML, for CI servers.
    Junit,
    /// Markdown, for an issue.
    Md,
}

impl Format {
    /// All formats with their names.
    pub const ALL: [(Self, &str); 5] = [
        (Self::Json, "json"),
        (Self::Jsonl, "jsonl"),
        (Self::Csv, "csv"),
        (Self::Junit, "junit"),
        (Self::Md, "md"),
    ];

    /// Returns its name.
    pub fn name(self) -> &'static str {
        let entry = Self::ALL.iter().find(|(format, _)| *format == self);
        entry.map_or("", |(_, name)| name)
    }
}

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let entry = Self::ALL.iter().find(|(_, name)| *name == text);
        entry.map(|(format, _)| *format).ok_or_else(|| {
            let names = Self::ALL.map(|(_, name)| format!("`{name}`"));
            format!("`{text}` is not one of {}", names.join(", "))
        })
    }
}

/// An error while writing a report.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The journal cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The report cannot be written.
    #[error(transparent)]
    Write(#[from] io::Error),
}

impl ExportError {
    /// Returns whether the reader of the report closed the pipe.
    pub fn is_broken_pipe(&self) -> bool {
        matches!(self, Self::Write(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }
}

/// Writes a report in which the secrets of the run are masked. The trials and the kept output are read from the run's
/// directory. The values of environment variables that the experiment sets are shown only with `environment`.
pub fn export_report(
    format: Format,
    folder: &RunFolder,
    report: &Report,
    environment: bool,
    out: &mut dyn io::Write,
) -> Result<(), ExportError> {
    let mut out = BufWriter::with_capacity(1 << 16, out);
    let secrets = Secrets::of_run(&folder.journal_path())?;
    let masked = masked_report(report, folder, &secrets)?;
    let report = masked.as_ref().unwrap_or(report);
    match format {
        Format::Json => json::write_json(report, &mut out)?,
        Format::Jsonl => jsonl::write_jsonl(folder, report, &mut out)?,
        Format::Csv => csv::write_csv(folder, report, &mut out)?,
        Format::Junit => junit::write_junit(folder, report, &secrets, &mut out)?,
        Format::Md => {
            let issue = Issue::read_from(report, folder, &secrets, environment)?;
            markdown::write_markdown(report, &issue, &mut out)?;
        }
    }
    Ok(out.flush()?)
}

/// Returns the report with the secrets of the run masked, if it has any.
fn masked_report(
    report: &Report,
    folder: &RunFolder,
    secrets: &Secrets,
) -> Result<Option<Report>, StoreError> {
    if secrets.is_empty() {
        return Ok(None);
    }
    let state = store::read_masked(&folder.journal_path())?;
    Ok(Some(Report::new(&state, report.journal_complete)))
}
