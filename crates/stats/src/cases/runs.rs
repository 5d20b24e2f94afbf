//! Number of runs that show every flaky test of a suite.

use crate::convert::{count_up, real};

/// Returns the number of runs after which each of `tests` independent tests, which fail at `rate`, has failed at least
/// once, with the given confidence; `None` if no number is enough.
pub fn runs_to_see_every(tests: u64, rate: f64, confidence: f64) -> Option<u64> {
    let is_valid = tests > 0 && rate > 0.0 && confidence < 1.0;
    if !is_valid {
        return None;
    }
    if rate >= 1.0 || confidence <= 0.0 {
        return Some(1);
    }
    // (1 - (1 - rate)^n)^tests >= confidence, solved for n. `chance` is that of a single test to be missed.
    let chance = -(confidence.ln() / real(tests)).exp_m1();
    Some(count_up(chance.ln() / (-rate).ln_1p()).max(1))
}
