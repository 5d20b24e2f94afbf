//! An error for the user: what is wrong, where, why, and what to do about it.

use std::error::Error;
use std::ops::Range;
use std::{fmt, io, iter};

/// An error for the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// The category.
    pub category: ErrorCategory,
    /// The error, without a full stop.
    pub message: String,
    /// The wrong setting of a scenario, as a path of keys and indices.
    pub position: Vec<String>,
    /// The causes, from the nearest.
    pub causes: Vec<String>,
    /// What to do.
    pub hints: Vec<String>,
    /// The wrong part of a file.
    pub excerpt: Option<Box<Excerpt>>,
}

/// Category of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorCategory {
    /// The request is wrong.
    Usage,
    /// The answer cannot be determined, whatever the outcomes of the trials.
    Undecided,
    /// The request cannot be executed on this machine.
    CouldNotTest,
}

/// The wrong part of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Excerpt {
    /// Name of the file.
    pub file: String,
    /// Text of the file, if it could be read.
    pub source: Option<String>,
    /// Position in the text; `None` if the whole file is wrong.
    pub span: Option<Range<usize>>,
    /// Further information.
    pub notes: Vec<String>,
}

impl Diagnostic {
    /// Creates an error.
    pub fn new(category: ErrorCategory, message: impl Into<String>) -> Self {
        Self {
            category,
            message: message.into(),
            position: Vec::new(),
            causes: Vec::new(),
            hints: Vec::new(),
            excerpt: None,
        }
    }

    /// Creates an error in the request.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(ErrorCategory::Usage, message)
    }

    /// Creates an error for an answer that cannot be determined.
    pub fn undecided(message: impl Into<String>) -> Self {
        Self::new(ErrorCategory::Undecided, message)
    }

    /// Creates an error for a request that cannot be executed.
    pub fn could_not(message: impl Into<String>) -> Self {
        Self::new(ErrorCategory::CouldNotTest, message)
    }

    /// Creates an error of a setting at the top of a scenario.
    pub fn of_field(field: &str, message: impl Into<String>, hint: impl Into<String>) -> Self {
        refuse_at(message, &[field], hint)
    }

    /// Converts an error and its causes.
    pub fn of_error(category: ErrorCategory, error: &(dyn Error + 'static)) -> Self {
        Self {
            causes: messages_of(error.source()),
            ..Self::new(category, error.to_string())
        }
    }

    /// Sets the wrong setting, as a path of keys and indices.
    #[must_use]
    pub fn at(self, position: &[&str]) -> Self {
        Self {
            position: position.iter().map(ToString::to_string).collect(),
            ..self
        }
    }

    /// Sets the cause.
    #[must_use]
    pub fn because(self, cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        let cause: Box<dyn Error> = cause.into();
        Self {
            causes: messages_of(Some(&*cause)),
            ..self
        }
    }

    /// Sets the hint.
    #[must_use]
    pub fn with_hint(self, hint: impl Into<String>) -> Self {
        Self {
            hints: vec![hint.into()],
            ..self
        }
    }

    /// Returns the first hint; empty if there is none.
    pub fn hint(&self) -> &str {
        self.hints.first().map_or("", String::as_str)
    }

    /// Returns the error in one line: the message, and the last line of its cause.
    pub fn in_a_line(&self) -> String {
        let cause = self.causes.first().and_then(|cause| cause.lines().last());
        cause.map_or_else(|| self.to_string(), |cause| format!("{self}: {cause}"))
    }
}

/// Creates an error of the setting of a scenario at a path of keys and indices.
pub fn refuse_at(
    message: impl Into<String>,
    position: &[&str],
    hint: impl Into<String>,
) -> Diagnostic {
    Diagnostic::usage(message).at(position).with_hint(hint)
}

/// Returns the messages of an error and of its causes.
fn messages_of(error: Option<&(dyn Error + 'static)>) -> Vec<String> {
    let errors = iter::successors(error, |&error| error.source());
    errors.map(ToString::to_string).collect()
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for Diagnostic {}

impl From<io::Error> for Diagnostic {
    /// Returns the error for the user, if it is one.
    fn from(error: io::Error) -> Self {
        error
            .downcast()
            .unwrap_or_else(|error| Self::of_error(ErrorCategory::CouldNotTest, &error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_has_the_messages_of_all_its_causes() {
        let refused = Diagnostic::could_not("cannot write `a`").because("first\nlast");
        assert_eq!(refused.in_a_line(), "cannot write `a`: last");
        let outer = io::Error::other(io::Error::other(refused.clone()));
        let error = Diagnostic::usage("cannot start").because(outer);
        assert_eq!(error.causes, ["cannot write `a`"]);
        assert_eq!(error.hint(), "");
        let refused = refused.with_hint("choose another file");
        assert_eq!(Diagnostic::from(io::Error::other(refused.clone())), refused);
        let located = refuse_at(
            "`runs` is too large",
            &["variant", "2", "runs"],
            "at most 5",
        );
        assert_eq!(located.position, ["variant", "2", "runs"]);
        assert_eq!(located.hint(), "at most 5");
        assert!(located.causes.is_empty());
    }
}
