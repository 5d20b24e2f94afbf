//! Tries random halves of the families together, to find candidates.
//!
//! Each trial turns on each family with a probability of one half, with one random condition of the family. So each trial
//! is evidence about all conditions at once: trials with a condition are compared with trials without its family.

use rand::RngExt as _;
use rand::seq::IndexedRandom as _;
use rand_pcg::Pcg64Mcg;
use std::collections::BTreeMap;

use super::condition::{Condition, Outcome};
use super::counts::Counts;

/// The trials under random halves.
#[derive(Debug, Clone, Default)]
pub(super) struct Halves {
    trials: Vec<(Vec<usize>, Outcome)>,
    /// The counts of trials that candidates are chosen by.
    tally: HalvesTally,
}

/// The counts of trials under random halves.
#[derive(Debug, Clone, Default)]
struct HalvesTally {
    total: Counts,
    by_condition: BTreeMap<usize, Counts>,
    by_family: BTreeMap<usize, Counts>,
}

impl HalvesTally {
    fn add(&mut self, set: &[usize], outcome: Outcome, conditions: &[Condition]) {
        self.total.add(outcome);
        for &condition in set {
            let family = conditions[condition].family;
            self.by_condition.entry(condition).or_default().add(outcome);
            self.by_family.entry(family).or_default().add(outcome);
        }
    }

    /// Returns the counts with a condition, and those without its family.
    fn contrast(&self, condition: usize, family: usize) -> [Counts; 2] {
        let with = self.by_condition.get(&condition).copied();
        let of_family = self.by_family.get(&family).copied().unwrap_or_default();
        [with.unwrap_or_default(), self.total.minus(of_family)]
    }
}

impl Halves {
    pub(super) fn record(&mut self, set: Vec<usize>, outcome: Outcome, conditions: &[Condition]) {
        self.tally.add(&set, outcome, conditions);
        self.trials.push((set, outcome));
    }

    /// Leaves the trials under a confirmed condition, or under all that are needed together, out of the counts that
    /// candidates are chosen by.
    pub(super) fn leave_out(&mut self, confirmed: &[&[usize]], conditions: &[Condition]) {
        self.tally = HalvesTally::default();
        for (set, outcome) in &self.trials {
            let has_all = |needed: &&[usize]| needed.iter().all(|one| set.contains(one));
            if !confirmed.iter().any(has_all) {
                self.tally.add(set, *outcome, conditions);
            }
        }
    }

    /// Returns the number of trials.
    pub(super) fn count(&self) -> usize {
        self.trials.len()
    }

    /// Returns the counts of the trials that candidates are chosen by.
    pub(super) fn counts(&self) -> Counts {
        self.tally.total
    }

    /// Returns whether some trials failed and some passed.
    pub(super) fn is_mixed(&self) -> bool {
        self.tally.total.is_mixed()
    }

    /// Returns the conditions of the trials of several conditions with this outcome, the fewest first.
    pub(super) fn sets_with(&self, outcome: Outcome) -> Vec<&[usize]> {
        let trials = self.trials.iter();
        let sets = trials.filter(|(set, ended)| set.len() > 1 && *ended == outcome);
        let mut sets: Vec<&[usize]> = sets.map(|(set, _)| set.as_slice()).collect();
        sets.sort_by_key(|set| set.len());
        sets
    }

    /// Returns whether a trial was counted under this condition.
    pub(super) fn has_counted(&self, condition: usize) -> bool {
        self.trials
            .iter()
            .any(|(set, outcome)| set.contains(&condition) && *outcome != Outcome::NotCounted)
    }

    /// Returns the conditions of the trials that were not counted.
    pub(super) fn suspects(&self) -> impl Iterator<Item = usize> {
        let not_counted = self.trials.iter();
        not_counted
            .filter(|(_, outcome)| *outcome == Outcome::NotCounted)
            .flat_map(|(set, _)| set.iter().copied())
    }

    /// Returns the counts with this condition, and those without its family; trials under a confirmed condition are
    /// left out.
    pub(super) fn contrast(&self, condition: usize, family: usize) -> [Counts; 2] {
        self.tally.contrast(condition, family)
    }

    /// Returns the counts of all trials with this condition, and of those without its family.
    pub(super) fn whole_contrast(&self, condition: usize, conditions: &[Condition]) -> [Counts; 2] {
        let mut tally = HalvesTally::default();
        for (set, outcome) in &self.trials {
            tally.add(set, *outcome, conditions);
        }
        tally.contrast(condition, conditions[condition].family)
    }
}

/// Returns a random half of the families of these conditions, one condition of each.
pub(super) fn draw_half(
    among: &[usize],
    conditions: &[Condition],
    random: &mut Pcg64Mcg,
) -> Vec<usize> {
    let mut families: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for &condition in among {
        let family = families.entry(conditions[condition].family);
        family.or_default().push(condition);
    }
    let mut half = Vec::new();
    for members in families.values() {
        if random.random_bool(0.5) {
            half.extend(members.choose(random));
        }
    }
    half.sort_unstable();
    half
}
