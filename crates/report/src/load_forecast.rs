//! Predicts how long the trials of a service take.

use provoke_model::{LoadLimit, ReadyCondition, RequestPace};
use provoke_questions as questions;
use provoke_state::State;
use provoke_stats::{real, whole};
use provoke_words as words;
use std::time::Duration;

/// Runs that take longer than this are announced, in seconds.
pub const ANNOUNCED_FROM: f64 = 30.0;
/// Share of the time limit that a suggested load may need: levels differ in throughput.
const SAFE_SHARE: f64 = 0.5;

/// Measurements of the service trials so far.
#[derive(Clone, Copy, Debug)]
pub enum LoadMeasurements {
    /// Duration of the first trial.
    ServiceRun(Duration),
    /// Responses per second under load in the first trial, before its end.
    Answers(f64),
}

/// The expected duration of all service trials of a run.
#[derive(Clone, Debug)]
pub struct LoadForecast {
    /// The duration in seconds.
    pub seconds: f64,
    /// The forecast for the user.
    pub text: String,
}

/// Returns the expected duration of all service trials, if it is long and can be predicted, from the plan alone or with
/// a measurement.
pub fn forecast_duration(
    state: &State,
    measured: Option<LoadMeasurements>,
) -> Option<LoadForecast> {
    let load = state.trials.load.as_ref()?;
    let startup = match load.ready {
        ReadyCondition::After(length) => load.quiet_time + length,
        _ => load.quiet_time,
    };
    let sending = match (load.amount, load.pace, measured) {
        (_, _, Some(LoadMeasurements::ServiceRun(time))) => {
            time.saturating_sub(startup).as_secs_f64()
        }
        (LoadLimit::Time(time), ..) => time.as_secs_f64(),
        (LoadLimit::Requests(requests), RequestPace::Open { millihertz, .. }, _) => {
            real(requests) / (real(millihertz) / 1000.0)
        }
        (LoadLimit::Requests(requests), _, Some(LoadMeasurements::Answers(rate))) if rate > 0.0 => {
            real(requests) / rate
        }
        _ => return None,
    };
    let seconds_per_trial = sending + startup.as_secs_f64();
    let remaining = questions::policy_of(state).remaining_trials(state);
    let runs = remaining.unwrap_or(1).max(1);
    let total = seconds_per_trial * real(runs.div_ceil(u64::from(state.trials.jobs)));
    if total <= ANNOUNCED_FROM {
        return None;
    }
    let rate = match measured {
        Some(LoadMeasurements::Answers(rate)) => {
            format!(", at {} answers/s", words::format_number(rate))
        }
        _ => String::new(),
    };
    let shorter = match load.amount {
        LoadLimit::Requests(_) => "fewer --requests",
        LoadLimit::Time(_) => "a shorter --time",
    };
    let about = if remaining.is_none() { "about " } else { "" };
    // Failures lead to trials at other levels, and each level has its own throughput.
    let condition = if state.trials.has_load_levels() {
        " if all of them pass"
    } else {
        ""
    };
    let limit = state.stop.time_budget();
    let exceeded = limit.filter(|limit| total > limit.as_secs_f64());
    let fitting = exceeded.and_then(|limit| {
        let rounds = real(runs.div_ceil(u64::from(state.trials.jobs)));
        let fitting = limit.as_secs_f64() * SAFE_SHARE / rounds - startup.as_secs_f64();
        match load.amount {
            LoadLimit::Requests(requests) => round_down(real(requests) * fitting / sending)
                .map(|fits| format!("--requests {fits}")),
            LoadLimit::Time(_) => round_down(fitting).map(|fits| format!("--time {fits}s")),
        }
    });
    let advice = match (exceeded, fitting) {
        (Some(limit), Some(flag)) => format!(
            "that exceeds the limit of {} (-d): stop with Ctrl-C and repeat this with {flag}",
            words::format_seconds(limit.as_secs_f64())
        ),
        _ => format!("{shorter} would take less time"),
    };
    let text = format!(
        "expected: {about}{} of {}{rate}, about {} in all{condition}; {advice}",
        words::format_count(runs, "trial"),
        words::format_seconds(seconds_per_trial),
        words::format_seconds(total),
    );
    Some(LoadForecast {
        seconds: total,
        text,
    })
}

/// Rounds down to one significant digit; `None` below 1.
fn round_down(number: f64) -> Option<u64> {
    if number < 1.0 {
        return None;
    }
    let unit = 10_f64.powf(number.log10().floor());
    Some(whole((number / unit).floor() * unit))
}
