//! `list`: shows the stored runs.

use super::error::CliError;
use super::exit::Exit;
use crate::report::{RunListing, relative_time};
use crate::store::{self, RunFolder, StoreError, default_root};
use crate::term::{self, StoredRun};
use crate::untrusted::{Untrusted as _, shell_word};
use crate::words;
use clap::Args;
use jiff::{Timestamp, Zoned, tz::TimeZone};
use std::path;

/// List the stored runs, the newest last
///
/// The first column is the shortest text that names the run in other commands. In the column CRASH, `+1` means that one
/// more kind of failure was seen. Runs are stored in the directory in which provoke was started.
#[derive(Args)]
#[command(after_help = "Examples:\n  provoke list")]
pub(super) struct ListArgs {}

impl ListArgs {
    #[expect(clippy::unused_self, reason = "every command is executed alike")]
    pub(super) fn execute_command(self) -> Result<Exit, CliError> {
        let root = default_root();
        let folders = RunFolder::all_runs(&root).unwrap_or_default();
        if folders.is_empty() {
            term::print_message(&format!("there are no runs in `{}`", root.to_safe()));
            print_runs_nearby();
            return Ok(Exit::Hoped);
        }
        let references = RunFolder::shortest_references(&folders, &root);
        let now = Zoned::now();
        let mut errors: Vec<StoreError> = Vec::new();
        let mut runs = Vec::new();
        for (folder, reference) in folders.iter().zip(references) {
            let state = store::read_run(&folder.journal_path(), |_, _| {})
                .map_err(|error| errors.push(error))
                .ok();
            runs.push(StoredRun {
                reference: shell_word(reference.as_ref()).into_string(),
                when: state
                    .as_ref()
                    .map_or(String::new(), |state| format_start_time(state.begun, &now)),
                listing: state.as_ref().map(RunListing::new),
            });
        }
        term::print_result(&term::format_runs(&runs)).map_err(CliError::could_not)?;
        let count = words::format_count(runs.len() as u64, "run");
        let last = RunFolder::find_run("last", &root).map_or(String::new(), |last| {
            format!("; `last` is {}", last.run_name().to_safe())
        });
        let folder = path::absolute(&root).unwrap_or(root);
        term::print_message(&format!("{count} in `{}`{last}", folder.to_safe()));
        print_runs_nearby();
        for error in errors {
            term::print_message(&format!("warning: {}", error.to_string().to_safe()));
        }
        Ok(Exit::Hoped)
    }
}

/// Maximum number of other directories that are named.
const NAMED: usize = 5;

/// Names the directories directly below and above this one that contain runs.
fn print_runs_nearby() {
    let nearby = store::runs_nearby();
    let Some((first, _)) = nearby.first() else {
        return;
    };
    let count: usize = nearby.iter().map(|(_, runs)| runs).sum();
    let mut names: Vec<String> = nearby
        .iter()
        .take(NAMED)
        .map(|(folder, _)| format!("{}/", folder.to_safe()))
        .collect();
    if nearby.len() > NAMED {
        names.push("…".to_owned());
    }
    term::print_message(&format!(
        "{} in {}: cd {} && provoke list",
        words::plural_of(count as u64, "more run", "more runs"),
        names.join(", "),
        shell_word(first.as_os_str())
    ));
}

/// Formats the start of a run, given in seconds since 1970.
fn format_start_time(seconds: i64, now: &Zoned) -> String {
    let at = Timestamp::from_second(seconds).unwrap_or_default();
    relative_time(&at.to_zoned(TimeZone::system()), now)
}
