//! Error type of the command line: message, cause, hint and exit code.

use super::exit::Exit;
use crate::prepare::PreparationError;
use crate::scenario::PlanError;
use crate::store::StoreError;
use crate::term::{print_message, say_as_it_is};
use crate::untrusted::SafeText;
use console::style;

/// An error with its exit code and its hint.
#[derive(Debug)]
pub(super) struct CliError {
    pub(super) exit: Exit,
    what: ErrorText,
    hint: Option<String>,
}

#[derive(Debug)]
enum ErrorText {
    Chain(anyhow::Error),
    /// Complete text with its own layout.
    Rendered(String),
}

impl CliError {
    /// An error in the user's input.
    pub(super) fn usage(error: impl Into<anyhow::Error>) -> Self {
        Self {
            exit: Exit::Usage,
            what: ErrorText::Chain(error.into()),
            hint: None,
        }
    }

    /// The answer cannot be determined, whatever the outcomes of the trials.
    pub(super) fn undecided(error: impl Into<anyhow::Error>) -> Self {
        Self {
            exit: Exit::Undecided,
            what: ErrorText::Chain(error.into()),
            hint: None,
        }
    }

    /// The experiment could not be run.
    pub(super) fn could_not(error: impl Into<anyhow::Error>) -> Self {
        Self {
            exit: Exit::CouldNotTest,
            what: ErrorText::Chain(error.into()),
            hint: None,
        }
    }

    /// An error with its own layout.
    pub(super) fn already_rendered(text: String) -> Self {
        Self {
            exit: Exit::Usage,
            what: ErrorText::Rendered(text),
            hint: None,
        }
    }

    /// Adds a hint.
    pub(super) fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Returns the error in one line: the message, and the innermost cause.
    pub(super) fn in_a_line(&self) -> String {
        match &self.what {
            ErrorText::Rendered(text) => text.clone(),
            ErrorText::Chain(error) => {
                let cause = error.chain().nth(1).map(ToString::to_string);
                let cause = cause.as_deref().and_then(|cause| cause.lines().last());
                cause.map_or_else(|| error.to_string(), |cause| format!("{error}: {cause}"))
            }
        }
    }

    /// Prints it to stderr.
    pub(super) fn print_to_stderr(&self) {
        match &self.what {
            ErrorText::Rendered(text) => say_as_it_is(text.trim_end()),
            ErrorText::Chain(error) => {
                let what = SafeText::from_lines(&error.to_string());
                print_message(&format!("{} {what}", style("error:").red().bold()));
                for cause in error.chain().skip(1) {
                    print_message(&format!(
                        "  caused by: {}",
                        SafeText::from_lines(&cause.to_string())
                    ));
                }
            }
        }
        if let Some(hint) = &self.hint {
            let hint = SafeText::from_lines(hint);
            print_message(&format!("\n{} {hint}", style("hint:").green().bold()));
        }
    }
}

impl From<StoreError> for CliError {
    fn from(error: StoreError) -> Self {
        let hint = error.hint();
        let error = match error {
            StoreError::NoRun { .. }
            | StoreError::Ambiguous { .. }
            | StoreError::Untrusted { .. }
            | StoreError::NotAJournal(_) => Self::usage(error),
            _ => Self::could_not(error),
        };
        Self { hint, ..error }
    }
}

impl From<PreparationError> for CliError {
    fn from(unready: PreparationError) -> Self {
        let hint = unready.hint().map(str::to_owned);
        let error = match unready {
            PreparationError::Refused { .. } => Self::usage(unready),
            PreparationError::Io { .. } => Self::could_not(unready),
        };
        Self { hint, ..error }
    }
}

/// Converts it to a refusal of the scenario.
pub(super) fn into_refusal(unready: PreparationError) -> PlanError {
    match unready {
        PreparationError::Refused { what, at, hint } => PlanError { what, at, hint },
        io @ PreparationError::Io { .. } => PlanError {
            what: io.to_string(),
            at: Vec::new(),
            hint: io.hint().unwrap_or_default().to_owned(),
        },
    }
}

impl From<PlanError> for CliError {
    fn from(refusal: PlanError) -> Self {
        let hint = refusal.hint.clone();
        Self::usage(refusal).with_hint(hint)
    }
}
