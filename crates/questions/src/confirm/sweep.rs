//! Holds threads at the points around the hold of a hunt, to see whether the fix only moved the window.

use crate::HeldTrial;
use crate::hunt::HuntPoints;
use provoke_model::{
    CodeScope, Hold, HoldPlan, HoldPoint, InconclusiveReason, Outcome, Timeout, Trial, TrialId,
    VariantId,
};
use provoke_state::{Memory, State, TrialFacts};
use serde::Serialize;
use std::any::Any;
use std::collections::BTreeMap;
use std::time::Duration;

/// Number of trials that find out which points the program reaches.
const LEARNING_TRIALS: u64 = 2;
/// Number of trials in which the hold was not reached, after which points of the whole program are tried.
const UNREACHED_TRIALS: u64 = 6;
/// Limits of the trials at one point, and of all trials.
const MAX_TRIALS_OF_POINT: u64 = 3;
const MAX_TRIALS: u64 = 150;
/// Holds last at most a part of this time, if the plan has no timeout.
const FULL_TIME: Duration = Duration::from_secs(1);

/// Trials at the points around the hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SweepReport {
    /// Number of points that were tried.
    pub points: u64,
    /// Trials in which a thread was held at one of them.
    pub trials: u64,
    /// Those that showed the bug.
    pub failures: u64,
    /// The first of these.
    pub failing_trial: Option<u64>,
    /// Whether the points are those of the whole program, because it does not reach the hold.
    pub of_whole_program: bool,
}

/// What the sweep has learned.
#[derive(Debug)]
pub(super) struct SweepMemory {
    /// The holds of the plan.
    holds: Vec<Hold>,
    points: HuntPoints,
    learning_trials: u64,
    /// Conclusive and other trials under each set of holds.
    trials_of_holds: BTreeMap<Vec<Hold>, u64>,
    /// Trials in which a thread was held.
    reached: u64,
    failing_trial: Option<TrialId>,
}

impl SweepMemory {
    pub(super) fn new(holds: &[Hold]) -> Self {
        Self {
            holds: holds.to_vec(),
            points: HuntPoints::default(),
            learning_trials: 0,
            trials_of_holds: BTreeMap::new(),
            reached: 0,
            failing_trial: None,
        }
    }

    /// Returns the result, if there are any trials.
    pub(super) fn report(&self, state: &State) -> Option<SweepReport> {
        let tally = state.held_tally(VariantId(0));
        (self.learning_trials > 0).then(|| SweepReport {
            points: self.trials_of_holds.len() as u64,
            trials: self.reached,
            failures: tally.failures,
            failing_trial: self.failing_trial.map(|trial| trial.0),
            of_whole_program: is_never_reached(state),
        })
    }

    /// Returns the first trial that failed.
    pub(super) fn failing_trial(&self) -> Option<TrialId> {
        self.failing_trial
    }

    /// Returns the next trial, or `None` if the trials are enough.
    pub(super) fn next_trial(&self, state: &State) -> Option<HeldTrial> {
        let open: Vec<&HoldPlan> = state.open_holds().collect();
        let learning = open
            .iter()
            .filter(|plan| matches!(plan, HoldPlan::Learn(_)))
            .count() as u64;
        if self.learning_trials + learning < LEARNING_TRIALS {
            let scope = if is_never_reached(state) {
                CodeScope::Own
            } else {
                CodeScope::Around(self.holds.clone())
            };
            return Some(HeldTrial {
                plan: HoldPlan::Learn(scope),
                timeout: None,
            });
        }
        if self.learning_trials < LEARNING_TRIALS {
            return None;
        }
        let neighbours = self.moved_holds();
        let most_of_point =
            (MAX_TRIALS / (neighbours.len() as u64).max(1)).clamp(1, MAX_TRIALS_OF_POINT);
        let launched = |holds: &Vec<Hold>| {
            let under_way = open
                .iter()
                .filter(|plan| plan.holds() == &holds[..])
                .count() as u64;
            self.trials_of_holds.get(holds).copied().unwrap_or(0) + under_way
        };
        let holds = neighbours
            .into_iter()
            .take(usize::try_from(MAX_TRIALS).unwrap_or(usize::MAX))
            .filter(|holds| launched(holds) < most_of_point)
            .min_by_key(launched)?;
        Some(HeldTrial {
            plan: HoldPlan::within_timeout(holds, hold_time(state), false),
            timeout: None,
        })
    }

    /// Returns the holds of the plan, one of them moved to each point that was reached.
    fn moved_holds(&self) -> Vec<Vec<Hold>> {
        let moved = self.holds.iter().enumerate().flat_map(|(index, hold)| {
            let points = self.points.in_order().iter();
            let alike = points.filter(move |point| {
                matches!(
                    (point, &hold.point),
                    (HoldPoint::Code(_), HoldPoint::Code(_))
                        | (HoldPoint::Call { .. }, HoldPoint::Call { .. })
                        | (HoldPoint::Line { .. }, HoldPoint::Line { .. })
                )
            });
            alike.map(move |point| {
                let mut holds = self.holds.clone();
                holds[index] = Hold {
                    point: point.clone(),
                    anchor: None,
                    ..hold.clone()
                };
                holds
            })
        });
        moved.collect()
    }
}

impl Memory for SweepMemory {
    fn parts(&self) -> Vec<&dyn Any> {
        vec![self]
    }

    fn add_held_trial(&mut self, _: &State, trial: &Trial, facts: &TrialFacts) {
        let (Some(plan), Some(observation)) = (&trial.hold, &facts.holds) else {
            return;
        };
        if matches!(facts.outcome, Outcome::Fail(_)) {
            self.failing_trial.get_or_insert(trial.id);
        }
        match &**plan {
            HoldPlan::Learn(_) => {
                self.learning_trials += 1;
                self.points.add_reached(&observation.learned);
            }
            HoldPlan::Hold { holds, .. } => {
                *self.trials_of_holds.entry(holds.clone()).or_default() += 1;
                self.reached += u64::from(observation.reached_all(plan));
            }
            HoldPlan::Record(_) | HoldPlan::Trace(_) => {}
        }
    }
}

/// Returns whether no trial reached the hold of the plan, so that the fix may have removed the code.
pub(super) fn is_never_reached(state: &State) -> bool {
    let tally = state.tally_of(VariantId(0));
    let unreached = tally
        .void
        .get(&InconclusiveReason::NotHeld)
        .copied()
        .unwrap_or(0);
    tally.passes + tally.failures == 0 && unreached >= UNREACHED_TRIALS
}

/// Returns a time of which a part is the limit of all holds of a trial together.
fn hold_time(state: &State) -> Duration {
    match state.trials.settings.timeout {
        Timeout::After(time) => time,
        Timeout::Auto => FULL_TIME,
    }
}
