//! Error of an experiment: what failed, why, and a hint.

use crate::suggest::retyped_line;
use provoke_autopsy::CoreError;
use provoke_hosts::HostError;
use provoke_journal::StoreError;
use provoke_levers::LeverRefusal;
use provoke_load::LoadError;
use provoke_plan::{PlanError, ScenarioError};
use provoke_prepare::PreparationError;
use provoke_words::untrusted::Untrusted as _;
use std::error::Error;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::{fmt, io};

/// Why an experiment cannot begin, continue or be read.
#[derive(Debug, thiserror::Error)]
pub enum ExperimentError {
    /// The scenario cannot be made into a plan.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A scenario file is invalid.
    #[error(transparent)]
    ScenarioFile(#[from] ScenarioError),
    /// A stored run cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A variant cannot be prepared.
    #[error(transparent)]
    Preparation(#[from] PreparationError),
    /// The load cannot be sent.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// A core cannot be analysed.
    #[error(transparent)]
    Core(#[from] CoreError),
    /// Trials cannot run on a host.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The operating system returned an error.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A check of the experiment failed.
    #[error(transparent)]
    Check(#[from] Box<FailedCheck>),
}

/// Category of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorCategory {
    /// The request is wrong.
    Usage,
    /// The answer cannot be determined, whatever the outcomes of the trials.
    Undecided,
    /// The experiment cannot be run.
    CouldNotTest,
}

/// A check that failed.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
pub struct FailedCheck {
    /// The category.
    pub category: ErrorCategory,
    /// The error.
    pub what: String,
    /// The cause.
    #[source]
    pub why: Option<Box<dyn Error + Send + Sync>>,
    /// A hint.
    pub hint: Option<ErrorHint>,
}

/// What to do about an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorHint {
    /// The hint, up to the command.
    pub text: String,
    /// The command to type, if there is one.
    pub command: Option<SuggestedEnd>,
}

/// A corrected end of the command line that started the experiment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SuggestedEnd {
    /// The first word that is replaced.
    pub from: OsString,
    /// The end, from that word on.
    pub end: String,
}

impl From<LeverRefusal> for ExperimentError {
    fn from(refusal: LeverRefusal) -> Self {
        let LeverRefusal {
            message,
            hint,
            is_usage,
        } = refusal;
        let error = if is_usage {
            Self::usage(message)
        } else {
            Self::could_not(message)
        };
        error.with_hint(hint)
    }
}

impl ExperimentError {
    /// Creates an error in the request.
    pub(super) fn usage(what: impl Into<String>) -> Self {
        Self::of_check(ErrorCategory::Usage, what.into())
    }

    /// Creates an error for an answer that cannot be determined.
    pub(super) fn undecided(what: impl Into<String>) -> Self {
        Self::of_check(ErrorCategory::Undecided, what.into())
    }

    /// Creates an error for an experiment that cannot be run.
    pub(super) fn could_not(what: impl Into<String>) -> Self {
        Self::of_check(ErrorCategory::CouldNotTest, what.into())
    }

    /// Creates an error for a file that cannot be written.
    pub(super) fn cannot_write(path: &Path, error: io::Error) -> Self {
        Self::could_not(format!("cannot write `{}`", path.to_safe())).because(error)
    }

    fn of_check(category: ErrorCategory, message: String) -> Self {
        Self::Check(Box::new(FailedCheck {
            category,
            what: message,
            why: None,
            hint: None,
        }))
    }

    /// Adds the cause to a failed check.
    pub(super) fn because(mut self, cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        if let Self::Check(check) = &mut self {
            check.why = Some(cause.into());
        }
        self
    }

    /// Adds a hint to a failed check.
    pub(super) fn with_hint(mut self, hint: impl Into<ErrorHint>) -> Self {
        if let Self::Check(check) = &mut self {
            check.hint = Some(hint.into());
        }
        self
    }

    /// Returns the category of the error.
    pub fn category(&self) -> ErrorCategory {
        match self {
            Self::Plan(_)
            | Self::ScenarioFile(_)
            | Self::Load(_)
            | Self::Core(CoreError::NoCore { .. } | CoreError::Unreadable { .. })
            | Self::Preparation(PreparationError::Refused { .. })
            | Self::Store(
                StoreError::NoRun { .. }
                | StoreError::Ambiguous { .. }
                | StoreError::Untrusted { .. }
                | StoreError::ForeignRoot { .. }
                | StoreError::NotAJournal(_),
            ) => ErrorCategory::Usage,
            Self::Store(_)
            | Self::Preparation(PreparationError::Io { .. })
            | Self::Core(
                CoreError::Broken { .. } | CoreError::Foreign { .. } | CoreError::Unfinished { .. },
            )
            | Self::Host(_)
            | Self::Io(_) => ErrorCategory::CouldNotTest,
            Self::Check(check) => check.category,
        }
    }

    /// Returns a hint, if there is one.
    pub fn hint(&self) -> Option<ErrorHint> {
        match self {
            Self::Plan(error) => Some(error.hint.clone().into()),
            Self::Store(error) => error.hint().map(Into::into),
            Self::Preparation(error) => error.hint().map(Into::into),
            Self::Host(error) => error.hint.clone().map(Into::into),
            Self::Load(LoadError::Elsewhere { host, .. }) => Some(format!(
                "load on a machine that you do not own is an attack; if you own it, add --i-own-this-target {host}"
            ).into()),
            Self::Load(LoadError::NoProcess(_)) => {
                Some("--attach listener finds the process that listens at the URL".into())
            }
            Self::Core(CoreError::NoCore { .. }) => Some(
                "to explain the last failure: provoke explain last; the kernel writes a core of a crash after `ulimit -c unlimited`"
                    .into(),
            ),
            Self::ScenarioFile(_) | Self::Load(_) | Self::Core(_) | Self::Io(_) => None,
            Self::Check(check) => check.hint.clone(),
        }
    }

    /// Returns the error in one line: the message, and the last line of its cause.
    pub fn in_a_line(&self) -> String {
        let cause_text = self.source().map(ToString::to_string);
        let cause = cause_text.as_deref().and_then(|cause| cause.lines().last());
        cause.map_or_else(|| self.to_string(), |cause| format!("{self}: {cause}"))
    }
}

impl ErrorHint {
    /// Creates a hint that ends with the corrected command line: `end` replaces the words from `from` on.
    pub(super) fn with_command(text: impl Into<String>, from: &OsStr, end: String) -> Self {
        Self {
            text: text.into(),
            command: Some(SuggestedEnd {
                from: from.to_owned(),
                end,
            }),
        }
    }

    /// Returns the hint with the words of the command line that it keeps.
    pub fn with_typed_words(&self) -> String {
        match &self.command {
            Some(command) => format!("{}{}", self.text, retyped_line(&command.from, &command.end)),
            None => self.text.clone(),
        }
    }
}

impl From<String> for ErrorHint {
    fn from(text: String) -> Self {
        Self {
            text,
            command: None,
        }
    }
}

impl From<&str> for ErrorHint {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

impl fmt::Display for ErrorHint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = self.command.as_ref().map_or("", |command| &command.end);
        write!(f, "{}{end}", self.text)
    }
}
