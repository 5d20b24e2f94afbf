//! Readers of the reports of test runners: which cases ran in a trial, and how each ended.
//!
#![doc = include_str!("../README.md")]

pub mod attribution;
mod collector;
pub mod ctest;
pub mod go;
pub mod gtest;
pub mod junit;
mod limits;
mod lines;
pub mod names;
mod nextest;
pub mod pytest;
mod site;
pub mod stream;
pub mod tap;
mod text;

pub use collector::merge_reports;

/// Kind of the failure of a case that its runner left when it stopped in an orderly way.
pub(crate) const INTERRUPTED: &str = "interrupted";
