//! Error if cases cannot be found in the trials of a command.

/// Why cases cannot be found in the trials of a command.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct CaseSetupError {
    /// What cannot be done.
    pub message: String,
    /// The way out.
    pub hint: String,
}

pub(super) fn refuse(message: impl Into<String>, hint: impl Into<String>) -> CaseSetupError {
    CaseSetupError {
        message: message.into(),
        hint: hint.into(),
    }
}

pub(super) fn refuse_shell_line(title: &str) -> CaseSetupError {
    refuse(
        format!("`{title}` needs an argument of provoke, which a shell line has no place for"),
        "give the command without a shell: -- CMD ARG...",
    )
}
