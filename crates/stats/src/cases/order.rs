//! Search for cases whose failures depend on the order of the cases.
//!
//! For each case v that failed in some trials (the victim), and each other case w: does v fail more often in trials in
//! which w ran before v in the same process, or in trials in which it did not? If the order is random and has no effect,
//! both are equally likely, and the p-value of each 2x2 table is exact. There are thousands of candidates w, so the
//! p-values are multiplied by the number of tests that could have found anything (Tarone's form of Bonferroni): a
//! candidate that always ran before v cannot, so nothing is found in a fixed order.
//!
//! That test shows that the order matters, but not why. If v fails late because something fills up, every case
//! tends to run before a late v, and the most unlucky one looks guilty. So w competes with the place of v: the
//! failures must be 400 times likelier with two rates, after w and otherwise, than with two rates before and after any
//! one place of v. The effect of the place itself is a separate finding.
//!
//! In a random order, whatever ran before the true polluter also tends to run before the victim. So a second candidate
//! counts only if it adds something in the trials that agree about the first one, and the candidates that explain the
//! failures as well as the first one are listed as its rivals.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{Hash, Hasher as _};

use super::counts::CaseCounts;
use super::hypergeometric::FailureSplit;
use crate::convert::{count_up, real};
use crate::special::normal_below;

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
/// A case explains the failures if they are this many times likelier than by the best place of the victim. At 20, a case is
/// blamed in 18 % of suites in which the failure rate equals the place; at 3,000, a true polluter is missed in 7 instead of
/// 1 of 100 suites (30 orders).
const CLEARLY: f64 = 400.0;
/// Alpha is shared by two families of tests: of pairs, and of places.
const FAMILIES: f64 = 2.0;
/// The places of a victim are split at these percentiles.
const PLACE_CUTS: [usize; 5] = [10, 25, 50, 75, 90];
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
    /// The p-value, corrected for all pairs and both relations, and for the tests of places.
    pub corrected_p_value: f64,
    /// Cases that explain the failures as well as `other`: the data do not show which of them it is.
    pub rivals: Vec<u32>,
}

/// The part of the order in which a case fails more often.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum OrderPart {
    /// After many other cases: something fills up or wears out.
    Late,
    /// After few other cases: something is not ready yet.
    Early,
}

/// Evidence that the failures of a case depend on its place in the order.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PlaceDependence {
    /// Where it fails more often.
    pub part: OrderPart,
    /// The number of cases before it in its process from which its place counts as late; the number with the clearest
    /// difference.
    pub limit: u64,
    /// The trials in that part of the order.
    pub inside: CaseCounts,
    /// The other trials.
    pub outside: CaseCounts,
    /// The p-value, corrected for all victims, and for the tests of pairs.
    pub corrected_p_value: f64,
}

/// Evidence that the failures of a case depend on the order, and on what in it.
#[derive(Debug, Clone, PartialEq)]
pub struct VictimFindings {
    /// The case that fails.
    pub victim: u32,
    /// The probability of such a dependence on the order by chance, corrected for all victims and all pairs.
    pub corrected_p_value: f64,
    /// The other cases that explain the failures better than the place. Empty if the trials do not show one.
    pub dependences: Vec<OrderDependence>,
    /// The effect of the place, among trials that agree about the cases of `dependences`.
    pub place: Option<PlaceDependence>,
    /// The trials in which it was the first case of its process.
    pub first: CaseCounts,
}

/// A trial in which the victim passed or failed: its order, the rank of the victim there, and whether it failed.
type VictimTrial<'a> = (&'a TrialOrder, u16, bool);

/// A candidate for a dependence.
#[derive(Debug, Clone, Copy)]
struct OrderCandidate {
    other: u32,
    relation: OrderRelation,
    /// P-value among all trials.
    p_value: f64,
}

/// The tests of one victim against all candidates.
struct VictimScan {
    victim: u32,
    /// Of all pairs with it: the smallest p-value that the margins allow, and the number of such tests.
    attainable: Vec<(f64, u64)>,
    /// The smallest p-value of all pairs with it.
    smallest_p_value: f64,
    /// The best candidates, the most likely first.
    candidates: Vec<OrderCandidate>,
    /// The test of its place.
    place: PlaceTest,
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

    /// Adds a trial.
    ///
    /// `processes` has the cases in the order of their starts, for each process that ran cases. `failed` are the cases
    /// that failed, and `uncounted` the started ones that neither passed nor failed.
    pub fn add_trial(&mut self, processes: &[&[u32]], failed: &[u32], uncounted: &[u32]) {
        let Some(order) = self.find_or_add_order(processes) else {
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

    /// Finds the victims whose failures depend on the order, and on what in it. `alpha` is the chance of any finding if
    /// no failure depends on the order, and of any finding about a pair if failures depend only on the place.
    ///
    /// Victims that always failed or never failed have no findings. At most [`MOST_VICTIMS`] victims are examined.
    pub fn find_dependences(&self, victims: &[u32], alpha: f64) -> Vec<VictimFindings> {
        let victims = &victims[..victims.len().min(MOST_VICTIMS)];
        let scans: Vec<VictimScan> = victims
            .iter()
            .filter_map(|victim| self.scan_victim(*victim, alpha))
            .collect();
        let pairs = scans.iter().flat_map(|scan| scan.attainable.iter());
        let places = scans.iter().map(|scan| (scan.place.attainable, 1));
        let count_tests = |attainable| count_effective_tests(attainable, alpha / FAMILIES);
        let correction = Correction {
            alpha,
            pairs: real(count_tests(pairs.copied().collect())) * FAMILIES,
            places: real(count_tests(places.collect())) * FAMILIES,
        };
        scans
            .iter()
            .filter_map(|scan| self.describe_victim(scan, correction))
            .collect()
    }

    /// Returns the findings about one victim, if the order matters at all.
    fn describe_victim(&self, scan: &VictimScan, correction: Correction) -> Option<VictimFindings> {
        let pair_p_value = correction.accept(scan.smallest_p_value, correction.pairs);
        let place_p_value = correction.accept(scan.place.p_value, correction.places);
        let corrected_p_value = [pair_p_value, place_p_value]
            .into_iter()
            .flatten()
            .min_by(f64::total_cmp)?;
        let trials = self.trials_of(scan.victim);
        let dependences = choose_dependences(&trials, scan, correction);
        let blamed: Vec<u32> = dependences.iter().map(|found| found.other).collect();
        let place = if blamed.is_empty() {
            scan.place
        } else {
            PlaceTest::new(&trials, &blamed)
        };
        let place_p_value = correction.accept(place.p_value, correction.places);
        Some(VictimFindings {
            victim: scan.victim,
            corrected_p_value,
            dependences,
            place: place_p_value.and_then(|p_value| place.describe(&trials, p_value)),
            first: count_sides(&trials, |trial| place_of(trial) == 0).0,
        })
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
        let (passed_after, failed_after) = count_candidates(&trials, cases);
        let mut splits: HashMap<u64, FailureSplit> = HashMap::new();
        let mut attainable: HashMap<u64, u64> = HashMap::new();
        let mut candidates = Vec::new();
        let mut smallest_p_value: f64 = 1.0;
        let sides = passed_after.iter().zip(&failed_after);
        for (other, (passed, failed)) in (0..).zip(sides) {
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
                smallest_p_value = smallest_p_value.min(p_value);
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
            smallest_p_value,
            candidates,
            place: PlaceTest::new(&trials, &[]),
        })
    }
}

/// Returns for each case: how many of the trials passed, and how many failed, in which it ran before the victim.
fn count_candidates(trials: &[VictimTrial<'_>], cases: usize) -> (Vec<u16>, Vec<u16>) {
    let (mut passed_after, mut failed_after) = (vec![0_u16; cases], vec![0_u16; cases]);
    for (order, rank, has_failed) in trials {
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
    (passed_after, failed_after)
}

/// The factors by which p-values are corrected for the number of tests.
#[derive(Debug, Clone, Copy)]
struct Correction {
    /// The chance of any finding without an effect.
    alpha: f64,
    /// For the test of a pair.
    pairs: f64,
    /// For the test of a place.
    places: f64,
}

impl Correction {
    /// Returns the corrected p-value, if it is small enough.
    fn accept(self, p_value: f64, factor: f64) -> Option<f64> {
        let corrected = p_value * factor;
        (corrected <= self.alpha).then_some(corrected)
    }
}

/// Returns the dependences of a victim: the best candidate, and further ones that add something.
fn choose_dependences(
    trials: &[VictimTrial<'_>],
    scan: &VictimScan,
    correction: Correction,
) -> Vec<OrderDependence> {
    let mut findings: Vec<OrderDependence> = Vec::new();
    while findings.len() < MOST_FINDINGS {
        let given: Vec<u32> = findings.iter().map(|finding| finding.other).collect();
        let groups = group_trials(trials, &given);
        let needed = ln_chance_by_place(&groups) + CLEARLY.ln();
        let best = scan
            .candidates
            .iter()
            .filter(|candidate| !given.contains(&candidate.other))
            .filter_map(|candidate| {
                let p_value = candidate
                    .p_value
                    .max(conditional_p_value(&groups, *candidate));
                let corrected = correction.accept(p_value, correction.pairs)?;
                let is_before =
                    |(order, rank, _): &VictimTrial<'_>| order.is_before(candidate.other, *rank);
                (ln_chance_of_split(&groups, is_before) > needed)
                    .then_some((*candidate, p_value, corrected))
            })
            .min_by(|(_, p_value, _), (_, other_p_value, _)| p_value.total_cmp(other_p_value));
        let Some((best, p_value, corrected_p_value)) = best else {
            break;
        };
        let rivals = scan
            .candidates
            .iter()
            .filter(|rival| rival.other != best.other && !given.contains(&rival.other))
            .filter(|rival| {
                let given: Vec<u32> = given.iter().copied().chain([rival.other]).collect();
                conditional_p_value(&group_trials(trials, &given), best) > RIVAL_LEVEL
            })
            .map(|rival| rival.other)
            .collect();
        let (after, not_after) = count_sides(trials, |(order, rank, _)| {
            order.is_before(best.other, *rank)
        });
        findings.push(OrderDependence {
            victim: scan.victim,
            other: best.other,
            relation: best.relation,
            after,
            not_after,
            p_value,
            corrected_p_value,
            rivals,
        });
    }
    findings
}

/// Returns the counts of a victim in marked trials, and in the others.
fn count_sides<'t, 'a: 't>(
    trials: impl IntoIterator<Item = &'t VictimTrial<'a>>,
    is_marked: impl Fn(&VictimTrial<'_>) -> bool,
) -> (CaseCounts, CaseCounts) {
    let mut sides = [CaseCounts::default(); 2];
    for trial in trials {
        let side = &mut sides[usize::from(!is_marked(trial))];
        side.trials += 1;
        side.failures += u64::from(trial.2);
    }
    (sides[0], sides[1])
}

/// Returns the p-value of a candidate within groups of trials.
fn conditional_p_value(groups: &[Vec<&VictimTrial<'_>>], candidate: OrderCandidate) -> f64 {
    let is_marked = |(order, rank, _): &VictimTrial<'_>| order.is_before(candidate.other, *rank);
    let (split, failed) = split_in_groups(groups, is_marked);
    match candidate.relation {
        OrderRelation::FailsAfter => split.at_least(failed),
        OrderRelation::FailsWithout => split.at_most(failed),
    }
}

/// Returns the logarithm of the likelihood of the failures if marked trials and the others each fail at one rate, which may
/// differ between groups; at the likeliest rates.
fn ln_chance_of_split(
    groups: &[Vec<&VictimTrial<'_>>],
    is_marked: impl Fn(&VictimTrial<'_>) -> bool,
) -> f64 {
    let sides = groups.iter().flat_map(|group| {
        let (marked, others) = count_sides(group.iter().copied(), &is_marked);
        [marked, others]
    });
    sides.map(ln_chance_at_own_rate).sum()
}

/// Returns the logarithm of the likelihood of the failures at their observed rate.
fn ln_chance_at_own_rate(counts: CaseCounts) -> f64 {
    let term = |part: u64| match part {
        0 => 0.0,
        part => real(part) * (real(part) / real(counts.trials)).ln(),
    };
    term(counts.failures) + term(counts.trials - counts.failures)
}

/// Returns the same if the trials are split by the place of the victim, where the likelihood is largest.
fn ln_chance_by_place(groups: &[Vec<&VictimTrial<'_>>]) -> f64 {
    let places: BTreeSet<u16> = groups.iter().flatten().copied().map(place_of).collect();
    let ln_chances = places
        .into_iter()
        .map(|limit| ln_chance_of_split(groups, |trial| place_of(trial) >= limit));
    ln_chances.fold(f64::NEG_INFINITY, f64::max)
}

/// Returns the number of cases that ran before the victim in its process.
fn place_of((order, rank, _): &VictimTrial<'_>) -> u16 {
    rank - order.process_start(*rank)
}

/// Returns the trials in groups that agree about which of the cases of `given` ran before the victim.
fn group_trials<'t, 'a>(
    trials: &'t [VictimTrial<'a>],
    given: &[u32],
) -> Vec<Vec<&'t VictimTrial<'a>>> {
    let mut groups: BTreeMap<Vec<bool>, Vec<&VictimTrial<'_>>> = BTreeMap::new();
    for trial in trials {
        let (order, rank, _) = trial;
        let key = given.iter().map(|other| order.is_before(*other, *rank));
        groups.entry(key.collect()).or_default().push(trial);
    }
    groups.into_values().collect()
}

/// The test of the place of a victim in its process.
#[derive(Debug, Clone, Copy)]
struct PlaceTest {
    p_value: f64,
    /// The smallest p-value that the margins allow.
    attainable: f64,
    part: OrderPart,
    /// Places from here on are late.
    limit: u16,
}

impl PlaceTest {
    /// Tests whether the victim fails more often late, or early, among trials that agree about the cases of `given`.
    ///
    /// The sum of the ranks of the failures detects a rate that changes steadily; Fisher's test at five places
    /// detects a jump. Each half of the level goes to one of them, and is shared by both directions, and by the places.
    fn new(trials: &[VictimTrial<'_>], given: &[u32]) -> Self {
        let groups = group_trials(trials, given);
        let mut places: Vec<u16> = trials.iter().map(place_of).collect();
        places.sort_unstable();
        let mut best_cut = (f64::INFINITY, OrderPart::Late, 0);
        let mut attainable_cut: f64 = 1.0;
        for cut in PLACE_CUTS {
            let limit = places[places.len() * cut / 100];
            let (split, failed) = split_in_groups(&groups, |trial| place_of(trial) >= limit);
            for (p_value, part) in [
                (split.at_least(failed), OrderPart::Late),
                (split.at_most(failed), OrderPart::Early),
            ] {
                if p_value < best_cut.0 {
                    best_cut = (p_value, part, limit);
                }
            }
            let tails = [split.smallest_upper_tail(), split.smallest_lower_tail()];
            attainable_cut = tails.into_iter().fold(attainable_cut, f64::min);
        }
        let rank_sum = RankSum::new(&groups);
        let (rank_p_value, largest) = (normal_below(-rank_sum.score.abs()), rank_sum.largest);
        let cuts = PLACE_CUTS.len() as u64;
        let combine = |cut_p_value: f64, rank_p_value: f64| {
            let shared = (cut_p_value * real(cuts)).min(rank_p_value);
            // Two directions, two tests.
            (shared * 4.0).min(1.0)
        };
        Self {
            p_value: combine(best_cut.0, rank_p_value),
            attainable: combine(attainable_cut, normal_below(-largest)),
            part: best_cut.1,
            limit: best_cut.2,
        }
    }

    /// Describes the effect with its counts; `None` if the counts of all trials do not show it.
    fn describe(
        self,
        trials: &[VictimTrial<'_>],
        corrected_p_value: f64,
    ) -> Option<PlaceDependence> {
        let (late, early) = count_sides(trials, |trial| place_of(trial) >= self.limit);
        let (inside, outside) = match self.part {
            OrderPart::Late => (late, early),
            OrderPart::Early => (early, late),
        };
        (inside.failures * outside.trials > outside.failures * inside.trials).then_some(
            PlaceDependence {
                part: self.part,
                limit: u64::from(self.limit),
                inside,
                outside,
                corrected_p_value,
            },
        )
    }
}

/// The sum of the ranks of the failures by place, within groups.
struct RankSum {
    /// Close to standard normal without an effect; above 0 if the failures come late. The tails are shorter than those
    /// of a normal distribution.
    score: f64,
    /// The largest possible score.
    largest: f64,
}

impl RankSum {
    fn new(groups: &[Vec<&VictimTrial<'_>>]) -> Self {
        let (mut surplus, mut largest, mut variance) = (0.0, 0.0, 0.0);
        for group in groups {
            let mut places: Vec<(u16, bool)> = group
                .iter()
                .map(|trial| (place_of(trial), trial.2))
                .collect();
            places.sort_unstable();
            let total = real(places.len() as u64);
            let failures = places.iter().filter(|(_, has_failed)| *has_failed).count();
            let mean = (total - 1.0) / 2.0;
            let (mut first, mut squares) = (0.0, 0.0);
            let mut deviations = Vec::with_capacity(places.len());
            for tied in places.chunk_by(|a, b| a.0 == b.0) {
                let size = real(tied.len() as u64);
                let deviation = first + (size - 1.0) / 2.0 - mean;
                first += size;
                squares += deviation * deviation * size;
                let failed = tied.iter().filter(|(_, has_failed)| *has_failed).count();
                surplus += deviation * real(failed as u64);
                deviations.extend(tied.iter().map(|_| deviation));
            }
            largest += deviations.iter().rev().take(failures).sum::<f64>();
            if total > 1.0 {
                let failures = real(failures as u64);
                variance += failures * (total - failures) / (total * (total - 1.0)) * squares;
            }
        }
        if variance <= 0.0 {
            return Self {
                score: 0.0,
                largest: 0.0,
            };
        }
        Self {
            score: surplus / variance.sqrt(),
            largest: largest / variance.sqrt(),
        }
    }
}

/// Returns the distribution of the failures among marked trials within groups, and their observed number.
fn split_in_groups(
    groups: &[Vec<&VictimTrial<'_>>],
    is_marked: impl Fn(&VictimTrial<'_>) -> bool,
) -> (FailureSplit, u64) {
    let mut split = FailureSplit::new(0, 0, 0);
    let mut failed_and_marked = 0;
    for group in groups {
        let [mut failures, mut marked] = [0, 0];
        for trial in group {
            let is_marked = is_marked(trial);
            failures += u64::from(trial.2);
            marked += u64::from(is_marked);
            failed_and_marked += u64::from(trial.2 && is_marked);
        }
        split = split.combined(&FailureSplit::new(group.len() as u64, failures, marked));
    }
    (split, failed_and_marked)
}

/// Returns the factor of Tarone's correction: the smallest k such that at most k tests can have a p-value of alpha/k.
///
/// `attainable` has the smallest p-values that the tests can have, each with the number of such tests.
fn count_effective_tests(mut attainable: Vec<(f64, u64)>, alpha: f64) -> u64 {
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

    /// Returns the findings about case 0, which is the only victim.
    fn findings_about_case_0(table: &OrderTable) -> VictimFindings {
        let mut findings = table.find_dependences(&[0], 0.05);
        assert_eq!(findings.len(), 1, "{findings:?}");
        findings.remove(0)
    }

    #[test]
    fn a_polluter_among_thousands_of_cases_is_found() {
        let table = shuffled_trials(40, 5_000, 1, |before, _| before.contains(&77));
        let found = findings_about_case_0(&table);
        let [finding] = &found.dependences[..] else {
            panic!("{found:?}")
        };
        assert_eq!((finding.victim, finding.other), (0, 77));
        assert_eq!(finding.relation, OrderRelation::FailsAfter);
        assert_eq!(finding.after.failures, finding.after.trials);
        assert_eq!(finding.not_after.failures, 0);
        assert_eq!(finding.after.trials + finding.not_after.trials, 40);
        assert!(finding.rivals.is_empty(), "{finding:?}");
        assert_eq!(found.place, None);
    }

    #[test]
    fn a_missing_preparation_is_found() {
        let table = shuffled_trials(60, 1_000, 2, |before, random| {
            !before.contains(&5) && random.random_bool(0.9)
        });
        let found = findings_about_case_0(&table).dependences;
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].other, 5);
        assert_eq!(found[0].relation, OrderRelation::FailsWithout);
    }

    #[test]
    fn two_polluters_are_both_found() {
        let table = shuffled_trials(300, 200, 3, |before, _| {
            before.contains(&7) && before.contains(&9)
        });
        let mut others: Vec<u32> = findings_about_case_0(&table)
            .dependences
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
            let order = if is_first {
                [1, 2, 0, 3, 4]
            } else {
                [3, 4, 0, 1, 2]
            };
            table.add_trial(&[&order], if is_first { &[0] } else { &[] }, &[]);
        }
        let found = findings_about_case_0(&table).dependences;
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].other, 1);
        assert_eq!(found[0].rivals, [2, 3, 4]);
        assert_eq!(table.orders(), 2);
    }

    #[test]
    fn the_place_is_a_finding_of_its_own() {
        for seed in 0..20 {
            let table = shuffled_trials(300, 100, 100 + seed, |before, _| before.len() > 50);
            let found = findings_about_case_0(&table);
            assert_eq!(found.dependences, []);
            let place = found.place.unwrap();
            assert_eq!(place.part, OrderPart::Late);
            assert!((40..=60).contains(&place.limit), "{place:?}");
            assert_eq!(place.inside.trials + place.outside.trials, 300);
            assert!(place.inside.failures > 10 * place.outside.failures);

            let table = shuffled_trials(100, 100, 200 + seed, |before, _| before.len() < 10);
            let found = findings_about_case_0(&table);
            assert_eq!(found.dependences, []);
            assert_eq!(found.place.unwrap().part, OrderPart::Early);

            let table = shuffled_trials(100, 100, 300 + seed, |before, random| {
                before.contains(&7) && random.random_bool(0.8)
            });
            let found = findings_about_case_0(&table);
            assert_eq!(found.dependences[0].other, 7);
            assert_eq!(found.place, None);
        }
    }

    #[test]
    fn the_place_is_reported_besides_a_polluter() {
        let table = shuffled_trials(400, 100, 5, |before, random| {
            let chance = 0.006 * f64::from(u32::try_from(before.len()).unwrap());
            before.contains(&7) && random.random_bool(0.6) || random.random_bool(chance)
        });
        let found = findings_about_case_0(&table);
        assert_eq!(found.dependences.len(), 1, "{found:?}");
        assert_eq!(found.dependences[0].other, 7);
        assert_eq!(found.place.unwrap().part, OrderPart::Late);
    }

    #[test]
    fn many_polluters_show_that_the_order_matters() {
        for seed in 0..20 {
            // Each of five cases is enough, so that a single one explains little.
            let table = shuffled_trials(60, 30, 400 + seed, |before, _| {
                before.iter().any(|case| (1..=5).contains(case))
            });
            let found = findings_about_case_0(&table);
            let blamed = found.dependences.iter().map(|finding| finding.other);
            assert!(blamed.clone().all(|case| case <= 5), "{found:?}");
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
                [&[2, 4], &[1, 0, 3]]
            } else {
                [&[1, 2], &[4, 0, 3]]
            };
            table.add_trial(&processes, if is_same { &[0] } else { &[] }, &[3]);
        }
        let findings = table.find_dependences(&[0, 3], 0.05);
        assert_eq!(findings.len(), 1, "{findings:?}");
        let [finding] = &findings[0].dependences[..] else {
            panic!("{findings:?}")
        };
        // That 1 is in the same process is the same fact as that 4 is not.
        let others = [&[finding.other], &finding.rivals[..]].concat();
        assert!(others == [1, 4] || others == [4, 1], "{finding:?}");
        assert!(finding.p_value < 1e-9);
    }

    #[test]
    fn large_and_empty_trials_are_dropped_or_ignored() {
        let mut table = OrderTable::new();
        let order: Vec<u32> = (0..70_000).collect();
        table.add_trial(&[&order], &[], &[]);
        table.add_trial(&[&[u32::MAX]], &[], &[]);
        assert_eq!(table.trials(), 0);
        table.add_trial(&[], &[], &[]);
        table.add_trial(&[&[], &[1, 1, 0]], &[0], &[]);
        table.add_trial(&[&[0], &[]], &[], &[]);
        assert_eq!(table.trials(), 3);
        assert_eq!(table.find_dependences(&[0, 1, 9], 0.05), []);
    }
}
