//! Writes a report in any format.

use super::annotations::{Annotation, AnnotationLevel, list_annotations};
use super::html::TrendRun;
use super::issue::Issue;
use super::{
    PageOptions, PictureFile, Report, case_list, csv, html, json, jsonl, junit, markdown,
    test_rates,
};
use crate::store::{self, RunFolder, Secrets, StoreError};
use provoke_model::Survey;
use provoke_questions::state::State;
use std::io::{self, BufWriter, Write as _};
use std::path::Path;
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
    /// A table with one row for each test of a suite.
    CsvCases,
    /// `JUnit` XML, for CI servers.
    Junit,
    /// Markdown, for an issue.
    Md,
    /// A page with pictures.
    Html,
}

impl Format {
    /// All formats with their names.
    pub const ALL: [(Self, &str); 7] = [
        (Self::Json, "json"),
        (Self::Jsonl, "jsonl"),
        (Self::Csv, "csv"),
        (Self::CsvCases, "csv-cases"),
        (Self::Junit, "junit"),
        (Self::Md, "md"),
        (Self::Html, "html"),
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

/// Choices for a report that others read.
#[derive(Clone, Debug, Default)]
pub struct ExportOptions {
    /// Whether the values of environment variables that the experiment sets are shown.
    pub environment: bool,
    /// Choices for a page.
    pub page: PageOptions,
}

/// Writes a report in which the secrets of the run are masked. The trials and the kept output are read from the run's
/// directory.
pub fn export_report(
    format: Format,
    folder: &RunFolder,
    report: &Report,
    options: &ExportOptions,
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
        Format::CsvCases => case_list::write_case_csv(report, &mut out)?,
        Format::Junit => junit::write_junit(folder, report, &secrets, &mut out)?,
        Format::Md => {
            let issue = Issue::read_from(report, folder, &secrets, options.environment)?;
            markdown::write_markdown(report, &issue, &mut out)?;
        }
        Format::Html => {
            let shows_values = options.environment;
            html::write_html(
                folder,
                report,
                &secrets,
                shows_values,
                &options.page,
                &mut out,
            )?;
        }
    }
    Ok(out.flush()?)
}

/// Makes the pictures of a page as separate files, in which the secrets of the run are masked.
pub fn export_pictures(
    folder: &RunFolder,
    report: &Report,
    options: &PageOptions,
) -> Result<Vec<PictureFile>, ExportError> {
    let secrets = Secrets::of_run(&folder.journal_path())?;
    let masked = masked_report(report, folder, &secrets)?;
    html::make_pictures(folder, masked.as_ref().unwrap_or(report), &secrets, options)
}

/// Writes the result in a few lines of Markdown, in which the secrets of the run are masked.
pub fn export_short_summary(
    folder: &RunFolder,
    report: &Report,
    out: &mut dyn io::Write,
) -> Result<(), ExportError> {
    let secrets = Secrets::of_run(&folder.journal_path())?;
    let masked = masked_report(report, folder, &secrets)?;
    Ok(markdown::write_short_summary(
        masked.as_ref().unwrap_or(report),
        out,
    )?)
}

/// Returns annotations for a CI server, in which the secrets of the run are masked. Lines of source code below `root`
/// are named.
pub fn export_annotations(
    folder: &RunFolder,
    report: &Report,
    verdict_level: AnnotationLevel,
    root: &Path,
) -> Result<Vec<Annotation>, ExportError> {
    let secrets = Secrets::of_run(&folder.journal_path())?;
    let masked = masked_report(report, folder, &secrets)?;
    Ok(list_annotations(
        masked.as_ref().unwrap_or(report),
        verdict_level,
        root,
    ))
}

/// The order of several runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunOrder {
    /// As given.
    Given,
    /// By start.
    Time,
    /// By the commit that was checked out, then by start.
    Commit,
}

/// A run of a page about several runs.
pub struct RunOfTrend<'a> {
    /// Its directory.
    pub folder: &'a RunFolder,
    /// Its state.
    pub state: &'a State,
    /// Its report.
    pub report: &'a Report,
}

/// Writes a page about several runs in an order, in which the secrets of each run are masked.
pub fn export_trend(
    runs: &[RunOfTrend<'_>],
    order: RunOrder,
    options: &PageOptions,
    out: &mut dyn io::Write,
) -> Result<(), ExportError> {
    let mut out = BufWriter::with_capacity(1 << 16, out);
    let masked: Vec<Option<Report>> = runs
        .iter()
        .map(|run| {
            let secrets = Secrets::of_run(&run.folder.journal_path())?;
            masked_report(run.report, run.folder, &secrets)
        })
        .collect::<Result<_, StoreError>>()?;
    let of_first = |run: &RunOfTrend<'_>| {
        let first = runs.first()?;
        if run.report.command != first.report.command {
            return Some("another command".to_owned());
        }
        test_rates(run.state, first.state).err()
    };
    let shown: Vec<TrendRun<'_>> = runs
        .iter()
        .zip(&masked)
        .map(|(run, masked)| TrendRun {
            folder: run.folder,
            report: masked.as_ref().unwrap_or(run.report),
            commit: run.state.survey.get_fact(Survey::COMMIT),
            not_comparable: of_first(run),
        })
        .collect();
    html::write_trend(&shown, order, options, &mut out)?;
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
