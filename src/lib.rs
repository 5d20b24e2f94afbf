//! Library of provoke, which measures, compares and searches bugs that only happen sometimes.
//!
//! The library is for this program's own tests and examples; its interface may change in any version
//! before 1.0.
//!
//! `DESIGN.md` in the repository shows the parts and how they depend on each other.

pub mod cli;
pub mod doctor;
pub mod experiment;
pub mod suggest;
pub mod term;
pub mod trace;
