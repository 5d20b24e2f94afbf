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

/// The comparison of trials that record only the entries of functions, if further trials follow that record the blocks of
/// those that may differ. Its error is a share of the 5 %.
pub const LOOKS_AT_FUNCTIONS: [Look; 1] = [LOOKS[0]];

/// The comparisons of the trials that follow. Only these trials are compared, so the choice of the functions does not make a
/// false claim more likely. Their errors and that of the first comparison are together 5 %.
pub const LOOKS_INSIDE_FUNCTIONS: [Look; 3] = [
    Look {
        error: 0.01,
        ..LOOKS[0]
    },
    Look {
        error: 0.01,
        ..LOOKS[1]
    },
    Look {
        error: 0.01,
        ..LOOKS[2]
    },
];

/// Returns the comparison that is due after some of these comparisons with so many failing and passing trials.
pub fn due_look(looks: &[Look], looks_done: usize, failing: u64, passing: u64) -> Option<&Look> {
    let look = looks.get(looks_done)?;
    (failing >= look.failing && passing >= look.passing).then_some(look)
}
