//! Describes the load that a plan puts on a service.

use provoke_model::{LoadLimit, ReadyCondition, RequestPace, ServiceOwner, TrialsPlan};
use provoke_stats::real;
use provoke_words as words;
use std::time::Duration;

/// Describes a trial of a service, including defaults that the user did not set.
pub(crate) fn load_assumptions(trials: &TrialsPlan) -> Vec<String> {
    load_lines(trials, false)
}

/// Describes the load of a trial of a service.
pub(crate) fn load_summary(trials: &TrialsPlan) -> Vec<String> {
    load_lines(trials, true)
}

fn load_lines(trials: &TrialsPlan, is_short: bool) -> Vec<String> {
    let Some(load) = &trials.load else {
        return Vec::new();
    };
    let time = |time: Duration| words::format_seconds(time.as_secs_f64());
    let amount = match load.amount {
        LoadLimit::Requests(requests) => {
            format!("{} (--requests)", words::format_count(requests, "request"))
        }
        LoadLimit::Time(length) => format!("{} of requests (--time)", time(length)),
    };
    let levels = trials.variants.iter().filter_map(|variant| variant.clients);
    let pace = match (load.pace, levels.clone().min().zip(levels.max())) {
        (_, Some((min, max))) => format!("by {min} to {max} clients at once"),
        (RequestPace::Closed { clients }, None) => {
            format!(
                "by {} at once (-c)",
                words::format_count(u64::from(clients), "client")
            )
        }
        (
            RequestPace::Open {
                millihertz,
                connections,
            },
            None,
        ) => format!(
            "at a fixed rate of {} a second over at most {connections} connections",
            words::format_number(real(millihertz) / 1000.0)
        ),
    };
    let ready = match &load.ready {
        ReadyCondition::Connects => "it accepts connections".to_owned(),
        ReadyCondition::Http { path, .. } => format!("it responds to {path}"),
        ReadyCondition::Log(line) => format!("it prints `{line}`"),
        ReadyCondition::After(length) => format!("{} have passed", time(*length)),
    };
    let begins = match load.owner {
        ServiceOwner::Provoke => "provoke starts the service, which is ready when",
        ServiceOwner::Somebody | ServiceOwner::Process(_) => {
            "the service was started elsewhere, and is ready when"
        }
    };
    let warm = match load.warm_up.requests {
        0 => String::new(),
        requests => format!("{requests} warm-up requests; "),
    };
    let url = &load.target.base;
    let names: Vec<&str> = load
        .requests
        .iter()
        .map(|request| request.name.as_str())
        .collect();
    let requests = format!(
        "requests to {url}: {}",
        words::sanitize_line(&names.join(", "))
    );
    if is_short {
        return vec![format!("each trial: {amount} {pace}"), requests];
    }
    vec![
        format!(
            "each trial: {begins} {ready} (--ready); {warm}{amount} {pace}; {} of quiet (--quiet-time); then it must still run",
            time(load.quiet_time)
        ),
        requests,
    ]
}
