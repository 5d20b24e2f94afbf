//! `--delay`: a pause before each trial.

use super::{Lever, LeverHelp, TrialStart, ValueShape, parse_time};
use provoke_model::TrialConditions;
use std::io;
use std::time::Duration;

/// A pause before each trial. It is stored in microseconds.
pub(super) struct Delay;

impl Lever for Delay {
    fn name(&self) -> &'static str {
        "delay"
    }

    fn about(&self) -> &'static str {
        "a pause before each trial"
    }

    fn flag(&self) -> Option<LeverHelp> {
        Some(LeverHelp {
            value: "TIME",
            text: "Wait this long before each trial",
            heading: "Trials",
        })
    }

    fn shape(&self) -> ValueShape {
        ValueShape::Time
    }

    fn parse(&self, typed: &str) -> Result<String, String> {
        Ok(format!("{}us", parse_time(typed)?.as_micros()))
    }

    fn typed(&self, value: &str) -> String {
        format!("{}s", parse_time(value).unwrap_or_default().as_secs_f64())
    }

    fn fact_title(&self) -> &'static str {
        "pause before a trial"
    }

    fn fact(&self, value: &str) -> String {
        let time = parse_time(value).unwrap_or_default();
        if time.is_zero() {
            return self.fact_without().to_owned();
        }
        format!("{} s", time.as_secs_f64())
    }

    /// The trial is ordered after the pause.
    fn apply(&self, _: &str, _: &mut TrialStart) -> io::Result<()> {
        Ok(())
    }
}

/// Returns the pause before each trial.
pub fn delay_of(conditions: &TrialConditions) -> Duration {
    let delay = conditions.get(Delay.name()).map(parse_time);
    delay.and_then(Result::ok).unwrap_or_default()
}
