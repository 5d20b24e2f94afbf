//! Readers of the reports of test runners: which cases ran in a trial, and how each ended.
//!
#![doc = include_str!("../README.md")]

mod collector;
mod limits;
mod lines;
pub mod pytest;
pub mod stream;
mod text;

pub use collector::merge_reports;

/// Kind of the failure of a case that its runner left when it stopped in an orderly way.
pub(crate) const INTERRUPTED: &str = "interrupted";
