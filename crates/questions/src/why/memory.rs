//! Learns under which conditions the program fails.

use super::conditions::screen_conditions;
use super::other_failures::{OtherFailure, TrialEnds};
use crate::baseline::is_searched_bug;
use provoke_model::{
    BugFilter, CaseEnd, CaseRecord, Failure, FailureKind, FailureName, Goal, InconclusiveReason,
    Outcome, Signature, Trial, TrialsPlan, WhyQuestion,
};
use provoke_state::{Memory, State, TrialFacts};
use provoke_stats::screen::{self, Limits, Next, Screen, SeedTest, SuiteScreen};
use std::any::Any;
use std::collections::BTreeMap;

/// What a search for conditions has learned.
#[derive(Debug)]
pub(super) struct WhyMemory {
    question: WhyQuestion,
    pub(super) screen: ConditionScreen,
    /// The first failure of a plain trial: other failures are not the one that is looked for.
    plain_failure: Option<(FailureKind, Signature)>,
    /// Conditions without a result, with the reasons.
    without_result: BTreeMap<usize, &'static str>,
    /// How trials of a program ended with one condition or none.
    ends: TrialEnds,
    /// Whether the user says which failures count.
    is_chosen: bool,
}

/// The statistics of a search: one outcome for each trial, or one for each test of a suite.
#[derive(Debug)]
pub(super) enum ConditionScreen {
    Program(Screen),
    Suite(SuiteScreen),
}

impl ConditionScreen {
    /// Returns the next trial, given the conditions of the running ones.
    pub(super) fn next(&self, running: &[Vec<usize>]) -> Next {
        match self {
            Self::Program(screen) => screen.next(running),
            Self::Suite(screen) => screen.next(running),
        }
    }

    /// Returns whether no plain trial of a suite has a result of any test.
    pub(super) fn lacks_tests(&self) -> bool {
        match self {
            Self::Program(_) => false,
            Self::Suite(screen) => !screen.has_plain_tests(),
        }
    }

    /// Returns whether a condition was found that matters.
    pub(super) fn has_claim(&self) -> bool {
        match self {
            Self::Program(screen) => {
                let mut seed_tests = screen.seed_tests().iter();
                screen.claims().next().is_some() || seed_tests.any(SeedTest::is_claimed)
            }
            Self::Suite(screen) => {
                screen.claims().next().is_some() || screen.seed_claims().next().is_some()
            }
        }
    }
}

impl WhyMemory {
    /// Returns why a condition was not tried.
    pub(super) fn untested_reason(&self, item: usize) -> Option<String> {
        let mut untested = self.question.untested.iter();
        let unavailable = untested.find(|untested| untested.item as usize == item);
        let reason = unavailable.map(|untested| untested.reason.clone());
        let without_result = self.without_result.get(&item);
        reason.or_else(|| without_result.map(|reason| (*reason).to_owned()))
    }

    /// Returns the title of the failure that is counted, if plain trials showed it.
    pub(super) fn plain_failure_title(&self) -> Option<String> {
        let (_, signature) = self.plain_failure.as_ref()?;
        Some(signature.title.clone())
    }

    /// Returns the conditions of other failures.
    pub(super) fn other_failures(&self) -> Vec<OtherFailure<'_>> {
        let target = self.plain_target();
        target.map_or_else(Vec::new, |target| self.ends.other_failures(target))
    }

    /// Returns the next condition to try alone after a search without a result, because it may cause another failure.
    pub(super) fn next_candidate(&self) -> Option<usize> {
        if self.screen.has_claim() {
            return None;
        }
        self.ends.next_candidate(self.plain_target()?)
    }

    /// Returns the failure that is looked for, if it is the first one of plain trials.
    fn plain_target(&self) -> Option<FailureName<'_>> {
        let (kind, signature) = self.plain_failure.as_ref().filter(|_| !self.is_chosen)?;
        Some(FailureName { kind, signature })
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
        let screen = if searches_tests(trials) {
            let screen = SuiteScreen::new(conditions, alpha, limits, trials.seed);
            ConditionScreen::Suite(screen)
        } else {
            ConditionScreen::Program(Screen::new(conditions, alpha, limits, trials.seed))
        };
        Self {
            question: question.clone(),
            screen,
            plain_failure: None,
            without_result: BTreeMap::new(),
            ends: TrialEnds::default(),
            is_chosen: !trials.rules.only.is_empty() || question.known.is_some(),
        }
    }
}

/// Returns whether a condition is searched for each test of a suite, and not for chosen ones together.
fn searches_tests(trials: &TrialsPlan) -> bool {
    let is_test = |filter: &BugFilter| matches!(filter, BugFilter::Test(_));
    trials.cases.is_some() && !trials.rules.only.iter().any(is_test)
}

/// Returns the outcome of each test, by number.
fn test_outcomes(record: Option<&CaseRecord>) -> Vec<screen::Outcome> {
    let outcome = |end: Option<CaseEnd>| match end {
        Some(end) if end.is_failure() => screen::Outcome::Failed,
        Some(end) if end.is_pass() => screen::Outcome::Passed,
        _ => screen::Outcome::NotCounted,
    };
    let ends = record.map(CaseRecord::decode_ends).unwrap_or_default();
    ends.into_iter().map(outcome).collect()
}

/// Returns whether a runtime could not start the program: a limit is below what it needs for itself.
fn is_failed_start(failure: &Failure) -> bool {
    const MESSAGES: [&str; 3] = [
        "Could not create the Java Virtual Machine",
        "Error occurred during initialization of VM",
        "A fatal exception has occurred. Program will exit",
    ];
    let title = &failure.signature.title;
    MESSAGES.iter().any(|message| title.contains(message))
}

impl Memory for WhyMemory {
    fn parts(&self) -> Vec<&dyn Any> {
        match &self.screen {
            ConditionScreen::Program(screen) => vec![self, screen],
            ConditionScreen::Suite(screen) => vec![self, screen],
        }
    }

    fn is_the_bug(&self, _: &State, failure: &Failure) -> bool {
        is_searched_bug(
            self.question.known.as_deref(),
            self.plain_failure.as_ref(),
            failure,
        )
    }

    fn add_trial(&mut self, state: &State, trial: &Trial, facts: &TrialFacts) {
        let outcome = &facts.outcome;
        let Some(set) = state.kept_set(trial.variant) else {
            return;
        };
        if let (Outcome::Fail(failure), ConditionScreen::Program(_), true) =
            (outcome, &self.screen, set.is_empty())
        {
            let name = || (failure.kind.clone(), failure.signature.clone());
            self.plain_failure.get_or_insert_with(name);
        }
        let is_started = match outcome {
            Outcome::Inconclusive(reason) => *reason != InconclusiveReason::NotStarted,
            _ => !outcome.any_failure().is_some_and(is_failed_start),
        };
        if let ([condition], false) = (set.as_slice(), is_started) {
            let reason = "the command cannot be started under it";
            self.without_result.insert(*condition, reason);
        }
        // An inconclusive trial with a condition counts as one that did not fail, so that the condition is given up.
        if set.len() == 1 || !matches!(outcome, Outcome::Inconclusive(_)) {
            let failure = outcome.any_failure().filter(|_| is_started);
            self.ends.add_trial(&set, failure);
        }
        match &mut self.screen {
            ConditionScreen::Program(screen) => screen.record(
                &set,
                match outcome {
                    Outcome::Pass => screen::Outcome::Passed,
                    Outcome::Fail(_) if is_started || set.is_empty() => screen::Outcome::Failed,
                    Outcome::Fail(_) | Outcome::Other(_) | Outcome::Inconclusive(_) => {
                        screen::Outcome::NotCounted
                    }
                },
            ),
            ConditionScreen::Suite(screen) => {
                let outcomes = test_outcomes(facts.cases.as_deref());
                let is_counted =
                    |outcome: &screen::Outcome| *outcome != screen::Outcome::NotCounted;
                if let ([condition], false) = (set.as_slice(), outcomes.iter().any(is_counted)) {
                    let reasons = self.without_result.entry(*condition);
                    reasons.or_insert("no test runs to an end under it");
                }
                screen.record(&set, outcomes);
            }
        }
    }
}
