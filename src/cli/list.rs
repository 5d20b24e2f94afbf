//! `list`: the stored runs.

use super::error::CliError;
use super::exit::Exit;
use crate::policy;
use crate::report::{Report, words};
use crate::store::{self, Folder, default_root};
use crate::term;
use crate::untrusted::Untrusted as _;
use clap::Args;

/// List the stored runs, the newest last
#[derive(Args)]
#[command(after_help = "Examples:\n  provoke list")]
pub(super) struct List {}

impl List {
    #[expect(clippy::unused_self, reason = "every command is executed alike")]
    pub(super) fn execute(self) -> Result<Exit, CliError> {
        let root = default_root();
        let folders = Folder::all(&root).unwrap_or_default();
        if folders.is_empty() {
            term::say(&format!("there are no runs in `{}`", root.safe()));
        }
        for folder in folders {
            let line = match store::read(&folder.journal(), policy::is_done, |_, _| {}) {
                Ok(state) => about(&Report::new(&state, true)),
                Err(error) => error.to_string(),
            };
            term::tell(&format!("{}  {}\n", folder.name().safe(), line.safe()))
                .map_err(CliError::could_not)?;
        }
        Ok(Exit::Hoped)
    }
}

fn about(report: &Report) -> String {
    let trials: u64 = report.variants.iter().map(|variant| variant.trials).sum();
    let failures: u64 = report.variants.iter().map(|variant| variant.failures).sum();
    let verdict = report.answer.as_ref().map_or(String::new(), |_| {
        format!("  {}", words::verdict(report.verdict))
    });
    let open = if report.finished {
        ""
    } else {
        " (interrupted)"
    };
    let command = words::sanitize(&report.command);
    format!("{failures}/{trials} failed{open}{verdict}  {command}")
}
