//! Trials that were launched and are not counted yet: they run, wait for a retry, or wait for an earlier trial.

use super::counts::{CountedTrials, SignatureCounts};
use super::repeated_trials::is_repeated;
use super::trial_facts::TrialFacts;
use super::{FirstFailure, State};
use provoke_model::{HoldPlan, InconclusiveReason, Observation, Outcome, Trial, TrialId};

#[derive(Debug)]
pub(super) enum OpenTrial {
    /// The trial, and how often it was lost.
    Running(Trial, u32),
    /// To be retried under the same number.
    Again(Trial, u32),
    Finished(Trial, TrialFacts),
}

impl OpenTrial {
    fn trial(&self) -> &Trial {
        match self {
            Self::Running(trial, _) | Self::Again(trial, _) | Self::Finished(trial, _) => trial,
        }
    }

    pub(super) fn is_finished(&self) -> bool {
        matches!(self, Self::Finished(..))
    }
}

impl State {
    pub(super) fn trial_started(&mut self, trial: Trial) {
        // A trial that no plan contains comes from a damaged file.
        if trial.id.0 == 0 || trial.variant.index() >= self.variants.len() {
            return;
        }
        if trial.id.0 > self.queue.launched {
            self.queue.launched = trial.id.0;
            self.queue.last_launched = Some(trial.variant);
        }
        let losses = match self.queue.open.get(&trial.id) {
            Some(OpenTrial::Again(_, losses) | OpenTrial::Running(_, losses)) => *losses,
            Some(OpenTrial::Finished(..)) => return,
            None => {
                let counted = self.variants[trial.variant.index()].counted_for(&trial);
                counted.pending += 1;
                counted.launched += 1;
                if let Some(counts) = self.isolated_counts_of(&trial) {
                    counts.underway += 1;
                }
                0
            }
        };
        self.queue.retries.remove(&trial.id);
        self.hosts.add_launched(&trial);
        self.queue
            .open
            .insert(trial.id, OpenTrial::Running(trial, losses));
    }

    pub(super) fn trial_ended(&mut self, id: TrialId, observation: &Observation, outcome: Outcome) {
        if let Outcome::Inconclusive(InconclusiveReason::NotReady) = outcome {
            self.inconclusive.last_reason = observation.not_ready();
        }
        if let Outcome::Inconclusive(InconclusiveReason::NoCase) = outcome {
            let patterns = self.trials.rules.searched_cases();
            let names: Vec<String> = patterns.map(|pattern| format!("`{pattern}`")).collect();
            let text = format!(
                "the suite has no test {}: it no longer exists, or its name has changed",
                names.join(" or ")
            );
            self.inconclusive.last_reason = Some(text);
        }
        let Some(OpenTrial::Running(trial, losses)) = self.queue.open.get(&id) else {
            return;
        };
        let (trial, mut losses) = (trial.clone(), *losses);
        let was_waiting =
            (observation.load.as_ref()).is_some_and(|load| load.stopped_wait().is_some());
        if outcome == Outcome::Inconclusive(InconclusiveReason::Interrupted)
            && (observation.hang.is_some() || was_waiting)
        {
            self.inconclusive
                .late
                .push((trial.clone(), Box::new(observation.clone())));
        }
        if let Outcome::Inconclusive(InconclusiveReason::Lost) = outcome {
            self.hosts.add_lost(&trial);
        }
        if self.stage.is_decided() {
            self.after_decision += 1;
            self.queue.open.remove(&id);
            return;
        }
        if is_repeated(&outcome, &mut losses) && self.is_testable(trial.variant) {
            self.inconclusive.repeated += 1;
            self.queue.retries.insert(id);
            self.queue.open.insert(id, OpenTrial::Again(trial, losses));
            return;
        }
        match &outcome {
            Outcome::Inconclusive(_) => {
                self.variants[trial.variant.index()]
                    .counted_for(&trial)
                    .pending -= 1;
            }
            Outcome::Fail(failure) | Outcome::Other(failure) => {
                let group = (trial.variant, failure.signature.id);
                let entry = self.arrived.entry(group);
                let arrived = entry.or_insert_with(|| SignatureCounts::new(failure.kind.clone()));
                arrived.total += 1;
                arrived.measured += u64::from(trial.is_measured());
            }
            Outcome::Pass => {}
        }
        if let Some(record) = &observation.case_record {
            self.case_names.add_failures(record);
        }
        let host = self.hosts.of_slot(trial.slot);
        let facts = TrialFacts {
            host,
            ..TrialFacts::new(&self.trials, &trial, observation, outcome)
        };
        self.queue
            .open
            .insert(id, OpenTrial::Finished(trial, facts));
    }

    /// Forgets a trial that never ran. The question is answered, so nothing is launched in its place.
    pub(super) fn trial_withdrawn(&mut self, id: TrialId) {
        if self.stage.is_decided() {
            self.queue.open.remove(&id);
            self.queue.retries.remove(&id);
        }
    }

    /// Moves finished trials into the tally, in launch order, until the decision.
    pub(super) fn advance_tally(&mut self, decided: &dyn Fn(&Self) -> bool) {
        // If no variant is testable, the run is interrupted instead of decided.
        let decided = |state: &Self| state.any_testable() && decided(state);
        while !self.stage.is_decided()
            && let Some(first) = self.queue.open.first_entry()
            && first.get().is_finished()
            && let OpenTrial::Finished(trial, mut facts) = first.remove()
        {
            if trial.is_measured() || trial.explores_schedule() {
                facts.outcome = self.outcome_in_question(trial.id, facts.outcome);
            }
            self.inconclusive.lost_streak = match facts.outcome {
                Outcome::Inconclusive(InconclusiveReason::Lost) => {
                    self.inconclusive.lost_streak + 1
                }
                _ => 0,
            };
            let counted = self.variants[trial.variant.index()].counted_for(&trial);
            match facts.outcome {
                Outcome::Inconclusive(
                    InconclusiveReason::Warmup | InconclusiveReason::StoppedEarly,
                ) => {}
                Outcome::Inconclusive(_) => {
                    counted.inconclusive_streak += 1;
                    self.inconclusive.streak += 1;
                }
                _ => {
                    counted.pending -= 1;
                    counted.inconclusive_streak = 0;
                    self.inconclusive.streak = 0;
                }
            }
            counted.tally.add_trial(trial.id, &facts);
            self.count_isolated_trial(&trial, facts.cases.as_deref());
            if trial.is_measured() {
                self.hosts.add_counted(facts.host, &trial, &facts.outcome);
            }
            if trial.is_measured()
                && let Some(raise) = &mut self.raise
            {
                raise.add_trial(trial.variant, &facts);
            }
            if trial.explores_schedule() {
                self.update_memory(|memory, state| memory.add_held_trial(state, &trial, &facts));
            }
            if trial.is_measured() {
                self.add_early_trial(&trial, &facts);
                facts.outcome = self.outcome_in_question(trial.id, facts.outcome);
                self.add_to_memory(&trial, &facts);
                if matches!(facts.outcome, Outcome::Fail(_)) && self.first_failure.is_none() {
                    let tallies = self.variants.iter().map(|variant| &variant.measured.tally);
                    self.first_failure = Some(FirstFailure {
                        variant: trial.variant,
                        passes: tallies.map(|tally| tally.passes).collect(),
                    });
                }
            }
            if trial.is_measured()
                && let Some(usage) = facts.usage
            {
                self.usage.add_point(trial.id, usage);
            }
            self.last_counted = trial.id;
            let is_decided = decided(self);
            self.stage = self.stage.decide(is_decided);
        }
        if self.stage.is_decided() {
            let open_count = self.queue.open.len();
            self.queue.open.retain(|_, open| !open.is_finished());
            self.after_decision += (open_count - self.queue.open.len()) as u64;
        }
    }

    /// Returns for every variant the number of its consecutive inconclusive trials, in launch order, and whether any of
    /// them requested to be skipped. Trials that wait for a trial of another variant, which may take long, are
    /// included.
    pub fn inconclusive_streaks(&self) -> Vec<(u64, bool)> {
        let counted = self.variants.iter().map(|variant| {
            let CountedTrials {
                tally,
                inconclusive_streak,
                ..
            } = &variant.measured;
            (
                *inconclusive_streak,
                tally.void.contains_key(&InconclusiveReason::Skipped),
            )
        });
        let mut counted_trials: Vec<(u64, bool)> = counted.collect();
        let mut is_open = vec![true; counted_trials.len()];
        for open in self.queue.open.values() {
            let variant = open.trial().variant.index();
            let is_uninterrupted = &mut is_open[variant];
            let (streak, skipped) = &mut counted_trials[variant];
            match open {
                OpenTrial::Finished(_, facts) if *is_uninterrupted => match facts.outcome {
                    Outcome::Inconclusive(
                        InconclusiveReason::Warmup | InconclusiveReason::StoppedEarly,
                    ) => {}
                    Outcome::Inconclusive(void) => {
                        *streak += 1;
                        *skipped |= void == InconclusiveReason::Skipped;
                    }
                    _ => *streak = 0,
                },
                _ => *is_uninterrupted = false,
            }
        }
        counted_trials
    }

    /// Returns what is done with the threads of the exploring trials that are not counted yet.
    pub fn open_holds(&self) -> impl Iterator<Item = &HoldPlan> {
        self.queue
            .open
            .values()
            .map(OpenTrial::trial)
            .filter(|trial| trial.explores_schedule())
            .filter_map(|trial| trial.hold.as_deref())
    }

    /// Returns the trials that run now.
    pub fn running_trials(&self) -> impl Iterator<Item = &Trial> {
        self.queue.open.values().filter_map(|open| match open {
            OpenTrial::Running(trial, _) => Some(trial),
            _ => None,
        })
    }

    /// Returns whether any launched trial is not counted yet.
    pub fn has_open_trials(&self) -> bool {
        !self.queue.open.is_empty()
    }

    /// Returns the finished trials that wait for one launched before them.
    pub fn waiting_trials(&self) -> impl Iterator<Item = (TrialId, &Outcome)> {
        self.queue.open.iter().filter_map(|(id, open)| match open {
            OpenTrial::Finished(_, facts) => Some((*id, &facts.outcome)),
            _ => None,
        })
    }

    /// Returns the number of the next new trial.
    pub fn next_id(&self) -> TrialId {
        TrialId(self.queue.launched.saturating_add(1))
    }

    /// Returns how many trials of the measurement have finished conclusively so far, in any order.
    pub fn completed_trials(&self) -> u64 {
        let waiting = self.queue.open.values().filter(|open| match open {
            OpenTrial::Finished(trial, facts) => {
                trial.is_measured() && !matches!(facts.outcome, Outcome::Inconclusive(_))
            }
            _ => false,
        });
        self.variants
            .iter()
            .map(|variant| variant.measured.tally.finished_trials())
            .sum::<u64>()
            + waiting.count() as u64
    }
}
