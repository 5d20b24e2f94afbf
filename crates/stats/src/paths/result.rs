//! The answer: statements that are true in failing trials and false in passing ones.

/// What separates failing from passing trials.
#[derive(Debug, Clone, PartialEq)]
pub struct PathComparison {
    /// Number of compared trials that failed.
    pub failing: u64,
    /// Number of compared trials that passed.
    pub passing: u64,
    /// Number of tests: statements that are true in the same trials are one.
    pub tests: u64,
    /// Whether statements were left out because there were too many.
    pub is_limited: bool,
    /// All significant groups, best first, and then those after the beginning of the failure.
    pub groups: Vec<PathGroup>,
    /// Some of the groups that are not significant, the smallest p-value first.
    pub others: Vec<PathGroup>,
    /// Index of the group to show. Without one, nothing differs before the failure.
    pub lead: Option<usize>,
    /// A cause of failures in which the lead is not true.
    pub second: Option<SecondCause>,
    /// Where failing trials begin to fail.
    pub failure_path: Option<FailurePath>,
    /// Significant effects of arming on the failure rate, the smallest p-value first.
    pub arming: Vec<ArmingEffect>,
    /// Number of failing trials in which random points were armed.
    pub half_failing: u64,
    /// Number of passing trials in which random points were armed.
    pub half_passing: u64,
    /// Number of tests of arming: points that were armed in the same trials are one.
    pub arming_tests: u64,
}

/// Statements that are true in the same trials, so that they are one test.
#[derive(Debug, Clone, PartialEq)]
pub struct PathGroup {
    /// Some of the statements, the earliest first.
    pub statements: Vec<PathStatement>,
    /// The latest interleavings among all its statements, the latest first: they are the nearest to the failure.
    pub latest: Vec<PathStatement>,
    /// Number of all its statements.
    pub size: u64,
    /// Number of failing trials in which they are true.
    pub failing: u64,
    /// Number of passing trials in which they are true.
    pub passing: u64,
    /// The p-value of Fisher's exact test, one-sided.
    pub p: f64,
    /// The p-value that is adjusted for all tests.
    pub adjusted_p: f64,
    /// Harmonic mean of sensitivity and specificity; less for an absence.
    pub score: f64,
    /// Median share of a failing trial's arrivals before the first statement became true.
    pub time: f64,
    /// Whether the first statement became true only after the failure had begun.
    pub is_after_failure: bool,
    /// Whether it is an arrival after which its thread reached nothing usual: it may only report the failure.
    pub is_last: bool,
}

/// A statement about a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PathStatement {
    /// A point was reached at least so many times.
    Reached {
        /// The point.
        point: u32,
        /// The least number of arrivals.
        times: u32,
    },
    /// Two threads were between consecutive arrivals at two points at once: one between the first two, the other between
    /// the other two, which may be the same.
    Together {
        /// The point before.
        from: u32,
        /// The point behind.
        to: u32,
        /// The point before, of the other thread; not less than `from`.
        other_from: u32,
        /// The point behind, of the other thread.
        other_to: u32,
    },
    /// Between consecutive arrivals of a thread at two points, another thread reached a third one.
    Between {
        /// The point before.
        from: u32,
        /// The point behind.
        to: u32,
        /// The point of the other thread.
        other: u32,
    },
    /// The first arrival of a thread at a point came before the first arrival of a thread at another point.
    Before {
        /// Number of the first thread.
        thread: u32,
        /// The first point.
        point: u32,
        /// Number of the second thread, which may be the same.
        other_thread: u32,
        /// The second point.
        other_point: u32,
    },
    /// A point was never reached, although points that follow it were.
    NotReached {
        /// The point.
        point: u32,
    },
}

impl PathGroup {
    /// Returns the points of its first statement.
    pub fn first_points(&self) -> Option<Vec<u32>> {
        self.statements.first().map(|statement| statement.points())
    }
}

impl PathStatement {
    /// Returns the points that it is about.
    pub fn points(self) -> Vec<u32> {
        match self {
            Self::Reached { point, .. } | Self::NotReached { point } => vec![point],
            Self::Before {
                point, other_point, ..
            } => vec![point, other_point],
            Self::Between { from, to, other } => vec![from, to, other],
            Self::Together {
                from,
                to,
                other_from,
                other_to,
            } if (from, to) == (other_from, other_to) => vec![from, to],
            Self::Together {
                from,
                to,
                other_from,
                other_to,
            } => vec![from, to, other_from, other_to],
        }
    }
}

/// A cause of failures in which the lead is not true.
#[derive(Debug, Clone, PartialEq)]
pub struct SecondCause {
    /// Number of failing trials without the lead.
    pub failing: u64,
    /// Number of passing trials without the lead.
    pub passing: u64,
    /// Number of tests among them.
    pub tests: u64,
    /// The group to show, with counts of trials without the lead.
    pub group: PathGroup,
}

/// The point at which failing trials begin to fail: from there on, no passing trial goes the same way, and it ends in a call
/// that does not return.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FailurePath {
    /// The point.
    pub point: u32,
    /// Number of failing trials that begin to fail there.
    pub trials: u64,
    /// The function that is entered next, if a point marks its entry.
    pub callee: Option<u32>,
}

/// A point whose arming changes the failure rate.
#[derive(Debug, Clone, PartialEq)]
pub struct ArmingEffect {
    /// The points, which were armed in the same trials.
    pub points: Vec<u32>,
    /// Whether arming makes failures more frequent.
    pub raises: bool,
    /// Failures and trials with the points armed.
    pub armed: (u64, u64),
    /// Failures and trials without.
    pub unarmed: (u64, u64),
    /// The p-value of Fisher's exact test, two-sided.
    pub p: f64,
    /// The p-value that is adjusted for all points by Holm's method.
    pub adjusted_p: f64,
}
