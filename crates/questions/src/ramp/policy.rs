//! `load` at several levels: finds the lowest level that fails.
//!
//! The highest level comes first, and the others are narrowed down. After that the level below the answer runs until its own
//! trials show that its rate is below the requested one; see `stats::ramp`. With several slots, each running trial is
//! assumed to end in the more likely way; if it does not, a trial or two were less useful.

use crate::search::{is_crowded, is_spent, stop_rule, under_way};
use crate::state::State;
use crate::{Policy, Step, StopRule, Verdict, nothing_counts, untold_trials};
use provoke_model::VariantId;
use provoke_stats::ramp::{Ramp, RampRule, RampStep};

/// Searches the lowest level that fails.
pub struct RampPolicy;

impl RampPolicy {
    /// Returns the requirements of the search.
    pub fn search_rule(state: &State) -> RampRule {
        let ramp_question = state.plan.question.as_ramp();
        RampRule {
            delta: state.plan.alpha.to_probability(),
            above: ramp_question.is_some_and(|question| question.above),
        }
    }

    /// Returns the next step of the search, or its result.
    pub fn next_action(state: &State) -> RampStep {
        let ramp: Option<&Ramp> = state.learned();
        ramp.map_or(RampStep::Stuck, |ramp| {
            ramp.next_step(&Self::search_rule(state))
        })
    }
}

impl Policy for RampPolicy {
    fn next_step(&self, state: &State) -> Step {
        let (Some(ramp), RampStep::Try(level)) =
            (state.learned::<Ramp>(), Self::next_action(state))
        else {
            return Step::Done;
        };
        if is_spent(state) {
            return Step::wait_or_done(state);
        }
        if is_crowded(state) {
            return Step::Wait;
        }
        let mut under_way = under_way(state).peekable();
        if under_way.peek().is_none() {
            return launch_level(level);
        }
        let mut ahead = ramp.clone();
        for variant in under_way {
            let level = variant.index();
            let fails = ahead.failure_chance(level) >= 0.5;
            ahead.observe_life(level, fails);
        }
        match ahead.next_step(&Self::search_rule(state)) {
            RampStep::Try(level) => launch_level(level),
            _ => Step::Wait,
        }
    }

    fn verdict_of(&self, state: &State) -> Verdict {
        if nothing_counts(state) && untold_trials(state) == 0 {
            return Verdict::CouldNotTest;
        }
        match Self::next_action(state) {
            RampStep::From(_) => Verdict::Found,
            // Each failure whose evidence is missing may have been the bug.
            RampStep::Never if untold_trials(state) == 0 => Verdict::NotThere,
            _ => Verdict::Undecided,
        }
    }

    fn stop_rule(&self, state: &State, _: VariantId) -> StopRule {
        stop_rule(state, self.verdict_of(state))
    }

    fn remaining_trials(&self, state: &State) -> Option<u64> {
        state
            .learned::<Ramp>()?
            .missing_guard_lives(&Self::search_rule(state))
    }
}

fn launch_level(level: usize) -> Step {
    let level = u32::try_from(level).unwrap_or(u32::MAX);
    Step::Launch(VariantId(level))
}
