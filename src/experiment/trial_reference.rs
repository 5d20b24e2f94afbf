//! Parses references of trials, such as `last#17`.

use provoke_model::TrialId;
use provoke_words::diagnostic::Diagnostic;

/// Parses `RUN#17`; without a run, the last one is meant.
pub(super) fn parse_trial(text: &str) -> Result<(&str, TrialId), Diagnostic> {
    let reference = text
        .rsplit_once('#')
        .and_then(|(run, id)| Some((run, id.parse().ok()?)));
    match reference {
        Some((run, id)) if id > 0 => Ok((if run.is_empty() { "last" } else { run }, TrialId(id))),
        _ => Err(
            Diagnostic::usage(format!("`{text}` is not a trial reference")).with_hint(
                "write RUN#TRIAL, such as last#17; `provoke report` lists failing trials",
            ),
        ),
    }
}
