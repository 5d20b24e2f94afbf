//! Mixes the weights of culprits with uniform weights, because the weights may be wrong.
//!
//! A search that trusts the weights of its culprits has the promised error rate if the culprit is drawn from them, and
//! a much higher one if they are far off. Giving uniform weights half of the prior bounds the error: a posterior that
//! is wrong with probability delta under the mean of two priors is wrong with probability 2 delta at most under either.

use super::super::convert::real;

/// Prior weight of uniform weights.
const DOUBT: f64 = 0.5;

/// Returns the mean of these weights and uniform ones.
pub fn hedge_weights(weights: &[f64]) -> Vec<f64> {
    let total: f64 = weights.iter().sum();
    let even = total / real(weights.len().max(1) as u64);
    let hedged = |weight: &f64| (1.0 - DOUBT) * weight + DOUBT * even;
    weights.iter().map(hedged).collect()
}
