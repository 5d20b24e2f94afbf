//! Learns under which conditions the program fails.

use super::conditions::screen_conditions;
use provoke_model::{
    Failure, FailureKind, FailureName, Goal, InconclusiveReason, Outcome, Signature, Trial,
    TrialsPlan, WhyQuestion,
};
use provoke_state::{Memory, State};
use provoke_stats::screen::{self, Limits, Screen};
use std::any::Any;
use std::collections::BTreeSet;
use std::time::Duration;

/// What a search for conditions has learned.
#[derive(Debug)]
pub(super) struct WhyMemory {
    question: WhyQuestion,
    screen: Screen,
    /// The first failure of a plain trial: other failures are not the one that is looked for.
    plain_failure: Option<(FailureKind, Signature)>,
    /// Conditions under which the command could not be started.
    not_started: BTreeSet<usize>,
}

impl WhyMemory {
    /// Returns why a condition was not tried.
    pub(super) fn untested_reason(&self, item: usize) -> Option<String> {
        let mut untested = self.question.untested.iter();
        let unavailable = untested.find(|untested| untested.item as usize == item);
        let reason = unavailable.map(|untested| untested.reason.clone());
        let not_started = || "the command cannot be started under it".to_owned();
        reason.or_else(|| self.not_started.contains(&item).then(not_started))
    }

    /// Returns the memory before the first trial.
    pub(super) fn new(goal: &Goal, trials: &TrialsPlan, question: &WhyQuestion) -> Self {
        let space = trials.space.as_ref();
        let items = space.map_or(&[][..], |space| space.choices.as_items());
        let conditions = screen_conditions(items, &question.untested);
        let limits = Limits {
            parallel: usize::try_from(trials.jobs).unwrap_or(usize::MAX),
            ..Limits::default()
        };
        let alpha = goal.alpha.to_probability();
        let screen = Screen::new(conditions, alpha, limits, trials.seed);
        Self {
            question: question.clone(),
            screen,
            plain_failure: None,
            not_started: BTreeSet::new(),
        }
    }
}

impl Memory for WhyMemory {
    fn parts(&self) -> Vec<&dyn Any> {
        vec![self, &self.screen]
    }

    fn is_the_bug(&self, _: &State, failure: &Failure) -> bool {
        match (&self.question.known, &self.plain_failure) {
            (Some(known), _) if !known.bugs.is_empty() => {
                known.bugs.iter().any(|bug| bug.may_be(failure))
            }
            (_, Some((kind, signature))) => FailureName { kind, signature }.is_same(failure.into()),
            _ => true,
        }
    }

    fn add_trial(&mut self, state: &State, trial: &Trial, outcome: &Outcome, _: Duration) {
        let Some(set) = state.kept_set(trial.variant) else {
            return;
        };
        if let (Outcome::Fail(failure), true) = (outcome, set.is_empty()) {
            let name = || (failure.kind.clone(), failure.signature.clone());
            self.plain_failure.get_or_insert_with(name);
        }
        if let (Outcome::Inconclusive(InconclusiveReason::NotStarted), [condition]) =
            (outcome, set.as_slice())
        {
            self.not_started.insert(*condition);
        }
        let outcome = match outcome {
            Outcome::Pass => screen::Outcome::Passed,
            Outcome::Fail(_) => screen::Outcome::Failed,
            Outcome::Other(_) | Outcome::Inconclusive(_) => screen::Outcome::NotCounted,
        };
        self.screen.record(&set, outcome);
    }
}
