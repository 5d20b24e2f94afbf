//! Flag for CI servers: a summary of the step, and annotations.

use super::exit::Exit;
use super::export_flags::RESULT;
use crate::experiment::{CiServer, FinishedRun, show_on_github};
use crate::term;
use clap::{Args, ValueEnum};
use provoke_report::AnnotationLevel;
use std::env;

/// Flags for the output on a CI server.
#[derive(Args, Clone, Debug, Default)]
pub(super) struct CiFlags {
    /// Show the result on the page of a CI job [default: auto]
    ///
    /// `github` appends the report to the file in GITHUB_STEP_SUMMARY, and writes annotations: the verdict, and up to
    /// nine failures at their source lines. `gitlab` names the report that a merge request shows. `auto` chooses by
    /// the environment (GITHUB_ACTIONS, GITLAB_CI), but not within a trial of provoke.
    #[arg(
        long, value_name = "auto|github|gitlab|off", value_enum, default_value_t, hide_default_value = true,
        hide_possible_values = true, num_args = 0..=1, require_equals = true, default_missing_value = "auto",
        help_heading = RESULT, hide_short_help = true,
    )]
    ci: CiChoice,
}

/// The chosen CI server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum CiChoice {
    /// By the environment.
    #[default]
    Auto,
    Github,
    Gitlab,
    Off,
}

impl CiFlags {
    /// Shows the result of a run on the page of the job. A problem is a warning: the result itself is already printed.
    pub(super) fn show_result(&self, run: &FinishedRun, exit: Exit, has_junit: bool) {
        let server = match self.ci {
            CiChoice::Auto => CiServer::of_environment(|name| env::var_os(name)),
            CiChoice::Github => Some(CiServer::GitHub),
            CiChoice::Gitlab => Some(CiServer::GitLab),
            CiChoice::Off => None,
        };
        match server {
            Some(CiServer::GitHub) => {
                let level = verdict_level(exit);
                let (annotations, warnings) = show_on_github(run, level, |name| env::var_os(name));
                term::print_annotations(&annotations);
                for warning in warnings {
                    term::print_message(&format!("warning: {warning}"));
                }
            }
            Some(CiServer::GitLab) if !has_junit => term::print_message(
                "hint: a merge request shows the failures if the job has `--junit=provoke.xml`, and this file as \
                 `artifacts:reports:junit`",
            ),
            Some(CiServer::GitLab) | None => {}
        }
    }
}

pub(super) fn verdict_level(exit: Exit) -> AnnotationLevel {
    match exit {
        Exit::GoodAnswer => AnnotationLevel::Notice,
        Exit::Undecided | Exit::Stopped(_) => AnnotationLevel::Warning,
        Exit::OtherAnswer | Exit::Usage | Exit::CouldNotTest => AnnotationLevel::Error,
    }
}
