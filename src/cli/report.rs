//! `report`: writes the result of a run in the chosen format.

use super::args::RESULT;
use super::bundle;
use super::error::CliError;
use super::exit::Exit;
use super::experiment::create;
use crate::policy;
use crate::report::{Answer, Format, Report, export};
use crate::store::{self, Folder, Shared, default_root};
use crate::term;
use crate::untrusted::{Untrusted as _, shell_word};
use clap::{Args, ValueEnum};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// Report a run as a summary, JSON, CSV, JUnit or Markdown
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Make {
    /// Runs: directories, names, starts or ends of names, or `last`
    #[arg(default_value = "last")]
    runs: Vec<String>,
    /// Write the report as JSON to FILE [default: stdout]
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-", require_equals = true, help_heading = RESULT)]
    json: Option<PathBuf>,
    /// Write JSON Lines, one line per trial
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-", require_equals = true, help_heading = RESULT)]
    jsonl: Option<PathBuf>,
    /// Write CSV, one row per trial
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-", require_equals = true, help_heading = RESULT)]
    csv: Option<PathBuf>,
    /// Write JUnit XML for CI servers
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-", require_equals = true, help_heading = RESULT)]
    junit: Option<PathBuf>,
    /// Write an archive (.tar.gz) of the run to FILE, to share it
    ///
    /// Secrets are masked. Values of environment variables, cores and requests are left out unless --with
    /// adds them.
    #[arg(long, value_name = "FILE", help_heading = RESULT)]
    bundle: Option<PathBuf>,
    /// Add these to the bundle
    #[arg(long, value_name = "environment|cores|requests", value_delimiter = ',', hide_possible_values = true, requires = "bundle", help_heading = RESULT)]
    with: Vec<Extra>,
    /// Write Markdown for a bug report
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-", require_equals = true, help_heading = RESULT)]
    md: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  Show the summary of the last run again:
    provoke report last
  Write a bug report:
    provoke report last --md=issue.md
  Share a run with somebody else:
    provoke report last --bundle run.tar.gz";

/// Contents of a bundle that must be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Extra {
    Environment,
    Cores,
    Requests,
}

impl Make {
    pub(super) fn execute(self) -> Result<Exit, CliError> {
        let wanted = [
            (Format::Json, &self.json),
            (Format::Jsonl, &self.jsonl),
            (Format::Csv, &self.csv),
            (Format::Junit, &self.junit),
            (Format::Md, &self.md),
        ];
        let to_file =
            |path: &Option<PathBuf>| path.as_deref().is_some_and(|path| path != Path::new("-"));
        let to_files = self.bundle.is_some() || wanted.iter().any(|(_, path)| to_file(path));
        if self.runs.len() > 1 && to_files {
            let error = anyhow::anyhow!("cannot write several runs to one file");
            return Err(
                CliError::usage(error).hinted("report one run at a time, or write to stdout")
            );
        }
        for run in &self.runs {
            let folder = Folder::find(run, &default_root())?;
            let state = store::read(&folder.journal(), policy::is_done, |_, _| {})?;
            // A journal that is whole says how its run ended.
            let complete = state.finished || state.stopped.is_some();
            let report = Report {
                reference: folder.reference(&default_root()),
                ..Report::new(&state, complete)
            };
            let wanted = wanted
                .iter()
                .filter_map(|(format, path)| Some((*format, path.as_deref()?)));
            let mut none = true;
            if let Some(file) = &self.bundle {
                none = false;
                let shared = Shared {
                    environment: self.with.contains(&Extra::Environment),
                    cores: self.with.contains(&Extra::Cores),
                    requests: self.with.contains(&Extra::Requests),
                };
                bundle::write(&folder, &report, shared, file)?;
            }
            if self.md.is_some() {
                name_failing_run(&report);
            }
            for (format, path) in wanted {
                none = false;
                write(format, path, &folder, &report)?;
            }
            if none {
                let reference = folder.shortest_reference(&default_root());
                let summary = term::summary(
                    &report,
                    folder.path(),
                    &reference,
                    Vec::new(),
                    term::width(),
                );
                term::tell(&summary).map_err(CliError::could_not)?;
            }
        }
        Ok(Exit::Hoped)
    }
}

/// Names the run that failed, if this one only confirms a fix.
fn name_failing_run(report: &Report) {
    let Some(Answer::Confirm(answer)) = &report.answer else {
        return;
    };
    let failures: u64 = report.variants.iter().map(|variant| variant.failures).sum();
    let baseline = answer.baseline.as_ref();
    let run = baseline.and_then(|baseline| baseline.run.as_deref());
    if let Some(run) = run.filter(|_| failures == 0) {
        let run = shell_word(run.as_ref());
        term::say(&format!(
            "hint: no trial of this run failed; a bug report of its baseline: provoke report {run} --md"
        ));
    }
}

/// Writes a report to a file, or to standard output for `-`.
pub(super) fn write(
    format: Format,
    path: &Path,
    folder: &Folder,
    report: &Report,
) -> Result<(), CliError> {
    let done = if path == Path::new("-") {
        export(format, folder, report, true, &mut io::stdout().lock())
    } else {
        let mut file = create(path)?;
        export(format, folder, report, true, &mut file).and_then(|()| Ok(file.flush()?))
    };
    match done {
        // Whoever read it has seen enough.
        Err(error) if error.is_broken_pipe() => Ok(()),
        done => done.map_err(|error| {
            let what = format!("cannot write the report to `{}`", path.safe());
            CliError::could_not(anyhow::Error::new(error).context(what))
        }),
    }
}
