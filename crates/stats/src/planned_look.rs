//! Shares the error level of a comparison between a test after every pair and a look at the planned end.
//!
//! [`super::EProcess`] may be checked after every pair, and pays for it: of two rates that Fisher's test would tell apart
//! after N pairs, it needs about twice as many. If N was fixed before the first trial, Fisher's test may look once, at
//! the planned end, with its own share of the level. The sum of both shares is the level, so both together are wrong at
//! most as often as promised.

use super::fisher::fisher;

/// The share of the planned look. The test after every pair then needs 1.25 times the evidence.
const SHARE: f64 = 0.2;

/// The error levels of a comparison.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ComparisonLevels {
    /// Of the test after every pair.
    pub every_pair: f64,
    /// Of the look after the planned number of pairs; 0 if no number was planned.
    pub planned_look: f64,
}

impl ComparisonLevels {
    /// Levels of a comparison without a planned number of pairs.
    pub fn at_any_time(alpha: f64) -> Self {
        Self {
            every_pair: alpha,
            planned_look: 0.0,
        }
    }

    /// Levels of a comparison with a planned number of pairs.
    pub fn with_planned_look(alpha: f64) -> Self {
        Self {
            every_pair: alpha * (1.0 - SHARE),
            planned_look: alpha * SHARE,
        }
    }

    /// Returns whether two sides differ after the planned number of pairs.
    pub fn look(self, failures_a: u64, failures_b: u64, pairs: u64) -> bool {
        fisher(failures_a, pairs, failures_b, pairs).two_sided <= self.planned_look
    }
}
