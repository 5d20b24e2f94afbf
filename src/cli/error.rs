//! Error type of the command line: message, cause, hint and exit code.

use super::exit::Exit;
use crate::experiment::{ErrorCategory, ExperimentError};
use crate::suggest::Correction;
use crate::term;
use std::error::Error;
use std::iter;

/// An error with its exit code and its hint.
#[derive(Debug)]
pub(super) struct CliError {
    pub(super) exit: Exit,
    message: ErrorText,
    hint: Option<String>,
}

#[derive(Debug)]
enum ErrorText {
    Chain {
        error: String,
        causes: Vec<String>,
    },
    /// Complete text with its own layout.
    Rendered(String),
}

impl ErrorText {
    fn of_error(error: &ExperimentError) -> Self {
        let causes = iter::successors(error.source(), |&cause| cause.source());
        Self::Chain {
            error: error.to_string(),
            causes: causes.map(ToString::to_string).collect(),
        }
    }
}

impl CliError {
    /// An error in the user's input, and what to do about it.
    pub(super) fn usage(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            exit: Exit::Usage,
            message: ErrorText::Chain {
                error: message.into(),
                causes: Vec::new(),
            },
            hint: Some(hint.into()),
        }
    }

    /// An action that failed, and its cause.
    pub(super) fn could_not(message: String, cause: &dyn Error) -> Self {
        Self {
            exit: Exit::CouldNotTest,
            message: ErrorText::Chain {
                error: message,
                causes: vec![cause.to_string()],
            },
            hint: None,
        }
    }

    /// Replaces the hint.
    pub(super) fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Prints it to stderr.
    pub(super) fn print_to_stderr(&self) {
        match &self.message {
            ErrorText::Rendered(text) => term::say_as_it_is(text.trim_end()),
            ErrorText::Chain { error, causes } => term::print_error(error, causes),
        }
        if let Some(hint) = &self.hint {
            term::print_hint(hint);
        }
    }
}

impl<E: Into<ExperimentError>> From<E> for CliError {
    fn from(error: E) -> Self {
        let error: ExperimentError = error.into();
        let exit = match error.category() {
            ErrorCategory::Usage => Exit::Usage,
            ErrorCategory::Undecided => Exit::Undecided,
            ErrorCategory::CouldNotTest => Exit::CouldNotTest,
        };
        let (message, hint) = if let ExperimentError::ScenarioFile(error) = &error {
            let text = error.render_message(term::stderr_has_colours());
            (ErrorText::Rendered(text), None)
        } else {
            let hint = error.hint().map(|hint| hint.with_typed_words());
            (ErrorText::of_error(&error), hint)
        };
        Self {
            exit,
            message,
            hint,
        }
    }
}

impl From<Correction> for CliError {
    fn from(correction: Correction) -> Self {
        Self::usage(correction.what, correction.hint)
    }
}
