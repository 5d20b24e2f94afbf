//! Counts in, numbers out: intervals, bounds, sample sizes, tests.
