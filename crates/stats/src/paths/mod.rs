//! Finds what separates the paths of failing trials from those of passing ones.
//!
//! | step | file |
//! | --- | --- |
//! | statements are chosen from the arrivals, without the outcomes | `candidates` |
//! | each is true or false in a trial | `truth`, `neighbours` |
//! | statements that are true in the same trials are one test, adjusted for all tests | `groups`, `permute` |
//! | what happens after a trial has begun to fail is not its cause | `failure_path` |
//! | the lead is the earliest group that separates nearly as well as the best one | `groups` |
//! | points whose arming changes the failure rate | `arming` |
//!
//! A second cause is looked for only after a lead, among the trials in which the lead is not true. So the probability of any
//! false claim of a comparison is at most its error, whether there are two causes, one or none: a claim of a second one is
//! wrong without a first only if the first claim is wrong already. The effects of arming have an error of their own.

mod arming;
mod candidates;
mod failure_path;
mod groups;
mod index;
mod input;
mod look;
mod neighbours;
mod number_hash;
mod permute;
mod result;
#[cfg(test)]
mod tests;
mod trial_set;
mod truth;

pub use input::{Arrival, BLOCK_TRIALS, PathEnd, PathPoint, PathTrial, PointKind};
pub use look::{
    LOOKS, LOOKS_AT_FUNCTIONS, LOOKS_INSIDE_FUNCTIONS, Look, MIN_FAILING, MIN_PASSING, due_look,
};
pub use result::{
    ArmingEffect, FailurePath, PathComparison, PathGroup, PathStatement, SecondCause,
};

use failure_path::FailurePaths;
use groups::{Evidence, Tested};
use index::TrialIndex;
use permute::Labels;
use trial_set::TrialSet;

/// Fewer failing trials without the lead have no second cause.
const MIN_SECOND: usize = 5;

/// Compares the paths of failing trials with those of passing ones; the probability of a false claim is at most `error`.
pub fn compare_paths(points: &[PathPoint], trials: &[PathTrial], error: f64) -> PathComparison {
    let full: Vec<&PathTrial> = trials
        .iter()
        .filter(|trial| trial.armed.is_none())
        .collect();
    let indices: Vec<TrialIndex> = full
        .iter()
        .map(|trial| TrialIndex::new(points, trial))
        .collect();
    let labels: Vec<(bool, u32)> = full
        .iter()
        .map(|trial| (trial.failed, trial.block))
        .collect();
    let point_count = u32::try_from(points.len()).expect("points have numbers of 32 bits");
    let neighbours = neighbours::find_neighbours(&indices, point_count);
    let failure_paths = FailurePaths::new(points, &full, &indices);
    let mut evidence = Evidence {
        trials: &indices,
        labels: &labels,
        neighbours: &neighbours,
        failure_paths: &failure_paths,
        statements: Vec::new(),
    };
    let least = Labels::new(&labels).least_testable(error);
    let least = least.unwrap_or(usize::MAX);
    let candidates = candidates::choose_candidates(points, &indices, least);
    evidence.add_statements(candidates.statements, error);
    let all: Vec<usize> = (0..full.len()).collect();
    let Tested {
        tests,
        groups,
        others,
    } = evidence.test(&all, error);
    let lead = groups.first().filter(|(group, _)| !group.is_after_failure);
    let second = lead.and_then(|(_, set)| find_second(&evidence, set, error));
    let arming = arming::test_arming(trials, point_count, error);
    let failing = full.iter().filter(|trial| trial.failed).count();
    PathComparison {
        failing: failing as u64,
        passing: (full.len() - failing) as u64,
        tests,
        is_limited: candidates.is_limited,
        lead: lead.map(|_| 0),
        groups: groups.into_iter().map(|(group, _)| group).collect(),
        others,
        second,
        failure_path: failure_paths.most_frequent(points, &indices),
        arming: arming.effects,
        half_failing: arming.failing,
        half_passing: arming.passing,
        arming_tests: arming.tests,
    }
}

/// Compares the trials in which the lead is not true, if enough of them failed.
fn find_second(evidence: &Evidence<'_>, lead: &TrialSet, error: f64) -> Option<SecondCause> {
    let others: Vec<usize> = (0..evidence.trials.len())
        .filter(|trial| !lead.contains(*trial))
        .collect();
    let failing = others
        .iter()
        .filter(|trial| evidence.labels[**trial].0)
        .count();
    if failing < MIN_SECOND {
        return None;
    }
    let tested = evidence.test(&others, error);
    let (group, _) = tested
        .groups
        .into_iter()
        .next()
        .filter(|(group, _)| !group.is_after_failure)?;
    Some(SecondCause {
        failing: failing as u64,
        passing: (others.len() - failing) as u64,
        tests: tested.tests,
        group,
    })
}
