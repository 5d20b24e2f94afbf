//! Stores a run: a directory with the journal and the evidence.
//!
//! ```text
//! provoke-out/20261121-043012-a1b2/
//!   events.jsonl     the journal: all events, one per line, append-only
//!   trials/17/       of trials with kept evidence: stdout, stderr, and the trial's own directory
//!   variants/1/      the copy of the working directory in which a variant with changed files runs
//! provoke-out/last     a link to the newest run
//! provoke-out/reports  the report files that provoke wrote elsewhere
//! ```
//!
//! Each line is appended with one `write`, so if provoke is killed, at most the line that was being written is lost.
//! That incomplete line is cut off when the run is resumed. A journal in which a line was changed, removed, repeated or
//! moved is refused with the number of that line: no command computes results from it.

mod folder;
mod journal;
mod lines;
mod secrets;
mod sequence;
mod shared_data;
#[cfg(test)]
mod tests;
mod text_mask;
mod trust;
mod upgrade;
mod written_reports;

pub use folder::{RunFolder, default_root, runs_nearby};
pub use journal::{
    EventReader, Journal, RunStart, copy_to_share, read_masked, read_run, read_run_for_cases,
    read_start,
};
pub use secrets::Secrets;
pub use shared_data::{SharedData, strip_environment};
pub use trust::DistrustReason;
pub use written_reports::{remember_report, written_reports};

use provoke_model::TrialId;
use provoke_words::diagnostic::{Diagnostic, ErrorCategory};
use provoke_words::untrusted::{Untrusted as _, shell_word};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// An error of the stored data.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A directory or file could not be created or written.
    #[error("cannot {what} `{}`", path.to_safe())]
    Io {
        /// The operation.
        what: &'static str,
        /// The path.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// Another process writes to this run.
    #[error("the run `{}` is still being written by another provoke", .0.to_safe())]
    Busy(PathBuf),
    /// The directory of a new run is not empty.
    #[error("the directory `{}` is not empty", .0.to_safe())]
    NotEmpty(PathBuf),
    /// The run does not exist.
    #[error("there is no run `{}` in `{}`", name.to_safe(), root.to_safe())]
    NoRun {
        /// The given name.
        name: String,
        /// The root directory.
        root: PathBuf,
    },
    /// Several runs match the given name.
    #[error("`{}` matches several runs: {}", name.to_safe(), several.join(", ").to_safe())]
    Ambiguous {
        /// The given name.
        name: String,
        /// The runs.
        several: Vec<String>,
    },
    /// The run may come from another user, so its commands are not executed.
    #[error("the commands of the run `{}` are not trusted: {why}", path.to_safe())]
    Untrusted {
        /// Its directory.
        path: PathBuf,
        /// The reason.
        why: DistrustReason,
    },
    /// Another user owns the directory in which runs are stored by default.
    #[error("`{}` belongs to {owner}, so no run is stored there", path.to_safe())]
    ForeignRoot {
        /// The directory.
        path: PathBuf,
        /// Its owner.
        owner: String,
    },
    /// The journal was changed after it was written.
    #[error("{}:{line}: the journal is damaged: {damage}", path.to_safe())]
    Damaged {
        /// The journal.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// Offset of that line in bytes.
        start: u64,
        /// The damage.
        damage: JournalDamage,
    },
    /// The file does not begin like a journal.
    #[error("`{}` is not a journal of this program", .0.to_safe())]
    NotAJournal(PathBuf),
    /// The journal has another version of the format.
    #[error("`{}` has format {found}; this program reads format {}", path.to_safe(), provoke_model::FORMAT)]
    Format {
        /// The journal.
        path: PathBuf,
        /// Its format.
        found: u32,
    },
    /// An intact line is not an event that this version knows.
    #[error("`{}` comes from another version of provoke", path.to_safe())]
    OtherVersion {
        /// The journal.
        path: PathBuf,
        /// The cause.
        source: serde_json::Error,
    },
    /// A test runner that this version does not know reported the tests of the run.
    #[error("`{}` has the tests of `{}`, a test runner that this program does not know", path.to_safe(), runner.to_safe())]
    UnknownRunner {
        /// The journal.
        path: PathBuf,
        /// The name of the runner.
        runner: String,
    },
}

impl StoreError {
    /// Returns a function that adds the failed operation and its path to an error.
    fn io(what: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { what, path, source }
    }

    /// Returns a hint.
    pub fn hint(&self) -> String {
        match self {
            Self::Io { source, .. } if source.kind() == ErrorKind::PermissionDenied => {
                "check its permissions, or choose another place with `--out DIR` or PROVOKE_HOME"
                    .to_owned()
            }
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
            Self::NoRun { name, .. } if Path::new(name).is_dir() => format!(
                "the directory `{}` has no journal `events.jsonl`, so it is not a run",
                name.to_safe()
            ),
            Self::NoRun { root, .. }
                if RunFolder::all_runs(root).is_ok_and(|runs| !runs.is_empty()) =>
            {
                "`provoke list` shows the stored runs".to_owned()
            }
            Self::NoRun { .. } => {
                "no run is stored here: go to the directory in which it ran, set PROVOKE_HOME, or name the directory of `--out`"
                    .to_owned()
            }
            Self::Untrusted { path, .. } => format!(
                "inspect it first: provoke report {}\n      if you trust its commands, add --trust",
                shell_word(path.as_os_str())
            ),
            Self::ForeignRoot { .. } => {
                "name a directory: --out DIR, or set PROVOKE_HOME".to_owned()
            }
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
            Self::Format { .. } | Self::OtherVersion { .. } | Self::UnknownRunner { .. } => {
                "use the version of provoke that made the run".to_owned()
            }
        }
    }
}

impl From<StoreError> for Diagnostic {
    fn from(error: StoreError) -> Self {
        let category = match error {
            StoreError::NoRun { .. }
            | StoreError::Ambiguous { .. }
            | StoreError::Untrusted { .. }
            | StoreError::ForeignRoot { .. }
            | StoreError::NotAJournal(_) => ErrorCategory::Usage,
            _ => ErrorCategory::CouldNotTest,
        };
        Self::of_error(category, &error).with_hint(error.hint())
    }
}

/// Returns whether a name has the form `RUN#17`.
fn is_trial(name: &str) -> bool {
    let id = name.rsplit_once('#').map(|(_, id)| id.parse::<u64>());
    id.is_some_and(|id| id.is_ok())
}

/// The damage in a line of a journal.
#[derive(Debug, thiserror::Error)]
pub enum JournalDamage {
    /// The line is not an event.
    #[error("cannot parse this line: {0}")]
    Unreadable(serde_json::Error),
    /// The checksum does not match the lines.
    #[error("the checksum of this line is wrong: a line was changed, removed, repeated or moved")]
    Checksum,
    /// The line contains zero bytes, and no event does.
    #[error(
        "this line contains zero bytes, as a power failure leaves them in the place of data that was not on the disk yet"
    )]
    Zeros,
    /// The checksum is missing.
    #[error("this line has no checksum, but lines before it have one")]
    NoChecksum,
    /// The line is longer than any event.
    #[error("this line is longer than {} MiB", lines::LONGEST_LINE >> 20)]
    TooLong,
    /// The line names more tests than a trial can have.
    #[error("this line names more tests than a trial can have")]
    TooManyCases,
    /// The first line is repeated.
    #[error("the run starts twice")]
    SecondStart,
    /// The start of a trial is missing.
    #[error("the start of trial {0} is missing")]
    Skipped(TrialId),
    /// A trial starts that already runs or has ended.
    #[error("trial {0} starts twice")]
    Repeated(TrialId),
    /// A trial ends that is not running.
    #[error("trial {0} ends but was not running")]
    NeverStarted(TrialId),
    /// The run ends before one of its trials.
    #[error("the run ends, but the end of trial {0} is missing")]
    NeverEnded(TrialId),
    /// The run was already over.
    #[error("the run had ended before this line")]
    AfterTheEnd,
}
