//! Compares the failure rates of the tests of a suite in two runs.

use provoke_stats::cases::{CaseCounts, CasePair, changed_cases};
use serde::Serialize;
use std::collections::BTreeMap;

/// Share of the listed tests that may be listed by chance.
const FALSE_SHARE: f64 = 0.05;

/// How often a test failed in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct TestCounts {
    /// Trials in which it failed.
    pub failures: u64,
    /// Trials in which it passed or failed.
    pub trials: u64,
}

/// A test that fails more often in one of two runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ChangedTest {
    /// Its full name.
    pub name: String,
    /// Its counts in the first run.
    pub left: TestCounts,
    /// Its counts in the second run.
    pub right: TestCounts,
    /// Fisher's exact test, corrected for the number of tests by Benjamini and Hochberg.
    pub q_value: f64,
}

/// The differences between the tests of two runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SuiteDifference {
    /// Tests that ran in both runs.
    pub in_both: u64,
    /// Tests that fail more often in the second run.
    pub worse: Vec<ChangedTest>,
    /// Tests that fail less often in the second run.
    pub better: Vec<ChangedTest>,
    /// Tests that ran in the first run only.
    pub only_left: Vec<String>,
    /// Tests that ran in the second run only.
    pub only_right: Vec<String>,
}

/// Compares the tests of two runs by their names.
pub fn compare_suites(
    left: &BTreeMap<String, TestCounts>,
    right: &BTreeMap<String, TestCounts>,
) -> SuiteDifference {
    let to_pair = |counts: &TestCounts| CaseCounts {
        failures: counts.failures,
        trials: counts.trials,
    };
    let common: Vec<(&String, TestCounts, TestCounts)> = left
        .iter()
        .filter_map(|(name, counts)| Some((name, *counts, *right.get(name)?)))
        .collect();
    let pairs: Vec<CasePair> = common
        .iter()
        .map(|(_, before, after)| CasePair {
            before: to_pair(before),
            after: to_pair(after),
        })
        .collect();
    let only_in = |own: &BTreeMap<String, TestCounts>, other: &BTreeMap<String, TestCounts>| {
        let names = own.keys().filter(|name| !other.contains_key(*name));
        names.cloned().collect::<Vec<String>>()
    };
    let mut difference = SuiteDifference {
        in_both: common.len() as u64,
        only_left: only_in(left, right),
        only_right: only_in(right, left),
        ..SuiteDifference::default()
    };
    for ((name, left, right), change) in common.into_iter().zip(changed_cases(&pairs)) {
        for (q_value, tests) in [
            (change.q_worse, &mut difference.worse),
            (change.q_better, &mut difference.better),
        ] {
            if q_value <= FALSE_SHARE {
                tests.push(ChangedTest {
                    name: name.clone(),
                    left,
                    right,
                    q_value,
                });
            }
        }
    }
    for tests in [&mut difference.worse, &mut difference.better] {
        tests.sort_by(|test, other| test.q_value.total_cmp(&other.q_value));
    }
    difference
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_that_changed_are_listed_and_chance_is_not() {
        let suite = |counts: &[(&str, u64)]| {
            let tests = counts.iter().map(|(name, failures)| {
                let counts = TestCounts {
                    failures: *failures,
                    trials: 40,
                };
                ((*name).to_owned(), counts)
            });
            tests.collect::<BTreeMap<String, TestCounts>>()
        };
        let left = suite(&[("chance", 5), ("fixed", 20), ("gone", 1), ("worse", 0)]);
        let right = suite(&[("chance", 8), ("fixed", 0), ("new", 1), ("worse", 15)]);
        let difference = compare_suites(&left, &right);
        let names = |tests: &[ChangedTest]| {
            let names = tests.iter().map(|test| test.name.clone());
            names.collect::<Vec<String>>()
        };
        assert_eq!(names(&difference.worse), ["worse"]);
        assert_eq!(names(&difference.better), ["fixed"]);
        assert_eq!(difference.only_left, ["gone"]);
        assert_eq!(difference.only_right, ["new"]);
        assert_eq!(difference.in_both, 3);
    }
}
