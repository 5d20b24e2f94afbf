//! Converts between counts and real numbers.

/// Returns a count as a real number.
#[expect(
    clippy::cast_precision_loss,
    reason = "exact up to 2^53 trials, and a relative 1e-16 beyond it changes no answer"
)]
pub fn real(count: u64) -> f64 {
    count as f64
}

/// Returns the smallest count that is not below `x`; negative numbers give 0, and numbers that are too large give
/// `u64::MAX`.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a float-to-integer cast saturates, which is the documented result"
)]
pub(super) fn count_up(x: f64) -> u64 {
    x.ceil() as u64
}

/// Returns the nearest count; negative numbers give 0, and numbers that are too large give `u64::MAX`.
pub fn whole(x: f64) -> u64 {
    count_up(x.round())
}

/// Returns the minimum, the median and the maximum of counts; `None` without any.
pub fn spread_of_counts(counts: &[u64]) -> Option<[u64; 3]> {
    let mut sorted = counts.to_vec();
    sorted.sort_unstable();
    let last = sorted.len().checked_sub(1)?;
    Some([sorted[0], sorted[last / 2], sorted[last]])
}
