//! Names the failure of a test of a suite by the report of its runner.

use super::EvidenceName;
use provoke_messages::normalise_line;
use provoke_model::{CaseEnd, CaseFailure, EvidenceDepth, Site};

/// Names a failure by its kind, its message and the function that failed. The line is left out, because it changes with
/// every edit above it.
pub(super) fn of_case(end: CaseEnd, failure: Option<&CaseFailure>) -> EvidenceName {
    let Some(failure) = failure else {
        return of_end(end);
    };
    let lines = failure.message.lines().map(str::trim);
    let message = lines.into_iter().find(|line| !line.is_empty());
    let kind = failure.kind.trim();
    let title = match (kind, message) {
        ("", None) => match failure.signal {
            Some(signal) => signal.to_string(),
            None => return of_end(end),
        },
        ("", Some(message)) => message.to_owned(),
        (kind, None) => kind.to_owned(),
        (kind, Some(message)) if message.starts_with(kind) => message.to_owned(),
        (kind, Some(message)) => format!("{kind}: {message}"),
    };
    let is_preparation = end == CaseEnd::Error;
    let prefix = if is_preparation { "case error" } else { "case" };
    let place = failure
        .site
        .as_ref()
        .map_or_else(String::new, place_of_site);
    let text = format!("{prefix} | {kind} | {} | {place}", normalise_line(&title));
    let shown_title = if is_preparation {
        format!("error around the test: {title}")
    } else {
        title
    };
    EvidenceName::new(EvidenceDepth::Output, text, shown_title)
}

fn place_of_site(site: &Site) -> String {
    let function = site.function.as_deref().unwrap_or_default();
    format!("{}:{function}", site.file)
}

/// Names a failure of which only the end of the case is known.
fn of_end(end: CaseEnd) -> EvidenceName {
    let words = match end {
        CaseEnd::Crashed => "its process died",
        CaseEnd::TimedOut => "timed out",
        CaseEnd::Error => "error around the test",
        _ if end.is_pass() => "passed",
        _ => "failed",
    };
    EvidenceName::new(EvidenceDepth::Status, format!("case | {words}"), words)
}
