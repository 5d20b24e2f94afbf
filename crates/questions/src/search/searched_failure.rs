//! Chooses the failure that a search looks for: the one that the failing variant shows most often.
//!
//! An exit code is not enough: a program that lacks an import exits as one with the bug does. So a search looks for one
//! failure, and counts any other apart.

use provoke_model::{BugFilter, Failure, FailureName, Goal, TrialsPlan};
use provoke_state::{SignatureFailures, Tally};
use std::collections::BTreeMap;

/// Failures, as a multiple of the required number, after which a failure that never looks alike is known by its kind.
const PATIENCE: u64 = 3;

/// The failure that a search looks for.
#[derive(Clone, Debug, PartialEq)]
pub enum SearchedFailure {
    /// The plan defines it.
    OfPlan,
    /// It is not chosen yet, so every failure may be it.
    Open,
    /// This one.
    Named(Box<Failure>),
    /// Any of this kind, because its messages and places differ from trial to trial.
    Kind(String),
}

impl SearchedFailure {
    /// Returns the failure before the first trial.
    pub(super) fn new(goal: &Goal, trials: &TrialsPlan) -> Self {
        if takes_any_failure(goal, trials) {
            Self::OfPlan
        } else {
            Self::Open
        }
    }

    /// Returns whether a failure that counts by the rules of the plan is the one that the search looks for.
    pub fn covers(&self, failure: &Failure) -> bool {
        match self {
            Self::OfPlan | Self::Open => true,
            Self::Named(bug) => FailureName::from(&**bug).is_same(failure.into()),
            Self::Kind(kind) => failure.kind.name() == *kind,
        }
    }

    /// Returns whether all of these failures are the one that the search looks for.
    pub(super) fn covers_all(&self, failures: &[Failure]) -> bool {
        failures.iter().all(|failure| self.covers(failure))
    }
}

/// Failures of a tally by their identity.
pub(super) struct FailureCensus<'a> {
    /// Each group of failures with the number of all that are the same failure.
    counts: Vec<(u64, &'a SignatureFailures)>,
}

impl<'a> FailureCensus<'a> {
    pub(super) fn of_tally(tally: &'a Tally) -> Self {
        Self {
            counts: tally.failure_counts().collect(),
        }
    }

    /// Returns the failure that occurred most often, and how often; of several, the one that came first.
    pub(super) fn most_frequent(&self) -> Option<(u64, SearchedFailure)> {
        let first_trial = |group: &SignatureFailures| group.trials.first().copied();
        let (count, group) = self
            .counts
            .iter()
            .max_by_key(|(count, group)| (*count, std::cmp::Reverse(first_trial(group))))?;
        Some((*count, SearchedFailure::Named(Box::new(group.to_failure()))))
    }

    /// Returns the kind that occurred most often, if failures of this many trials were never alike often enough.
    pub(super) fn kind_of_different(
        &self,
        needed: u64,
        is_last_chance: bool,
    ) -> Option<SearchedFailure> {
        let mut kinds: BTreeMap<String, u64> = BTreeMap::new();
        for (_, group) in &self.counts {
            *kinds.entry(group.kind.name()).or_default() += group.trials.len() as u64;
        }
        let (kind, count) = kinds.into_iter().max_by_key(|(_, count)| *count)?;
        let is_enough = count >= needed * PATIENCE || is_last_chance && count >= needed;
        is_enough.then_some(SearchedFailure::Kind(kind))
    }
}

/// Returns whether the plan itself defines which failures are the bug. The name of a test does not say in which way it
/// fails.
pub(super) fn takes_any_failure(goal: &Goal, trials: &TrialsPlan) -> bool {
    let search_question = goal.question.as_search();
    let names_a_failure = |filter: &BugFilter| !matches!(filter, BugFilter::Test(_));
    search_question.is_none_or(|question| question.any_failure)
        || trials.rules.only.iter().any(names_a_failure)
}
