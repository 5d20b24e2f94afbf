//! Describes the progress of a search among load levels.

use super::RampPolicy;
use crate::state::State;
use provoke_stats::ramp::Ramp;
use provoke_words as words;

/// Returns the results for the load levels so far.
pub(super) fn describe_levels(state: &State) -> Option<String> {
    let ramp: &Ramp = state.learned()?;
    let name = |level: usize| words::sanitize_line(&state.plan.variants[level].name);
    if let Some((lower_level, passed, missing)) =
        ramp.guarding_level(&RampPolicy::search_rule(state))
    {
        let needed = passed + missing;
        return Some(format!(
            "{}: {passed} of {needed} passed",
            name(lower_level)
        ));
    }
    if let Some(level) = ramp.lowest_failing() {
        let confidence = 1.0 - state.plan.alpha.to_probability();
        let remaining = ramp.credible_levels(confidence).len() as u64;
        let level_count = words::format_count(remaining, "level");
        return Some(format!("fails at {}   {level_count} left", name(level)));
    }
    let mut levels = ramp.lives_by_level().iter();
    let highest_tried = levels.rposition(|trials| trials.runs > 0)?;
    Some(format!("no failure up to {}", name(highest_tried)))
}
