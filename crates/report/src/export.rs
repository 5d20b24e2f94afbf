//! Writes a report in any format.

use super::html::TrendRun;
use super::{MaskedRun, PageOptions, html, test_rates};
use provoke_journal::StoreError;
use provoke_model::Survey;
use provoke_state::State;
use std::io::{self, BufWriter, Write as _};

/// A format of a report: how a run is written for others.
#[derive(Debug)]
pub struct Exporter {
    /// Its name: that of its flag and of the extension of its files.
    pub name: &'static str,
    /// What its flag does.
    pub about: &'static str,
    /// Whether it is a page to look at, with pictures: a private file in the directory of the run by default.
    pub is_page: bool,
    /// Writes a run.
    pub write: WriteFn,
}

type WriteFn = fn(&MaskedRun<'_>, &ExportOptions, &mut dyn io::Write) -> Result<(), ExportError>;

impl Exporter {
    /// Creates a format that is not a page.
    pub(super) const fn new(name: &'static str, about: &'static str, write: WriteFn) -> Self {
        Self {
            name,
            about,
            is_page: false,
            write,
        }
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

/// Writes a run in a format.
pub fn export_report(
    exporter: &Exporter,
    run: &MaskedRun<'_>,
    options: &ExportOptions,
    out: &mut dyn io::Write,
) -> Result<(), ExportError> {
    let mut out = BufWriter::with_capacity(1 << 16, out);
    (exporter.write)(run, options, &mut out)?;
    Ok(out.flush()?)
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
    /// Its directory and its report.
    pub run: MaskedRun<'a>,
    /// Its state.
    pub state: &'a State,
}

/// Writes a page about several runs in an order.
pub fn export_trend(
    runs: &[RunOfTrend<'_>],
    order: RunOrder,
    options: &PageOptions,
    out: &mut dyn io::Write,
) -> Result<(), ExportError> {
    let mut out = BufWriter::with_capacity(1 << 16, out);
    let of_first = |run: &RunOfTrend<'_>| {
        let first = runs.first()?;
        if run.run.report().command != first.run.report().command {
            return Some("another command".to_owned());
        }
        test_rates(run.state, first.state).err()
    };
    let shown: Vec<TrendRun<'_>> = runs
        .iter()
        .map(|run| TrendRun {
            folder: run.run.folder(),
            report: run.run.report(),
            commit: run.state.origin.survey.get_fact(Survey::COMMIT),
            not_comparable: of_first(run),
        })
        .collect();
    html::write_trend(&shown, order, options, &mut out)?;
    Ok(out.flush()?)
}
