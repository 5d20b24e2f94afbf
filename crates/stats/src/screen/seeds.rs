//! Tests whether a seed fixes the outcome of a trial.
//!
//! Each seed runs twice: all seeds in one random order, then all in another. If the seed has no effect, each assignment
//! of the second outcomes to the first ones is equally likely, at every failure rate and also if the rate drifts. The
//! p-value is the share of assignments in which at least as many seeds agree (Fisher's exact test).

use rand::seq::SliceRandom as _;
use rand_pcg::Pcg64Mcg;

use super::condition::Outcome;
use crate::fisher::fisher;

/// Number of seeds that are used.
const SEEDS: usize = 12;
/// Number of trials of the second pass after which the test may be given up.
const CHUNK: usize = 4;
/// A test is given up if more seeds disagree.
const DISAGREEING: usize = 1;

/// A seed, and its outcomes in both passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SeedOutcomes {
    /// The condition.
    pub condition: usize,
    /// The outcomes; `None` for a trial that did not run.
    pub outcomes: [Option<Outcome>; 2],
}

impl SeedOutcomes {
    /// Returns whether each trial failed, if both are counted.
    fn failures(&self) -> Option<[bool; 2]> {
        match self.outcomes {
            [Some(first), Some(second)]
                if first != Outcome::NotCounted && second != Outcome::NotCounted =>
            {
                Some([first == Outcome::Failed, second == Outcome::Failed])
            }
            _ => None,
        }
    }
}

/// A test of the seeds of one family.
#[derive(Debug, Clone, PartialEq)]
pub struct SeedTest {
    /// The family of the seeds.
    pub family: usize,
    /// The seeds and their outcomes.
    pub table: Vec<SeedOutcomes>,
    /// The level of the test.
    pub level: f64,
    /// The p-value; 1 if the test was given up.
    pub p_value: f64,
    is_over: bool,
}

impl SeedTest {
    pub(super) fn new(family: usize, seeds: &[usize], level: f64) -> Self {
        let table = seeds.iter().take(SEEDS).map(|&condition| SeedOutcomes {
            condition,
            outcomes: [None; 2],
        });
        Self {
            family,
            table: table.collect(),
            level,
            p_value: 1.0,
            is_over: false,
        }
    }

    /// Returns whether the outcome depends on the seed.
    pub fn is_claimed(&self) -> bool {
        self.is_over && self.p_value <= self.level
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Returns the seeds that ended alike twice, and otherwise than most, if the test ran to its end without a claim: they
    /// are too few for it. Their evidence is unlimited, so they are tested in pairs before other candidates.
    pub(super) fn odd_seeds(&self) -> Vec<(usize, f64)> {
        if !self.is_over || self.is_claimed() || self.p_value >= 1.0 {
            return Vec::new();
        }
        let twice = |failed: bool| {
            let seeds = self.table.iter();
            let alike = seeds.filter(move |seed| seed.failures() == Some([failed; 2]));
            alike.map(|seed| seed.condition).collect::<Vec<_>>()
        };
        let (failing, passing) = (twice(true), twice(false));
        let (seeds, evidence) = if failing.len() <= passing.len() {
            (failing, f64::INFINITY)
        } else {
            (passing, f64::NEG_INFINITY)
        };
        seeds.into_iter().map(|seed| (seed, evidence)).collect()
    }

    /// Returns the seeds of the next trials; none if the test is over.
    pub(super) fn next_seeds(&self, random: &mut Pcg64Mcg) -> Vec<usize> {
        if self.is_over {
            return Vec::new();
        }
        let is_first_pass = self.table.iter().any(|seed| seed.outcomes[0].is_none());
        let pass = usize::from(!is_first_pass);
        let open = self
            .table
            .iter()
            .filter(|seed| seed.outcomes[pass].is_none());
        let mut seeds: Vec<usize> = open.map(|seed| seed.condition).collect();
        seeds.shuffle(random);
        if !is_first_pass {
            seeds.truncate(CHUNK);
        }
        seeds
    }

    /// Adds the outcome of a trial.
    pub(super) fn record(&mut self, condition: usize, outcome: Outcome) {
        let seed = self
            .table
            .iter_mut()
            .find(|seed| seed.condition == condition);
        let open = seed.and_then(|seed| seed.outcomes.iter_mut().find(|outcome| outcome.is_none()));
        if let Some(open) = open {
            *open = Some(outcome);
        }
    }

    /// Ends the test after its last trial, or if a claim is impossible.
    pub(super) fn decide(&mut self) {
        if self.is_over {
            return;
        }
        let first_pass = self.table.iter().map(|seed| seed.outcomes[0]);
        let failures = first_pass
            .clone()
            .filter(|o| *o == Some(Outcome::Failed))
            .count();
        let passes = first_pass.filter(|o| *o == Some(Outcome::Passed)).count();
        let counted: Vec<[bool; 2]> = self
            .table
            .iter()
            .filter_map(SeedOutcomes::failures)
            .collect();
        let disagreeing = counted
            .iter()
            .filter(|[first, second]| first != second)
            .count();
        if failures == 0 || passes == 0 || disagreeing > DISAGREEING {
            self.is_over = true;
        } else if self.table.iter().all(|seed| seed.outcomes[1].is_some()) {
            self.is_over = true;
            self.p_value = agreement_p_value(&counted);
        }
    }
}

/// Returns the probability that at least as many seeds agree by chance.
fn agreement_p_value(outcomes: &[[bool; 2]]) -> f64 {
    let count = |first: bool, second: bool| {
        let same = outcomes.iter().filter(|pair| **pair == [first, second]);
        same.count() as u64
    };
    let (both, first_only, second_only, neither) = (
        count(true, true),
        count(true, false),
        count(false, true),
        count(false, false),
    );
    fisher(both, both + first_only, second_only, second_only + neither).greater
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_p_value_is_the_share_of_assignments_with_as_many_agreeing_seeds() {
        // All 12 seeds agree, 6 of them fail: 1 of C(12, 6) = 924 assignments.
        let mut outcomes = vec![[true; 2]; 6];
        outcomes.extend([[false; 2]; 6]);
        assert!((agreement_p_value(&outcomes) * 924.0 - 1.0).abs() < 1e-9);
        // One of 7 failing seeds passes the second time: C(7, 6) assignments have 6 failures there; C(12, 6) in total.
        outcomes[11] = [true, false];
        assert!((agreement_p_value(&outcomes) * 924.0 - 7.0).abs() < 1e-9);
        let always = [[true; 2]; 12];
        assert!((agreement_p_value(&always) - 1.0).abs() < 1e-12);
    }
}
