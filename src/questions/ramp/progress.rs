//! Describes the progress of a search among load levels.

use super::RampPolicy;
use crate::state::State;
use crate::words;
use provoke_stats::ramp::Ramp;

/// Returns the results for the load levels so far.
pub(super) fn describe_levels(state: &State) -> Option<String> {
    let ramp: &Ramp = state.learned()?;
    let name = |level: usize| words::sanitize_line(&state.plan.variants[level].name);
    if let Some((below, passed, missing)) = ramp.guarding_level(&RampPolicy::search_rule(state)) {
        let needed = passed + missing;
        return Some(format!("{}: {passed} of {needed} passed", name(below)));
    }
    if let Some(level) = ramp.lowest_failing() {
        let confidence = 1.0 - state.plan.alpha.to_probability();
        let left = ramp.credible_levels(confidence).len() as u64;
        let left = words::format_count(left, "level");
        return Some(format!("fails at {}   {left} left", name(level)));
    }
    let mut levels = ramp.lives_by_level().iter();
    let tried = levels.rposition(|trials| trials.runs > 0)?;
    Some(format!("no failure up to {}", name(tried)))
}
