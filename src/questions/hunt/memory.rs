//! Learns from held trials: the points, the failures under each hold, and the hold that is examined.

use super::attempts::{hold_at, without_watches};
use super::points::HuntPoints;
use crate::model::{
    CodeAnchor, FailureKind, Hold, HoldPlan, HoldPoint, HuntQuestion, InconclusiveReason,
    Occurrence, Outcome, RacingAccess, Trial, TrialId, VariantId,
};
use crate::state::{Memory, State, TrialFacts};
use provoke_stats::{lower_one_sided, real};
use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Number of trials that find out which points the program reaches.
pub(super) const LEARNING_TRIALS: u64 = 3;
/// Number of trials after which holds that failed once are judged.
const VERIFYING_TRIALS: u64 = 4;
/// Number of trials of promising holds, before the best is examined; and the limit of these holds.
const COMPARING_TRIALS: u64 = 8;
const MAX_COMPARED: usize = 8;
/// Number of failures among these trials from which a hold is examined.
const PROMISING_FAILURES: u64 = 3;
/// Number of failures under a hold, after which pairs with a hold of a new thread are tried.
const PAIRED_FAILURES: u64 = 2;
/// New threads, in the order of creation, which are held together with the best single hold; and points near it.
const MAX_PAIRED_STARTS: u32 = 4;
const MAX_PAIRED_POINTS: usize = 64;
/// Part of the time limit after which no further pairs are tried with the best single hold: one of this many parts.
const PAIRING_TIME_PART: u32 = 2;
/// Number of examinations that are given up for a more promising hold.
const MAX_EXAMINED: usize = 4;
/// Number of fresh trials after which the examination of a hold may be given up.
const FIRST_FRESH_TRIALS: u64 = 8;
/// Time of a trial that no process of the program uses.
const OVERHEAD: Duration = Duration::from_millis(1);
/// Number of holds after which a promising one is examined, although the program reaches more points.
const MAX_TRIED_FIRST: usize = 1000;
/// Part of the time limit after which a promising hold is examined in any case: one of this many parts.
const TIME_PART: u32 = 3;
/// Why a program without points cannot be held.
const NOTHING_TO_HOLD: &str = "it has a single thread";
/// Limit of races that are kept.
const MAX_RACES: usize = 200;

/// Trials under one set of holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct HeldCounts {
    /// Trials in which all holds held a thread.
    pub(super) trials: u64,
    /// Those that failed.
    pub(super) failures: u64,
    /// Trials in which a hold was not reached.
    pub(super) unreached: u64,
}

impl HeldCounts {
    pub(super) fn launched(self) -> u64 {
        self.trials + self.unreached
    }

    /// Returns whether at least 90 % of the trials failed.
    pub(super) fn fails_nearly_always(self) -> bool {
        10 * self.failures >= 9 * self.launched()
    }

    /// Returns whether fewer than half of the trials failed, after enough trials.
    fn is_rare(self) -> bool {
        self.launched() >= FIRST_FRESH_TRIALS && 2 * self.failures < self.launched()
    }

    /// Returns the part of the trials that failed.
    fn observed_rate(self) -> f64 {
        real(self.failures) / real(self.launched().max(1))
    }

    /// Returns a lower bound for the failure rate, so that few trials count less.
    fn plausible_rate(self) -> f64 {
        lower_one_sided(self.failures, self.launched(), 0.25)
    }

    /// Returns whether nearly all trials failed.
    fn is_promising(self) -> bool {
        self.failures >= PROMISING_FAILURES && self.launched() - self.failures <= 1
    }

    /// Returns whether more trials than the open ones must show if a hold that failed once is promising.
    pub(super) fn needs_verification(self, open: u64) -> bool {
        let passes = self.launched() - self.failures;
        self.launched() + open < VERIFYING_TRIALS
            && self.failures < PROMISING_FAILURES
            && passes <= VERIFYING_TRIALS - PROMISING_FAILURES
    }
}

/// The data that a hunt has learned.
#[derive(Debug)]
pub(super) struct HuntMemory {
    pub(super) question: HuntQuestion,
    pub(super) points: HuntPoints,
    pub(super) learning_trials: u64,
    /// The trials under each set of holds; the holds do not watch memory.
    pub(super) tried_holds: BTreeMap<Vec<Hold>, HeldCounts>,
    /// The points that were tried alone.
    tried_alone: BTreeSet<HoldPoint>,
    /// The sets of holds under which a trial failed.
    pub(super) failing: BTreeSet<Vec<Hold>>,
    /// The sets of holds under which a trial was stopped early, so that it may hang.
    stopped_early: BTreeSet<Vec<Hold>>,
    /// The hold whose rate and neighbouring points are measured.
    pub(super) examined: Option<Examination>,
    /// Earlier examinations, which found a low rate.
    earlier: Vec<Examination>,
    pub(super) races: Vec<(TrialId, RacingAccess)>,
    /// Trials that watched memory, by their holds.
    pub(super) watched: BTreeMap<Vec<Hold>, u64>,
    /// Duration of plain and of held trials.
    pub(super) plain_time: Duration,
    pub(super) held_time: Duration,
    /// Why threads could not be held.
    pub(super) refused: Option<String>,
}

/// The hold whose rate and neighbouring points are measured.
#[derive(Clone, Debug)]
pub(super) struct Examination {
    pub(super) holds: Vec<Hold>,
    /// Trials since the examination began: the hold was chosen because it had failed, so earlier trials do not count.
    pub(super) fresh: HeldCounts,
    /// Whether a trial under the hold was stopped although its threads could continue, so that the program may be slow.
    pub(super) may_hang: bool,
    /// Fresh trials that did not end in the time of a plain trial.
    pub(super) hung_trials: u64,
    /// A failing trial, to repeat it.
    pub(super) example: Option<TrialId>,
    /// For every hold, what identifies its instruction in another build.
    pub(super) anchors: Vec<Option<CodeAnchor>>,
    /// The points around the holds, each with the holds of which one is moved there.
    pub(super) neighbours: Vec<(HoldPoint, Vec<Hold>)>,
}

impl HuntMemory {
    pub(super) fn new(question: &HuntQuestion) -> Self {
        Self {
            question: question.clone(),
            points: HuntPoints::default(),
            learning_trials: 0,
            tried_holds: BTreeMap::new(),
            tried_alone: BTreeSet::new(),
            failing: BTreeSet::new(),
            stopped_early: BTreeSet::new(),
            examined: None,
            earlier: Vec::new(),
            races: Vec::new(),
            watched: BTreeMap::new(),
            plain_time: Duration::ZERO,
            held_time: Duration::ZERO,
            refused: None,
        }
    }

    /// Returns the counts of a set of holds.
    pub(super) fn counts_of(&self, holds: &[Hold]) -> HeldCounts {
        self.tried_holds.get(holds).copied().unwrap_or_default()
    }

    fn add_hold_trial(&mut self, trial: &Trial, holds: &[Hold], facts: &TrialFacts, failed: bool) {
        let Some(observation) = &facts.holds else {
            return;
        };
        let is_reached = observation.times.iter().all(|times| *times > 0);
        if let [hold] = holds {
            self.tried_alone.insert(hold.point.clone());
        }
        let counts = self.tried_holds.entry(holds.to_vec()).or_default();
        count_trial(counts, is_reached, failed);
        if failed && is_reached {
            self.failing.insert(holds.to_vec());
        }
        if let Some(examined) = self
            .examined
            .as_mut()
            .filter(|examination| examination.holds == holds)
        {
            let is_hang = matches!(
                &facts.outcome,
                Outcome::Fail(failure) if matches!(failure.kind, FailureKind::Hang { .. })
            );
            examined.hung_trials += u64::from(is_hang);
            let is_stopped_early = failed && !matches!(facts.outcome, Outcome::Fail(_));
            examined.may_hang |= is_stopped_early;
            if is_stopped_early && examined.hung_trials == 0 {
                // Until a trial with more time hangs, the program may only be slow.
                return;
            }
            count_trial(&mut examined.fresh, is_reached, failed);
            if examined.anchors.is_empty() {
                examined.anchors.clone_from(&observation.anchors);
            }
            if failed && is_reached {
                examined.example.get_or_insert(trial.id);
            }
        }
    }

    /// Begins the examination of the most promising hold, when enough others were tried. Gives an examination up if
    /// another hold is more promising.
    fn choose_examined(&mut self, state: &State) {
        if self.unverified_hold(|_| 0).is_some()
            || self.untried_pair(state, |_| 0).is_some()
            || !self.has_tried_enough(state)
        {
            return;
        }
        let Some(holds) = self.most_promising_hold(natural_rate(state)) else {
            // Holds that were not tried may be better.
            if self
                .examined
                .as_ref()
                .is_some_and(|examined| examined.fresh.is_rare())
                && !has_spent_search_time(state)
            {
                self.earlier.extend(self.examined.take());
            }
            return;
        };
        if let Some(examined) = &self.examined {
            let fresh = examined.fresh;
            let is_better = self.plausible_rate(&holds) > fresh.plausible_rate();
            if fresh.launched() < FIRST_FRESH_TRIALS
                || fresh.fails_nearly_always()
                || self.earlier.len() >= MAX_EXAMINED
                || !(fresh.is_rare() || is_better)
            {
                return;
            }
            self.earlier.extend(self.examined.take());
        }
        self.examined = Some(self.begin_examination(holds));
    }

    /// Returns a hold that failed and needs more trials, besides the open ones, to be compared with others.
    pub(super) fn unverified_hold(&self, open: impl Fn(&[Hold]) -> u64) -> Option<&Vec<Hold>> {
        let needs_first =
            |holds: &&Vec<Hold>| self.counts_of(holds).needs_verification(open(holds));
        let needs_more = |holds: &&Vec<Hold>| {
            let counts = self.counts_of(holds);
            counts.launched() + open(holds) < COMPARING_TRIALS
        };
        let promising = self
            .failing
            .iter()
            .filter(|holds| self.counts_of(holds).is_promising());
        self.failing
            .iter()
            .find(needs_first)
            .or_else(|| promising.take(MAX_COMPARED).find(needs_more))
    }

    /// Returns the most promising single hold together with another one, if no set of holds fails nearly always. Often
    /// the other thread is too early or too late: it is held when it is created, or at a point near the first one.
    pub(super) fn untried_pair(
        &self,
        state: &State,
        open: impl Fn(&[Hold]) -> u64,
    ) -> Option<Vec<Hold>> {
        let is_good = |counts: HeldCounts| {
            counts.failures >= PROMISING_FAILURES && counts.fails_nearly_always()
        };
        if let Some(examined) = &self.examined
            && (examined.fresh.launched() < FIRST_FRESH_TRIALS
                || examined.fresh.fails_nearly_always())
        {
            return None;
        }
        let budget = state.plan.stop.time_budget();
        if budget.is_some_and(|budget| state.worked * PAIRING_TIME_PART > budget)
            || self
                .failing
                .iter()
                .any(|holds| !self.was_examined(holds) && is_good(self.counts_of(holds)))
        {
            return None;
        }
        let singles = self.failing.iter().filter(|holds| holds.len() == 1);
        let best_hold = singles
            .max_by(|a, b| self.plausible_rate(a).total_cmp(&self.plausible_rate(b)))?
            .first()?;
        if self.counts_of(std::slice::from_ref(best_hold)).failures < PAIRED_FAILURES {
            return None;
        }
        let (starts, nearest) = (
            self.points.start_points(),
            self.points.nearest(&best_hold.point),
        );
        let arrivals = (1..=MAX_PAIRED_STARTS).flat_map(|arrival| {
            starts.clone().map(move |point| Hold {
                occurrence: Occurrence::Nth(arrival),
                ..hold_at(point, 0)
            })
        });
        let pairs_with_start = arrivals.map(|start| vec![start, best_hold.clone()]);
        // The thread of the first hold continues first.
        let pairs_with_nearest =
            nearest
                .iter()
                .take(MAX_PAIRED_POINTS)
                .enumerate()
                .map(|(index, point)| {
                    let other_hold = hold_at(point, 0);
                    if index % 2 == 0 {
                        vec![best_hold.clone(), other_hold]
                    } else {
                        vec![other_hold, best_hold.clone()]
                    }
                });
        pairs_with_start
            .chain(pairs_with_nearest)
            .filter(|pair| pair[0].point != pair[1].point)
            .find(|pair| self.counts_of(pair).launched() + open(pair) == 0)
    }

    /// Returns whether a set of holds is or was examined.
    fn was_examined(&self, holds: &[Hold]) -> bool {
        let mut examinations = self.examined.iter().chain(&self.earlier);
        examinations.any(|examination| examination.holds == holds)
    }

    /// Returns whether each point was tried, or so many that a promising one is examined first.
    fn has_tried_enough(&self, state: &State) -> bool {
        let budget = state.plan.stop.time_budget();
        let points = self.points.in_order().iter();
        let mut own_points = points.filter(|point| !self.points.is_of_library(point));
        own_points.all(|point| self.tried_alone.contains(point))
            || self.tried_alone.len() >= MAX_TRIED_FIRST
            || budget.is_some_and(|budget| state.worked * TIME_PART > budget)
    }

    /// Returns the hold that was not examined and has the highest failure rate, if most of its trials failed, and more
    /// than without a hold.
    fn most_promising_hold(&self, natural_rate: f64) -> Option<Vec<Hold>> {
        let promising = self.failing.iter().filter(|holds| {
            let counts = self.counts_of(holds);
            counts.failures >= PROMISING_FAILURES
                && 2 * counts.failures > counts.launched()
                && counts.plausible_rate() > natural_rate
                && !self.was_examined(holds)
        });
        // Of equally good ones, the one with fewer holds is easier to understand, and the program's own code shows the
        // cause.
        let is_own_code = |holds: &[Hold]| {
            holds.iter().all(|hold| {
                hold.point.as_code().is_some() && !self.points.is_of_library(&hold.point)
            })
        };
        promising
            .max_by(|a, b| {
                let by_rate = self.plausible_rate(a).total_cmp(&self.plausible_rate(b));
                by_rate
                    .then(b.len().cmp(&a.len()))
                    .then(is_own_code(a).cmp(&is_own_code(b)))
            })
            .cloned()
    }

    /// Returns a lower bound for the failure rate under a set of holds, so that few trials count less.
    fn plausible_rate(&self, holds: &[Hold]) -> f64 {
        self.counts_of(holds).plausible_rate()
    }

    fn begin_examination(&self, holds: Vec<Hold>) -> Examination {
        let mut neighbours: Vec<(HoldPoint, Vec<Hold>)> = (0..holds.len())
            .filter(|index| self.matters_in(&holds, *index))
            .flat_map(|index| self.moved_holds(&holds, index))
            .collect();
        if neighbours.is_empty() {
            // Each hold alone makes it fail, too: one of them shows its window better.
            let alone = holds.iter().map(std::slice::from_ref);
            let best_holds =
                alone.max_by(|a, b| self.plausible_rate(a).total_cmp(&self.plausible_rate(b)));
            neighbours = best_holds.map_or_else(Vec::new, |alone| self.moved_holds(alone, 0));
        }
        Examination {
            neighbours,
            may_hang: self.stopped_early.contains(&holds),
            holds,
            hung_trials: 0,
            fresh: HeldCounts::default(),
            example: None,
            anchors: Vec::new(),
        }
    }

    /// Returns the points around one of several holds, each with the holds that are moved there.
    fn moved_holds(&self, holds: &[Hold], index: usize) -> Vec<(HoldPoint, Vec<Hold>)> {
        let is_free = |point: &HoldPoint| {
            let mut other_holds = holds
                .iter()
                .enumerate()
                .filter(|(other, _)| *other != index);
            !other_holds.any(|(_, other_hold)| other_hold.point == *point)
        };
        let neighbours = self.points.neighbours(&holds[index].point).into_iter();
        let points = neighbours
            .map(|learned| &learned.point)
            .filter(|point| is_free(point));
        points
            .map(|point| {
                let mut moved = holds.to_vec();
                moved[index].point.clone_from(point);
                (point.clone(), moved)
            })
            .collect()
    }

    /// Returns whether a hold of several makes a difference: without it, the others make clearly fewer trials fail. Only
    /// then do the points around it show a window.
    fn matters_in(&self, holds: &[Hold], index: usize) -> bool {
        let mut other_holds = holds.to_vec();
        other_holds.remove(index);
        let (with, without_hold) = (self.counts_of(holds), self.counts_of(&other_holds));
        2.0 * without_hold.observed_rate() < with.observed_rate()
    }

    /// Returns the number of holds that were examined, of which the answer reports the best.
    pub(super) fn examination_count(&self) -> u64 {
        self.earlier.len() as u64 + u64::from(self.examined.is_some())
    }

    /// Returns the examined hold with the highest failure rate.
    pub(super) fn best_examination(&self) -> Option<&Examination> {
        let rate = |examination: &&Examination| examination.fresh.plausible_rate();
        let examined = self.examined.iter().chain(&self.earlier);
        let failing = examined.filter(|examination| examination.fresh.failures > 0);
        failing.max_by(|a, b| rate(a).total_cmp(&rate(b)))
    }
}

/// Returns whether the time for holds that were not tried is over.
fn has_spent_search_time(state: &State) -> bool {
    let budget = state.plan.stop.time_budget();
    budget.is_some_and(|budget| state.worked * 4 > budget * 3)
}

/// Returns the failure rate of the trials without holds.
fn natural_rate(state: &State) -> f64 {
    let plain = state.tally_of(VariantId(0));
    real(plain.failures) / real(plain.counted_trials().max(1))
}

/// Returns whether a trial does not count for its holds. One that was stopped early may have failed: more trials of its holds
/// show that.
fn is_inconclusive(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Void(reason) if *reason != InconclusiveReason::StoppedEarly)
}

fn count_trial(counts: &mut HeldCounts, is_reached: bool, failed: bool) {
    counts.trials += u64::from(is_reached);
    counts.failures += u64::from(is_reached && failed);
    counts.unreached += u64::from(!is_reached);
}

impl Memory for HuntMemory {
    fn parts(&self) -> Vec<&dyn Any> {
        vec![self]
    }

    fn add_trial(&mut self, _: &State, _: &Trial, _: &Outcome, elapsed: Duration) {
        self.plain_time += elapsed + OVERHEAD;
    }

    fn add_held_trial(&mut self, state: &State, trial: &Trial, facts: &TrialFacts) {
        self.held_time += facts.elapsed + OVERHEAD;
        let (Some(plan), Some(observation)) = (&trial.hold, &facts.holds) else {
            return;
        };
        if let Some(reason) = &observation.refused {
            self.refused.get_or_insert_with(|| reason.clone());
        }
        let is_stopped_early = facts.outcome == Outcome::Void(InconclusiveReason::StoppedEarly);
        if is_stopped_early && !plan.holds().is_empty() {
            self.stopped_early.insert(without_watches(plan.holds()));
        }
        let failed = is_stopped_early || matches!(facts.outcome, Outcome::Fail(_));
        match &**plan {
            HoldPlan::Learn(_) => {
                self.learning_trials += 1;
                self.points
                    .add_reached(&observation.learned, &self.question.first);
                if self.learning_trials >= LEARNING_TRIALS && self.points.in_order().is_empty() {
                    self.refused
                        .get_or_insert_with(|| NOTHING_TO_HOLD.to_owned());
                }
            }
            HoldPlan::Hold { .. } if is_inconclusive(&facts.outcome) => {}
            HoldPlan::Hold { holds, .. } if plan.watches() => {
                let holds = without_watches(holds);
                *self.watched.entry(holds).or_default() += 1;
                let room = MAX_RACES.saturating_sub(self.races.len());
                let races = observation.races.iter().take(room).cloned();
                self.races.extend(races.map(|race| (trial.id, race)));
            }
            HoldPlan::Hold { holds, .. } => {
                self.add_hold_trial(trial, holds, facts, failed);
                self.choose_examined(state);
            }
        }
    }
}
