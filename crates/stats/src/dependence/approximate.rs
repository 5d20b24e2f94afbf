//! Approximates the p-value by a Gamma distribution with the moments of the statistic.

use crate::convert::real;
use crate::special::gamma_tail;

/// Returns an approximate p-value of the chi-square statistic.
///
/// The mean is exact: (B-1) N/(N-1) for B batches of N runs. The variance is that of independent batches, 2 +
/// (1-6pq)/(npq) each, minus the part explained by the total number of failures, B^2 (1-2p)^2/(Npq). It approaches the
/// chi-square's 2(B-1) if batches are large, and 0 if they are single runs. Used only above twenty thousand failures
/// *and* passes.
pub(super) fn p_value(sizes: &[(u64, u64)], failures: u64, statistic: f64) -> f64 {
    let batches = real(sizes.iter().map(|(_, count)| count).sum());
    let runs = real(sizes.iter().map(|(size, count)| size * count).sum());
    let p = real(failures) / runs;
    let pq = p * (1.0 - p);
    let mean = (batches - 1.0) * runs / (runs - 1.0);
    let independent: f64 = sizes
        .iter()
        .map(|&(size, count)| real(count) * (2.0 + (1.0 - 6.0 * pq) / (real(size) * pq)))
        .sum();
    let explained = batches * batches * (1.0 - 2.0 * p).powi(2) / (runs * pq);
    let variance = (independent - explained) * (batches - 1.0) / batches;
    if variance <= 1e-9 * batches {
        return 1.0; // single runs: every distribution has the same statistic
    }
    // Shape and scale of the Gamma distribution with this mean and variance.
    gamma_tail(mean * mean / variance, statistic * mean / variance)
}
