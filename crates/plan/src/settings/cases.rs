//! Settings of suites: how the tests of a suite are found, if a trial is one run of the suite.

use crate::Pattern;
use crate::RunnerValue;
use clap::Args;
use provoke_runners::{describe_setting, titles_of};
use serde::{Deserialize, Serialize};
use std::num::NonZeroU32;

/// The tests of a suite.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case", default)]
#[command(next_help_heading = "Tests of a suite")]
pub struct CaseSettings {
    /// Count each test of the suite that the command runs
    #[arg(
        long, value_name = "RUNNER", num_args = 0..=1, require_equals = true,
        default_missing_value = "auto", long_help = describe_cases(),
    )]
    #[cfg_attr(test, schemars(description = describe_cases()))]
    pub cases: Option<RunnerValue>,
    /// Run the tests of each trial in another random order
    #[arg(
        long,
        hide_short_help = true,
        long_help = describe_shuffle()
    )]
    #[cfg_attr(test, schemars(description = describe_shuffle()))]
    pub shuffle: Option<bool>,
    /// After the measurement, run each failing test alone K times
    ///
    /// Such trials are counted separately: "fails alone too (7 of 10)" or "never alone (0 of 10)". At most 20 tests,
    /// those with the most failures. For `run`.
    #[arg(
        long, value_name = "K", num_args = 0..=1, require_equals = true,
        default_missing_value = "10",
        hide_short_help = true,
    )]
    pub rerun_failing: Option<NonZeroU32>,
    /// Arguments that select one test, for --rerun-failing with other runners
    ///
    /// They are added to the command; `{case}` is the name of the test, and `{suite}` its group.
    #[arg(
        long,
        value_name = "ARGS",
        allow_hyphen_values = true,
        hide_short_help = true
    )]
    pub case_args: Option<String>,
    /// Remove what matches from the names of tests, and join the tests that then have the same name
    ///
    /// For names with parts that change from trial to trial, such as addresses and dates.
    #[arg(long, value_name = "REGEX", hide_short_help = true)]
    pub case_strip: Option<Pattern>,
}

fn describe_cases() -> String {
    format!(
        "Count each test of the suite that the command runs\n\n{}",
        describe_setting()
    )
}

fn describe_shuffle() -> String {
    let runners = titles_of(|runner| runner.order.follows_seed());
    format!(
        "Run the tests of each trial in another random order\n\nThe seed of the trial determines the order. For {runners}. A failure rate in random order differs from that in file order, if tests depend on each other."
    )
}
