//! Describes the progress of a search along a list.

use super::BisectProgress;
use provoke_state::State;
use provoke_words as words;

/// Returns the number of candidates that the search has not excluded, and the likeliest one.
pub(super) fn describe_candidates(state: &State) -> Option<String> {
    let search = BisectProgress::of_state(state)?;
    let candidates = state.trials.space.as_ref()?.choices.as_candidates();
    let count = candidates.len();
    if search.bisection.failures_and_runs(count - 1).0 == 0 {
        return Some("reproducing the failure".to_owned());
    }
    let confidence = 1.0 - state.goal.alpha.to_probability();
    let remaining = search.bisection.credible_set(confidence).len();
    let group = search.bisection.likeliest_group();
    let likeliest = &candidates[group.last.min(count - 1)].name;
    Some(format!(
        "{remaining} of {count} left   best guess {} ({} %)",
        words::sanitize_line(likeliest),
        words::format_percent(group.mass),
    ))
}
