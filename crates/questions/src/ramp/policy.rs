//! `load` at several levels: finds the lowest level that fails.
//!
//! The highest level comes first, and the others are narrowed down. After that the level below the answer runs until its own
//! trials show that its rate is below the requested one; see `stats::ramp`. With several slots, each running trial is
//! assumed to end in the more likely way; if it does not, a trial or two were less useful.

use super::memory::KnownForecast;
use super::refusals::level_to_probe;
use crate::search::{is_crowded, is_spent, stop_rule, under_way};
use crate::{Policy, Step, StopRule, Verdict, nothing_counts, trials_without_known_failure};
use provoke_model::VariantId;
use provoke_state::{State, Tally};
use provoke_stats::ramp::{Forecast, Ramp, RampRule, RampStep};
use provoke_stats::real;

/// Searches the lowest level that fails.
pub struct RampPolicy;

impl RampPolicy {
    /// Returns the requirements of the search.
    pub fn search_rule(state: &State) -> RampRule {
        let ramp_question = state.goal.question.as_ramp();
        RampRule {
            delta: state.goal.alpha.to_probability(),
            above: ramp_question.is_some_and(|question| question.above),
        }
    }

    /// Returns how many more trials of each level the search takes if levels go on as they did.
    pub fn forecast(state: &State) -> Option<&Forecast> {
        let (ramp, forecast) = (state.learned::<Ramp>()?, state.learned::<KnownForecast>()?);
        let known = forecast
            .0
            .get_or_init(|| ramp.forecast_trials(&Self::search_rule(state)));
        known.as_ref()
    }

    /// Returns the duration of these trials in seconds, one after another; `None` before the first trial. A level that was not tried
    /// takes as long as the slowest of the others.
    pub fn seconds_left(state: &State) -> Option<f64> {
        let forecast = Self::forecast(state)?;
        let mean = |tally: &Tally| {
            let trials = tally.counted_trials();
            (trials > 0).then(|| tally.exposure.as_secs_f64() / real(trials))
        };
        let means: Vec<Option<f64>> = state.all_tallies().map(|(_, tally)| mean(tally)).collect();
        let slowest = means.iter().flatten().copied().max_by(f64::total_cmp)?;
        let seconds = means
            .iter()
            .enumerate()
            .map(|(level, seconds)| real(forecast.of_level(level)) * seconds.unwrap_or(slowest));
        Some(seconds.sum::<f64>() / f64::from(state.trials.jobs))
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
        let Some(ramp) = state.learned::<Ramp>() else {
            return Step::Done;
        };
        let Some(level) = level_to_try(state, Self::next_action(state)) else {
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
        let next_step = ahead.next_step(&Self::search_rule(state));
        level_to_try(state, next_step).map_or(Step::Wait, launch_level)
    }

    fn verdict_of(&self, state: &State) -> Verdict {
        if nothing_counts(state) && trials_without_known_failure(state) == 0 {
            return Verdict::CouldNotTest;
        }
        match Self::next_action(state) {
            RampStep::From(_) => Verdict::Found,
            // Each failure whose evidence is missing may have been the bug.
            RampStep::Never if trials_without_known_failure(state) == 0 => Verdict::NotThere,
            _ => Verdict::Undecided,
        }
    }

    fn stop_rule(&self, state: &State, _: VariantId) -> StopRule {
        stop_rule(state, self.verdict_of(state))
    }

    fn remaining_trials(&self, state: &State) -> Option<u64> {
        Self::forecast(state).map(Forecast::total_trials)
    }
}

/// Returns the level of the next trial. A trial that may be at any level also tells where refusals begin.
fn level_to_try(state: &State, step: RampStep) -> Option<usize> {
    match step {
        RampStep::Try(level) => Some(level),
        RampStep::TryAny(level) => Some(level_to_probe(state).unwrap_or(level)),
        RampStep::From(_) | RampStep::Never | RampStep::Stuck => None,
    }
}

fn launch_level(level: usize) -> Step {
    let level = u32::try_from(level).unwrap_or(u32::MAX);
    Step::Launch(VariantId(level))
}
