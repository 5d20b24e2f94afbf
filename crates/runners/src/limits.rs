//! Limits on the reports of runners, which come from outside.

/// Bytes of a report that are read.
pub(crate) const MOST_BYTES: u64 = 256 << 20;
/// Bytes of a line; the rest of a longer line is ignored.
pub(crate) const LONGEST_LINE: usize = 1 << 20;
/// Cases of a trial.
pub(crate) const MOST_CASES: usize = 200_000;
/// Bytes of a name.
pub(crate) const LONGEST_NAME: usize = 2_000;
/// Bytes of a message.
pub(crate) const LONGEST_MESSAGE: usize = 2_000;
/// Lines of a message.
pub(crate) const MOST_MESSAGE_LINES: usize = 12;
/// Complaints about a report.
pub(crate) const MOST_COMPLAINTS: usize = 20;
/// Levels of nested elements or suites.
pub(crate) const DEEPEST_NESTING: usize = 64;
/// Bytes of the names of all cases of a trial, as JSON.
pub(crate) const MOST_NAMES: usize = 16 << 20;
/// Bytes of the failures of all cases of a trial, as JSON.
pub(crate) const MOST_FAILURES: usize = 8 << 20;
/// Bytes that each failure needs besides its own: its title and its cases.
pub(crate) const PER_FAILURE: usize = 400;
