//! Cases of a trial: the tests of a suite, if one trial is one run of the suite.

use super::{Signal, Site, is_default, micros};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::fmt;
use std::time::Duration;

/// Name of a case. Two cases with the same name are the same case.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CaseName {
    /// The group of the case, such as a test binary, a package or a class; empty if the runner has none.
    #[serde(default, skip_serializing_if = "is_default")]
    pub suite: String,
    /// The name within the group.
    pub name: String,
}

impl CaseName {
    /// Returns the name of a case of a runner without groups.
    pub fn without_suite(name: impl Into<String>) -> Self {
        Self {
            suite: String::new(),
            name: name.into(),
        }
    }
}

/// Writes `suite::name`, or the name alone if the runner has no groups.
impl fmt::Display for CaseName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.suite.is_empty() {
            write!(f, "{}::", self.suite)?;
        }
        f.write_str(&self.name)
    }
}

/// How a case ended in one trial.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum CaseEnd {
    /// It passed.
    Passed,
    /// An assertion of the case failed.
    Failed,
    /// Its preparation or its cleanup failed.
    Error,
    /// The runner skipped it.
    Skipped,
    /// It failed, as the suite expects.
    ExpectedFailure,
    /// It passed, although the suite expects a failure.
    UnexpectedPass,
    /// It was killed because it took too long.
    TimedOut,
    /// The process that ran it died while it was running.
    Crashed,
    /// It was planned and did not start.
    NotRun,
    /// It started, and nothing shows how it ended.
    #[default]
    Unknown,
}

impl CaseEnd {
    /// Returns whether the case failed: on its assertion, its preparation, the time limit or the end of its process.
    pub fn is_failure(self) -> bool {
        matches!(
            self,
            Self::Failed | Self::Error | Self::TimedOut | Self::Crashed
        )
    }

    /// Returns whether the case passed in the judgement of the runner. An unexpected pass that the suite forbids is
    /// [`Self::Failed`].
    pub fn is_pass(self) -> bool {
        matches!(
            self,
            Self::Passed | Self::ExpectedFailure | Self::UnexpectedPass
        )
    }
}

/// Why a case failed, in the words of the runner.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CaseFailure {
    /// Kind of the failure, such as the name of an exception; empty if the runner does not report it.
    #[serde(skip_serializing_if = "is_default")]
    pub kind: String,
    /// The message, at most a few lines.
    #[serde(skip_serializing_if = "is_default")]
    pub message: String,
    /// The line of source code that failed.
    #[serde(skip_serializing_if = "is_default")]
    pub site: Option<Site>,
    /// The signal of which the process of the case died.
    #[serde(skip_serializing_if = "is_default")]
    pub signal: Option<Signal>,
}

/// One case in one trial.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CaseResult {
    /// Its name.
    pub case: CaseName,
    /// How it ended. If the runner retried it, how its first attempt ended.
    pub end: CaseEnd,
    /// Time from its start to its end.
    #[serde(rename = "us", skip_serializing_if = "is_default", with = "micros")]
    pub elapsed: Duration,
    /// Number of attempts, if the runner retried it.
    #[serde(skip_serializing_if = "is_default")]
    pub attempts: u32,
    /// The process that ran it, if the runner reports it.
    #[serde(skip_serializing_if = "is_default")]
    pub pid: Option<i32>,
    /// Why it failed.
    #[serde(skip_serializing_if = "is_default")]
    pub failure: Option<CaseFailure>,
}

/// The cases of one trial, as the runner reported them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TrialCases {
    /// The cases that the runner was going to run, in their order; `None` if it does not announce them.
    #[serde(skip_serializing_if = "is_default")]
    pub planned: Option<Vec<CaseName>>,
    /// The cases that started or were reported, in the order of their starts.
    pub results: Vec<CaseResult>,
    /// Problems of the report of the runner, for the user.
    #[serde(skip_serializing_if = "is_default")]
    pub complaints: Vec<String>,
}

impl TrialCases {
    /// Returns the planned cases that did not start and are in no report.
    pub fn unstarted_cases(&self) -> Vec<&CaseName> {
        let reported: HashSet<&CaseName> = self.results.iter().map(|result| &result.case).collect();
        let planned = self.planned.iter().flatten();
        planned.filter(|case| !reported.contains(case)).collect()
    }
}
