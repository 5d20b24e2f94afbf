//! Clusters of cases that fail together, in the same trials.
//!
//! Most flaky tests share a cause with others: a slow network, a full disk, one polluter. Such tests fail in the same
//! trials more often than chance explains. Each pair is tested (Fisher, one-sided), the p-values are corrected for all
//! pairs (Benjamini and Hochberg), and the remaining pairs are joined to clusters.

use std::collections::BTreeMap;

use super::changes::corrected_among;
use super::hypergeometric::FailureSplit;
use crate::convert::real;

/// Cases that are compared with each other; of more, those with the most failures.
pub const MOST_CLUSTERED_CASES: usize = 2_000;
/// A pair needs this number of trials in which both failed. A single one, such as a full disk, would join all cases.
const FEWEST_COMMON_FAILURES: u64 = 2;

/// A set of trials, one bit for each.
#[derive(Debug, Clone, Default)]
struct TrialSet {
    words: Vec<u64>,
}

impl TrialSet {
    fn insert(&mut self, trial: usize) {
        let word = trial / 64;
        if self.words.len() <= word {
            self.words.resize(word + 1, 0);
        }
        self.words[word] |= 1 << (trial % 64);
    }

    fn count(&self) -> u64 {
        self.words
            .iter()
            .map(|word| u64::from(word.count_ones()))
            .sum()
    }

    /// Returns the size of the intersection.
    fn count_common(&self, other: &Self) -> u64 {
        let pairs = self.words.iter().zip(&other.words);
        pairs.map(|(a, b)| u64::from((a & b).count_ones())).sum()
    }

    fn contains(&self, trial: usize) -> bool {
        let word = self.words.get(trial / 64);
        word.is_some_and(|word| word >> (trial % 64) & 1 == 1)
    }
}

/// The trials of one case.
#[derive(Debug, Clone, Default)]
struct CaseTrials {
    counted: TrialSet,
    failed: TrialSet,
}

/// The failures of all cases by trial: two bits for each case and trial.
#[derive(Debug, Clone, Default)]
pub struct FailureSets {
    cases: BTreeMap<u32, CaseTrials>,
    trials: usize,
}

/// Cases that fail in the same trials.
#[derive(Debug, Clone, PartialEq)]
pub struct FailureCluster {
    /// The cases, ascending.
    pub cases: Vec<u32>,
    /// The trials in which at least two of them failed, ascending.
    pub trials: Vec<u32>,
    /// The smallest correlation (phi) of the pairs that join the cluster.
    pub smallest_phi: f64,
    /// The largest corrected p-value of these pairs.
    pub largest_q_value: f64,
}

/// A pair of cases, by their positions in the list of compared cases.
struct CasePairing {
    first: usize,
    second: usize,
    phi: f64,
    p_value: f64,
}

impl FailureSets {
    /// Returns sets without trials.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a trial: the cases that passed or failed in it, and the ones among them that failed.
    pub fn add_trial(&mut self, counted: &[u32], failed: &[u32]) {
        for case in counted {
            self.cases
                .entry(*case)
                .or_default()
                .counted
                .insert(self.trials);
        }
        for case in failed {
            let trials = self.cases.entry(*case).or_default();
            trials.counted.insert(self.trials);
            trials.failed.insert(self.trials);
        }
        self.trials += 1;
    }

    /// Returns the clusters, the largest first. `q` is the share of pairs that may be joined by chance, on average.
    pub fn find_clusters(&self, q: f64) -> Vec<FailureCluster> {
        let mut failing: Vec<(u32, &CaseTrials, u64)> = self
            .cases
            .iter()
            .map(|(case, trials)| (*case, trials, trials.failed.count()))
            .filter(|(.., failures)| *failures > 0)
            .collect();
        failing.sort_by(|a, b| b.2.cmp(&a.2).then(a.0.cmp(&b.0)));
        failing.truncate(MOST_CLUSTERED_CASES);
        let pairings = pair_cases(&failing);
        let cases = failing.len() as u64;
        let p_values: Vec<f64> = pairings.iter().map(|pairing| pairing.p_value).collect();
        let q_values = corrected_among(&p_values, cases * cases.saturating_sub(1) / 2);
        let mut groups: Vec<usize> = (0..failing.len()).collect();
        let joined: Vec<(&CasePairing, f64)> = pairings
            .iter()
            .zip(q_values)
            .filter(|(_, q_value)| *q_value < q)
            .collect();
        for (pairing, _) in &joined {
            let (first, second) = (
                find_group(&mut groups, pairing.first),
                find_group(&mut groups, pairing.second),
            );
            groups[first.max(second)] = first.min(second);
        }
        let mut members: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for position in 0..failing.len() {
            let group = find_group(&mut groups, position);
            members.entry(group).or_default().push(position);
        }
        let mut clusters: Vec<FailureCluster> = members
            .into_values()
            .filter(|positions| positions.len() > 1)
            .map(|positions| self.describe_cluster(&failing, &positions, &joined))
            .collect();
        clusters.sort_by(|a, b| {
            let by_size = b.cases.len().cmp(&a.cases.len());
            by_size.then_with(|| a.cases.cmp(&b.cases))
        });
        clusters
    }

    fn describe_cluster(
        &self,
        failing: &[(u32, &CaseTrials, u64)],
        positions: &[usize],
        joined: &[(&CasePairing, f64)],
    ) -> FailureCluster {
        let mut cases: Vec<u32> = positions
            .iter()
            .map(|position| failing[*position].0)
            .collect();
        cases.sort_unstable();
        let failures_in = |trial: usize| {
            let members = positions.iter().map(|position| failing[*position].1);
            members
                .filter(|trials| trials.failed.contains(trial))
                .count()
        };
        let trials = (0..self.trials).filter(|trial| failures_in(*trial) > 1);
        let links = || {
            joined
                .iter()
                .filter(|(pairing, _)| positions.binary_search(&pairing.first).is_ok())
        };
        FailureCluster {
            cases,
            trials: trials
                .filter_map(|trial| u32::try_from(trial).ok())
                .collect(),
            smallest_phi: links().map(|(pairing, _)| pairing.phi).fold(1.0, f64::min),
            largest_q_value: links().map(|(_, q_value)| *q_value).fold(0.0, f64::max),
        }
    }
}

/// Tests the pairs that failed together at least twice. All other pairs count as tests with the p-value 1.
fn pair_cases(failing: &[(u32, &CaseTrials, u64)]) -> Vec<CasePairing> {
    let mut pairings = Vec::new();
    for (second, (_, b, _)) in failing.iter().enumerate() {
        for (first, (_, a, _)) in failing[..second].iter().enumerate() {
            let common = a.failed.count_common(&b.failed);
            if common < FEWEST_COMMON_FAILURES {
                continue;
            }
            let trials = a.counted.count_common(&b.counted);
            let failures = a.failed.count_common(&b.counted);
            let other_failures = b.failed.count_common(&a.counted);
            let phi = correlation(trials, failures, other_failures, common);
            if phi > 0.0 {
                let split = FailureSplit::new(trials, failures, other_failures);
                pairings.push(CasePairing {
                    first,
                    second,
                    phi,
                    p_value: split.at_least(common),
                });
            }
        }
    }
    pairings
}

/// Returns the correlation of two failures (phi): 1 if they always fail together, 0 if they are independent.
fn correlation(trials: u64, failures: u64, other_failures: u64, common: u64) -> f64 {
    let (n, a, b) = (real(trials), real(failures), real(other_failures));
    let spread = (a * (n - a) * b * (n - b)).sqrt();
    if spread <= 0.0 {
        return 0.0;
    }
    (n * real(common) - a * b) / spread
}

/// Returns the smallest member of a group, and shortens the way to it.
fn find_group(groups: &mut [usize], mut position: usize) -> usize {
    while groups[position] != position {
        groups[position] = groups[groups[position]];
        position = groups[position];
    }
    position
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_with_the_same_trials_are_a_cluster() {
        let mut sets = FailureSets::new();
        let cases: Vec<u32> = (0..20).collect();
        for trial in 0..100 {
            let failed: &[u32] = match trial % 10 {
                0 => &[1, 2, 3],
                4 => &[7, 8],
                5 => &[9],
                _ => &[],
            };
            sets.add_trial(&cases, failed);
        }
        let clusters = sets.find_clusters(0.01);
        let [three, two] = &clusters[..] else {
            panic!("{clusters:?}")
        };
        assert_eq!(three.cases, [1, 2, 3]);
        assert_eq!(three.trials, [0, 10, 20, 30, 40, 50, 60, 70, 80, 90]);
        assert!((three.smallest_phi - 1.0).abs() < 1e-12);
        assert_eq!(two.cases, [7, 8]);
    }

    #[test]
    fn one_trial_in_which_everything_fails_is_not_a_cluster() {
        let mut sets = FailureSets::new();
        let cases: Vec<u32> = (0..300).collect();
        for trial in 0..200 {
            sets.add_trial(&cases, if trial == 100 { &cases } else { &[] });
        }
        assert_eq!(sets.find_clusters(0.01), []);
    }

    #[test]
    fn trials_in_which_a_case_did_not_start_are_left_out() {
        let mut sets = FailureSets::new();
        for trial in 0..40_u32 {
            // Case 1 starts only in trials in which case 0 fails anyway.
            let counted: &[u32] = if trial < 20 { &[0, 1] } else { &[0] };
            let failed: &[u32] = match trial {
                0..10 => &[0, 1],
                10..20 => &[0],
                _ => &[],
            };
            sets.add_trial(counted, failed);
        }
        assert_eq!(sets.find_clusters(0.01), []);
        assert_eq!(FailureSets::new().find_clusters(0.01), []);
    }
}
