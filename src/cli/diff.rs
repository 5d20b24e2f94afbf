//! `diff`: shows the differences between two runs, or the facts that distinguish several.

use super::ci_flags::verdict_level;
use super::execute::Execute;
use super::exit::Exit;
use crate::experiment::{
    CiServer, compare_many_runs, compare_two_runs, is_program, show_text_on_github,
};
use crate::suggest::programs_as_runs;
use crate::term;
use clap::Args;
use provoke_report::{Annotation, summarize_document};
use provoke_words::diagnostic::Diagnostic;
use std::env;

/// Show how the failure rates and the environments of runs differ
///
/// The most suspicious difference comes first. Fisher's exact test tells whether the failure rates may
/// differ by chance, if the runs were made under the same conditions.
///
/// Compares the builds of the program and of its libraries, the packages of its language, environment
/// variables, limits, kernel settings and machines. For three runs or more, for example from several
/// machines, it shows which facts distinguish failing runs from passing ones. Exits with 1 if failure
/// rates, tests or relevant facts differ, with 3 if the rates cannot be compared and no fact differs,
/// and with 0 otherwise.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct DiffArgs {
    /// A run: its directory, its name, the start or end of the name, or `last`
    #[arg(value_name = "RUN")]
    left: String,
    /// The run to compare it with
    #[arg(value_name = "RUN")]
    right: String,
    /// More runs
    #[arg(value_name = "RUN")]
    more: Vec<String>,
    /// Show long lists, minor differences, and values that may be secrets
    #[arg(long)]
    all: bool,
    /// Exit with 1 only if the second run, or a test of it, fails more often
    #[arg(long, conflicts_with = "more")]
    worse: bool,
    /// Print the runs and every difference as JSON
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  Compare the last run with an earlier one:
    provoke diff 20261122-035210-ecbc last
  Fail in CI if a flaky test got worse:
    provoke diff --worse monday last
  Compare runs from several machines, copied to one directory:
    provoke diff runs/host1 runs/host2 runs/host3";

impl Execute for DiffArgs {
    fn execute_command(self) -> Result<Exit, Diagnostic> {
        let programs = programs_as_runs(&[&self.left, &self.right], is_program);
        let result = self.compare_runs();
        result.map_err(|error| programs.map_or(error, Into::into))
    }
}

impl DiffArgs {
    fn compare_runs(self) -> Result<Exit, Diagnostic> {
        let (printed, exit) = if self.more.is_empty() {
            let compared = compare_two_runs(&self.left, &self.right, self.all)?;
            let document = compared.document(self.all);
            let summary = summarize_document(&document, 2);
            let headline = document.headline.clone();
            let printed = if self.json {
                term::print_result(&compared.to_json())
            } else {
                term::print_page(&term::format_documents(&[document], term::stdout_width()))
            };
            let is_bad = if self.worse {
                compared.is_worse()
            } else {
                compared.is_different()
            };
            let exit = is_bad.map_or(Exit::Undecided, |is_bad| Exit::good_if(!is_bad));
            show_on_server(headline, &summary, exit)?;
            (printed, exit)
        } else {
            let names = [self.left, self.right].into_iter().chain(self.more);
            let compared = compare_many_runs(&names.collect::<Vec<_>>())?;
            let text = if self.json {
                compared.to_json()
            } else {
                term::format_documents(&[compared.document()], term::stdout_width())
            };
            let exit = Exit::good_if(compared.by.is_empty());
            (term::print_result(&text), exit)
        };
        printed?;
        Ok(exit)
    }
}

/// Shows the answer on the page of a job of GitHub Actions.
fn show_on_server(text: String, summary: &str, exit: Exit) -> Result<(), Diagnostic> {
    let variable = |name: &str| env::var_os(name);
    if CiServer::of_environment(variable) == Some(CiServer::GitHub) {
        show_text_on_github(summary, variable)?;
        term::print_annotations(&[Annotation {
            level: verdict_level(exit),
            title: "Failure rates".to_owned(),
            text,
            source: None,
        }]);
    }
    Ok(())
}
