//! Learns which candidate of a list is the first bad one.

use super::features::FeatureValues;
use crate::search::{EarlierUse, Reproduction};
use provoke_model::{
    Failure, Goal, Outcome, SearchQuestion, Trial, TrialsPlan, VariantChoice, VariantChoices,
    VariantId,
};
use provoke_state::{Memory, State, TrialFacts};
use provoke_stats::fisher;
use provoke_stats::search::{Bisection, SearchPrior, hedge_weights};
use std::any::Any;
use std::collections::BTreeMap;
use std::time::Duration;

/// Required failures of the bad end if earlier runs count: the search detects soon if the rate has changed.
const FAILURES_AGAIN: u64 = 1;

/// The posterior of the first bad candidate.
#[derive(Debug)]
pub(super) struct BisectMemory {
    question: SearchQuestion,
    reproduction: Reproduction,
    search: Bisection,
    features: FeatureValues,
    builds: CandidateBuilds,
}

/// The candidates by the digest of their artifacts.
#[derive(Debug, Default)]
pub struct CandidateBuilds(BTreeMap<String, Vec<usize>>);

impl CandidateBuilds {
    /// Returns the number of builds that are identical to one that was prepared before.
    pub fn identical_builds(&self) -> u64 {
        let repeated = self.0.values().map(|indices| {
            let mut sorted_indices = indices.clone();
            sorted_indices.sort_unstable();
            sorted_indices.dedup();
            sorted_indices.len() as u64 - 1
        });
        repeated.sum()
    }

    /// Adds a candidate, and returns the first and the last one with the same build.
    fn add_build(&mut self, index: usize, build: &str) -> (usize, usize) {
        let indices = self.0.entry(build.to_owned()).or_default();
        indices.push(index);
        indices.iter().fold((index, index), |(first, last), other| {
            (first.min(*other), last.max(*other))
        })
    }
}

impl BisectMemory {
    /// Returns the memory before the first trial; `None` if the plan has no list.
    pub(super) fn new(goal: &Goal, trials: &TrialsPlan, question: &SearchQuestion) -> Option<Self> {
        Some(Self {
            search: initial_posterior(trials, question)?,
            question: question.clone(),
            reproduction: Reproduction::new(goal, trials, FAILURES_AGAIN),
            features: FeatureValues::default(),
            builds: CandidateBuilds::default(),
        })
    }

    /// Adds earlier runs of the bad end, if they count.
    fn add_earlier(&mut self, goal: &Goal) {
        let (failures, trials) = self.reproduction.counted_earlier(goal);
        if trials > 0 {
            let newest = self.search.newest_version();
            self.search.observe_many(newest, failures, trials);
        }
    }

    /// Stops counting earlier runs as soon as the failing versions fail at another rate in this run.
    fn check_earlier(&mut self, goal: &Goal) {
        if self.reproduction.earlier_use != EarlierUse::Counted {
            return;
        }
        let first = self.search.likeliest_group().first;
        let tested = self.search.tested_versions().iter();
        let failing = tested.filter(|version| version.version >= first);
        let (failures, trials) = failing.fold((0, 0), |(k, n), version| {
            (k + version.failures, n + version.runs)
        });
        if let Some(counted) = self.reproduction.check_earlier(goal, failures, trials) {
            let newest = self.search.newest_version();
            self.search = self.search.without_runs(newest, counted.0, counted.1);
        }
    }

    fn observe_failure(&mut self, index: usize, failure: &Failure, time: Duration) {
        if self.question.any_failure {
            self.search.observe_run(index, true);
        } else {
            let features = self.features.features_of(failure, time);
            self.search.observe_with_features(index, true, features);
        }
    }

    /// Allows a background if good versions were assumed never to fail, but the good end does fail, less often than the
    /// bad end.
    fn allow_background(&mut self, goal: &Goal) {
        if !self.question.clean || self.search.allows_background() {
            return;
        }
        let good = self.search.failures_and_runs(0);
        let bad = self.search.failures_and_runs(self.search.newest_version());
        let alpha = goal.alpha.to_probability();
        if good.0 > 0 && fisher(bad.0, bad.1, good.0, good.1).greater <= alpha {
            self.search = self.search.with_background();
        }
    }
}

impl Memory for BisectMemory {
    fn parts(&self) -> Vec<&dyn Any> {
        vec![&self.search, &self.reproduction, &self.builds]
    }

    fn is_the_bug(&self, state: &State, failure: &Failure) -> bool {
        self.reproduction.is_searched(state, failure)
    }

    fn awaits_failure(&self) -> bool {
        self.reproduction.awaits_failure()
    }

    fn choose_failure(&mut self, state: &State) -> bool {
        self.reproduction.choose_failure(state)
    }

    fn forget_failing_trials(&mut self, state: &State) {
        self.restart(state);
    }

    fn add_trial(&mut self, state: &State, trial: &Trial, facts: &TrialFacts) {
        if !matches!(facts.outcome, Outcome::Pass | Outcome::Fail(_)) {
            return;
        }
        if trial.variant == State::FAILING && self.reproduction.decide_earlier(state) {
            self.add_earlier(&state.goal);
        }
        let Some(index) = state.place_of_variant(trial.variant) else {
            return;
        };
        match &facts.outcome {
            Outcome::Fail(failure) => self.observe_failure(index, failure, facts.elapsed),
            _ => self.search.observe_run(index, false),
        }
        self.allow_background(&state.goal);
        self.check_earlier(&state.goal);
    }

    /// Records the build of a candidate: between two candidates with identical builds no failure begins.
    fn add_build(&mut self, state: &State, variant: VariantId, build: &str) {
        if let Some(index) = state.place_of_variant(variant) {
            let (first, last) = self.builds.add_build(index, build);
            self.search.mark_identical(first, last);
        }
    }

    fn give_up(&mut self, state: &State, variant: VariantId) {
        if let Some(VariantChoice::Place(index)) = state.trials.variant_plan(variant).choice {
            self.search.mark_untestable(index as usize);
        }
    }

    fn restart(&mut self, state: &State) {
        if let Some(search) = initial_posterior(&state.trials, &self.question) {
            self.search = search;
            self.features = FeatureValues::default();
            self.add_earlier(&state.goal);
        }
    }
}

/// Returns the posterior of a list before the first trial.
fn initial_posterior(trials: &TrialsPlan, question: &SearchQuestion) -> Option<Bisection> {
    let space = trials.space.as_ref()?;
    let VariantChoices::Candidates(candidates) = &space.choices else {
        return None;
    };
    let model = SearchPrior {
        clean: question.clean,
        ..SearchPrior::default()
    };
    // The first candidate is good; the weights are for each of the others to be the first bad one.
    #[expect(clippy::cast_precision_loss, reason = "weights, not counts")]
    let weights: Vec<f64> = space.weights.iter().skip(1).map(|w| *w as f64).collect();
    // The user's weights may be wrong.
    let weights = (!weights.is_empty()).then(|| hedge_weights(&weights));
    let mut search = Bisection::new(candidates.len() - 1, &model, weights.as_deref());
    for facts in &space.known {
        let index = facts.place as usize;
        match facts.counts {
            Some((failures, trials)) => search.observe_many(index, failures, trials),
            None => search.mark_untestable(index),
        }
    }
    Some(search)
}
