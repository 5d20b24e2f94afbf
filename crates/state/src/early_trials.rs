//! Counts the first trials of a search again, once the failure that it looks for is chosen.
//!
//! Until then, every failure of the failing variant counts. The choice may show that some of them were other failures.

use super::{State, Tally, TrialFacts};
use provoke_model::{Outcome, Trial, TrialId};
use std::collections::BTreeSet;

/// The trials of the failing variant until the failure is chosen.
#[derive(Debug, Default)]
pub(super) struct EarlyTrials {
    trials: Vec<(Trial, TrialFacts)>,
    /// Trials that counted as the bug when they ended, but show another failure than the one that was chosen.
    with_others: BTreeSet<TrialId>,
}

impl State {
    /// Returns the outcome of a trial in its question, from its outcome by the rules of the plan.
    pub(super) fn outcome_in_question(&mut self, trial: TrialId, outcome: Outcome) -> Outcome {
        match outcome {
            Outcome::Fail(failure) if !self.is_the_bug(&failure) => {
                self.queue.early_trials.with_others.insert(trial);
                Outcome::Other(failure)
            }
            other => other,
        }
    }

    /// Returns the trials that counted as the bug when they ended, but show another failure than the one that the search
    /// then chose.
    pub fn trials_with_others(&self) -> &BTreeSet<TrialId> {
        &self.queue.early_trials.with_others
    }

    /// Adds a measured trial of the failing variant, and chooses the failure that the search looks for as soon as it is
    /// known.
    pub(super) fn add_early_trial(&mut self, trial: &Trial, facts: &TrialFacts) {
        if !self.memory.awaits_failure()
            || trial.variant != self.shows_the_bug() && trial.variant != Self::FAILING
        {
            return;
        }
        self.queue
            .early_trials
            .trials
            .push((trial.clone(), facts.clone()));
        let mut is_chosen = false;
        self.update_memory(|memory, state| is_chosen = memory.choose_failure(state));
        if is_chosen {
            self.count_early_trials_again();
        }
    }

    /// Forgets the trials that ran under the conditions of the plan, because the search uses a setting.
    pub(super) fn drop_early_trials(&mut self) {
        self.queue.early_trials.trials.clear();
    }

    /// Counts all early trials again as trials of the failing variant, but the last one only in the tally: the memory is
    /// about to get it.
    fn count_early_trials_again(&mut self) {
        let trials = std::mem::take(&mut self.queue.early_trials.trials);
        let last = trials.last().map(|(trial, _)| trial.id);
        self.variants[Self::FAILING.index()].measured.tally = Tally::new(self.trials.jobs);
        self.update_memory(|memory, state| memory.forget_failing_trials(state));
        for (trial, mut facts) in trials {
            facts.outcome = self.outcome_in_question(trial.id, facts.outcome);
            let tally = &mut self.variants[Self::FAILING.index()].measured.tally;
            tally.add_trial(trial.id, &facts);
            if Some(trial.id) != last {
                self.add_to_memory(&trial, &facts);
            }
        }
    }

    /// Adds the trials under the conditions of the plan to the search, which uses these conditions.
    pub(super) fn use_early_trials(&mut self) {
        let mut is_chosen = false;
        self.update_memory(|memory, state| is_chosen = memory.choose_failure(state));
        for (trial, _) in &mut self.queue.early_trials.trials {
            trial.variant = Self::FAILING;
        }
        let trials = if is_chosen {
            let last = self.queue.early_trials.trials.last().cloned();
            self.count_early_trials_again();
            last.into_iter().collect()
        } else {
            self.queue.early_trials.trials.clone()
        };
        for (trial, mut facts) in trials {
            facts.outcome = self.outcome_in_question(trial.id, facts.outcome);
            self.add_to_memory(&trial, &facts);
        }
    }

    /// Adds a measured trial to the memory.
    pub(super) fn add_to_memory(&mut self, trial: &Trial, facts: &TrialFacts) {
        self.update_memory(|memory, state| memory.add_trial(state, trial, facts));
    }
}
