//! `report`: writes the result of a run in the chosen format.

use super::args::{ExportFlags, RESULT};
use super::error::CliError;
use super::exit::Exit;
use crate::experiment::{self, ExperimentError};
use crate::questions::Answer;
use crate::report::{Format, Report};
use crate::store::{self, RunFolder, SharedData, default_root};
use crate::suggest::file_of_flag;
use crate::term;
use crate::untrusted::{Untrusted as _, shell_word};
use crate::words;
use clap::{Args, ValueEnum};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Report a run as a summary, JSON, CSV, JUnit or Markdown
#[derive(Args)]
#[command(after_help = EXAMPLES, mut_args(in_short_help))]
pub(super) struct ReportArgs {
    /// Runs: directories, names, starts or ends of names, or `last`
    #[arg(default_value = "last")]
    runs: Vec<String>,
    /// Write an archive (.tar.gz) of the run to FILE, to share it
    ///
    /// Secrets are masked. Values of environment variables, cores and requests are left out unless --with
    /// adds them.
    #[arg(long, value_name = "FILE", help_heading = RESULT)]
    bundle: Option<PathBuf>,
    /// Add these to the bundle
    #[arg(long, value_name = "environment|cores|requests", value_delimiter = ',', hide_possible_values = true, requires = "bundle", help_heading = RESULT)]
    with: Vec<BundleExtra>,
    /// Print only the result
    #[arg(short, long, help_heading = RESULT)]
    quiet: bool,
    #[command(flatten)]
    exports: ExportFlags,
}

const EXAMPLES: &str = "\
Examples:
  Show the summary of the last run again:
    provoke report last
  Write a bug report:
    provoke report last --md=issue.md
  Share a run:
    provoke report last --bundle run.tar.gz";

/// Shows a flag in the short help, unlike `run`.
fn in_short_help(flag: clap::Arg) -> clap::Arg {
    flag.hide_short_help(false)
}

/// Contents of a bundle that must be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum BundleExtra {
    Environment,
    Cores,
    Requests,
}

impl ReportArgs {
    pub(super) fn execute_command(self) -> Result<Exit, CliError> {
        let mut exports = self.exports.wanted_formats();
        let to_files = self.bundle.is_some() || exports.any(|(_, path)| is_file(path));
        if self.runs.len() > 1 && to_files {
            let error = anyhow::anyhow!("cannot write several runs to one file");
            return Err(
                CliError::usage(error).with_hint("report one run at a time, or write to stdout")
            );
        }
        self.exports.check_stdout(&self.runs[0])?;
        for run in &self.runs {
            let folder = RunFolder::find_run(run, &default_root()).map_err(|error| {
                let error = CliError::from(error);
                match file_of_flag(run.as_ref()) {
                    Some(flag) => error.with_hint(format!("did you mean `{flag}`?")),
                    None => error,
                }
            })?;
            let state = store::read_run(&folder.journal_path(), |_, _| {})?;
            // A complete journal records how its run ended.
            let complete = state.finished || state.stopped.is_some();
            let report = Report {
                reference: folder.run_reference(&default_root()),
                ..Report::new(&state, complete)
            };
            if let Some(file) = &self.bundle {
                let shared = SharedData {
                    environment: self.with.contains(&BundleExtra::Environment),
                    cores: self.with.contains(&BundleExtra::Cores),
                    requests: self.with.contains(&BundleExtra::Requests),
                };
                experiment::write_bundle(&folder, &report, shared, file)?;
                print_bundle(file, shared);
            }
            let mut exports = self.exports.wanted_formats();
            if exports.any(|(format, _)| format == Format::Md) {
                name_failing_run(&report);
            }
            self.exports.write_reports(&folder, &report, self.quiet)?;
            let nothing_written =
                self.bundle.is_none() && self.exports.wanted_formats().next().is_none();
            if nothing_written {
                let summary = if self.quiet {
                    term::format_verdict(&report)
                } else {
                    let reference = folder.shortest_reference(&default_root());
                    term::format_summary(
                        &report,
                        folder.path(),
                        &reference,
                        experiment::pooled_baseline(&state, &folder),
                        Vec::new(),
                        term::stdout_width(),
                    )
                };
                term::print_page(&summary).map_err(CliError::could_not)?;
            }
        }
        Ok(Exit::Hoped)
    }
}

/// Names the run with the failures, if this one only tests a fix.
fn name_failing_run(report: &Report) {
    let Some(Answer::Confirm(answer)) = &report.answer else {
        return;
    };
    let failures: u64 = report.variants.iter().map(|variant| variant.failures).sum();
    let baseline = answer.baseline.as_ref();
    let run = baseline.and_then(|baseline| baseline.run.as_deref());
    if let Some(run) = run.filter(|_| failures == 0) {
        let run = shell_word(run.as_ref());
        term::print_message(&format!(
            "hint: no trial of this run failed; a bug report of its baseline: provoke report {run} --md"
        ));
    }
}

impl ExportFlags {
    /// Returns the requested formats, each with its file, or `-` for stdout.
    pub(super) fn wanted_formats(&self) -> impl Iterator<Item = (Format, &Path)> {
        let Self {
            json,
            jsonl,
            csv,
            junit,
            md,
            earlier,
        } = self;
        let all = [
            (Format::Json, json.as_ref().or(earlier.export_json.as_ref())),
            (
                Format::Jsonl,
                jsonl.as_ref().or(earlier.export_jsonl.as_ref()),
            ),
            (Format::Csv, csv.as_ref().or(earlier.export_csv.as_ref())),
            (
                Format::Junit,
                junit.as_ref().or(earlier.export_junit.as_ref()),
            ),
            (Format::Md, md.as_ref().or(earlier.export_md.as_ref())),
        ];
        all.into_iter()
            .filter_map(|(format, path)| Some((format, path?.as_path())))
    }

    /// Refuses several reports on stdout.
    fn check_stdout(&self, run: &str) -> Result<(), CliError> {
        let to_stdout = self.wanted_formats().filter(|(_, path)| !is_file(path));
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

    pub(super) fn takes_stdout(&self) -> bool {
        self.wanted_formats().any(|(_, path)| !is_file(path))
    }

    /// Returns the files of the requested reports.
    pub(super) fn files(&self) -> impl Iterator<Item = &Path> {
        let paths = self.wanted_formats().map(|(_, path)| path);
        paths.filter(|path| is_file(path))
    }

    /// Writes the requested reports, and prints the names of their files.
    pub(super) fn write_reports(
        &self,
        folder: &RunFolder,
        report: &Report,
        quiet: bool,
    ) -> Result<(), CliError> {
        for (format, path) in self.wanted_formats() {
            write_report(format, path, folder, report)?;
            if is_file(path) && !quiet {
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

/// Writes a report to a file, or to stdout for `-`.
fn write_report(
    format: Format,
    path: &Path,
    folder: &RunFolder,
    report: &Report,
) -> Result<(), ExperimentError> {
    if is_file(path) {
        experiment::write_report(format, folder, report, path)
    } else {
        experiment::write_report_to(format, folder, report, path, &mut io::stdout().lock())
    }
}

/// Prints the size of an archive, and what it does not contain.
fn print_bundle(file: &Path, shared: SharedData) {
    let size = fs::metadata(file).map_or(0, |about| about.len());
    let size = words::format_bytes(size);
    term::print_message(&format!("wrote {} ({size})", file.to_safe()));
    let left_out: Vec<&str> = [
        ("environment", shared.environment),
        ("cores", shared.cores),
        ("requests", shared.requests),
    ]
    .iter()
    .filter(|(_, shared)| !shared)
    .map(|(name, _)| *name)
    .collect();
    if !left_out.is_empty() {
        term::print_message(&format!(
            "  left out: {} (--with adds them)",
            left_out.join(", ")
        ));
    }
}
