//! Finds the cases of trials: the tests of a suite, if one trial is one run of the suite.
//!
//! [`find_runner`] recognizes the test runner, [`CaseSetup`] prepares the trials, and [`read_cases`] reads what the runner
//! reported. [`provoke_cases`] has the readers of the formats.

mod command;
mod earlier_reports;
mod error;
mod file_pattern;
mod insertion;
mod reading;
mod runner;
mod selection;
mod setup;

pub use earlier_reports::EarlierReports;
pub use error::CaseSetupError;
pub use reading::{STDOUT, TrialReport, read_cases};
pub(crate) use runner::describe_known_runners;
pub use runner::find_runner;
pub use selection::select_case;
pub use setup::CaseSetup;
