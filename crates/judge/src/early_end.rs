//! Says why provoke ended a trial before its time limit.

use provoke_model::Observation;
use provoke_words::format_seconds;

/// Says that provoke ended a deadlocked trial before its timeout; `None` for any other trial.
pub fn early_end(observation: &Observation) -> Option<String> {
    let timeout = observation.hang.as_ref()?.ended_before;
    let (ran, timeout_words) = (
        format_seconds(observation.elapsed.as_secs_f64()),
        format_seconds(timeout.as_secs_f64()),
    );
    let text = format!(
        "deadlock: stopped after {ran} instead of {timeout_words}, because no thread can continue"
    );
    (!timeout.is_zero()).then_some(text)
}
