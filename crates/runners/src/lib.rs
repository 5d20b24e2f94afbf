//! Readers of the reports of test runners: which cases ran in a trial, and how each ended. Each runner is one file.
//!
//! To add one: a file with a [`Runner`], and a line in [`RUNNERS`]. The values of `--cases`, the help
//! and the schema follow from it.
//!
#![doc = include_str!("../README.md")]

pub mod attribution;
mod collector;
mod command;
pub mod ctest;
mod ctest_report;
mod earlier_reports;
mod file_pattern;
pub mod go;
pub mod gtest;
pub mod junit;
pub mod libtest;
mod limits;
mod lines;
pub mod names;
mod nextest;
mod nextest_report;
mod preparation;
pub mod pytest;
mod reading;
mod registry;
mod runner;
mod selection;
mod setup;
mod site;
pub mod stream;
pub mod tap;
mod test_output;
mod text;
mod trial_report;

pub use collector::merge_reports;
pub use command::RunnerCommand;
pub use earlier_reports::EarlierReports;
pub use preparation::order_obstacle;
pub use reading::read_cases;
pub use registry::{
    describe_known_runners, describe_setting, exclusions, find_runner, isolates_cases,
    parse_runner, runner_named, setting_values, titles_of,
};
pub use runner::{Exclusion, OrderControl, Runner, RunnerArgument, SharedFile};
pub use selection::select_case;
pub use setup::{CaseSetup, TrialPlace};
pub use trial_report::{STDOUT, TrialReport};

/// All runners, in the order of the help.
pub static RUNNERS: &[&Runner] = &[
    &pytest::PYTEST,
    &nextest::NEXTEST,
    &libtest::LIBTEST,
    &go::GO,
    &ctest::CTEST,
    &gtest::GTEST,
    &tap::TAP,
    &junit::JUNIT,
    &stream::JSONL,
];

/// Kind of the failure of a case that its runner left when it stopped in an orderly way.
pub(crate) const INTERRUPTED: &str = "interrupted";
