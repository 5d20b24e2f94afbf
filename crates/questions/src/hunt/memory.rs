//! Learns from the trials of a hunt: the points, the failures under each hold, and the races.

use super::attempts::{hold_at, without_watches};
use super::examined_failure::TrialEnd;
use super::held_trials::HeldTrials;
use crate::FailureCounts;
use crate::baseline::is_searched_bug;
use crate::differ::{DifferMemory, Recording, points_of_differences};
use provoke_model::{
    CodeScope, DifferQuestion, Failure, Hold, HoldPlan, HuntQuestion, InconclusiveReason, Outcome,
    RacingAccess, Trial, TrialId,
};
use provoke_state::{Memory, State, TrialFacts};
use std::any::Any;
use std::collections::BTreeMap;
use std::time::Duration;

/// Number of trials that find out which points the program reaches.
pub(super) const LEARNING_TRIALS: u64 = 3;
/// Time of a trial that no process of the program uses.
const OVERHEAD: Duration = Duration::from_millis(1);
/// Why a program without points cannot be held.
const NOTHING_TO_HOLD: &str = "it has a single thread";
/// Limit of races that are kept.
const MAX_RACES: usize = 200;

/// The data that a hunt has learned.
#[derive(Debug)]
pub(super) struct HuntMemory {
    pub(super) question: HuntQuestion,
    pub(super) held_trials: HeldTrials,
    pub(super) learning_trials: u64,
    /// The recorded trials, and where failing ones differ.
    pub(super) differ: DifferMemory,
    pub(super) races: Vec<(TrialId, RacingAccess)>,
    /// Trials that watched memory, by their holds.
    pub(super) watched: BTreeMap<Vec<Hold>, u64>,
    /// Trials in which threads were held, whatever was held. Those that watched memory do not count.
    pub(super) tried: FailureCounts,
    /// Duration of plain trials, of all others, and among the others, of traced and of recorded ones.
    pub(super) plain_time: Duration,
    pub(super) held_time: Duration,
    pub(super) control_time: Duration,
    pub(super) recorded_time: Duration,
    /// Plain trials that were stopped before it was known how long the program takes, and the longest of them.
    pub(super) unended: u64,
    pub(super) longest_unended: Duration,
    /// Duration of the slowest plain trial that failed and did not hang.
    pub(super) slowest_failure: Duration,
    /// Packages and modules whose code was left out, packages first.
    pub(super) left_out: Vec<String>,
    /// Why threads could not be held.
    pub(super) refused: Option<String>,
}

impl HuntMemory {
    pub(super) fn new(question: &HuntQuestion) -> Self {
        Self {
            question: question.clone(),
            held_trials: HeldTrials::of_question(question),
            learning_trials: 0,
            differ: DifferMemory::new(&DifferQuestion {
                scope: question.scope.clone(),
                known: question.known.clone(),
            }),
            races: Vec::new(),
            watched: BTreeMap::new(),
            tried: FailureCounts::default(),
            plain_time: Duration::ZERO,
            held_time: Duration::ZERO,
            control_time: Duration::ZERO,
            recorded_time: Duration::ZERO,
            unended: 0,
            longest_unended: Duration::ZERO,
            slowest_failure: Duration::ZERO,
            left_out: Vec::new(),
            refused: None,
        }
    }

    /// Returns the number of points that were not tried alone.
    pub(super) fn singles_left(&self) -> u64 {
        let singles = self.held_trials.points.in_order().iter();
        let untried = singles.filter(|point| self.held_trials.is_unjudged(&[hold_at(point, 0)]));
        untried.count() as u64
    }

    /// Returns the trials that were observed, but in which no thread was held.
    pub(super) fn observed(&self) -> FailureCounts {
        self.differ.recorded(Recording::Full)
    }

    fn add_recorded_trial(&mut self, state: &State, trial: &Trial, facts: &TrialFacts) {
        self.recorded_time += facts.elapsed + OVERHEAD;
        let looks = self.differ.looks();
        self.differ.add_held_trial(state, trial, facts);
        if self.differ.looks() > looks {
            let points = &mut self.held_trials.points;
            points.lead_to(points_of_differences(&self.differ));
        }
    }
}

/// Returns whether a trial does not count for its holds. One that was stopped early may have failed: more trials of its holds
/// show that.
fn is_inconclusive(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Inconclusive(reason) if *reason != InconclusiveReason::StoppedEarly)
}

impl Memory for HuntMemory {
    fn parts(&self) -> Vec<&dyn Any> {
        vec![self, &self.differ]
    }

    fn is_the_bug(&self, _: &State, failure: &Failure) -> bool {
        is_searched_bug(self.question.known.as_deref(), None, failure)
    }

    fn add_trial(&mut self, state: &State, trial: &Trial, facts: &TrialFacts) {
        self.differ.add_trial(state, trial, facts);
        let (outcome, elapsed) = (&facts.outcome, facts.elapsed);
        self.plain_time += elapsed + OVERHEAD;
        if *outcome == Outcome::Inconclusive(InconclusiveReason::StoppedEarly) {
            self.unended += 1;
            self.longest_unended = self.longest_unended.max(elapsed);
        }
        if let Outcome::Fail(failure) = outcome
            && !failure.kind.is_timeout()
        {
            self.slowest_failure = self.slowest_failure.max(elapsed);
        }
    }

    fn add_held_trial(&mut self, state: &State, trial: &Trial, facts: &TrialFacts) {
        self.held_time += facts.elapsed + OVERHEAD;
        let Some(plan) = &trial.hold else {
            return;
        };
        if let HoldPlan::Record(_) = **plan {
            self.add_recorded_trial(state, trial, facts);
            return;
        }
        let Some(observation) = &facts.holds else {
            if let HoldPlan::Learn(CodeScope::Around(holds)) = &**plan {
                // Not learned again: it may have ended the slot.
                let points = &mut self.held_trials.points;
                points.add_details(holds, &[]);
            }
            return;
        };
        if let Some(reason) = &observation.refused {
            self.refused.get_or_insert_with(|| reason.clone());
        }
        let is_stopped_early =
            facts.outcome == Outcome::Inconclusive(InconclusiveReason::StoppedEarly);
        if is_stopped_early && !plan.holds().is_empty() {
            self.held_trials
                .stopped_early
                .insert(without_watches(plan.holds()));
        }
        let end = TrialEnd::of_outcome(&facts.outcome);
        match &**plan {
            HoldPlan::Learn(CodeScope::Around(holds)) => {
                let points = &mut self.held_trials.points;
                points.add_details(holds, &observation.learned);
            }
            HoldPlan::Learn(_) => {
                self.learning_trials += 1;
                for name in &observation.left_out {
                    if !self.left_out.contains(name) {
                        self.left_out.push(name.clone());
                    }
                }
                let points = &mut self.held_trials.points;
                points.add_reached(&observation.learned);
                if observation.entries_only {
                    points.note_entries_only();
                }
                if self.learning_trials >= LEARNING_TRIALS && points.in_order().is_empty() {
                    self.refused
                        .get_or_insert_with(|| NOTHING_TO_HOLD.to_owned());
                }
            }
            HoldPlan::Hold { .. } | HoldPlan::Trace(_) if is_inconclusive(&facts.outcome) => {}
            HoldPlan::Record(_) => {}
            HoldPlan::Trace(holds) => {
                self.control_time += facts.elapsed + OVERHEAD;
                self.held_trials.add_control_trial(holds, end);
                self.held_trials.choose_examined(state);
            }
            HoldPlan::Hold { holds, .. } if plan.watches() => {
                let holds = without_watches(holds);
                *self.watched.entry(holds).or_default() += 1;
                let room = MAX_RACES.saturating_sub(self.races.len());
                let races = observation.races.iter().take(room).cloned();
                self.races.extend(races.map(|race| (trial.id, race)));
            }
            HoldPlan::Hold { holds, .. } => {
                if !is_stopped_early {
                    self.tried.add_trial(end.is_failure());
                }
                self.held_trials.add_trial(trial, holds, observation, end);
                self.held_trials.choose_examined(state);
            }
        }
    }
}
