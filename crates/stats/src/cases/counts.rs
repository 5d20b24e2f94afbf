//! Counts of one case.

/// The trials in which a case passed or failed, and the failures among them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CaseCounts {
    /// Trials in which the case failed.
    pub failures: u64,
    /// Trials in which it passed or failed. Trials in which it did not start do not count.
    pub trials: u64,
}
