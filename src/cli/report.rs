//! `report`: writes the result of a run in the chosen format.

use super::error::CliError;
use super::exit::Exit;
use super::export_flags::{ExportFlags, RESULT};
use crate::experiment::{self, StoredReport};
use crate::report::{Format, Report};
use crate::store::{SharedData, default_root};
use crate::suggest::file_of_flag;
use crate::term;
use crate::untrusted::{Untrusted as _, shell_word};
use crate::words;
use clap::{Args, ValueEnum};
use std::fs;
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
        let to_files = self.bundle.is_some() || self.exports.files().next().is_some();
        if self.runs.len() > 1 && to_files {
            let error = anyhow::anyhow!("cannot write several runs to one file");
            return Err(
                CliError::usage(error).with_hint("report one run at a time, or write to stdout")
            );
        }
        self.exports.check_stdout(&self.runs[0])?;
        for run in &self.runs {
            let stored = StoredReport::read(run).map_err(|error| {
                let error = CliError::from(error);
                match file_of_flag(run.as_ref()) {
                    Some(flag) => error.with_hint(format!("did you mean `{flag}`?")),
                    None => error,
                }
            })?;
            self.report_run(&stored)?;
        }
        Ok(Exit::Hoped)
    }

    fn report_run(&self, stored: &StoredReport) -> Result<(), CliError> {
        let (folder, report) = (&stored.folder, &stored.report);
        if let Some(file) = &self.bundle {
            let shared = SharedData {
                environment: self.with.contains(&BundleExtra::Environment),
                cores: self.with.contains(&BundleExtra::Cores),
                requests: self.with.contains(&BundleExtra::Requests),
            };
            experiment::write_bundle(folder, report, shared, file)?;
            print_bundle(file, shared);
        }
        if self.exports.has_format(Format::Md) {
            name_failing_run(report);
        }
        self.exports.write_reports(folder, report, self.quiet)?;
        if self.bundle.is_some() || !self.exports.is_empty() {
            return Ok(());
        }
        let summary = if self.quiet {
            term::format_verdict(report)
        } else {
            term::format_summary(
                report,
                folder.path(),
                &folder.shortest_reference(&default_root()),
                experiment::pooled_baseline(&stored.state, folder),
                Vec::new(),
                term::stdout_width(),
            )
        };
        Ok(term::print_page(&summary)?)
    }
}

/// Names the run with the failures, if this one only tests a fix.
fn name_failing_run(report: &Report) {
    let failures: u64 = report.variants.iter().map(|variant| variant.failures).sum();
    if failures == 0
        && let Some(run) = report.confirmed_run()
    {
        let run = shell_word(run.as_ref());
        term::print_message(&format!(
            "hint: no trial of this run failed; a bug report of its baseline: provoke report {run} --md"
        ));
    }
}

/// Prints the size of an archive, and what it does not contain.
fn print_bundle(file: &Path, shared: SharedData) {
    let bytes = fs::metadata(file).map_or(0, |metadata| metadata.len());
    let size = words::format_bytes(bytes);
    term::print_message(&format!("wrote {} ({size})", file.to_safe()));
    let left_out = shared.left_out().join(", ");
    if !left_out.is_empty() {
        term::print_message(&format!("  left out: {left_out} (--with adds them)"));
    }
}
