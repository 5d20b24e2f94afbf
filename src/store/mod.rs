//! Stores a run: a folder with the journal and the evidence.
//!
//! ```text
//! provoke-out/20261121-043012-a1b2/
//!   events.jsonl     the journal: everything known, one event a line, only ever added to
//!   trials/17/       of trials worth keeping: stdout, stderr, and the trial's own folder
//!   variants/1/      the copy of its working folder that a variant with other files runs in
//! provoke-out/last   a link to the newest run
//! ```
//!
//! A line is one `write` at its end, so whatever kills provoke costs at most the
//! line that was being written; that torn line is cut off when the run is resumed.
//! A journal in which a line was changed, removed, repeated or moved is refused with the number of
//! that line: no command computes anything from it.

mod folder;
mod journal;
mod lines;
mod secrets;
mod sequence;
mod trust;

pub use folder::{Folder, default_root, let_through};
pub use journal::{Journal, copy_to_share, events, first_event, masked_events, read, read_masked};
pub use secrets::{Secrets, Shared, strip_environment};
pub use trust::Distrust;

use crate::model::TrialId;
use crate::untrusted::{Untrusted as _, shell_word};
use std::path::PathBuf;

/// What can go wrong with what is stored.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A folder or file cannot be made or written.
    #[error("cannot {what} `{}`", path.safe())]
    Io {
        /// What was tried.
        what: &'static str,
        /// With what.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// Another process writes to this run.
    #[error("the run `{}` is still being written by another provoke", .0.safe())]
    Busy(PathBuf),
    /// A new run was to go where something is.
    #[error("the directory `{}` is not empty", .0.safe())]
    NotEmpty(PathBuf),
    /// There is no such run.
    #[error("there is no run `{}` in `{}`", name.safe(), root.safe())]
    NoRun {
        /// What was asked for.
        name: String,
        /// Where.
        root: PathBuf,
    },
    /// Several runs begin with what was asked for.
    #[error("`{}` matches several runs: {}", name.safe(), several.join(", ").safe())]
    Ambiguous {
        /// What was asked for.
        name: String,
        /// Which ones.
        several: Vec<String>,
    },
    /// Its commands may not be the caller's.
    #[error("the commands of the run `{}` are not trusted: {why}", path.safe())]
    Untrusted {
        /// Its folder.
        path: PathBuf,
        /// Why not.
        why: Distrust,
    },
    /// The journal is not as it was written.
    #[error("{}:{line}: the journal is damaged: {damage}", path.safe())]
    Damaged {
        /// The journal.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// Where that line begins, in bytes.
        start: u64,
        /// The damage.
        damage: Damage,
    },
    /// The journal does not begin as one.
    #[error("`{}` is not a journal of this program", .0.safe())]
    NotAJournal(PathBuf),
    /// The journal is of another version of the format.
    #[error("`{}` has format {found}; this program reads format {}", path.safe(), crate::model::FORMAT)]
    Format {
        /// The journal.
        path: PathBuf,
        /// Its format.
        found: u32,
    },
}

impl StoreError {
    /// Returns the way out, where there is one.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Io { .. } => "choose another place with `--out DIR` or PROVOKE_HOME".to_owned(),
            Self::Busy(_) => {
                "wait until it ends, or stop it with Ctrl-C and use `provoke resume`".to_owned()
            }
            Self::NotEmpty(_) => {
                "choose a new directory, or use `provoke resume` to continue the run in it"
                    .to_owned()
            }
            Self::NoRun { name, .. } if is_trial(name) => {
                format!(
                    "to explain the trial: provoke explain {}",
                    shell_word(name.as_ref())
                )
            }
            Self::NoRun { root, .. } if Folder::all(root).is_ok_and(|runs| !runs.is_empty()) => {
                "`provoke list` shows the stored runs".to_owned()
            }
            Self::NoRun { .. } => {
                "no run is stored here: go to the directory in which it ran, or set PROVOKE_HOME"
                    .to_owned()
            }
            Self::Untrusted { path, .. } => format!(
                "inspect it first: provoke report {}\n      if you trust its commands, add --trust",
                shell_word(path.as_os_str())
            ),
            Self::Ambiguous { .. } => "give more of the name".to_owned(),
            Self::Damaged { line: 1, .. } => "restore the file from a copy".to_owned(),
            Self::Damaged {
                path, line, start, ..
            } => format!(
                "restore the file from a copy; to resume the run from the {} lines before this one instead, keep a copy and run:\n  truncate -s {start} {}",
                line - 1,
                shell_word(path.as_os_str()),
            ),
            Self::NotAJournal(_) => "give the directory or the name of a run, or `last`".to_owned(),
            Self::Format { .. } => "use the version of provoke that made the run".to_owned(),
        })
    }
}

/// True for `RUN#17`.
fn is_trial(name: &str) -> bool {
    let id = name.rsplit_once('#').map(|(_, id)| id.parse::<u64>());
    id.is_some_and(|id| id.is_ok())
}

/// The damage that a line of a journal shows.
#[derive(Debug, thiserror::Error)]
pub enum Damage {
    /// The line is not an event.
    #[error("cannot parse this line: {0}")]
    Unreadable(serde_json::Error),
    /// The checksum covers other lines than these.
    #[error("the checksum of this line is wrong: a line was changed, removed, repeated or moved")]
    Checksum,
    /// The checksum is missing.
    #[error("this line has no checksum, but lines before it have one")]
    NoChecksum,
    /// The line is longer than any event.
    #[error("this line is longer than {} MiB", lines::LONGEST_LINE >> 20)]
    TooLong,
    /// The first line is there again.
    #[error("the run starts twice")]
    SecondStart,
    /// The start of a trial is missing.
    #[error("the start of trial {0} is missing")]
    Skipped(TrialId),
    /// A trial starts that runs or has ended.
    #[error("trial {0} starts twice")]
    Repeated(TrialId),
    /// A trial ends that does not run.
    #[error("trial {0} ends but was not running")]
    NeverStarted(TrialId),
    /// The run ends before a trial of it.
    #[error("the run ends, but the end of trial {0} is missing")]
    NeverEnded(TrialId),
    /// The run was over.
    #[error("the run had ended before this line")]
    AfterTheEnd,
}
