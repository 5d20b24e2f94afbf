//! Errors of a core that cannot be read at all.

use provoke_sys::untrusted::Untrusted as _;
use std::io;
use std::path::{Path, PathBuf};

/// Reason why a core cannot be read at all; information that is merely missing is a gap in the
/// analysis.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum CoreError {
    #[error("cannot read `{}`: {reason}", path.to_safe())]
    Unreadable { path: PathBuf, reason: io::Error },
    #[error("`{}` is not a core file: {why}", path.to_safe())]
    NoCore { path: PathBuf, why: &'static str },
    #[error(
        "the core `{}` is broken: {why}; was the disk full, or the limit on cores too low (`ulimit -c`)?",
        path.to_safe()
    )]
    Broken { path: PathBuf, why: &'static str },
    #[error(
        "the core `{}` is from {what}; provoke reads only cores of 64-bit x86 programs; use a debugger on that machine",
        path.to_safe()
    )]
    Foreign { path: PathBuf, what: String },
}

impl CoreError {
    /// Returns the error for a core that does not name its process.
    pub(super) fn without_owner(path: &Path) -> Self {
        Self::Broken {
            path: path.to_owned(),
            why: "it does not contain a process ID",
        }
    }
}
