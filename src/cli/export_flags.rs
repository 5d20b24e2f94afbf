//! Flags for the files of reports.

use crate::experiment::{ReportTarget, RequestedReports};
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches, value_parser};
use provoke_report::{EXPORTERS, Exporter};
use provoke_words::diagnostic::Diagnostic;
use provoke_words::untrusted::shell_word;
use std::path::{Path, PathBuf};

/// Heading of the flags for results.
pub(super) const RESULT: &str = "Results";

/// Name of the flag for pictures.
const PICTURES: &str = "svg";
/// Value of `--html` without a file.
const IN_RUN: &str = "provoke-out/RUN/report.html";

/// The requested reports.
#[derive(Clone, Debug, Default)]
pub(super) struct ExportFlags(pub(super) RequestedReports);

impl ExportFlags {
    /// Refuses several reports on stdout.
    pub(super) fn check_stdout(&self, run: &str) -> Result<(), Diagnostic> {
        let flags: Vec<String> = (self.0.formats_on_stdout())
            .map(|exporter| format!("--{0}=report.{0}", exporter.name))
            .collect();
        if flags.len() < 2 {
            return Ok(());
        }
        let error = format!("{} reports cannot share stdout", flags.len());
        let run = shell_word(run.as_ref());
        let hint = format!("name the files: provoke report {run} {}", flags.join(" "));
        Err(Diagnostic::usage(error).with_hint(hint))
    }
}

fn target_of_value(value: &Path) -> ReportTarget {
    match value.to_str() {
        Some("-") => ReportTarget::Stdout,
        Some(IN_RUN) => ReportTarget::RunFolder,
        _ => ReportTarget::File(value.to_owned()),
    }
}

/// Returns the earlier name of the flag of a format.
fn earlier_name(exporter: &Exporter) -> String {
    format!("export-{}", exporter.name)
}

impl Args for ExportFlags {
    fn augment_args(command: Command) -> Command {
        let flag = |name: String, value_name| {
            Arg::new(name.clone())
                .long(name)
                .value_name(value_name)
                .value_parser(value_parser!(PathBuf))
        };
        let flags = EXPORTERS.iter().copied().flat_map(|exporter| {
            [
                flag(exporter.name.to_owned(), "FILE")
                    .num_args(0..=1)
                    .default_missing_value(if exporter.is_page { IN_RUN } else { "-" })
                    .require_equals(true)
                    .help(exporter.about)
                    .help_heading(RESULT)
                    .hide_short_help(true),
                flag(earlier_name(exporter), "FILE")
                    .hide(true)
                    .conflicts_with(exporter.name),
            ]
        });
        let pictures = flag(PICTURES.to_owned(), "DIRECTORY")
            .help("Write the pictures of the page as SVG files to DIRECTORY")
            .help_heading(RESULT)
            .hide_short_help(true);
        command.args(flags).arg(pictures)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for ExportFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let path = |name: &str| matches.get_one::<PathBuf>(name).cloned();
        let formats = EXPORTERS.iter().copied().filter_map(|exporter| {
            let path = path(exporter.name).or_else(|| path(&earlier_name(exporter)))?;
            Some((exporter, target_of_value(&path)))
        });
        Ok(Self(RequestedReports {
            formats: formats.collect(),
            pictures: path(PICTURES),
        }))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
