//! Mixes the weights of culprits with even weights, because the weights may be wrong.
//!
//! A search that takes the weights of its culprits at their word is wrong as often as it promises if the
//! culprit is drawn from them, and much more often if they are far off. Half a belief in even weights
//! bounds that: a posterior that is wrong with probability delta under the mean of two priors is wrong
//! with probability 2 delta at most under either.

use super::super::convert::real;

/// The belief in even weights.
const DOUBT: f64 = 0.5;

/// Returns weights that are half as sure of themselves: the mean of these and of even ones.
pub fn hedged(weights: &[f64]) -> Vec<f64> {
    let total: f64 = weights.iter().sum();
    let even = total / real(weights.len().max(1) as u64);
    let of = |weight: &f64| (1.0 - DOUBT) * weight + DOUBT * even;
    weights.iter().map(of).collect()
}
