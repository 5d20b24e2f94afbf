//! Says why provoke ended a trial before its time limit, or that the trial ended by itself just after it.

use provoke_model::Observation;
use provoke_words::format_seconds;

/// Says that provoke ended a deadlocked trial before its timeout, or that the trial ended by itself after its timeout,
/// before provoke ended it; `None` for any other trial.
pub fn unusual_end(observation: &Observation) -> Option<String> {
    let hang = observation.hang.as_ref()?;
    if !hang.ended_after.is_zero() {
        let late = format_seconds(hang.ended_after.as_secs_f64());
        return Some(format!(
            "it ended by itself {late} after the time limit; a longer limit (-t) lets it end"
        ));
    }
    let timeout = hang.ended_before;
    let (ran, timeout_words) = (
        format_seconds(observation.elapsed.as_secs_f64()),
        format_seconds(timeout.as_secs_f64()),
    );
    let text = format!(
        "deadlock: stopped after {ran} instead of {timeout_words}, because no thread can continue"
    );
    (!timeout.is_zero()).then_some(text)
}
