//! Error if cases cannot be found in the trials of a command.

use provoke_model::CaseRunner;

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

pub(super) fn refuse_shell_line(runner: &CaseRunner) -> CaseSetupError {
    refuse(
        format!(
            "`{}` needs an argument of provoke, which a shell line has no place for",
            runner.name()
        ),
        "give the command without a shell: -- CMD ARG...",
    )
}
