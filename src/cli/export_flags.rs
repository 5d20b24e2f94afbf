//! Flags for the files of reports.

use super::error::CliError;
use crate::experiment::{self, ExperimentError};
use crate::report::{Format, Report};
use crate::store::RunFolder;
use crate::term;
use crate::untrusted::{Untrusted as _, shell_word};
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches, value_parser};
use std::io;
use std::path::{Path, PathBuf};

/// Heading of the flags for results.
pub(super) const RESULT: &str = "Results";

/// The formats with the help of their flags, and whether `-h` shows the flag.
const FORMATS: [(Format, &str, bool); 5] = [
    (
        Format::Json,
        "Write the report as JSON to FILE [default: stdout]",
        true,
    ),
    (Format::Jsonl, "Write JSON Lines, one line per trial", false),
    (Format::Csv, "Write CSV, one row per trial", false),
    (Format::Junit, "Write JUnit XML for CI servers", true),
    (Format::Md, "Write Markdown for a bug report", false),
];

/// The requested formats, each with its file, or `-` for stdout.
#[derive(Clone, Debug, Default)]
pub(super) struct ExportFlags(Vec<(Format, PathBuf)>);

impl ExportFlags {
    /// Returns whether no report is requested.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether a report in this format is requested.
    pub(super) fn has_format(&self, wanted_format: Format) -> bool {
        self.0.iter().any(|(format, _)| *format == wanted_format)
    }

    /// Returns whether a report is written to stdout.
    pub(super) fn takes_stdout(&self) -> bool {
        self.0.iter().any(|(_, path)| !is_file(path))
    }

    /// Returns the files of the requested reports.
    pub(super) fn files(&self) -> impl Iterator<Item = &PathBuf> {
        let paths = self.0.iter().map(|(_, path)| path);
        paths.filter(|path| is_file(path))
    }

    /// Refuses several reports on stdout.
    pub(super) fn check_stdout(&self, run: &str) -> Result<(), CliError> {
        let to_stdout = self.0.iter().filter(|(_, path)| !is_file(path));
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
        quiet: bool,
    ) -> Result<(), ExperimentError> {
        for (format, path) in &self.0 {
            if !is_file(path) {
                let mut stdout = io::stdout().lock();
                experiment::write_report_to(*format, folder, report, path, &mut stdout)?;
                continue;
            }
            experiment::write_report(*format, folder, report, path)?;
            if !quiet {
                term::print_message(&format!("wrote {}", path.to_safe()));
            }
        }
        Ok(())
    }
}

/// Returns whether a path is not stdout.
fn is_file(path: &Path) -> bool {
    path != Path::new("-")
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
                        .default_missing_value("-")
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
            Some((*format, path))
        });
        Ok(Self(requested.collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
