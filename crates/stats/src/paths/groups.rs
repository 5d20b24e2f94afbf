//! Tests statements about trials in groups, and ranks the significant groups.

use super::failure_path::FailurePaths;
use super::index::TrialIndex;
use super::number_hash::NumberMap;
use super::permute::Labels;
use super::result::{PathGroup, PathStatement};
use super::trial_set::TrialSet;
use super::truth::{PathNeighbours, true_since};
use crate::convert::real;

/// Most statements of a group that are kept.
const MAX_STATEMENTS: usize = 12;
/// Most groups that are described although they are not significant.
const MAX_OTHERS: usize = 20;
/// Latest interleavings of a group that are kept.
const MAX_LATEST: usize = 4;
/// The lead is the earliest group whose score is at least this share of the best one.
const NEAR_BEST: f64 = 0.9;
/// Weight of an absence, and of an order of first arrivals: both have more causes than other statements.
const WEAK: f64 = 0.9;
/// Weight of an arrival after which its thread reaches nothing usual: it may only report the failure.
const LAST: f64 = 0.75;

/// The trials, and in which of them the statements are true.
#[derive(Debug)]
pub(super) struct Evidence<'a> {
    pub(super) trials: &'a [TrialIndex],
    /// The outcome and the block of each trial.
    pub(super) labels: &'a [(bool, u32)],
    pub(super) neighbours: &'a PathNeighbours,
    pub(super) failure_paths: &'a FailurePaths,
    /// The statements and the trials in which they are true.
    pub(super) statements: Vec<(PathStatement, TrialSet)>,
}

/// The result of testing all groups.
#[derive(Debug)]
pub(super) struct Tested {
    /// Number of groups.
    pub(super) tests: u64,
    /// The significant ones with their trials, ranked.
    pub(super) groups: Vec<(PathGroup, TrialSet)>,
    /// Those of the others that are least likely by chance, the least likely first.
    pub(super) others: Vec<PathGroup>,
}

impl Evidence<'_> {
    /// Adds statements that could be significant.
    pub(super) fn add_statements(&mut self, statements: Vec<PathStatement>, error: f64) {
        let labels = Labels::new(self.labels);
        for statement in statements {
            let moments = self
                .trials
                .iter()
                .map(|trial| true_since(statement, trial, self.neighbours));
            let set = TrialSet::new(moments.map(|moment| moment.is_some()));
            if labels.is_testable(set.len(), error) {
                self.statements.push((statement, set));
            }
        }
    }

    /// Compares some of the trials.
    pub(super) fn test(&self, trials: &[usize], error: f64) -> Tested {
        let labels: Vec<(bool, u32)> = trials.iter().map(|trial| self.labels[*trial]).collect();
        let labels = Labels::new(&labels);
        let mut groups: NumberMap<TrialSet, Vec<usize>> = NumberMap::default();
        for (number, (_, set)) in self.statements.iter().enumerate() {
            let set = set.project(trials);
            if labels.is_testable(set.len(), error) {
                groups.entry(set).or_default().push(number);
            }
        }
        let (sets, members): (Vec<TrialSet>, Vec<Vec<usize>>) = groups.into_iter().unzip();
        let failing = labels.failing();
        let p_values: Vec<f64> = sets
            .iter()
            .map(|set| labels.p_value(set.len(), set.count_common(&failing)))
            .collect();
        let adjusted = labels.adjust(&p_values, &sets);
        let describe = |number: usize| PathGroup {
            p: p_values[number],
            adjusted_p: adjusted[number],
            ..self.describe(&members[number], trials)
        };
        let (significant, mut others): (Vec<usize>, Vec<usize>) =
            (0..sets.len()).partition(|number| adjusted[*number] <= error);
        let significant = significant.into_iter().map(|number| {
            let set = self.statements[members[number][0]].1.clone();
            (describe(number), set)
        });
        let groups = rank_groups(significant.collect());
        others.sort_unstable_by(|a, b| {
            let by_p = p_values[*a].total_cmp(&p_values[*b]);
            by_p.then_with(|| members[*a].cmp(&members[*b]))
        });
        others.truncate(MAX_OTHERS);
        Tested {
            tests: sets.len() as u64,
            groups,
            others: others.into_iter().map(describe).collect(),
        }
    }

    /// Describes statements that are true in the same trials.
    fn describe(&self, members: &[usize], trials: &[usize]) -> PathGroup {
        let set = &self.statements[members[0]].1;
        let true_in = |failed: bool| -> Vec<usize> {
            let chosen = trials.iter().copied();
            chosen
                .filter(|trial| self.labels[*trial].0 == failed && set.contains(*trial))
                .collect()
        };
        let (failing, passing) = (true_in(true), true_in(false));
        let mut timed: Vec<(f64, PathStatement)> = members
            .iter()
            .map(|number| self.statements[*number].0)
            .map(|statement| (self.median_time(statement, &failing), statement))
            .collect();
        timed.sort_by(|a, b| {
            let by_weight = weight(b.1).total_cmp(&weight(a.1));
            by_weight.then(a.0.total_cmp(&b.0)).then(a.1.cmp(&b.1))
        });
        self.keep_tightest_order(&mut timed, &failing);
        let (time, first) = timed[0];
        let after = failing
            .iter()
            .filter(|trial| self.is_after_failure(first, **trial))
            .count();
        let is_last = self.is_last(first, &failing);
        let failures = trials.iter().filter(|trial| self.labels[**trial].0).count();
        let [true_failures, true_passes, failures, all] =
            [failing.len(), passing.len(), failures, trials.len()].map(|count| real(count as u64));
        let score = harmonic_mean(
            true_failures / failures,
            1.0 - true_passes / (all - failures),
        );
        PathGroup {
            statements: timed
                .iter()
                .take(MAX_STATEMENTS)
                .map(|(_, statement)| *statement)
                .collect(),
            latest: latest_interleavings(&timed),
            size: members.len() as u64,
            failing: failing.len() as u64,
            passing: passing.len() as u64,
            p: 1.0,
            adjusted_p: 1.0,
            score: weight(first) * if is_last { LAST * score } else { score },
            time,
            is_after_failure: 2 * after > failing.len(),
            is_last,
        }
    }

    /// Of the orders of first arrivals, keeps the one whose arrivals are closest in time; the others follow from it.
    fn keep_tightest_order(&self, timed: &mut Vec<(f64, PathStatement)>, trials: &[usize]) {
        let is_order =
            |statement: &PathStatement| matches!(statement, PathStatement::Before { .. });
        let orders = timed
            .iter()
            .map(|(_, statement)| *statement)
            .filter(is_order);
        let distance = |statement: &PathStatement| -> u64 {
            trials
                .iter()
                .map(|trial| order_distance(*statement, &self.trials[*trial]))
                .sum()
        };
        let tightest = orders.min_by_key(distance);
        timed.retain(|(_, statement)| !is_order(statement) || Some(*statement) == tightest);
    }

    /// Returns the median share of the arrivals of trials before a statement becomes true.
    fn median_time(&self, statement: PathStatement, trials: &[usize]) -> f64 {
        let mut times: Vec<f64> = trials
            .iter()
            .filter_map(|trial| {
                let arrivals = &self.trials[*trial];
                let moment = true_since(statement, arrivals, self.neighbours)?;
                Some(f64::from(moment) / real(arrivals.len() as u64))
            })
            .collect();
        times.sort_unstable_by(f64::total_cmp);
        times.get(times.len() / 2).copied().unwrap_or(1.0)
    }

    /// Returns whether a statement is about an arrival that is the last usual one in most of these trials.
    fn is_last(&self, statement: PathStatement, trials: &[usize]) -> bool {
        let is_arrival = matches!(statement, PathStatement::Reached { .. });
        let last = trials.iter().filter(|trial| {
            let arrivals = &self.trials[**trial];
            true_since(statement, arrivals, self.neighbours)
                .is_some_and(|moment| self.failure_paths.is_last(arrivals, moment))
        });
        is_arrival && 2 * last.count() > trials.len()
    }

    fn is_after_failure(&self, statement: PathStatement, trial: usize) -> bool {
        let moment = true_since(statement, &self.trials[trial], self.neighbours);
        let arrivals = &self.trials[trial];
        moment.is_some_and(|moment| {
            self.failure_paths
                .is_after(trial, arrivals, statement, moment)
        })
    }
}

/// Returns the latest interleavings, the latest first, of statements with their times.
fn latest_interleavings(timed: &[(f64, PathStatement)]) -> Vec<PathStatement> {
    let is_interleaving = |statement: &PathStatement| {
        matches!(
            statement,
            PathStatement::Together { .. } | PathStatement::Between { .. }
        )
    };
    let mut latest: Vec<&(f64, PathStatement)> = timed
        .iter()
        .filter(|(_, statement)| is_interleaving(statement))
        .collect();
    latest.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    let latest = latest.into_iter().take(MAX_LATEST);
    latest.map(|(_, statement)| *statement).collect()
}

/// Returns how much a statement counts.
fn weight(statement: PathStatement) -> f64 {
    match statement {
        PathStatement::NotReached { .. } | PathStatement::Before { .. } => WEAK,
        _ => 1.0,
    }
}

/// Returns the number of arrivals from the first to the second arrival of an order.
fn order_distance(statement: PathStatement, trial: &TrialIndex) -> u64 {
    let PathStatement::Before {
        thread,
        point,
        other_thread,
        other_point,
    } = statement
    else {
        return 0;
    };
    let first = trial.first_of_thread(thread, point);
    let second = trial.first_of_thread(other_thread, other_point);
    first
        .zip(second)
        .map_or(0, |(first, second)| u64::from(second.saturating_sub(first)))
}

/// Returns whether a group is about an order of two arrivals of which one alone separates the trials as well.
fn follows_from_arrival(group: &PathGroup, groups: &[(PathGroup, TrialSet)]) -> bool {
    let PathStatement::Before {
        point, other_point, ..
    } = group.statements[0]
    else {
        return false;
    };
    let is_arrival = |statement: &PathStatement| matches!(statement, PathStatement::Reached { point: reached, .. } if [point, other_point].contains(reached));
    groups.iter().any(|(other, _)| {
        other.failing >= group.failing
            && other.passing <= group.passing
            && other.statements.iter().any(is_arrival)
    })
}

/// Sorts groups: of those before the failure, first those with nearly the best score by time, then the others by score, then
/// those that may only report the failure, because an earlier one exists, and orders that say no more than an arrival; then
/// those after it by time.
fn rank_groups(groups: Vec<(PathGroup, TrialSet)>) -> Vec<(PathGroup, TrialSet)> {
    let follows = |group: &PathGroup| follows_from_arrival(group, &groups);
    let before = groups.iter().map(|(group, _)| group);
    let before = before.filter(|group| !group.is_after_failure && !follows(group));
    let lasting = before.clone().filter(|group| !group.is_last);
    let earliest = lasting
        .map(|group| group.time)
        .fold(f64::INFINITY, f64::min);
    let may_report = |group: &PathGroup| group.is_last && earliest < group.time;
    let best = before
        .filter(|group| !may_report(group))
        .map(|group| group.score)
        .fold(0.0, f64::max);
    let rank = |group: &PathGroup| {
        if group.is_after_failure {
            (3, group.time)
        } else if may_report(group) || follows(group) {
            (2, -group.score)
        } else if group.score >= NEAR_BEST * best {
            (0, group.time)
        } else {
            (1, -group.score)
        }
    };
    let ranks: Vec<(u8, f64)> = groups.iter().map(|(group, _)| rank(group)).collect();
    let mut ranked: Vec<_> = ranks.into_iter().zip(groups).collect();
    ranked.sort_by(|((rank_a, order_a), (a, _)), ((rank_b, order_b), (b, _))| {
        rank_a
            .cmp(rank_b)
            .then(order_a.total_cmp(order_b))
            .then(b.score.total_cmp(&a.score))
            .then_with(|| a.statements.cmp(&b.statements))
    });
    ranked.into_iter().map(|(_, group)| group).collect()
}

fn harmonic_mean(a: f64, b: f64) -> f64 {
    if a + b > 0.0 {
        2.0 * a * b / (a + b)
    } else {
        0.0
    }
}
