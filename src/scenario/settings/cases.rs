//! Settings of suites: how the tests of a suite are found, if a trial is one run of the suite.

use crate::scenario::RunnerValue;
use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The tests of a suite.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case", default)]
#[command(next_help_heading = "Tests of a suite")]
pub struct CaseSettings {
    /// Count each test of the suite that the command runs
    ///
    /// Runners: pytest, nextest, go, ctest, gtest, tap, junit:GLOB (JUnit reports) and jsonl:FILE. Without a value,
    /// the runner is recognized by the words of the command.
    #[arg(
        long, value_name = "RUNNER", num_args = 0..=1, require_equals = true,
        default_missing_value = "auto",
    )]
    pub cases: Option<RunnerValue>,
    /// Run the tests of each trial in another random order
    ///
    /// The seed of the trial determines the order. For pytest, go test and GoogleTest. A failure rate in random order
    /// differs from that in file order, if tests depend on each other.
    #[arg(
        long,
        num_args = 0,
        default_missing_value = "true",
        hide_short_help = true
    )]
    pub shuffle: Option<bool>,
}
