//! Settings of cases: how provoke learns which tests of a suite ran in a trial, and how they ended.

use super::is_default;
use serde::{Deserialize, Serialize};
use std::fmt;

/// How the cases of each trial are found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CasesPlan {
    /// The program that runs the cases.
    pub runner: CaseRunner,
    /// Whether each trial runs its cases in a random order, which its seed determines.
    #[serde(default, skip_serializing_if = "is_default")]
    pub shuffle: bool,
    /// How often each failing case is run alone after the measurement.
    #[serde(default, skip_serializing_if = "is_default")]
    pub reruns: u32,
    /// A regular expression of the parts of names that are removed.
    #[serde(default, skip_serializing_if = "is_default")]
    pub strip: Option<String>,
    /// Arguments that select one case, for a runner whose own arguments are not known; `{case}` is its name, and
    /// `{suite}` its group.
    #[serde(default, skip_serializing_if = "is_default")]
    pub select: Vec<String>,
}

/// A program that runs cases, and where it reports them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CaseRunner {
    /// pytest, by a plugin of provoke.
    Pytest,
    /// cargo-nextest, by its JUnit report.
    Nextest,
    /// `go test`, by its JSON lines.
    Go,
    /// CTest, by its JUnit report.
    Ctest,
    /// A program with GoogleTest, by its output.
    Gtest,
    /// Any program, by the JUnit reports that match this pattern of paths.
    Junit(String),
    /// Any program, by the Test Anything Protocol on its stdout.
    Tap,
    /// Any program, by JSON lines in this file.
    Jsonl(String),
}

impl CaseRunner {
    /// Returns the name of the runner in texts.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Pytest => "pytest",
            Self::Nextest => "cargo nextest",
            Self::Go => "go test",
            Self::Ctest => "ctest",
            Self::Gtest => "GoogleTest",
            Self::Junit(_) => "the JUnit reports",
            Self::Tap => "the TAP output",
            Self::Jsonl(_) => "the JSON lines",
        }
    }

    /// Returns whether each case runs in a separate process, so that no case can change another one.
    pub fn isolates_cases(&self) -> bool {
        matches!(self, Self::Nextest | Self::Ctest)
    }

    /// Returns whether the cases are read from the stdout of the trial.
    pub fn reads_stdout(&self) -> bool {
        matches!(self, Self::Go | Self::Gtest | Self::Tap | Self::Ctest)
    }
}

/// Writes the value of the setting `cases`.
impl fmt::Display for CaseRunner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pytest => f.write_str("pytest"),
            Self::Nextest => f.write_str("nextest"),
            Self::Go => f.write_str("go"),
            Self::Ctest => f.write_str("ctest"),
            Self::Gtest => f.write_str("gtest"),
            Self::Junit(paths) => write!(f, "junit:{paths}"),
            Self::Tap => f.write_str("tap"),
            Self::Jsonl(path) => write!(f, "jsonl:{path}"),
        }
    }
}
