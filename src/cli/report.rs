//! `report`: writes the result of a run in the chosen format.

use super::args::parse_one_of;
use super::execute::Execute;
use super::exit::Exit;
use super::export_flags::{ExportFlags, RESULT};
use crate::experiment::{self, ReportTarget, StoredReport};
use crate::suggest::file_of_flag;
use crate::term;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use provoke_journal::{SharedData, default_root};
use provoke_model::CaseName;
use provoke_report::{CaseSelection, MARKDOWN, PageOptions, RunOrder};
use provoke_runners::{Exclusion, exclusions};
use provoke_words::diagnostic::Diagnostic;
use provoke_words::untrusted::shell_word;
use std::path::PathBuf;

/// Report a run as a summary, JSON, CSV, JUnit, Markdown or a page
#[derive(Args)]
#[command(after_help = EXAMPLES, mut_args(in_short_help))]
pub(super) struct ReportArgs {
    /// Runs: directories, names, starts or ends of names, or `last`
    #[arg(default_value = "last")]
    runs: Vec<String>,
    /// Write an archive (.tar.gz) of the run, to share it
    ///
    /// Secrets are masked. Values of environment variables, cores and requests are left out unless --with
    /// adds them.
    #[arg(long, value_name = "FILE", help_heading = RESULT)]
    bundle: Option<PathBuf>,
    /// Add these to the bundle
    #[arg(long, value_name = "WHAT", value_delimiter = ',', requires = "bundle", help_heading = RESULT)]
    with: Vec<BundleExtra>,
    /// Order several runs
    #[arg(long, value_name = "ORDER", value_parser = parse_one_of(ORDERS), help_heading = RESULT)]
    by: Option<RunOrder>,
    /// Begin the title of the page with TEXT
    #[arg(long, value_name = "TEXT", help_heading = RESULT)]
    title: Option<String>,
    /// Leave the output of trials out of the page
    #[arg(long, help_heading = RESULT)]
    no_output: bool,
    /// Show the name of the machine on the page
    #[arg(long, help_heading = RESULT)]
    with_host: bool,
    /// Show every test of the suite, those that match GLOB, or the `failing` ones
    #[arg(
        long, value_name = "GLOB", num_args = 0..=1, require_equals = true,
        default_missing_value = "", help_heading = RESULT,
    )]
    cases: Option<String>,
    /// Print these tests as arguments with which a runner leaves them out
    ///
    /// For example: pytest $(provoke report last --cases=failing --format pytest-deselect)
    #[arg(long, value_name = "FORMAT", value_parser = parse_format(), requires = "cases", help_heading = RESULT)]
    format: Option<Exclusion>,
    /// Print only the result
    #[arg(short, long, help_heading = RESULT)]
    quiet: bool,
    #[command(flatten)]
    exports: ExportFlags,
}

const EXAMPLES: &str = "\
Examples:
  Write a bug report:
    provoke report last --md=issue.md
  Show it in a browser:
    provoke report last --html=report.html
  Compare the failure rates of several runs:
    provoke report monday tuesday --html=trend.html
  List every test of a suite:
    provoke report last --cases
  Share a run:
    provoke report last --bundle run.tar.gz";

/// Shows a flag in the short help, unlike `run`, unless few need it.
fn in_short_help(flag: clap::Arg) -> clap::Arg {
    let rare = ["csv-cases", "junit-trials", "svg"];
    let hide = rare.iter().any(|name| flag.get_id() == *name);
    flag.hide_short_help(hide)
}

fn parse_format() -> impl TypedValueParser<Value = Exclusion> {
    PossibleValuesParser::new(exclusions().map(|form| form.name)).map(|name| {
        let form = exclusions().find(|form| form.name == name);
        form.expect("the parser accepts only these names")
    })
}

/// What puts runs in order.
const ORDERS: [(&str, RunOrder); 2] = [("time", RunOrder::Time), ("commit", RunOrder::Commit)];

/// Contents of a bundle that must be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum BundleExtra {
    Environment,
    Cores,
    Requests,
}

impl Execute for ReportArgs {
    fn execute_command(self) -> Result<Exit, Diagnostic> {
        self.check_page_flags()?;
        if self.runs.len() > 1
            && self.bundle.is_none()
            && let Some(target) = self.exports.0.only_page()
        {
            return self.report_trend(target);
        }
        let reports = &self.exports.0;
        let to_files =
            self.bundle.is_some() || reports.pictures.is_some() || reports.files().next().is_some();
        if self.runs.len() > 1 && to_files {
            return Err(Diagnostic::usage("cannot write several runs to one file")
                .with_hint("report one run at a time, or write to stdout"));
        }
        self.exports.check_stdout(&self.runs[0])?;
        for stored in self.read_ordered()? {
            self.report_run(&stored)?;
        }
        Ok(Exit::GoodAnswer)
    }
}

impl ReportArgs {
    /// Reads the runs and puts them in order.
    fn read_ordered(&self) -> Result<Vec<StoredReport>, Diagnostic> {
        let mut stored = (self.runs.iter())
            .map(|run| read_run(run).map(StoredReport::with_closed_folder))
            .collect::<Result<Vec<StoredReport>, Diagnostic>>()?;
        experiment::order_runs(&mut stored, self.by.unwrap_or(RunOrder::Given))?;
        Ok(stored)
    }

    /// Refuses flags of a page without a page.
    fn check_page_flags(&self) -> Result<(), Diagnostic> {
        let flags = [
            ("--title", self.title.is_some()),
            ("--no-output", self.no_output),
            ("--with-host", self.with_host),
        ];
        let given = flags.into_iter().find(|(_, is_given)| *is_given);
        match given {
            Some((flag, _)) if !self.exports.0.has_pictures() => {
                Err(Diagnostic::usage(format!("{flag} is for a page"))
                    .with_hint("write one with `--html=report.html`"))
            }
            _ => Ok(()),
        }
    }

    /// Writes a page about several runs.
    fn report_trend(&self, target: &ReportTarget) -> Result<Exit, Diagnostic> {
        let stored = self.read_ordered()?;
        let order = self.by.unwrap_or(RunOrder::Given);
        let file = experiment::write_trend(&stored, order, &self.page_options(), target)?;
        self.print_names(file.as_slice());
        Ok(Exit::GoodAnswer)
    }

    fn report_run(&self, stored: &StoredReport) -> Result<(), Diagnostic> {
        let (folder, report) = (&stored.folder, &stored.report);
        if let Some(file) = &self.bundle {
            let shared = SharedData {
                environment: self.with.contains(&BundleExtra::Environment),
                cores: self.with.contains(&BundleExtra::Cores),
                requests: self.with.contains(&BundleExtra::Requests),
            };
            experiment::write_bundle(folder, report, shared, file)?;
            term::print_bundle(file, shared);
        }
        let reports = &self.exports.0;
        if reports.has_format(&MARKDOWN) {
            term::print_baseline_hint(report);
        }
        let files = reports.write_reports(folder, &stored.state, report, self.page_options())?;
        self.print_names(&files);
        if self.bundle.is_some() || !reports.is_empty() {
            return Ok(());
        }
        if let Some(selection) = &self.cases {
            return self.print_cases(stored, &CaseSelection::from_text(selection));
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

    /// Prints the selected tests of the suite.
    fn print_cases(
        &self,
        stored: &StoredReport,
        selection: &CaseSelection,
    ) -> Result<(), Diagnostic> {
        let report = &stored.report;
        if report
            .variants
            .iter()
            .all(|variant| variant.suite.is_none())
        {
            let run = shell_word(report.reference.as_ref());
            return Err(Diagnostic::usage(format!("the run `{run}` has no tests"))
                .with_hint("count the tests of a suite with: provoke run --cases -- CMD"));
        }
        let cases = selection.select_cases(&report.variants);
        let page = match self.format {
            Some(form) => {
                let names: Vec<&CaseName> = cases.iter().map(|case| &case.case).collect();
                (form.write)(&names) + "\n"
            }
            None => term::format_cases(report, selection, term::stdout_width()),
        };
        Ok(term::print_page(&page)?)
    }

    /// Returns the choices for a page.
    fn page_options(&self) -> PageOptions {
        PageOptions {
            title: self.title.clone(),
            without_output: self.no_output,
            with_host: self.with_host,
            ..PageOptions::default()
        }
    }

    fn print_names(&self, files: &[PathBuf]) {
        if !self.quiet {
            term::print_written_files(files);
        }
    }
}

/// Reads a run by its name.
fn read_run(run: &str) -> Result<StoredReport, Diagnostic> {
    StoredReport::read(run).map_err(|error| match file_of_flag(run.as_ref()) {
        Some(flag) => error.with_hint(format!("did you mean `{flag}`?")),
        None => error,
    })
}
