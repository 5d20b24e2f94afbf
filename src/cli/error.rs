//! Error type of the command line: message, cause, hint and exit code.

use super::exit::Exit;
use crate::experiment::{ErrorCategory, ErrorHint, ExperimentError};
use crate::model::Text;
use crate::suggest::{Correction, file_of_flag, retyped_line};
use crate::term::{print_message, say_as_it_is};
use crate::untrusted::SafeText;
use console::style;

/// An error with its exit code and its hint.
#[derive(Debug)]
pub(super) struct CliError {
    pub(super) exit: Exit,
    message: ErrorText,
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
            message: ErrorText::Chain(error.into()),
            hint: None,
        }
    }

    /// The experiment could not be run.
    pub(super) fn could_not(error: impl Into<anyhow::Error>) -> Self {
        Self {
            exit: Exit::CouldNotTest,
            message: ErrorText::Chain(error.into()),
            hint: None,
        }
    }

    /// Adds a hint.
    pub(super) fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Prints it to stderr.
    pub(super) fn print_to_stderr(&self) {
        match &self.message {
            ErrorText::Rendered(text) => say_as_it_is(text.trim_end()),
            ErrorText::Chain(error) => {
                let text = SafeText::from_lines(&error.to_string());
                print_message(&format!("{} {text}", style("error:").red().bold()));
                for cause in error.chain().skip(1) {
                    print_message(&format!(
                        "  caused by: {}",
                        SafeText::from_lines(&cause.to_string())
                    ));
                }
            }
        }
        if let Some(hint) = &self.hint {
            print_hint(hint);
        }
    }
}

/// Prints a hint below an error to stderr.
pub(super) fn print_hint(hint: &str) {
    let hint = SafeText::from_lines(hint);
    print_message(&format!("\n{} {hint}", style("hint:").green().bold()));
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
            let text = error.render_message(console::colors_enabled_stderr());
            (ErrorText::Rendered(text), None)
        } else if let Some((name, flag)) = file_as_program(&error) {
            let error = anyhow::anyhow!("cannot run `{name}`: it is not a program");
            let hint = format!("did you mean `{flag}`?");
            (ErrorText::Chain(error), Some(hint))
        } else {
            let hint = error.hint().map(|hint| with_typed_words(&hint));
            (ErrorText::Chain(error.into()), hint)
        };
        Self {
            exit,
            message,
            hint,
        }
    }
}

/// Returns the missing program that is the file of a flag, and that flag.
fn file_as_program(error: &ExperimentError) -> Option<(&Text, String)> {
    let ExperimentError::Check(check) = error else {
        return None;
    };
    let name = check.missing_program.as_ref()?;
    Some((name, file_of_flag(name.as_os_str())?))
}

/// Returns a hint with the words of the command line that it keeps.
fn with_typed_words(hint: &ErrorHint) -> String {
    match &hint.command {
        Some(command) => format!("{}{}", hint.text, retyped_line(&command.from, &command.end)),
        None => hint.text.clone(),
    }
}

impl From<Correction> for CliError {
    fn from(correction: Correction) -> Self {
        Self::usage(anyhow::Error::msg(correction.what)).with_hint(correction.hint)
    }
}
