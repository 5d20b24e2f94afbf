//! The failure that an examination is about: how often it happens with and without a held thread.

use crate::FailureCounts;
use crate::search::SearchedFailure;
use provoke_model::{Failure, FailureKind, FailureName, InconclusiveReason, Outcome};
use provoke_stats::EProcess;
use std::collections::BTreeMap;

/// How an exploring trial ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum TrialEnd<'a> {
    /// It passed.
    Passed,
    /// It failed.
    Failed(&'a Failure),
    /// It failed in another way than the run of `--baseline`.
    FailedOtherwise(&'a Failure),
    /// It was stopped before its timeout, so it may hang.
    StoppedEarly,
}

impl TrialEnd<'_> {
    /// Returns how a trial with this outcome ended.
    pub(super) fn of_outcome(outcome: &Outcome) -> TrialEnd<'_> {
        match outcome {
            Outcome::Fail(failure) => TrialEnd::Failed(failure),
            Outcome::Other(failure) => TrialEnd::FailedOtherwise(failure),
            Outcome::Inconclusive(InconclusiveReason::StoppedEarly) => TrialEnd::StoppedEarly,
            Outcome::Pass | Outcome::Inconclusive(_) => TrialEnd::Passed,
        }
    }

    /// Returns whether the trial counts as failed for the choice of holds.
    pub(super) fn is_failure(self) -> bool {
        matches!(self, Self::Failed(_) | Self::StoppedEarly)
    }
}

/// Failures under a set of holds, and how often each occurred.
#[derive(Clone, Debug, Default)]
pub(super) struct ShownFailures {
    failures: Vec<(Failure, u64)>,
    stopped_early: u64,
}

impl ShownFailures {
    pub(super) fn add_end(&mut self, end: TrialEnd) {
        match end {
            TrialEnd::Failed(failure) | TrialEnd::FailedOtherwise(failure) => {
                let is_same =
                    |known: &Failure| FailureName::from(known).is_same(FailureName::from(failure));
                match self.failures.iter_mut().find(|(known, _)| is_same(known)) {
                    Some((_, count)) => *count += 1,
                    None => self.failures.push((failure.clone(), 1)),
                }
            }
            TrialEnd::StoppedEarly => self.stopped_early += 1,
            TrialEnd::Passed => {}
        }
    }

    /// Returns the number of failures, without trials that were stopped early.
    pub(super) fn count(&self) -> u64 {
        self.failures.iter().map(|(_, count)| count).sum()
    }

    /// Returns the title of the failure that occurred most often.
    pub(super) fn title(&self) -> Option<&str> {
        let most_frequent = self.failures.iter().max_by_key(|(_, count)| *count)?;
        Some(&most_frequent.0.signature.title)
    }

    /// Returns the failure that an examination is about: the most frequent one of the most frequent kind, or any of this kind
    /// if these are seldom alike.
    pub(super) fn most_frequent(&self) -> SearchedFailure {
        let hang = FailureKind::Hang { stopped: false }.name();
        let mut kinds = BTreeMap::from([(hang, self.stopped_early)]);
        for (failure, count) in &self.failures {
            *kinds.entry(failure.kind.name()).or_default() += count;
        }
        let most_frequent_kind = kinds.into_iter().max_by_key(|(_, count)| *count);
        let (kind, of_kind) = most_frequent_kind.expect("the map has the hangs");
        let alike = self.failures.iter();
        let alike =
            alike.filter(|(failure, count)| failure.kind.name() == kind && 2 * count > of_kind);
        match alike.max_by_key(|(_, count)| *count) {
            Some((failure, _)) => SearchedFailure::Named(Box::new(failure.clone())),
            None => SearchedFailure::Kind(kind),
        }
    }
}

/// The trials of one failure with and without a held thread. It is chosen before the first of them, so that the trials do
/// not choose the failure that they show most often.
#[derive(Clone, Debug)]
pub(super) struct ExaminedFailure {
    /// Which failure it is.
    pub(super) name: SearchedFailure,
    /// Trials with a held thread, and those that showed the failure.
    pub(super) held: FailureCounts,
    /// Trials that were only traced, and those that showed the failure.
    pub(super) control: FailureCounts,
    /// The evidence that these rates differ.
    evidence: EProcess,
    /// Other failures in the trials with a held thread.
    pub(super) others: ShownFailures,
}

impl ExaminedFailure {
    pub(super) fn new(name: SearchedFailure) -> Self {
        Self {
            name,
            held: FailureCounts::default(),
            control: FailureCounts::default(),
            evidence: EProcess::new(),
            others: ShownFailures::default(),
        }
    }

    pub(super) fn add_held_trial(&mut self, end: TrialEnd) {
        let is_failure = self.is_shown_by(end);
        if !is_failure {
            self.others.add_end(end);
        }
        self.held.add_trial(is_failure);
        self.evidence.push_a(is_failure);
    }

    pub(super) fn add_control_trial(&mut self, end: TrialEnd) {
        // The claim must not depend on a trial that was stopped early.
        let is_failure = end == TrialEnd::StoppedEarly || self.is_shown_by(end);
        self.control.add_trial(is_failure);
        self.evidence.push_b(is_failure);
    }

    /// Returns whether trials with a held thread show the failure more often than the others, at the error rate `alpha`.
    pub(super) fn is_difference_known(&self, alpha: f64) -> bool {
        self.held.rate() > self.control.rate() && self.evidence.ln_e_max() >= -alpha.ln()
    }

    /// Returns whether a trial with a held thread shows the failure. One that was stopped early only shows a hang, and the
    /// examination knows then that the hold makes the program hang.
    pub(super) fn is_shown_by(&self, end: TrialEnd) -> bool {
        match end {
            TrialEnd::Failed(failure) => self.name.covers(failure),
            TrialEnd::StoppedEarly => self.is_of_hang(),
            TrialEnd::Passed | TrialEnd::FailedOtherwise(_) => false,
        }
    }

    /// Returns whether the failure is a hang.
    fn is_of_hang(&self) -> bool {
        let hang = FailureKind::Hang { stopped: false }.name();
        match &self.name {
            SearchedFailure::Named(failure) => failure.kind.name() == hang,
            SearchedFailure::Kind(kind) => *kind == hang,
            SearchedFailure::OfPlan | SearchedFailure::Open => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::exit;
    use provoke_model::{EvidenceDepth, SignatureId};

    fn shown(ends: &[TrialEnd]) -> ShownFailures {
        let mut shown = ShownFailures::default();
        for end in ends {
            shown.add_end(*end);
        }
        shown
    }

    #[test]
    fn the_most_frequent_failure_under_a_hold_is_examined() {
        let [first, second] = [exit(1), exit(2)];
        let [first_end, second_end] = [&first, &second].map(TrialEnd::Failed);
        let chosen = shown(&[first_end, second_end, second_end]).most_frequent();
        assert_eq!(chosen, SearchedFailure::Named(Box::new(second.clone())));
        let hang = SearchedFailure::Kind("hang".to_owned());
        let stopped = TrialEnd::StoppedEarly;
        assert_eq!(shown(&[first_end, stopped, stopped]).most_frequent(), hang);
    }

    #[test]
    fn failures_of_one_kind_that_are_seldom_alike_are_examined_together() {
        let with_message = |number: u32| {
            let mut failure = exit(1);
            failure.signature.depth = EvidenceDepth::Output;
            failure.signature.id = SignatureId(100 + number);
            failure
        };
        let failures = [1, 2, 3, 3].map(with_message);
        let ends = |count: usize| failures[..count].iter().map(TrialEnd::Failed);
        let few: Vec<TrialEnd> = ends(3).collect();
        let kind = SearchedFailure::Kind("exit 1".to_owned());
        assert_eq!(shown(&few).most_frequent(), kind);
        let mut more: Vec<TrialEnd> = ends(4).collect();
        more.push(TrialEnd::Failed(&failures[3]));
        let repeated = SearchedFailure::Named(Box::new(failures[3].clone()));
        assert_eq!(shown(&more).most_frequent(), repeated);
    }

    #[test]
    fn only_the_examined_failure_is_compared() {
        let [crash, other] = [exit(1), exit(2)];
        let mut failure = ExaminedFailure::new(SearchedFailure::Named(Box::new(crash.clone())));
        for _ in 0..20 {
            failure.add_held_trial(TrialEnd::Failed(&other));
            failure.add_control_trial(TrialEnd::Passed);
        }
        assert!(!failure.is_difference_known(0.05));
        let none = FailureCounts {
            failures: 0,
            trials: 20,
        };
        assert_eq!(failure.held, none);
        assert_eq!(
            (failure.others.count(), failure.others.title()),
            (20, Some("exit 2"))
        );
        for _ in 0..20 {
            failure.add_held_trial(TrialEnd::Failed(&crash));
            failure.add_control_trial(TrialEnd::Failed(&other));
        }
        assert_eq!(failure.control.failures, 0);
        assert!(failure.is_difference_known(0.05));
    }

    #[test]
    fn a_control_trial_that_was_stopped_early_speaks_against_any_claim() {
        let crash = exit(1);
        let mut failure = ExaminedFailure::new(SearchedFailure::Named(Box::new(crash)));
        failure.add_held_trial(TrialEnd::StoppedEarly);
        failure.add_control_trial(TrialEnd::StoppedEarly);
        assert_eq!((failure.held.failures, failure.control.failures), (0, 1));
    }
}
