//! provoke: numbers for bugs that only happen sometimes.

pub mod stats;
pub mod victim;
