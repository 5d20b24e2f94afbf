//! The times at which paths are compared while trials are run, and the share of the error of each.

/// Fewer failing trials show nothing.
pub const MIN_FAILING: u64 = 3;
/// Fewer passing trials show nothing.
pub const MIN_PASSING: u64 = 10;

/// A comparison after so many trials.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Look {
    /// Number of failing trials that it needs.
    pub failing: u64,
    /// Number of passing trials that it needs.
    pub passing: u64,
    /// Probability of a false claim that it may use.
    pub error: f64,
}

/// The comparisons. The sum of their errors is 5 %, so the probability of any false claim is at most that, however they
/// depend on one another.
pub const LOOKS: [Look; 3] = [
    Look {
        failing: 5,
        passing: 20,
        error: 0.02,
    },
    Look {
        failing: 10,
        passing: 40,
        error: 0.015,
    },
    Look {
        failing: 20,
        passing: 80,
        error: 0.015,
    },
];

/// Returns the comparison that is due after some comparisons with so many failing and passing trials.
pub fn due_look(looks_done: usize, failing: u64, passing: u64) -> Option<&'static Look> {
    let look = LOOKS.get(looks_done)?;
    (failing >= look.failing && passing >= look.passing).then_some(look)
}
