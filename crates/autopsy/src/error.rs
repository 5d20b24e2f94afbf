//! Errors of a core that cannot be read at all.

use provoke_model::Text;
use provoke_words::diagnostic::{Diagnostic, ErrorCategory};
use provoke_words::untrusted::Untrusted as _;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::path::Path;

/// Reason why a core cannot be read at all; information that is merely missing is a gap in the
/// analysis.
#[derive(Debug, Serialize, Deserialize, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum CoreError {
    #[error("cannot read `{}`: {reason}", path.as_os_str().to_safe())]
    Unreadable { path: Text, reason: String },
    #[error("`{}` is not a core file: {why}", path.as_os_str().to_safe())]
    NoCore { path: Text, why: Cow<'static, str> },
    #[error(
        "the core `{}` is broken: {why}; was the disk full, or the limit on cores too low (`ulimit -c`)?",
        path.as_os_str().to_safe()
    )]
    Broken { path: Text, why: Cow<'static, str> },
    #[error(
        "the core `{}` is from {what}; provoke reads only cores of 64-bit x86 programs; use a debugger on that machine",
        path.as_os_str().to_safe()
    )]
    Foreign { path: Text, what: String },
    #[error("cannot analyse `{}`: {why}", path.as_os_str().to_safe())]
    Unfinished { path: Text, why: String },
}

impl CoreError {
    /// Returns the error for a core that does not name its process.
    pub(super) fn without_owner(path: &Path) -> Self {
        Self::Broken {
            path: path.into(),
            why: "it does not contain a process ID".into(),
        }
    }
}

impl From<CoreError> for Diagnostic {
    fn from(error: CoreError) -> Self {
        let category = match error {
            CoreError::NoCore { .. } | CoreError::Unreadable { .. } => ErrorCategory::Usage,
            _ => ErrorCategory::CouldNotTest,
        };
        let diagnostic = Self::of_error(category, &error);
        if matches!(error, CoreError::NoCore { .. }) {
            diagnostic.with_hint("to explain the last failure: provoke explain last; the kernel writes a core of a crash after `ulimit -c unlimited`")
        } else {
            diagnostic
        }
    }
}
