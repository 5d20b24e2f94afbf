//! Exit codes: chosen so that `git bisect run provoke ...` needs no wrapper.

use provoke_model::{ExpectedResult, Signal};
use provoke_questions::Verdict;
use provoke_words::diagnostic::ErrorCategory;
use std::process::ExitCode;

/// The result of provoke as an exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Exit {
    /// The expected answer.
    GoodAnswer,
    /// The opposite answer.
    OtherAnswer,
    /// The command line or the scenario is wrong.
    Usage,
    /// The budget is spent without an answer.
    Undecided,
    /// All trials were inconclusive: `git bisect` skips.
    CouldNotTest,
    /// Ended by a signal; `git bisect` aborts.
    Stopped(Signal),
}

impl Exit {
    /// Returns the exit of a verdict, given the expected result.
    pub(super) fn of_verdict(verdict: Verdict, expect: ExpectedResult) -> Self {
        match verdict {
            Verdict::Clean | Verdict::Failing => {
                Self::good_if(expect.is_met(verdict == Verdict::Failing))
            }
            Verdict::BelowMaxRate | Verdict::Fixed | Verdict::Found => Self::GoodAnswer,
            Verdict::AboveMaxRate | Verdict::NotFixed | Verdict::Different | Verdict::NotThere => {
                Self::OtherAnswer
            }
            // The reason may be too few trials.
            Verdict::Undecided | Verdict::NoDifference => Self::Undecided,
            Verdict::CouldNotTest => Self::CouldNotTest,
        }
    }

    /// Returns the exit of an answer that is as expected, or not.
    pub(super) fn good_if(is_expected: bool) -> Self {
        if is_expected {
            Self::GoodAnswer
        } else {
            Self::OtherAnswer
        }
    }

    fn code(self) -> u8 {
        match self {
            Self::GoodAnswer => 0,
            Self::OtherAnswer => 1,
            Self::Usage => 2,
            Self::Undecided => 3,
            Self::CouldNotTest => 125,
            Self::Stopped(signal) => u8::try_from(128 + signal.0).unwrap_or(255),
        }
    }
}

impl From<ErrorCategory> for Exit {
    fn from(category: ErrorCategory) -> Self {
        match category {
            ErrorCategory::Usage => Self::Usage,
            ErrorCategory::Undecided => Self::Undecided,
            ErrorCategory::CouldNotTest => Self::CouldNotTest,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        exit.code().into()
    }
}
