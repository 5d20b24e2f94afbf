//! Readers of the reports of test runners: which cases ran in a trial, and how each ended.
//!
#![doc = include_str!("../README.md")]

pub mod attribution;
mod collector;
mod command;
pub mod ctest;
mod earlier_reports;
mod error;
mod file_pattern;
pub mod go;
pub mod gtest;
mod insertion;
pub mod junit;
mod limits;
mod lines;
pub mod names;
mod nextest;
pub mod pytest;
mod reading;
mod runner;
mod selection;
mod setup;
mod site;
pub mod stream;
pub mod tap;
mod text;

pub use collector::merge_reports;
pub use earlier_reports::EarlierReports;
pub use error::CaseSetupError;
pub use reading::{STDOUT, TrialReport, read_cases};
pub use runner::describe_known_runners;
pub use runner::find_runner;
pub use selection::select_case;
pub use setup::CaseSetup;

/// Kind of the failure of a case that its runner left when it stopped in an orderly way.
pub(crate) const INTERRUPTED: &str = "interrupted";
