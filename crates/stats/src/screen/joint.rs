//! Reduces conditions that change the outcome together to those that are needed.
//!
//! Some programs fail only under two conditions at once, so each condition alone shows nothing. If plain trials never
//! differ, a trial of halves that differs has all needed conditions. The search repeats it, and leaves out one condition
//! after the other: a condition without which the outcome is the same is not needed. Those that remain are tried alone,
//! because a condition that has a weak effect alone may have kept others. Fresh pairs then test the result, so the choice
//! uses up no error.

use super::condition::Outcome;

/// Trials that repeat the outcome; one of them must show it.
const REPEATS: usize = 2;
/// Trials without a condition that must all lack the outcome, if the condition is needed; and as many with it alone, if
/// others are needed, too.
pub const TRIALS_WITHOUT: usize = 4;
/// Inconclusive trials without a condition at which the search is given up.
const INCONCLUSIVE: usize = 8;

/// A search for the needed ones of several conditions.
#[derive(Debug, Clone)]
pub(super) struct JointSearch {
    /// The outcome under these conditions, which plain trials do not have.
    outcome: Outcome,
    /// The conditions of the first trial.
    begin: Vec<usize>,
    stage: Stage,
}

#[derive(Debug, Clone)]
enum Stage {
    /// Repeats the first trial.
    Repeat,
    /// Leaves out one condition after the other.
    LeaveOut {
        needed: Vec<usize>,
        /// The conditions that were not left out.
        rest: Vec<usize>,
        /// Trials without the first of them, which lacked the outcome.
        trials: usize,
        /// Inconclusive trials so far.
        inconclusive: usize,
    },
    /// Tries each of the needed conditions alone.
    Alone(Vec<usize>),
    /// Is over, with the needed conditions; none if the outcome did not repeat.
    Over(Vec<usize>),
}

impl JointSearch {
    /// Begins a search with a trial under these conditions, and its outcome.
    pub(super) fn new(begin: Vec<usize>, outcome: Outcome) -> Self {
        Self {
            outcome,
            begin,
            stage: Stage::Repeat,
        }
    }

    /// Returns whether it began with these conditions.
    pub(super) fn began_with(&self, set: &[usize]) -> bool {
        self.begin == set
    }

    /// Returns the next trials; none if the search is over.
    pub(super) fn next_trials(&self) -> Vec<Vec<usize>> {
        match &self.stage {
            Stage::Repeat => vec![self.begin.clone(); REPEATS],
            Stage::LeaveOut { needed, rest, .. } => {
                let others = rest.iter().skip(1);
                let mut set: Vec<usize> = needed.iter().chain(others).copied().collect();
                set.sort_unstable();
                vec![set]
            }
            Stage::Alone(needed) => {
                let sets = needed.iter();
                sets.flat_map(|one| vec![vec![*one]; TRIALS_WITHOUT])
                    .collect()
            }
            Stage::Over(_) => Vec::new(),
        }
    }

    /// Learns from the trials. Returns the needed conditions once if that ended the search.
    pub(super) fn learn(&mut self, outcomes: &[Outcome]) -> Option<&[usize]> {
        let is_same = outcomes.contains(&self.outcome);
        match &mut self.stage {
            Stage::Repeat => {
                let (needed, rest) = (Vec::new(), self.begin.clone());
                self.stage = if is_same {
                    Stage::LeaveOut {
                        needed,
                        rest,
                        trials: 0,
                        inconclusive: 0,
                    }
                } else {
                    Stage::Over(Vec::new())
                };
            }
            Stage::LeaveOut {
                needed,
                rest,
                trials,
                inconclusive,
            } => {
                if outcomes.contains(&Outcome::NotCounted) {
                    *inconclusive += 1;
                } else {
                    *trials += 1;
                }
                if is_same {
                    rest.remove(0);
                    *trials = 0;
                } else if *trials == TRIALS_WITHOUT {
                    needed.push(rest.remove(0));
                    *trials = 0;
                }
                if *inconclusive == INCONCLUSIVE {
                    self.stage = Stage::Over(Vec::new());
                } else if rest.is_empty() {
                    let needed = std::mem::take(needed);
                    self.stage = match needed.len() {
                        0 | 1 => Stage::Over(needed),
                        _ => Stage::Alone(needed),
                    };
                }
            }
            Stage::Alone(needed) => {
                let mut trials = needed.iter().zip(outcomes.chunks(TRIALS_WITHOUT));
                let enough = trials.find(|(_, outcomes)| outcomes.contains(&self.outcome));
                self.stage = Stage::Over(match enough {
                    Some((one, _)) => vec![*one],
                    None => std::mem::take(needed),
                });
            }
            Stage::Over(_) => return None,
        }
        match &self.stage {
            Stage::Over(needed) => Some(needed),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the needed conditions of a program that fails if `fails` says so, and the number of trials.
    fn reduce(set: &[usize], fails: impl Fn(&[usize]) -> bool) -> (Vec<usize>, usize) {
        let mut search = JointSearch::new(set.to_vec(), Outcome::Failed);
        let mut trials = 0;
        loop {
            let sets = search.next_trials();
            trials += sets.len();
            let outcome = |set: &Vec<usize>| {
                if fails(set) {
                    Outcome::Failed
                } else {
                    Outcome::Passed
                }
            };
            let outcomes: Vec<Outcome> = sets.iter().map(outcome).collect();
            if let Some(needed) = search.learn(&outcomes) {
                return (needed.to_vec(), trials);
            }
        }
    }

    #[test]
    fn conditions_that_are_needed_together_remain() {
        let set = [1, 4, 5, 8, 9, 12];
        let both = reduce(&set, |set| set.contains(&4) && set.contains(&9));
        assert_eq!(both, (vec![4, 9], 2 + 4 + 4 * TRIALS_WITHOUT));
        let three = reduce(&set, |set| [1, 5, 12].iter().all(|c| set.contains(c)));
        assert_eq!(three.0, [1, 5, 12]);
        let choice = |set: &[usize]| set.contains(&4) && (set.contains(&1) || set.contains(&8));
        assert_eq!(reduce(&set, choice).0, [4, 8]);
    }

    #[test]
    fn a_condition_that_is_enough_alone_remains_alone() {
        let mut trials = 0;
        let mut search = JointSearch::new(vec![4, 9], Outcome::Failed);
        let outcomes = |trials: &mut usize, sets: Vec<Vec<usize>>| -> Vec<Outcome> {
            *trials += sets.len();
            let fails = |set: &Vec<usize>| set.len() > 1 || (*trials > 8 && *set == [9]);
            let outcome = |set| {
                if fails(set) {
                    Outcome::Failed
                } else {
                    Outcome::Passed
                }
            };
            sets.iter().map(outcome).collect()
        };
        let needed = loop {
            let ended = outcomes(&mut trials, search.next_trials());
            if let Some(needed) = search.learn(&ended) {
                break needed.to_vec();
            }
        };
        assert_eq!(needed, [9]);
    }

    #[test]
    fn inconclusive_trials_do_not_show_that_a_condition_is_needed() {
        let mut search = JointSearch::new(vec![4, 9], Outcome::Failed);
        assert_eq!(search.learn(&[Outcome::Failed; 2]), None);
        for _ in 1..INCONCLUSIVE {
            assert_eq!(search.learn(&[Outcome::NotCounted]), None);
            assert_eq!(search.next_trials(), [[9]]);
        }
        assert_eq!(search.learn(&[Outcome::NotCounted]), Some(&[][..]));
        assert!(search.next_trials().is_empty());
    }

    #[test]
    fn an_outcome_that_does_not_repeat_ends_the_search() {
        assert_eq!(reduce(&[1, 2], |_| false), (Vec::new(), 2));
    }
}
