//! Finds conditions under which the program fails in another way than the failure that is looked for.

use super::lists::{list_each, trials_to_reproduce};
use crate::FailureCounts;
use provoke_model::{Failure, FailureKind, FailureName, Item, Signature};
use provoke_stats::{fisher, real};
use provoke_words as words;
use provoke_words::document::{Cell, Column, Place, SuggestedCommand, Table};
use provoke_words::untrusted::shell_word;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Probability that chance shows a condition of another failure, by all tests together.
pub(super) const ERROR: f64 = 0.01;
/// Number of trials under a condition alone that show whether it always fails in another way.
const REPEATS: u64 = 4;
/// Probability by chance below which trials under several conditions make one of them a candidate.
const CANDIDATE: f64 = 0.001;

/// A condition under which another failure is more frequent than without it.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OtherFailureReport {
    /// The condition.
    pub condition: String,
    /// Title of the failure.
    pub failure: String,
    /// Signature of the failure.
    pub signature: String,
    /// Trials with the condition, and those that failed in this way.
    pub with: FailureCounts,
    /// The same of trials without any condition.
    pub without: FailureCounts,
}

impl OtherFailureReport {
    pub(super) fn new(other: &OtherFailure<'_>, items: &[Item]) -> Self {
        Self {
            condition: items[other.condition].name.clone(),
            failure: other.signature.title.clone(),
            signature: other.signature.id.to_string(),
            with: other.with,
            without: other.without,
        }
    }

    /// Describes this failure and its condition, and the conditions of further ones.
    pub(super) fn describe_with(&self, others: &[Self]) -> String {
        let failure = words::sanitize_line(&self.failure);
        if others.is_empty() {
            return format!(
                "It fails in another way under {}: {failure} in {} trials, and in {} without it",
                self.condition,
                self.with.in_words(),
                self.without.in_words()
            );
        }
        let names = std::iter::once(self).chain(others);
        let names: Vec<&str> = names.map(|other| &*other.condition).collect();
        format!(
            "It fails in another way under {}: {failure}",
            list_each(&names)
        )
    }

    /// Returns the commands that repeat the failure, and search its conditions.
    pub(super) fn commands(&self, command: &str) -> [SuggestedCommand; 2] {
        let only = format!("--only sig:{}", self.signature);
        let under = format!("--under {}", shell_word(self.condition.as_ref()));
        let trials = trials_to_reproduce(self.with);
        [
            SuggestedCommand::new(
                "the other failure",
                format!("provoke run -n {trials} {only} {under} {command}"),
            ),
            SuggestedCommand::new("its conditions", format!("provoke why {only} {command}")),
        ]
    }
}

/// Returns a table of the conditions of other failures.
pub(super) fn table(failures: &[OtherFailureReport]) -> Table {
    let columns = vec![
        Column::words("condition"),
        Column::numbers("with it"),
        Column::numbers("without"),
        Column::remarks("another failure"),
    ];
    let rows = failures.iter().map(|other| {
        [
            other.condition.clone(),
            other.with.in_words(),
            other.without.in_words(),
            other.failure.clone(),
        ]
        .map(Cell::text)
        .to_vec()
    });
    Table::new("Conditions of other failures", Place::Screen, columns)
        .with_rows(rows.collect::<Vec<_>>())
}

/// The ends of the trials of a program.
#[derive(Debug, Default)]
pub(super) struct TrialEnds {
    /// Those without any condition, and those with one.
    single: BTreeMap<Option<usize>, Ends>,
    /// Those with several conditions: the conditions, and the failure.
    together: Vec<(Vec<usize>, Option<Failure>)>,
}

/// The trials under the same conditions, and how many of them failed in each way.
#[derive(Debug, Default)]
struct Ends {
    trials: u64,
    failures: Vec<(FailureKind, Signature, u64)>,
}

/// A condition under which another failure is more frequent than without it.
pub(super) struct OtherFailure<'a> {
    pub(super) condition: usize,
    pub(super) signature: &'a Signature,
    pub(super) with: FailureCounts,
    pub(super) without: FailureCounts,
}

impl Ends {
    fn count_of_any(&self) -> FailureCounts {
        FailureCounts {
            failures: self.failures.iter().map(|(_, _, count)| count).sum(),
            trials: self.trials,
        }
    }

    fn count_of(&self, name: FailureName<'_>) -> FailureCounts {
        let same = self.failures.iter().filter(|(kind, signature, _)| {
            let other = FailureName { kind, signature };
            name.is_same(other)
        });
        FailureCounts {
            failures: same.map(|(_, _, count)| count).sum(),
            trials: self.trials,
        }
    }
}

impl TrialEnds {
    /// Adds a trial with these conditions, and how it failed.
    pub(super) fn add_trial(&mut self, conditions: &[usize], failure: Option<&Failure>) {
        if conditions.len() > 1 {
            self.together.push((conditions.to_vec(), failure.cloned()));
            return;
        }
        let condition = conditions.first().copied();
        let ends = self.single.entry(condition).or_default();
        ends.trials += 1;
        let Some(failure) = failure else {
            return;
        };
        let mut known = ends.failures.iter_mut();
        match known.find(|(_, signature, _)| *signature == failure.signature) {
            Some((_, _, count)) => *count += 1,
            None => {
                let entry = (failure.kind.clone(), failure.signature.clone(), 1);
                ends.failures.push(entry);
            }
        }
    }

    /// Returns a condition that should be tried alone: trials with it and others suggest that it causes another failure, and
    /// no trial with it alone says otherwise.
    pub(super) fn next_candidate(&self, target: FailureName<'_>) -> Option<usize> {
        let is_other = |failure: &Failure| !FailureName::from(failure).is_same(target);
        let mut conditions: BTreeSet<usize> = self.single.keys().copied().flatten().collect();
        conditions.extend(self.together.iter().flat_map(|(set, _)| set));
        conditions.into_iter().find(|condition| {
            let Some(ends) = self.single.get(&Some(*condition)) else {
                return self.is_suspect(*condition, is_other);
            };
            let of_target = ends.count_of(target).failures;
            let others = ends.count_of_any().failures - of_target;
            // A trial with the failure that is looked for does not tell.
            let passes = ends.trials - others - of_target;
            passes == 0 && others > 0 && others < REPEATS && ends.trials < 2 * REPEATS
        })
    }

    /// Returns whether another failure is significantly more frequent in trials with a condition and others.
    fn is_suspect(&self, condition: usize, is_other: impl Fn(&Failure) -> bool) -> bool {
        let [mut with, mut without] = [FailureCounts::default(); 2];
        for (set, failure) in &self.together {
            let counts = if set.contains(&condition) {
                &mut with
            } else {
                &mut without
            };
            counts.trials += 1;
            counts.failures += u64::from(failure.as_ref().is_some_and(&is_other));
        }
        let (k, n) = (with.failures, with.trials);
        fisher(k, n, without.failures, without.trials).greater <= CANDIDATE
    }

    /// Returns the conditions under which another failure than the one that is looked for is significantly more frequent.
    pub(super) fn other_failures(&self, target: FailureName<'_>) -> Vec<OtherFailure<'_>> {
        let Some(plain) = self.single.get(&None) else {
            return Vec::new();
        };
        let conditions = self.single.iter();
        let conditions = conditions.filter_map(|(key, ends)| Some(((*key)?, ends)));
        let failures = conditions.flat_map(|(condition, ends)| {
            let failures = ends.failures.iter();
            failures.filter_map(move |(kind, signature, _)| {
                let name = FailureName { kind, signature };
                (!name.is_same(target)).then(|| OtherFailure {
                    condition,
                    signature,
                    with: ends.count_of(name),
                    without: plain.count_of(name),
                })
            })
        });
        let mut failures: Vec<OtherFailure<'_>> = failures.collect();
        let tests = failures.len().max(self.single.len());
        failures.retain(|other| other.chance() * real(tests as u64) <= ERROR);
        failures.sort_by(|a, b| {
            let order = a.condition.cmp(&b.condition);
            order.then_with(|| a.chance().total_cmp(&b.chance()))
        });
        failures.dedup_by_key(|other| other.condition);
        failures
    }
}

impl OtherFailure<'_> {
    /// Returns the probability that chance makes it this much more frequent under the condition.
    fn chance(&self) -> f64 {
        let (with, without) = (self.with, self.without);
        fisher(with.failures, with.trials, without.failures, without.trials).greater
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::exit;

    const CONDITIONS: usize = 45;
    const SEARCHES: usize = 500;

    /// Returns the conditions under which another failure than exit 3 is more frequent.
    fn conditions_of_others(ends: &TrialEnds) -> Vec<usize> {
        let target = exit(3);
        let others = ends.other_failures((&target).into());
        others.iter().map(|other| other.condition).collect()
    }

    #[test]
    fn a_condition_under_which_each_trial_fails_in_another_way_is_found() {
        let mut ends = TrialEnds::default();
        for trial in 0..36 {
            let failure = exit(3);
            ends.add_trial(&[], (trial % 12 == 0).then_some(&failure));
        }
        for condition in 0..CONDITIONS {
            ends.add_trial(&[condition], None);
        }
        for _ in 0..4 {
            ends.add_trial(&[CONDITIONS], Some(&exit(4)));
            ends.add_trial(&[CONDITIONS + 1], Some(&exit(3)));
        }
        ends.add_trial(&[CONDITIONS + 2], Some(&exit(4)));
        assert_eq!(conditions_of_others(&ends), [CONDITIONS]);
    }

    #[test]
    fn a_condition_that_fails_in_another_way_together_with_others_is_tried_alone() {
        let target = exit(3);
        let candidate = |ends: &TrialEnds| ends.next_candidate((&target).into());
        let mut ends = TrialEnds::default();
        for trial in 0..30 {
            let failure = exit(4);
            let set = [trial % 2, 2 + trial % 3];
            ends.add_trial(&set, (set[0] == 1).then_some(&failure));
        }
        for _ in 0..REPEATS {
            assert_eq!(candidate(&ends), Some(1));
            ends.add_trial(&[1], Some(&exit(4)));
        }
        assert_eq!(candidate(&ends), None);
        ends.add_trial(&[2], Some(&exit(4)));
        assert_eq!(candidate(&ends), Some(2));
        ends.add_trial(&[2], None);
        assert_eq!(candidate(&ends), None);
    }

    /// A condition is tried again if its trial failed in another way, so the number of its trials depends on how they end.
    #[test]
    fn programs_whose_other_failure_has_a_constant_rate_have_no_condition_in_99_of_100_searches() {
        let mut seed = 1_u64;
        let mut draw = || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            real(seed >> 33) / real(1 << 31)
        };
        for rate in [0.02, 0.05, 0.1, 0.2, 0.4, 0.7] {
            let mut wrong = 0;
            for _ in 0..SEARCHES {
                let mut ends = TrialEnds::default();
                let failure = exit(4);
                for _ in 0..30 {
                    ends.add_trial(&[], (draw() < rate).then_some(&failure));
                }
                for condition in 0..CONDITIONS {
                    for _ in 0..4 {
                        let fails = draw() < rate;
                        ends.add_trial(&[condition], fails.then_some(&failure));
                        if !fails {
                            break;
                        }
                    }
                }
                wrong += usize::from(!conditions_of_others(&ends).is_empty());
            }
            assert!(wrong * 100 <= SEARCHES, "{wrong} at a rate of {rate}");
        }
    }
}
