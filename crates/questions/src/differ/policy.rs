//! `differ`: takes turns between plain trials, recorded trials, and trials that are recorded at a half of the points.

use super::memory::{DifferMemory, Recording};
use crate::{HeldTrial, Policy, Step, StopRule, Verdict, nothing_counts};
use provoke_model::{HoldPlan, PathPart, PathPlan, VariantId, trial_seed};
use provoke_state::State;
use std::time::Duration;

/// Plain trials before the first recorded one: they show how long the program takes.
const FIRST_PLAIN_TRIALS: u64 = 2;
/// Arrivals of threads at each point that are recorded, once there are two threads.
const ARRIVALS: u32 = 4;
/// The same in a service under load, whose threads do the same for each request.
const ARRIVALS_UNDER_LOAD: u32 = 64;
/// The search ends if this number of observed trials all fail: without a passing one, there is nothing to compare.
const ONLY_FAILING: u64 = 60;
/// Makes the choices of halves independent of the seeds of trials.
const HALVES: u64 = 0x6861_6c76_6573_2121;

/// Takes turns between plain and recorded trials.
pub struct DifferPolicy;

impl Policy for DifferPolicy {
    fn next_step(&self, state: &State) -> Step {
        if is_answered(state) {
            return Step::Done;
        }
        Step::launch_only_variant(state)
    }

    fn next_held_trial(&self, state: &State) -> Option<HeldTrial> {
        let memory: &DifferMemory = state.learned()?;
        let recording = next_recording(state, memory)?;
        let part = match recording {
            Recording::Full => PathPart::All,
            Recording::Half => {
                PathPart::Half(trial_seed(state.trials.seed ^ HALVES, state.next_id()))
            }
        };
        let arrivals = match state.trials.load {
            Some(_) => ARRIVALS_UNDER_LOAD,
            None => ARRIVALS,
        };
        Some(HeldTrial {
            plan: record_part(memory, arrivals, part),
            timeout: None,
        })
    }

    fn verdict_of(&self, state: &State) -> Verdict {
        let Some(memory) = state.learned::<DifferMemory>() else {
            return Verdict::CouldNotTest;
        };
        if memory
            .comparison()
            .is_some_and(|comparison| comparison.lead.is_some())
        {
            Verdict::Found
        } else if memory.looked_last() {
            Verdict::NotThere
        } else if nothing_counts(state) && memory.recorded(Recording::Full).trials == 0 {
            Verdict::CouldNotTest
        } else {
            Verdict::Undecided
        }
    }

    fn stop_rule(&self, state: &State, _: VariantId) -> StopRule {
        if is_answered(state) {
            StopRule::Decision
        } else {
            StopRule::from_outside(state)
        }
    }
}

/// Returns a plan that records all points.
pub(crate) fn record_all(memory: &DifferMemory) -> HoldPlan {
    record_part(memory, ARRIVALS, PathPart::All)
}

fn record_part(memory: &DifferMemory, arrivals: u32, part: PathPart) -> HoldPlan {
    HoldPlan::Record(PathPlan {
        scope: memory.scope().clone(),
        detail: memory.detail(),
        arrivals,
        part,
        inside: memory.inside().to_vec(),
        holds: Vec::new(),
        total_limit: Duration::ZERO,
    })
}

/// Returns whether a difference was found, or was looked for in enough trials, or cannot be looked for.
fn is_answered(state: &State) -> bool {
    let memory: Option<&DifferMemory> = state.learned();
    memory.is_some_and(|memory| {
        let observed = memory.recorded(Recording::Full);
        let only_fails = observed.trials >= ONLY_FAILING && observed.failures == observed.trials;
        memory.is_answered() || memory.refused().is_some() || only_fails
    })
}

/// Returns what the next trial records: the kind of trial with the fewest trials so far, plain trials first.
fn next_recording(state: &State, memory: &DifferMemory) -> Option<Recording> {
    let plain = state.expected_trials(VariantId(0));
    if memory.refused().is_some() || plain < FIRST_PLAIN_TRIALS {
        return None;
    }
    let launched = |recording: Recording| {
        let open = state
            .open_holds()
            .filter(|plan| Recording::of_plan(plan) == Some(recording));
        memory.recorded(recording).trials + open.count() as u64
    };
    let full = launched(Recording::Full);
    let rarest = plain.min(full);
    if memory.has_code() && launched(Recording::Half) < rarest {
        Some(Recording::Half)
    } else {
        (full < plain).then_some(Recording::Full)
    }
}
