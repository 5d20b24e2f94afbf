//! Search for cases whose failures depend on the order of the cases.
//!
//! For each case v that failed in some trials (the victim), and each other case w: does v fail more often in trials in
//! which w ran before v in the same process, or in trials in which it did not? If the order is random and has no effect,
//! both are equally likely, and the p-value of each 2x2 table is exact. There are thousands of candidates w, so the
//! p-values are multiplied by the number of tests that could have found anything (Tarone's form of Bonferroni): a
//! candidate that always ran before v cannot, so nothing is found in a fixed order.
//!
//! The correction makes a false finding unlikely, but an order is not a cause by itself. In a random order, whatever
//! ran before the true polluter tends to run before the victim as well. So a second candidate counts only if it
//! adds something in the trials that agree about the first one, and the candidates that explain the failures as well as
//! the first one are listed as its rivals.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, HashMap};
use std::hash::{Hash, Hasher as _};

use super::counts::CaseCounts;
use super::hypergeometric::FailureSplit;
use crate::convert::{count_up, real};

/// Victims that [`OrderTable::find_dependences`] examines; the rest of a longer list is ignored.
pub const MOST_VICTIMS: usize = 500;
/// Ranks that a table holds, of 2 bytes each.
const MOST_RANKS: usize = 32 << 20;
/// Trials that a table holds, so that counters of 16 bits are enough.
const MOST_TRIALS: usize = 60_000;
/// Candidates per victim that are compared with each other.
const MOST_RIVALS: usize = 64;
/// Findings per victim.
const MOST_FINDINGS: usize = 3;
/// A rival is excluded if the first candidate still matters at this level in trials that agree about the rival.
const RIVAL_LEVEL: f64 = 0.05;
/// The position of a victim matters if it explains failures at this level beyond the other case.
const POSITION_LEVEL: f64 = 0.005;
/// P-values count as equal up to this share, because of rounding.
const TIE: f64 = 1e-9;
/// The rank of a case that did not start.
const NOT_STARTED: u16 = u16::MAX;

/// The order in which the cases of a trial started.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct TrialOrder {
    /// For each case: its rank among all that started, one process after the other.
    ///
    /// "w started before v in the same process" is then a single comparison: `rank(w) - start(v) < rank(v) - start(v)`,
    /// where `start(v)` is the first rank of the process of v. Ranks of 16 bits keep the table of 5,000 cases and 1,000
    /// trials at 10 MB, and a scan of all candidates is a loop over one array.
    ranks: Vec<u16>,
    /// The first rank of each process, in ascending order.
    process_starts: Vec<u16>,
}

impl TrialOrder {
    fn rank_of(&self, case: u32) -> Option<u16> {
        let rank = self.ranks.get(case as usize).copied()?;
        (rank != NOT_STARTED).then_some(rank)
    }

    /// Returns the first rank of the process that has a rank.
    fn process_start(&self, rank: u16) -> u16 {
        let next = self.process_starts.partition_point(|start| *start <= rank);
        self.process_starts[next - 1]
    }

    /// Returns whether `other` started before a case with this rank in its process.
    fn is_before(&self, other: u32, rank: u16) -> bool {
        let start = self.process_start(rank);
        self.rank_of(other)
            .is_some_and(|other_rank| (start..rank).contains(&other_rank))
    }
}

/// A trial of an [`OrderTable`].
#[derive(Debug, Clone)]
struct OrderTrial {
    /// Index of its order.
    order: usize,
    /// Cases that failed, ascending.
    failed: Vec<u32>,
    /// Cases that neither passed nor failed, ascending.
    uncounted: Vec<u32>,
}

/// The orders and failures of the trials of a run.
///
/// Equal orders are stored once, so trials in a fixed order take almost no memory.
#[derive(Debug, Clone, Default)]
pub struct OrderTable {
    orders: Vec<TrialOrder>,
    /// Orders by their hashes.
    known_orders: HashMap<u64, Vec<usize>>,
    trials: Vec<OrderTrial>,
    ranks: usize,
    dropped: u64,
}

/// How the failures of a case depend on another case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum OrderRelation {
    /// It fails if the other case ran before it: the other one leaves something behind.
    FailsAfter,
    /// It fails unless the other case ran before it: the other one prepares something.
    FailsWithout,
}

/// Evidence that the failures of a case depend on the order.
#[derive(Debug, Clone, PartialEq)]
pub struct OrderDependence {
    /// The case that fails.
    pub victim: u32,
    /// The case on whose position the failures depend.
    pub other: u32,
    /// How they depend on it.
    pub relation: OrderRelation,
    /// The trials in which the other case ran before the victim in the same process.
    pub after: CaseCounts,
    /// The other trials.
    pub not_after: CaseCounts,
    /// One-sided p-value of this pair alone; of a further finding about a victim, in trials that agree about the others.
    pub p_value: f64,
    /// The p-value, corrected for all pairs and both relations.
    pub corrected_p_value: f64,
    /// Cases that explain the failures as well as `other`: the data do not show which of them it is.
    pub rivals: Vec<u32>,
    /// Whether the victim also fails more often late, or early, in the order, beyond what `other` explains. Then the
    /// place in the order matters, such as the time since the start, and `other` is only one of the cases before it.
    pub depends_on_position: bool,
}

/// A trial in which the victim passed or failed: its order, the rank of the victim there, and whether it failed.
type VictimTrial<'a> = (&'a TrialOrder, u16, bool);

/// A candidate for a dependence.
#[derive(Debug, Clone, Copy)]
struct OrderCandidate {
    other: u32,
    relation: OrderRelation,
    p_value: f64,
}

/// The tests of one victim against all candidates.
struct VictimScan {
    victim: u32,
    /// Of all tests about it: the smallest p-value that the margins allow, and the number of such tests.
    attainable: Vec<(f64, u64)>,
    /// The best candidates, the most likely first.
    candidates: Vec<OrderCandidate>,
}

impl OrderTable {
    /// Returns an empty table.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the number of trials.
    pub fn trials(&self) -> usize {
        self.trials.len()
    }

    /// Returns the number of different orders.
    pub fn orders(&self) -> usize {
        self.orders.len()
    }

    /// Returns the number of trials that were not added because the table is full.
    pub fn dropped_trials(&self) -> u64 {
        self.dropped
    }

    /// Adds a trial.
    ///
    /// `processes` has the cases in the order of their starts, for each process that ran cases. `failed` are the cases
    /// that failed, and `uncounted` the started ones that neither passed nor failed.
    pub fn add_trial(&mut self, processes: &[&[u32]], failed: &[u32], uncounted: &[u32]) {
        let Some(order) = self.find_or_add_order(processes) else {
            self.dropped += 1;
            return;
        };
        let sorted = |cases: &[u32]| {
            let mut cases = cases.to_vec();
            cases.sort_unstable();
            cases
        };
        self.trials.push(OrderTrial {
            order,
            failed: sorted(failed),
            uncounted: sorted(uncounted),
        });
    }

    /// Returns the index of an order; `None` if the table is full.
    fn find_or_add_order(&mut self, processes: &[&[u32]]) -> Option<usize> {
        let started: usize = processes.iter().map(|process| process.len()).sum();
        if started >= usize::from(NOT_STARTED) || self.trials.len() >= MOST_TRIALS {
            return None;
        }
        let cases = processes.iter().copied().flatten().copied();
        let length = cases.max().map_or(0, |case| case as usize + 1);
        if length > MOST_RANKS {
            return None;
        }
        let mut order = TrialOrder {
            ranks: vec![NOT_STARTED; length],
            process_starts: Vec::new(),
        };
        let mut rank = 0;
        for process in processes.iter().filter(|process| !process.is_empty()) {
            order.process_starts.push(rank);
            for case in *process {
                // A repeated case keeps its first place.
                let place = &mut order.ranks[*case as usize];
                if *place == NOT_STARTED {
                    *place = rank;
                    rank += 1;
                }
            }
        }
        order.process_starts.dedup();
        let mut hasher = DefaultHasher::new();
        order.hash(&mut hasher);
        let known = self.known_orders.entry(hasher.finish()).or_default();
        if let Some(index) = known.iter().find(|index| self.orders[**index] == order) {
            return Some(*index);
        }
        if self.ranks + length > MOST_RANKS {
            return None;
        }
        self.ranks += length;
        let index = self.orders.len();
        known.push(index);
        self.orders.push(order);
        Some(index)
    }

    /// Finds the victims whose failures depend on the order, and on which other case. `alpha` is the chance that any
    /// finding is wrong although no failure depends on the order.
    ///
    /// Victims that always failed or never failed have no findings. At most [`MOST_VICTIMS`] victims are examined.
    pub fn find_dependences(&self, victims: &[u32], alpha: f64) -> Vec<OrderDependence> {
        let victims = &victims[..victims.len().min(MOST_VICTIMS)];
        let scans: Vec<VictimScan> = victims
            .iter()
            .filter_map(|victim| self.scan_victim(*victim, alpha))
            .collect();
        let tests = count_effective_tests(&scans, alpha);
        scans
            .iter()
            .flat_map(|scan| self.choose_findings(scan, tests, alpha))
            .collect()
    }

    /// Returns the trials in which a case passed or failed.
    fn trials_of(&self, victim: u32) -> Vec<VictimTrial<'_>> {
        self.trials
            .iter()
            .filter_map(|trial| {
                let order = &self.orders[trial.order];
                let rank = order.rank_of(victim)?;
                let is_counted = trial.uncounted.binary_search(&victim).is_err();
                let has_failed = trial.failed.binary_search(&victim).is_ok();
                is_counted.then_some((order, rank, has_failed))
            })
            .collect()
    }

    /// Tests all candidates for one victim.
    fn scan_victim(&self, victim: u32, alpha: f64) -> Option<VictimScan> {
        let trials = self.trials_of(victim);
        let total = trials.len() as u64;
        let failures = trials.iter().filter(|(.., has_failed)| *has_failed).count() as u64;
        if failures == 0 || failures == total {
            return None;
        }
        let cases = trials.iter().map(|(order, ..)| order.ranks.len());
        let cases = cases.max().unwrap_or_default();
        // For each candidate: the trials with the candidate before the victim that passed, and that failed.
        let mut passed_after = vec![0_u16; cases];
        let mut failed_after = vec![0_u16; cases];
        for (order, rank, has_failed) in &trials {
            let counters = if *has_failed {
                &mut failed_after
            } else {
                &mut passed_after
            };
            let start = order.process_start(*rank);
            let span = rank - start;
            for (counter, other_rank) in counters.iter_mut().zip(&order.ranks) {
                *counter += u16::from(other_rank.wrapping_sub(start) < span);
            }
        }
        let mut splits: HashMap<u64, FailureSplit> = HashMap::new();
        let mut attainable: HashMap<u64, u64> = HashMap::new();
        let mut candidates = Vec::new();
        for (other, (passed, failed)) in (0..).zip(passed_after.iter().zip(&failed_after)) {
            let after = u64::from(passed + failed);
            // A candidate that is always, or never, before the victim shows nothing.
            if other == victim || after == 0 || after == total {
                continue;
            }
            let split = splits
                .entry(after)
                .or_insert_with(|| FailureSplit::new(total, failures, after));
            *attainable.entry(after).or_default() += 1;
            let failed = u64::from(*failed);
            for (relation, p_value) in [
                (OrderRelation::FailsAfter, split.at_least(failed)),
                (OrderRelation::FailsWithout, split.at_most(failed)),
            ] {
                if p_value <= alpha {
                    candidates.push(OrderCandidate {
                        other,
                        relation,
                        p_value,
                    });
                }
            }
        }
        candidates.sort_by(|a, b| {
            let by_p_value = a.p_value.total_cmp(&b.p_value);
            by_p_value.then(a.other.cmp(&b.other))
        });
        candidates.truncate(MOST_RIVALS);
        let attainable = attainable.into_iter().flat_map(|(after, count)| {
            let split = &splits[&after];
            [split.smallest_upper_tail(), split.smallest_lower_tail()].map(|p| (p, count))
        });
        Some(VictimScan {
            victim,
            attainable: attainable.filter(|(p, _)| *p <= alpha).collect(),
            candidates,
        })
    }

    /// Returns the findings about one victim: the best candidate, and further ones that add something.
    fn choose_findings(&self, scan: &VictimScan, tests: u64, alpha: f64) -> Vec<OrderDependence> {
        let trials = self.trials_of(scan.victim);
        let corrected = |p_value: f64| (p_value * real(tests)).min(1.0);
        let mut findings: Vec<OrderDependence> = Vec::new();
        while findings.len() < MOST_FINDINGS {
            let given: Vec<u32> = findings.iter().map(|finding| finding.other).collect();
            let best = scan
                .candidates
                .iter()
                .filter(|candidate| !given.contains(&candidate.other))
                .map(|candidate| OrderCandidate {
                    p_value: if given.is_empty() {
                        candidate.p_value
                    } else {
                        conditional_p_value(&trials, *candidate, &given)
                    },
                    ..*candidate
                })
                .min_by(|a, b| a.p_value.total_cmp(&b.p_value));
            let Some(best) = best.filter(|best| corrected(best.p_value) <= alpha) else {
                break;
            };
            let rivals = scan
                .candidates
                .iter()
                .filter(|rival| rival.other != best.other && !given.contains(&rival.other))
                .filter(|rival| {
                    let given: Vec<u32> = given.iter().copied().chain([rival.other]).collect();
                    conditional_p_value(&trials, best, &given) > RIVAL_LEVEL
                })
                .map(|rival| rival.other)
                .collect();
            let (after, not_after) = count_sides(&trials, best.other);
            findings.push(OrderDependence {
                victim: scan.victim,
                other: best.other,
                relation: best.relation,
                after,
                not_after,
                p_value: best.p_value,
                corrected_p_value: corrected(best.p_value),
                rivals,
                depends_on_position: depends_on_position(
                    &trials,
                    &[&given[..], &[best.other]].concat(),
                ),
            });
        }
        findings
    }
}

/// Returns the counts of a victim in trials with, and without, another case before it.
fn count_sides(trials: &[VictimTrial<'_>], other: u32) -> (CaseCounts, CaseCounts) {
    let mut sides = [CaseCounts::default(); 2];
    for (order, rank, has_failed) in trials {
        let side = &mut sides[usize::from(!order.is_before(other, *rank))];
        side.trials += 1;
        side.failures += u64::from(*has_failed);
    }
    (sides[0], sides[1])
}

/// Returns the p-value of a candidate within groups of trials that agree about the cases of `given`.
fn conditional_p_value(
    trials: &[VictimTrial<'_>],
    candidate: OrderCandidate,
    given: &[u32],
) -> f64 {
    let is_marked = |(order, rank, _): &VictimTrial<'_>| order.is_before(candidate.other, *rank);
    let (split, failed) = split_in_groups(trials, given, is_marked);
    match candidate.relation {
        OrderRelation::FailsAfter => split.at_least(failed),
        OrderRelation::FailsWithout => split.at_most(failed),
    }
}

/// Returns whether a victim fails more often late, or early, in its process, also among trials that agree about the
/// cases of `given`.
fn depends_on_position(trials: &[VictimTrial<'_>], given: &[u32]) -> bool {
    let position = |(order, rank, _): &VictimTrial<'_>| rank - order.process_start(*rank);
    let mut positions: Vec<u16> = trials.iter().map(position).collect();
    positions.sort_unstable();
    let quarters = [1, 2, 3].map(|quarter| positions[positions.len() * quarter / 4]);
    let p_values = quarters.into_iter().flat_map(|limit| {
        let (split, failed) = split_in_groups(trials, given, |trial| position(trial) >= limit);
        [split.at_least(failed), split.at_most(failed)]
    });
    // Six tests.
    6.0 * p_values.fold(1.0, f64::min) <= POSITION_LEVEL
}

/// Returns the distribution of the failures among marked trials, within groups of trials that agree about the cases of
/// `given`, and their observed number.
fn split_in_groups(
    trials: &[VictimTrial<'_>],
    given: &[u32],
    is_marked: impl Fn(&VictimTrial<'_>) -> bool,
) -> (FailureSplit, u64) {
    /// Trials, failures, marked trials, and failures among them.
    type GroupCounts = [u64; 4];
    let mut groups: BTreeMap<Vec<bool>, GroupCounts> = BTreeMap::new();
    for trial in trials {
        let (order, rank, has_failed) = trial;
        let key = given
            .iter()
            .map(|other| order.is_before(*other, *rank))
            .collect();
        let is_marked = is_marked(trial);
        let group = groups.entry(key).or_default();
        group[0] += 1;
        group[1] += u64::from(*has_failed);
        group[2] += u64::from(is_marked);
        group[3] += u64::from(*has_failed && is_marked);
    }
    let failed = groups.values().map(|group| group[3]).sum();
    let split = groups
        .values()
        .map(|group| FailureSplit::new(group[0], group[1], group[2]))
        .reduce(|left, right| left.combined(&right));
    (split.unwrap_or_else(|| FailureSplit::new(0, 0, 0)), failed)
}

/// Returns the factor of Tarone's correction: the smallest k such that at most k tests can have a p-value of alpha/k.
fn count_effective_tests(scans: &[VictimScan], alpha: f64) -> u64 {
    let mut attainable: Vec<(f64, u64)> = scans
        .iter()
        .flat_map(|scan| scan.attainable.iter().copied())
        .collect();
    attainable.sort_by(|a, b| a.0.total_cmp(&b.0));
    attainable.dedup_by(|later, kept| {
        let is_equal = later.0 <= kept.0 * (1.0 + TIE);
        if is_equal {
            kept.1 += later.1;
        }
        is_equal
    });
    let mut tests = 0;
    for (p_value, count) in attainable {
        // The smallest number of tests that puts this p-value, and all larger ones, out of reach.
        let limit = count_up((alpha / p_value).floor() + 1.0);
        if limit < tests + count {
            return limit.max(tests);
        }
        tests += count;
    }
    tests.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::seq::SliceRandom as _;
    use rand::{RngExt as _, SeedableRng as _};
    use rand_pcg::Pcg64Mcg;

    /// Adds trials in random order, in which `fails` decides about case 0 by its predecessors.
    fn shuffled_trials(
        trials: u32,
        cases: u32,
        seed: u64,
        fails: impl Fn(&[u32], &mut Pcg64Mcg) -> bool,
    ) -> OrderTable {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let mut table = OrderTable::new();
        for _ in 0..trials {
            let mut order: Vec<u32> = (0..cases).collect();
            order.shuffle(&mut random);
            let position = order.iter().position(|case| *case == 0).unwrap();
            let has_failed = fails(&order[..position], &mut random);
            table.add_trial(&[&order], if has_failed { &[0] } else { &[] }, &[]);
        }
        table
    }

    #[test]
    fn a_polluter_among_thousands_of_cases_is_found() {
        let table = shuffled_trials(40, 5_000, 1, |before, _| before.contains(&77));
        let findings = table.find_dependences(&[0], 0.05);
        let [finding] = &findings[..] else {
            panic!("{findings:?}")
        };
        assert_eq!((finding.victim, finding.other), (0, 77));
        assert_eq!(finding.relation, OrderRelation::FailsAfter);
        assert_eq!(finding.after.failures, finding.after.trials);
        assert_eq!(finding.not_after.failures, 0);
        assert_eq!(finding.after.trials + finding.not_after.trials, 40);
        assert!(finding.rivals.is_empty(), "{finding:?}");
        assert!(!finding.depends_on_position);
    }

    #[test]
    fn a_missing_preparation_is_found() {
        let table = shuffled_trials(60, 1_000, 2, |before, random| {
            !before.contains(&5) && random.random_bool(0.9)
        });
        let findings = table.find_dependences(&[0], 0.05);
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert_eq!(findings[0].other, 5);
        assert_eq!(findings[0].relation, OrderRelation::FailsWithout);
    }

    #[test]
    fn two_polluters_are_both_found() {
        let table = shuffled_trials(300, 200, 3, |before, _| {
            before.contains(&7) && before.contains(&9)
        });
        let mut others: Vec<u32> = table
            .find_dependences(&[0], 0.05)
            .iter()
            .map(|finding| finding.other)
            .collect();
        others.sort_unstable();
        assert_eq!(others, [7, 9]);
    }

    #[test]
    fn cases_that_always_run_together_are_rivals() {
        let mut random = Pcg64Mcg::seed_from_u64(4);
        let mut table = OrderTable::new();
        for _ in 0..60 {
            let is_first = random.random_bool(0.5);
            let order = if is_first { [1, 2, 3, 0] } else { [0, 1, 2, 3] };
            table.add_trial(&[&order], if is_first { &[0] } else { &[] }, &[]);
        }
        let findings = table.find_dependences(&[0], 0.05);
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].other, 1);
        assert_eq!(findings[0].rivals, [2, 3]);
        assert_eq!(table.orders(), 2);
    }

    #[test]
    fn a_late_position_is_not_the_effect_of_a_case() {
        for seed in 0..20 {
            let table = shuffled_trials(300, 100, 100 + seed, |before, _| before.len() > 50);
            for finding in table.find_dependences(&[0], 0.05) {
                assert!(finding.depends_on_position, "{finding:?}");
            }
            let table = shuffled_trials(60, 100, 200 + seed, |before, random| {
                before.contains(&7) && random.random_bool(0.8)
            });
            for finding in table.find_dependences(&[0], 0.05) {
                assert_eq!(finding.other, 7);
                assert!(!finding.depends_on_position, "{finding:?}");
            }
        }
    }

    #[test]
    fn a_fixed_order_shows_nothing() {
        let mut table = OrderTable::new();
        let order: Vec<u32> = (0..1_000).collect();
        for trial in 0..200 {
            table.add_trial(&[&order], if trial % 2 == 0 { &[500] } else { &[] }, &[]);
        }
        assert_eq!(table.find_dependences(&[500], 0.05), []);
        assert_eq!(table.orders(), 1);
    }

    #[test]
    fn another_process_is_not_before() {
        let mut random = Pcg64Mcg::seed_from_u64(6);
        let mut table = OrderTable::new();
        for _ in 0..100 {
            let is_same = random.random_bool(0.5);
            let processes: [&[u32]; 2] = if is_same {
                [&[2], &[1, 0, 3]]
            } else {
                [&[1, 2], &[0, 3]]
            };
            table.add_trial(&processes, if is_same { &[0] } else { &[] }, &[3]);
        }
        let findings = table.find_dependences(&[0, 3], 0.05);
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert_eq!(
            (findings[0].other, findings[0].relation),
            (1, OrderRelation::FailsAfter)
        );
        assert_eq!(findings[0].not_after.failures, 0);
    }

    #[test]
    fn large_and_empty_trials_are_dropped_or_ignored() {
        let mut table = OrderTable::new();
        let order: Vec<u32> = (0..70_000).collect();
        table.add_trial(&[&order], &[], &[]);
        table.add_trial(&[&[u32::MAX]], &[], &[]);
        assert_eq!(table.dropped_trials(), 2);
        table.add_trial(&[], &[], &[]);
        table.add_trial(&[&[], &[1, 1, 0]], &[0], &[]);
        table.add_trial(&[&[0], &[]], &[], &[]);
        assert_eq!(table.trials(), 3);
        assert_eq!(table.find_dependences(&[0, 1, 9], 0.05), []);
    }
}
