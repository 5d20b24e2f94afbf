//! Describes the progress of a search among load levels.

use super::RampPolicy;
use provoke_state::State;
use provoke_stats::ramp::{LevelCounts, Ramp};
use provoke_words as words;

/// Returns the results for the load levels so far.
pub(super) fn describe_levels(state: &State) -> Option<String> {
    let ramp: &Ramp = state.learned()?;
    let name = |level: usize| words::sanitize_line(&state.trials.variants[level].name);
    let guard = ramp
        .guarded_level(&RampPolicy::search_rule(state))
        .zip(RampPolicy::forecast(state))
        .map_or(String::new(), |(level, forecast)| {
            let LevelCounts { failures, runs } = ramp.trials_by_level()[level];
            let (passed, missing) = (runs - failures, forecast.of_level(level));
            let needed = passed + missing;
            format!(
                ", {passed} of {} needed at {}",
                words::plural_of(needed, "pass", "passes"),
                name(level)
            )
        });
    if let Some(level) = ramp.lowest_failing() {
        let confidence = 1.0 - state.goal.alpha.to_probability();
        let remaining = ramp.credible_levels(confidence).len() as u64;
        let left = if guard.is_empty() {
            format!(", {} left", words::format_count(remaining, "level"))
        } else {
            guard
        };
        return Some(format!("fails at {}{left}", name(level)));
    }
    let mut levels = ramp.trials_by_level().iter();
    let highest_tried = levels.rposition(|trials| trials.runs > 0)?;
    Some(format!("no failure up to {}{guard}", name(highest_tried)))
}
