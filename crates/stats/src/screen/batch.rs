//! Tests one condition on several tests of a suite in the same pairs.
//!
//! Under the assumption that a condition is harmless for some of the tests, the mean of their wealths is that of a fair
//! bet, however the outcomes of these tests depend on each other: the order of each pair is random. So an effect on a test
//! is claimed if every group of tests that contains it has a sufficient mean (closed testing of e-values, Vovk and Wang).
//! Tests that all fail under the condition need no more pairs than one test.

use super::condition::Outcome;
use super::pairs::{Direction, PairTest, PairTestState};

/// The tests of a condition in the same pairs.
#[derive(Debug, Clone)]
pub(super) struct Batch {
    pub(super) condition: usize,
    pub(super) level: f64,
    /// The tests of the suite with what is tested about them.
    pub(super) tests: Vec<(usize, PairTest)>,
}

impl Batch {
    pub(super) fn new(condition: usize, tests: &[(usize, Direction)], level: f64) -> Self {
        let tests = tests
            .iter()
            .map(|&(test, direction)| (test, PairTest::new(vec![condition], direction, level)));
        Self {
            condition,
            level,
            tests: tests.collect(),
        }
    }

    /// Adds a pair, and decides the tests.
    pub(super) fn push_pair(&mut self, outcomes: impl Fn(usize) -> [Outcome; 2]) {
        for (test, pairs) in &mut self.tests {
            let [with, without] = outcomes(*test);
            pairs.push_pair(with, without);
        }
        let wealths: Vec<f64> = self.tests.iter().map(|(_, pairs)| pairs.wealth).collect();
        for ((_, pairs), evidence) in self.tests.iter_mut().zip(closed_evidence(&wealths)) {
            pairs.decide(evidence);
        }
    }

    /// Returns the number of tests in this state.
    pub(super) fn count_of(&self, state: PairTestState) -> usize {
        let states = self.tests.iter().map(|(_, pairs)| pairs.state);
        states.filter(|other| *other == state).count()
    }

    pub(super) fn is_open(&self) -> bool {
        self.count_of(PairTestState::Open) > 0
    }
}

/// Returns for each wealth the smallest mean of the groups that contain it.
fn closed_evidence(wealths: &[f64]) -> Vec<f64> {
    let mut ascending = wealths.to_vec();
    ascending.sort_by(f64::total_cmp);
    let smallest_mean = |wealth: &f64| {
        let (mut sum, mut count) = (*wealth, 1.0);
        for smaller in &ascending {
            // A wealth that is not below the mean, such as the own one, would not reduce it.
            if *smaller >= sum / count {
                break;
            }
            sum += smaller;
            count += 1.0;
        }
        sum / count
    };
    wealths.iter().map(smallest_mean).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_evidence_is_the_smallest_mean_of_all_groups() {
        assert_eq!(closed_evidence(&[40.0]), [40.0]);
        assert_eq!(closed_evidence(&[40.0, 40.0, 40.0]), [40.0; 3]);
        assert_eq!(closed_evidence(&[40.0, 0.0]), [20.0, 0.0]);
        assert_eq!(closed_evidence(&[8.0, 0.0, 1.0]), [3.0, 0.0, 0.5]);
        // The mean with all smaller ones is not the smallest.
        assert_eq!(closed_evidence(&[10.0, 9.0, 2.0]), [6.0, 5.5, 2.0]);
    }

    #[test]
    fn tests_with_the_same_outcomes_need_no_more_pairs_than_one() {
        for count in [1, 1000] {
            let tests: Vec<_> = (0..count).map(|test| (test, Direction::Raises)).collect();
            let mut batch = Batch::new(0, &tests, 0.025);
            let mut pairs = 0;
            while batch.is_open() {
                batch.push_pair(|_| [Outcome::Failed, Outcome::Passed]);
                pairs += 1;
            }
            assert_eq!((pairs, batch.count_of(PairTestState::Claimed)), (6, count));
        }
    }
}
