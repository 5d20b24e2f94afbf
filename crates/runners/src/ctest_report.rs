//! Skipped and failed tests in the JUnit reports of ctest.

use super::gtest;
use super::text::clip_message;
use provoke_model::{CaseEnd, CaseResult};

/// Returns how a skipped test ended. A test that could not be started did not run.
pub(crate) fn judge_skip(reason: &str) -> CaseEnd {
    if reason.starts_with("SKIP_") || reason == "Disabled" {
        CaseEnd::Skipped
    } else {
        CaseEnd::NotRun
    }
}

/// Adds a message from the output of a test, because ctest does not have one.
///
/// A test that is a whole binary of googletest names its failed tests, or the one that was running when it died.
pub(crate) fn add_message(result: &mut CaseResult, output: &str) {
    let failure = result.failure.get_or_insert_default();
    if !failure.message.is_empty() {
        return;
    }
    let inner = gtest::read_gtest(output.as_bytes());
    let running = inner
        .results
        .iter()
        .find(|inner| inner.end == CaseEnd::Unknown);
    if let Some(running) = running {
        failure.message = clip_message(&format!("{} was running", running.case));
        return;
    }
    let mut failed = inner.results.iter().filter(|inner| inner.end.is_failure());
    match (failed.next(), failed.count()) {
        (Some(first), others) => {
            let inner_failure = first.failure.clone().unwrap_or_default();
            failure.site = inner_failure.site;
            failure.message = if others == 0 {
                inner_failure.message
            } else {
                clip_message(&format!(
                    "{} and {others} more failed\n{}",
                    first.case, inner_failure.message
                ))
            };
        }
        (None, _) => {
            let lines: Vec<&str> = output.trim_end().lines().collect();
            let last_lines = &lines[lines.len().saturating_sub(4)..];
            failure.message = clip_message(&last_lines.join("\n"));
        }
    }
}
