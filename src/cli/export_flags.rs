//! Flags for the files of reports.

use super::error::CliError;
use crate::experiment::{self, ExperimentError};
use crate::report::{ExportOptions, Format, PageOptions, Report, RunOfTrend};
use crate::store::RunFolder;
use crate::term;
use crate::untrusted::{Untrusted as _, shell_word};
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches, value_parser};
use std::io;
use std::path::{Path, PathBuf};

/// Heading of the flags for results.
pub(super) const RESULT: &str = "Results";

/// The formats with the help of their flags, and whether `-h` shows the flag.
const FORMATS: [(Format, &str, bool); 7] = [
    (
        Format::Json,
        "Write the report as JSON to FILE [default: stdout]",
        true,
    ),
    (Format::Jsonl, "Write JSON Lines, one line per trial", false),
    (Format::Csv, "Write CSV, one row per trial", false),
    (
        Format::CsvCases,
        "Write CSV, one row per test of the suite",
        false,
    ),
    (Format::Junit, "Write JUnit XML for CI servers", true),
    (Format::Md, "Write Markdown for a bug report", false),
    (
        Format::Html,
        "Write a page with pictures to FILE [default: report.html in the directory of the run]",
        false,
    ),
];

/// Value of `--html` without a file.
const IN_RUN: &str = "provoke-out/RUN/report.html";
/// Name of this file in the directory of a run.
const PAGE: &str = "report.html";

/// Where a report is written.
#[derive(Clone, Debug, PartialEq, Eq)]
enum ReportTarget {
    Stdout,
    File(PathBuf),
    /// To the directory of the run.
    RunFolder,
}

impl ReportTarget {
    fn of_value(value: &Path) -> Self {
        match value.to_str() {
            Some("-") => Self::Stdout,
            Some(IN_RUN) => Self::RunFolder,
            _ => Self::File(value.to_owned()),
        }
    }
}

/// The requested formats, each with its target.
#[derive(Clone, Debug, Default)]
pub(super) struct ExportFlags(Vec<(Format, ReportTarget)>);

impl ExportFlags {
    /// Returns whether no report is requested.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether a report in this format is requested.
    pub(super) fn has_format(&self, wanted_format: Format) -> bool {
        self.0.iter().any(|(format, _)| *format == wanted_format)
    }

    /// Returns whether one report is requested, in this format.
    pub(super) fn has_only(&self, wanted_format: Format) -> bool {
        matches!(self.0.as_slice(), [(format, _)] if *format == wanted_format)
    }

    /// Writes a page about several runs.
    pub(super) fn write_trend(
        &self,
        runs: &[RunOfTrend<'_>],
        options: &PageOptions,
        quiet: bool,
    ) -> Result<(), CliError> {
        match self.0.first().map(|(_, target)| target) {
            Some(ReportTarget::File(path)) => {
                experiment::write_trend(runs, options, path)?;
                if !quiet {
                    term::print_message(&format!("wrote {}", path.to_safe()));
                }
                Ok(())
            }
            Some(ReportTarget::Stdout) => {
                let mut stdout = io::stdout().lock();
                Ok(experiment::write_trend_to(
                    runs,
                    options,
                    Path::new("-"),
                    &mut stdout,
                )?)
            }
            _ => {
                let error = anyhow::anyhow!("a page about several runs needs a file");
                Err(CliError::usage(error).with_hint("name it: --html=trend.html"))
            }
        }
    }

    /// Returns whether a report is written to stdout.
    pub(super) fn takes_stdout(&self) -> bool {
        self.0
            .iter()
            .any(|(_, target)| *target == ReportTarget::Stdout)
    }

    /// Returns the files of the requested reports.
    pub(super) fn files(&self) -> impl Iterator<Item = &PathBuf> {
        self.0.iter().filter_map(|(_, target)| match target {
            ReportTarget::File(path) => Some(path),
            ReportTarget::Stdout | ReportTarget::RunFolder => None,
        })
    }

    /// Refuses several reports on stdout.
    pub(super) fn check_stdout(&self, run: &str) -> Result<(), CliError> {
        let to_stdout = (self.0.iter()).filter(|(_, target)| *target == ReportTarget::Stdout);
        let flags: Vec<String> = to_stdout
            .map(|(format, _)| format!("--{0}=report.{0}", format.name()))
            .collect();
        if flags.len() < 2 {
            return Ok(());
        }
        let error = anyhow::anyhow!("{} reports cannot share stdout", flags.len());
        let run = shell_word(run.as_ref());
        let hint = format!("name the files: provoke report {run} {}", flags.join(" "));
        Err(CliError::usage(error).with_hint(hint))
    }

    /// Writes the requested reports, and prints the names of their files.
    pub(super) fn write_reports(
        &self,
        folder: &RunFolder,
        report: &Report,
        options: &ExportOptions,
        quiet: bool,
    ) -> Result<(), ExperimentError> {
        for (format, target) in &self.0 {
            let path = match target {
                ReportTarget::Stdout => {
                    let mut stdout = io::stdout().lock();
                    let name = Path::new("-");
                    experiment::write_report_to(
                        *format,
                        folder,
                        report,
                        options,
                        name,
                        &mut stdout,
                    )?;
                    continue;
                }
                ReportTarget::File(path) => path.clone(),
                ReportTarget::RunFolder => folder.path().join(PAGE),
            };
            experiment::write_report(*format, folder, report, options, &path)?;
            if !quiet {
                term::print_message(&format!("wrote {}", path.to_safe()));
            }
        }
        Ok(())
    }
}

/// Returns the earlier name of the flag of a format.
fn earlier_name(format: Format) -> String {
    format!("export-{}", format.name())
}

impl Args for ExportFlags {
    fn augment_args(command: Command) -> Command {
        let flags = FORMATS
            .into_iter()
            .flat_map(|(format, help, is_in_short_help)| {
                let flag = |name: String| {
                    Arg::new(name.clone())
                        .long(name)
                        .value_name("FILE")
                        .value_parser(value_parser!(PathBuf))
                };
                [
                    flag(format.name().to_owned())
                        .num_args(0..=1)
                        .default_missing_value(if format == Format::Html { IN_RUN } else { "-" })
                        .require_equals(true)
                        .help(help)
                        .help_heading(RESULT)
                        .hide_short_help(!is_in_short_help),
                    flag(earlier_name(format))
                        .hide(true)
                        .conflicts_with(format.name()),
                ]
            });
        command.args(flags)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for ExportFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let path = |name: &str| matches.get_one::<PathBuf>(name).cloned();
        let requested = FORMATS.iter().filter_map(|(format, ..)| {
            let path = path(format.name()).or_else(|| path(&earlier_name(*format)))?;
            Some((*format, ReportTarget::of_value(&path)))
        });
        Ok(Self(requested.collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
