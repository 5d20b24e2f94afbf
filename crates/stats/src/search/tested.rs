//! Counts of a tested version.

/// A tested version with its counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TestedVersion {
    pub version: usize,
    pub failures: u64,
    pub runs: u64,
}
