//! provoke: numbers for bugs that only happen sometimes.
//!
//! For this crate's own tests and examples; no promise of stability before 1.0.

pub mod cli;
pub mod driver;
pub mod exec;
pub mod model;
pub mod oracle;
pub mod policy;
pub mod report;
pub mod scenario;
pub mod slot;
pub mod state;
pub mod stats;
pub mod store;
pub mod sys;
pub mod term;
pub mod victim;
