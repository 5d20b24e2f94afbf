//! Failures in the JUnit reports of cargo nextest, which name signals and time limits.

use super::text::clip_message;
use provoke_model::{CaseEnd, CaseFailure, Signal, Site};

/// Returns the end and the failure that an element of a report means.
///
/// Its type is `test abort`, `test timeout` or `test failure with exit code 101`, for example.
pub(crate) fn judge_failure(kind: &str, message: &str, text: &str) -> (CaseEnd, CaseFailure) {
    let (end, kind) = match kind {
        "test timeout" => (CaseEnd::TimedOut, "timeout"),
        "test abort" => (CaseEnd::Crashed, ""),
        "execution failure" => (CaseEnd::Error, kind),
        _ => (
            CaseEnd::Failed,
            kind.trim_start_matches("test failure with "),
        ),
    };
    let signal = find_signal(message);
    let failure = match parse_panic(text) {
        Some(panic) => panic,
        None => CaseFailure {
            kind: clip_message(signal_name(message).unwrap_or(kind)),
            message: clip_message(if message.is_empty() { text } else { message }),
            ..CaseFailure::default()
        },
    };
    (end, CaseFailure { signal, ..failure })
}

/// Returns the signal in `process aborted with signal 11 (SIGSEGV)`.
fn find_signal(message: &str) -> Option<Signal> {
    let (_, rest) = message.split_once("with signal ")?;
    let number: &str = rest.split([' ', ')']).next()?;
    Signal::from_name(number)
}

fn signal_name(message: &str) -> Option<&str> {
    let (_, name) = message.split_once("with signal ")?.1.split_once('(')?;
    name.split_once(')').map(|(name, _)| name)
}

/// Reads the message of a panic of Rust, without the name of the thread and the stack.
///
/// ```text
/// thread 'tests::panics' (28613) panicked at src/lib.rs:4:53:
/// assertion failed
/// stack backtrace:
/// ```
pub(crate) fn parse_panic(text: &str) -> Option<CaseFailure> {
    let (_, rest) = text.split_once("panicked at ")?;
    let (place, rest) = rest.split_once('\n')?;
    let mut parts = place.trim_end_matches(':').rsplitn(3, ':');
    let _column = parts.next()?;
    let line = parts.next()?.parse().ok()?;
    let file = parts.next()?;
    let lines: Vec<&str> = rest
        .lines()
        .take_while(|line| {
            !line.starts_with("stack backtrace:")
                && !line.starts_with("note: ")
                && !line.starts_with("thread '")
        })
        .take(50)
        .collect();
    Some(CaseFailure {
        kind: "panic".to_owned(),
        message: clip_message(&lines.join("\n")),
        site: Some(Site {
            file: file.to_owned(),
            line,
            ..Site::default()
        }),
        signal: None,
    })
}

/// Removes the number of a stress run from the name of a suite: `sample@stress-1`.
pub(crate) fn strip_stress_suffix(suite: &str) -> &str {
    match suite.rsplit_once("@stress-") {
        Some((name, number)) if number.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => suite,
    }
}
