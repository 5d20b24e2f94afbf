//! Finds the mildest step of a ladder at which a condition has its effect.
//!
//! Bisection takes three trials a step, whose majority decides. The bisection assumes that harsher steps have the effect
//! as well; one more step, the second one below the answer, checks this.

use super::condition::Outcome;
use super::counts::Counts;
use super::pairs::Direction;

/// Number of trials of a step.
pub(super) const STEP_TRIALS: usize = 3;

/// The part of a ladder between which an effect begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dose {
    /// The mildest tested condition with the effect.
    pub mildest_with_effect: usize,
    /// The harshest tested condition without the effect.
    pub harshest_without_effect: Option<usize>,
    /// Whether no tested step contradicts the assumption that harsher steps have the effect, too.
    pub is_monotone: bool,
    /// The tested steps with their counts.
    pub steps: Vec<(usize, Counts)>,
}

/// A bisection of a ladder.
#[derive(Debug, Clone)]
pub(super) struct DoseSearch {
    pub condition: usize,
    direction: Direction,
    /// The milder steps, the mildest first.
    ladder: Vec<usize>,
    /// Number of steps from the mild end that are without the effect.
    without: usize,
    /// Position of the mildest step with the effect; the length of the ladder for the condition itself.
    with: usize,
    steps: Vec<(usize, Counts)>,
    is_monotone: bool,
    is_over: bool,
}

impl DoseSearch {
    pub(super) fn new(condition: usize, direction: Direction, ladder: Vec<usize>) -> Self {
        Self {
            condition,
            direction,
            without: 0,
            with: ladder.len(),
            ladder,
            steps: Vec::new(),
            is_monotone: true,
            is_over: false,
        }
    }

    /// Returns the position of the next step; `None` if the search is over.
    fn next_position(&self) -> Option<usize> {
        if self.is_over {
            None
        } else if self.without < self.with {
            Some(usize::midpoint(self.without, self.with))
        } else {
            self.without.checked_sub(2)
        }
    }

    /// Returns the next step.
    pub(super) fn next_step(&self) -> Option<usize> {
        let step = *self.ladder.get(self.next_position()?)?;
        let is_tested = self.steps.iter().any(|(tested, _)| *tested == step);
        (!is_tested).then_some(step)
    }

    /// Adds the trials of the next step.
    pub(super) fn record_step(&mut self, outcomes: &[Outcome]) {
        let Some(position) = self.next_position() else {
            return;
        };
        let mut counts = Counts::default();
        for outcome in outcomes {
            counts.add(*outcome);
        }
        self.steps.push((self.ladder[position], counts));
        let affected = match self.direction {
            Direction::Raises => counts.failures,
            Direction::Removes => counts.trials - counts.failures,
        };
        if counts.trials < 2 || 2 * affected == counts.trials {
            self.is_over = true;
            return;
        }
        let has_effect = 2 * affected > counts.trials;
        if self.without == self.with {
            self.is_monotone = !has_effect;
            self.is_over = true;
        } else if has_effect {
            self.with = position;
        } else {
            self.without = position + 1;
        }
    }

    /// Returns the present result.
    pub(super) fn dose(&self) -> Dose {
        Dose {
            mildest_with_effect: *self.ladder.get(self.with).unwrap_or(&self.condition),
            harshest_without_effect: self.without.checked_sub(1).map(|i| self.ladder[i]),
            is_monotone: self.is_monotone,
            steps: self.steps.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Searches a ladder of ten steps for a condition with number 10.
    fn search_ladder(fails: impl Fn(usize) -> bool) -> Dose {
        let mut search = DoseSearch::new(10, Direction::Raises, (0..10).collect());
        while let Some(step) = search.next_step() {
            let outcome = if fails(step) {
                Outcome::Failed
            } else {
                Outcome::Passed
            };
            search.record_step(&[outcome; STEP_TRIALS]);
        }
        search.dose()
    }

    #[test]
    fn a_ladder_is_divided_between_neighbouring_steps() {
        for first in 0..=10 {
            let dose = search_ladder(|step| step >= first);
            assert_eq!(dose.mildest_with_effect, first);
            assert_eq!(dose.harshest_without_effect, first.checked_sub(1));
            assert!(dose.is_monotone && dose.steps.len() <= 5, "{dose:?}");
        }
    }

    #[test]
    fn a_failing_step_below_a_passing_one_is_reported() {
        let dose = search_ladder(|step| step >= 8 || step == 6);
        assert_eq!(dose.mildest_with_effect, 8);
        assert_eq!(dose.harshest_without_effect, Some(7));
        assert!(!dose.is_monotone);
    }

    #[test]
    fn a_step_without_a_majority_ends_the_search() {
        let mut search = DoseSearch::new(2, Direction::Removes, vec![0, 1]);
        search.record_step(&[Outcome::NotCounted, Outcome::Failed, Outcome::Passed]);
        assert_eq!(
            (search.next_step(), search.dose().mildest_with_effect),
            (None, 2)
        );
    }
}
