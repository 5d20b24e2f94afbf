//! `--delay`: a pause before each trial.

use super::simple::LEVER;
use super::{Lever, LeverHelp, ValueShape, parse_time};
use provoke_model::TrialConditions;
use std::time::Duration;

/// A pause before each trial. It is stored in microseconds.
pub(super) static DELAY: Lever = Lever {
    name: "delay",
    about: "a pause before each trial",
    flag: Some(LeverHelp {
        value: "TIME",
        text: "Wait this long before each trial",
        heading: "Trials",
    }),
    shape: ValueShape::Time,
    parse: |typed| Ok(format!("{}us", parse_time(typed)?.as_micros())),
    typed: |value| format!("{}s", parse_time(value).unwrap_or_default().as_secs_f64()),
    fact_title: Some("pause before a trial"),
    fact: |value| {
        let time = parse_time(value).unwrap_or_default();
        if time.is_zero() {
            return LEVER.fact_without.to_owned();
        }
        format!("{} s", time.as_secs_f64())
    },
    prepare: |_, _, _| Ok(()),
    // The trial is ordered after the pause.
    apply: |_, _| Ok(()),
    ..LEVER
};

/// Returns the pause before each trial.
pub fn delay_of(conditions: &TrialConditions) -> Duration {
    let delay = conditions.get(DELAY.name).map(parse_time);
    delay.and_then(Result::ok).unwrap_or_default()
}
