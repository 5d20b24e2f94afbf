//! Describes the expected effort and result of a run before its start.

use super::{forecast_duration, load_summary};
use provoke_questions as questions;
use provoke_state::State;

/// Describes the expected effort and result before the start.
pub fn lines_before_start(state: &State) -> Vec<String> {
    let mut lines = load_summary(&state.trials);
    lines.extend(questions::of(state).lines_before_start(state));
    lines.extend(questions::describe_settings(state));
    lines.extend(forecast_duration(state, None).map(|forecast| forecast.text));
    lines
}
