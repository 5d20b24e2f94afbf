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
}

impl Halves {
    pub(super) fn record(&mut self, set: Vec<usize>, outcome: Outcome) {
        self.trials.push((set, outcome));
    }

    /// Returns the number of trials.
    pub(super) fn count(&self) -> usize {
        self.trials.len()
    }

    /// Returns the counts of all trials.
    pub(super) fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for (_, outcome) in &self.trials {
            counts.add(*outcome);
        }
        counts
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

    /// Returns the counts with this condition, and those without its family; trials under one of the confirmed
    /// conditions are left out.
    pub(super) fn contrast(
        &self,
        condition: usize,
        conditions: &[Condition],
        confirmed: &[usize],
    ) -> [Counts; 2] {
        let family = conditions[condition].family;
        let mut counts = [Counts::default(); 2];
        for (set, outcome) in &self.trials {
            if set.iter().any(|other| confirmed.contains(other)) {
                continue;
            }
            if set.contains(&condition) {
                counts[0].add(*outcome);
            } else if !set.iter().any(|&other| conditions[other].family == family) {
                counts[1].add(*outcome);
            }
        }
        counts
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
