//! Exit codes: chosen so that `git bisect run provoke ...` needs no wrapper.

use crate::model::{Expect, Signal};
use crate::policy::Verdict;
use std::process::ExitCode;

/// How provoke ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Exit {
    /// Answered as hoped.
    Hoped,
    /// Answered the other way.
    OtherWay,
    /// The command line or the scenario is wrong.
    Usage,
    /// The budget is spent, and the answer is not known.
    Undecided,
    /// Not one trial said anything: `git bisect` skips.
    CouldNotTest,
    /// Ended by a signal; `git bisect` aborts.
    Stopped(Signal),
}

impl Exit {
    /// Returns what a verdict means to somebody with this hope.
    pub(super) fn of(verdict: Verdict, expect: Expect) -> Self {
        match verdict {
            Verdict::Clean if expect == Expect::Fail => Self::OtherWay,
            Verdict::Failing if expect == Expect::Fail => Self::Hoped,
            Verdict::Clean | Verdict::BelowMaxRate | Verdict::Fixed | Verdict::Found => Self::Hoped,
            Verdict::Failing
            | Verdict::AboveMaxRate
            | Verdict::NotFixed
            | Verdict::Different
            | Verdict::NotThere => Self::OtherWay,
            // Too few trials may be the reason.
            Verdict::Undecided | Verdict::NoDifference => Self::Undecided,
            Verdict::CouldNotTest => Self::CouldNotTest,
        }
    }

    fn code(self) -> u8 {
        match self {
            Self::Hoped => 0,
            Self::OtherWay => 1,
            Self::Usage => 2,
            Self::Undecided => 3,
            Self::CouldNotTest => 125,
            Self::Stopped(signal) => u8::try_from(128 + signal.0).unwrap_or(255),
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        exit.code().into()
    }
}
