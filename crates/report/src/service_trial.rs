//! Describes the requests of one trial of a service, and when it died.

use provoke_model::{
    LoadObservation, LoadPlan, LoadStage, RequestPace, RequestResult, RequestsAtFailure,
};
use provoke_words as words;
use std::collections::BTreeMap;

/// Lists the results of requests with their numbers.
pub(super) fn end_lines(ends: &BTreeMap<RequestResult, u64>) -> Vec<String> {
    let results = ends.iter();
    results
        .map(|(result, count)| format!("{count} {result}"))
        .collect()
}

/// Describes one trial of a service. `load` has the names of the kinds of requests.
pub(super) fn service_run_lines(observation: &LoadObservation, load: &LoadPlan) -> Vec<String> {
    if let Some(trouble) = &observation.trouble {
        return vec![trouble.clone()];
    }
    if observation.stage == LoadStage::Starting {
        return vec!["it was not ready, so no request was sent".to_owned()];
    }
    let client_text = match load.pace {
        RequestPace::Closed { .. } => "client",
        RequestPace::Open { .. } => "connection",
    };
    let warmed = match observation.warmed {
        0 => String::new(),
        warmed => format!("{warmed} warm-up requests answered; then "),
    };
    let mut lines = vec![format!(
        "{warmed}{}: {} sent, {} answered, {} in {}",
        words::format_count(u64::from(observation.clients), client_text),
        observation.sent,
        observation.served,
        words::format_count(observation.error_count(), "error"),
        words::format_seconds(observation.elapsed.as_secs_f64()),
    )];
    if !observation.ends.is_empty() {
        lines.push(format!(
            "results: {}",
            end_lines(&observation.ends).join(", ")
        ));
    }
    let stage = match observation.stage {
        LoadStage::Starting | LoadStage::WarmUp => "during the warm-up",
        LoadStage::Loading => "under load",
        LoadStage::Settling => "in the quiet time after the load",
        LoadStage::Over => "after the trial",
    };
    let Some(death) = &observation.death else {
        return lines;
    };
    let end_text = match death {
        death if death.stopped => "it was stopped",
        death if death.hung => "it hung",
        _ => "it died",
    };
    let is_at_first_requests = observation.stage == LoadStage::Loading
        && observation.answered_until(death) == observation.warmed
        && death.answering == 0;
    let kinds: Vec<String> = load
        .requests
        .iter()
        .zip(&death.kinds)
        .filter(|(_, count)| **count > 0 && load.requests.len() > 1)
        .map(|(kind, count)| format!("{count} {}", kind.name))
        .collect();
    let kinds_text = if kinds.is_empty() {
        String::new()
    } else {
        format!(" ({})", kinds.join(", "))
    };
    let answering = match death.answering {
        0 => String::new(),
        answering => format!(", {answering} of them partly answered"),
    };
    if is_at_first_requests && death.in_flight > 0 {
        let after = match observation.warmed {
            0 => String::new(),
            warmed => format!(", after {}", words::format_count(warmed, "warm-up request")),
        };
        lines.push(match death.in_flight {
            1 => format!("{end_text} at the first request{kinds_text}{after}"),
            several => {
                format!("{end_text} at the first {several} parallel requests{kinds_text}{after}")
            }
        });
        return lines;
    }
    lines.push(format!(
        "{end_text} {stage}, after {}, with {} in flight{kinds_text}{answering}",
        describe_responses(observation, death),
        words::format_count(death.in_flight, "request"),
    ));
    lines
}

/// Returns `22 responses (20 in the warm-up)`.
fn describe_responses(observation: &LoadObservation, death: &RequestsAtFailure) -> String {
    let responses = words::format_count(observation.answered_until(death), "response");
    match (observation.stage, observation.warmed) {
        (LoadStage::WarmUp, _) | (_, 0) => responses,
        (_, warmed) => format!("{responses} ({warmed} in the warm-up)"),
    }
}
