//! Divides the error of a screen among its claims.
//!
//! Each test takes a share of the level that remains. A test without a claim uses up its share; a test with a claim
//! returns it. Until the first wrong claim, all tests of harmless conditions have used up their shares, which add up to
//! at most alpha. So at most alpha of the screens make a wrong claim, however many conditions have an effect.

/// Share of the remaining level for a test in pairs.
const PAIRS: f64 = 0.5;
/// Share of the remaining level for a seed test.
const SEEDS: f64 = 0.25;

/// The level that remains.
#[derive(Debug, Clone, Copy)]
pub(super) struct Levels {
    remaining: f64,
}

impl Levels {
    pub(super) fn new(alpha: f64) -> Self {
        Self { remaining: alpha }
    }

    /// Returns the level of the next test in pairs.
    pub(super) fn level_of_pairs(self) -> f64 {
        self.remaining * PAIRS
    }

    /// Returns the level of the next seed test.
    pub(super) fn level_of_seeds(self) -> f64 {
        self.remaining * SEEDS
    }

    /// Uses up the level of a test that ended without a claim.
    pub(super) fn spend(&mut self, level: f64) {
        self.remaining -= level;
    }
}
