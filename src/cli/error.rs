//! Error type of the command line: message, cause, hint and exit code.

use super::exit::Exit;
use crate::experiment::{ErrorCategory, ErrorHint, ExperimentError};
use crate::scenario::PlanError;
use crate::store::StoreError;
use crate::suggest::{Correction, file_of_flag, retyped_line};
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
            print_hint(hint);
        }
    }
}

/// Prints a hint below an error to stderr.
pub(super) fn print_hint(hint: &str) {
    let hint = SafeText::from_lines(hint);
    print_message(&format!("\n{} {hint}", style("hint:").green().bold()));
}

impl From<ExperimentError> for CliError {
    fn from(error: ExperimentError) -> Self {
        match &error {
            ExperimentError::ScenarioFile(error) => {
                return Self::already_rendered(
                    error.render_message(console::colors_enabled_stderr()),
                );
            }
            ExperimentError::Check(check) => {
                if let Some(name) = &check.missing_program
                    && let Some(flag) = file_of_flag(name.as_os_str())
                {
                    let error = anyhow::anyhow!("cannot run `{name}`: it is not a program");
                    return Self::could_not(error).with_hint(format!("did you mean `{flag}`?"));
                }
            }
            _ => {}
        }
        Self {
            exit: match error.category() {
                ErrorCategory::Usage => Exit::Usage,
                ErrorCategory::Undecided => Exit::Undecided,
                ErrorCategory::CouldNotTest => Exit::CouldNotTest,
            },
            hint: error.hint().map(|hint| with_typed_words(&hint)),
            what: ErrorText::Chain(error.into()),
        }
    }
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

impl From<StoreError> for CliError {
    fn from(error: StoreError) -> Self {
        ExperimentError::from(error).into()
    }
}

impl From<PlanError> for CliError {
    fn from(error: PlanError) -> Self {
        ExperimentError::from(error).into()
    }
}
