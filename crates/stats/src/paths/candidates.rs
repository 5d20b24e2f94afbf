//! Chooses the statements to test, without looking at which trials failed.
//!
//! Of too many pairs or interleavings, those are kept that were seen in closest to a half of the trials, because these can
//! separate the trials best.

use std::collections::BTreeMap;
use std::hash::BuildHasher as _;

use super::index::{TrialIndex, Window, index};
use super::input::{PathPoint, PointKind};
use super::number_hash::{NumberHash, NumberMap, NumberSet};
use super::result::PathStatement;

/// Most arrivals at a point that are counted.
const MAX_TIMES: u32 = 4;
/// With more threads, their numbers say little, because threads of a pool change places.
const MAX_NUMBERED_THREADS: usize = 4;
/// Most pairs of points of two threads. Of more, only points are compared that were reached one directly after the other.
const MAX_PAIRS: usize = 20_000;
/// Number of arrivals of other threads that are noted at each end of a window.
const NEAR: u32 = 4;
/// Most windows of other threads that are noted at the begin of a window.
const MAX_OPEN: usize = 4;
/// With more arrivals in all trials, only a part of the interleavings is counted, which a hash chooses.
const MAX_ARRIVALS: usize = 1 << 20;
/// Most slots in which interleavings are counted by a hash.
const MAX_SLOTS: usize = 1 << 20;
/// Most statements about interleavings.
const MAX_INTERLEAVINGS: usize = 100_000;

/// The chosen statements.
#[derive(Debug)]
pub(super) struct Candidates {
    pub(super) statements: Vec<PathStatement>,
    /// Whether some were left out.
    pub(super) is_limited: bool,
}

/// Returns the statements to test. Statements about interleavings that were seen in less than `least` trials are left out.
pub(super) fn choose_candidates(
    points: &[PathPoint],
    trials: &[TrialIndex],
    least: usize,
) -> Candidates {
    let mut candidates = Candidates {
        statements: presences(points),
        is_limited: false,
    };
    candidates.add_orders(points, trials);
    candidates.add_interleavings(trials, least);
    candidates
}

/// Returns the statements about single points.
fn presences(points: &[PathPoint]) -> Vec<PathStatement> {
    let numbers = (0_u32..).zip(points).filter(|(_, point)| !point.is_ignored);
    numbers
        .flat_map(|(point, _)| {
            let reached = (1..=MAX_TIMES).map(move |times| PathStatement::Reached { point, times });
            reached.chain([PathStatement::NotReached { point }])
        })
        .collect()
}

impl Candidates {
    /// Adds the orders of first arrivals: of points of two threads, and of function entries of one.
    fn add_orders(&mut self, points: &[PathPoint], trials: &[TrialIndex]) {
        let first_arrivals: Vec<Vec<(u32, u32)>> = trials
            .iter()
            .map(|trial| {
                trial
                    .first_arrivals()
                    .iter()
                    .map(|arrival| (arrival.thread, arrival.point))
                    .collect()
            })
            .collect();
        let reached_by = usual_points(&first_arrivals);
        let is_pool = trials
            .iter()
            .any(|trial| thread_count(trial) > MAX_NUMBERED_THREADS);
        let is_entry = |point: &u32| points[index(*point)].kind == PointKind::Entry;
        for (thread, own) in &reached_by {
            for (other_thread, others) in &reached_by {
                let is_same = thread == other_thread;
                // The first thread is no thread of a pool.
                if is_pool && !(is_same && *thread == 0) {
                    continue;
                }
                let chosen = |points: &[u32]| -> Vec<u32> {
                    let chosen = points.iter().copied();
                    chosen.filter(|point| !is_same || is_entry(point)).collect()
                };
                let (own, others) = (chosen(own), chosen(others));
                let pairs = if own.len() * others.len() <= MAX_PAIRS {
                    own.iter()
                        .flat_map(|a| others.iter().map(move |b| (*a, *b)))
                        .collect()
                } else {
                    self.is_limited = true;
                    neighbours(&first_arrivals, (*thread, &own), (*other_thread, &others))
                };
                let different = pairs.into_iter().filter(|(a, b)| !is_same || a != b);
                self.statements
                    .extend(different.map(|(point, other_point)| PathStatement::Before {
                        thread: *thread,
                        point,
                        other_thread: *other_thread,
                        other_point,
                    }));
            }
        }
    }

    /// Adds the statements about windows and other threads.
    fn add_interleavings(&mut self, trials: &[TrialIndex], least: usize) {
        let (counts, one_of) = count_interleavings(trials, least);
        self.is_limited |= one_of > 1 || counts.len() > MAX_INTERLEAVINGS;
        let kept = keep_most_balanced(counts, trials.len(), MAX_INTERLEAVINGS);
        self.statements.extend(kept);
    }
}

/// Returns the points that each thread reaches in at least a half of the trials.
fn usual_points(first_arrivals: &[Vec<(u32, u32)>]) -> BTreeMap<u32, Vec<u32>> {
    let mut counts: BTreeMap<(u32, u32), usize> = BTreeMap::new();
    for arrival in first_arrivals.iter().flatten() {
        *counts.entry(*arrival).or_default() += 1;
    }
    let mut usual: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for ((thread, point), count) in counts {
        if 2 * count >= first_arrivals.len() {
            usual.entry(thread).or_default().push(point);
        }
    }
    usual
}

/// Returns the number of trials in which each interleaving was seen, if it is at least `least`, and one of how many
/// interleavings was counted.
///
/// Most interleavings of long paths are seen once, so they are first counted by a hash, which needs little memory and can
/// only count too many.
fn count_interleavings(
    trials: &[TrialIndex],
    least: usize,
) -> (NumberMap<PathStatement, usize>, usize) {
    let arrivals: usize = trials.iter().map(TrialIndex::len).sum();
    let one_of = arrivals.div_ceil(MAX_ARRIVALS).max(1);
    let mut slots: Vec<(u32, u32)> = vec![(0, 0); arrivals.next_power_of_two().min(MAX_SLOTS)];
    // The upper part of the hash chooses the slot.
    let slot_count = slots.len();
    let find_slot = |statement: &PathStatement| {
        let hash = NumberHash::default().hash_one(statement);
        let hash = index(u32::try_from(hash >> 32).expect("32 bits"));
        hash.is_multiple_of(one_of)
            .then_some(hash / one_of % slot_count)
    };
    let mut counts: NumberMap<PathStatement, (u32, usize)> = NumberMap::default();
    for (number, trial) in (1_u32..).zip(trials) {
        for_near_interleavings(trial, |statement| {
            if let Some(slot) = find_slot(&statement) {
                let (last, count) = &mut slots[slot];
                *count += u32::from(*last != number);
                *last = number;
            }
        });
    }
    for (number, trial) in (1_u32..).zip(trials) {
        for_near_interleavings(trial, |statement| {
            if find_slot(&statement).is_some_and(|slot| index(slots[slot].1) >= least) {
                let (last, count) = counts.entry(statement).or_default();
                *count += usize::from(*last != number);
                *last = number;
            }
        });
    }
    let counts = counts
        .into_iter()
        .map(|(statement, (_, count))| (statement, count));
    let frequent = counts.filter(|(_, count)| *count >= least);
    (frequent.collect(), one_of)
}

fn thread_count(trial: &TrialIndex) -> usize {
    let threads: NumberSet<u32> = trial
        .arrivals()
        .iter()
        .map(|arrival| arrival.thread)
        .collect();
    threads.len()
}

/// Returns the pairs of points of two threads, or of one, that follow one another directly in the merged first arrivals of
/// both in some trial.
fn neighbours(
    first_arrivals: &[Vec<(u32, u32)>],
    (thread, own): (u32, &[u32]),
    (other_thread, others): (u32, &[u32]),
) -> Vec<(u32, u32)> {
    let own: NumberSet<(u32, u32)> = own.iter().map(|point| (thread, *point)).collect();
    let others: NumberSet<(u32, u32)> = others.iter().map(|point| (other_thread, *point)).collect();
    let mut pairs: NumberMap<(u32, u32), usize> = NumberMap::default();
    for trial in first_arrivals {
        let of_both = trial
            .iter()
            .filter(|arrival| own.contains(arrival) || others.contains(arrival));
        let merged: Vec<&(u32, u32)> = of_both.collect();
        for pair in merged.windows(2) {
            if own.contains(pair[0]) && others.contains(pair[1]) {
                *pairs.entry((pair[0].1, pair[1].1)).or_default() += 1;
            }
        }
    }
    keep_most_balanced(pairs, first_arrivals.len(), MAX_PAIRS)
}

/// Returns the keys whose numbers of trials are closest to a half of all, up to a limit.
fn keep_most_balanced<K: Copy + Ord>(
    counts: NumberMap<K, usize>,
    trials: usize,
    most: usize,
) -> Vec<K> {
    let balance = |count: usize| count.min(trials - count);
    let mut counted: Vec<(usize, K)> = counts
        .into_iter()
        .map(|(key, count)| (balance(count), key))
        .collect();
    counted.sort_unstable_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
    counted.truncate(most);
    counted.into_iter().map(|(_, key)| key).collect()
}

/// Tells the statements about the windows of a trial: each with the nearest arrivals of other threads within it, and with
/// the windows of other threads that are open when it begins.
fn for_near_interleavings(trial: &TrialIndex, mut tell: impl FnMut(PathStatement)) {
    let mut open: Vec<Window> = Vec::new();
    for moment in (0_u32..).take(trial.len()) {
        open.retain(|window| window.to > moment);
        let Some(window) = trial.window(moment) else {
            continue;
        };
        let [from, to] = [window.from, window.to].map(|moment| trial.at(moment).point);
        // The threads that moved last come first.
        for other in open.iter().rev().take(MAX_OPEN) {
            let [other_from, other_to] =
                [other.from, other.to].map(|moment| trial.at(moment).point);
            tell(together((from, to), (other_from, other_to)));
        }
        open.push(window);
        let within = window.from + 1..window.to;
        let early = within.clone().take(index(NEAR));
        let late = within.clone().skip(index(NEAR)).rev();
        for moment in early.chain(late.take(index(NEAR))) {
            let other = trial.at(moment).point;
            tell(PathStatement::Between { from, to, other });
        }
    }
}

fn together(pair: (u32, u32), other: (u32, u32)) -> PathStatement {
    let (first, second) = (pair.min(other), pair.max(other));
    PathStatement::Together {
        from: first.0,
        to: first.1,
        other_from: second.0,
        other_to: second.1,
    }
}
