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
/// The first column is the shortest text that names the run in other commands.
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
        let folder = path::absolute(&root).unwrap_or(root);
        term::print_message(&format!("{count} in `{}`", folder.to_safe()));
        for error in errors {
            term::print_message(&format!("warning: {}", error.to_string().to_safe()));
        }
        Ok(Exit::Hoped)
    }
}

/// Formats the start of a run, given in seconds since 1970.
fn format_start_time(seconds: i64, now: &Zoned) -> String {
    let at = Timestamp::from_second(seconds).unwrap_or_default();
    relative_time(&at.to_zoned(TimeZone::system()), now)
}
