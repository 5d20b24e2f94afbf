//! Error of a host that cannot run trials.

use provoke_words::diagnostic::{Diagnostic, ErrorCategory};
use provoke_words::untrusted::Untrusted as _;

/// Why trials cannot run on a host.
#[derive(Debug, thiserror::Error)]
#[error("cannot run trials on `{}`: {}", host.to_safe(), reason.to_safe())]
pub struct HostError {
    /// The host.
    pub host: String,
    /// The reason.
    pub reason: String,
    /// What to do about it.
    pub hint: Option<String>,
}

impl HostError {
    /// Creates an error without a hint.
    pub fn new(host: &str, reason: impl Into<String>) -> Self {
        Self {
            host: host.to_owned(),
            reason: reason.into(),
            hint: None,
        }
    }

    /// Adds what to do about it.
    #[must_use]
    pub fn with_hint(self, hint: impl Into<String>) -> Self {
        Self {
            hint: Some(hint.into()),
            ..self
        }
    }

    /// Creates the error of a plan with hosts that this transport cannot have.
    pub(super) fn of_other_hosts(transport: &str) -> Self {
        Self::new(transport, "the plan has hosts of another transport")
    }
}

impl From<HostError> for Diagnostic {
    fn from(error: HostError) -> Self {
        let hints = error.hint.iter().cloned().collect();
        Self {
            hints,
            ..Self::of_error(ErrorCategory::CouldNotTest, &error)
        }
    }
}
