//! Names a failure by the message of the program.

use super::EvidenceName;
use provoke_messages as messages;
use provoke_messages::{MessageMeaning, normalise_line};
use provoke_model::{ActorObservation, Crash, EvidenceDepth, FailureKind, Observation};

pub(super) fn of_rule(observation: &Observation) -> Option<EvidenceName> {
    // Rules that make failures come before rules that excuse them.
    let (rule, line) = observation.matched.iter().min_by_key(|(rule, _)| *rule)?;
    Some(EvidenceName::new(
        EvidenceDepth::Output,
        format!("output | rule {rule}"),
        format!("output: {}", line.trim()),
    ))
}

/// Names a failure by the output of the main process. If the output was not captured, the C library
/// may have kept the same message in memory.
pub(super) fn of_words(
    kind: &FailureKind,
    main: Option<&ActorObservation>,
    crash: Option<&Crash>,
) -> Option<EvidenceName> {
    let main = main?;
    let name = kind.name();
    let message_line = crash
        .and_then(|crash| crash.abort.as_deref())
        .and_then(|text| {
            text.lines()
                .find(|line| messages::read_tell(line).is_some())
        });
    let crash_message = main.crash_message.as_deref().or(message_line);
    // The last line of a crashed program usually shows only its progress.
    let words = matches!(kind, FailureKind::Exit { .. } | FailureKind::Output)
        .then_some(main.last_words.as_str());
    let line = crash_message.or(words.filter(|line| is_complaint(line)))?;
    let Some(tell) = messages::read_tell(line) else {
        return Some(EvidenceName::new(
            EvidenceDepth::Output,
            format!("{name} | {}", normalise_line(line)),
            format!("{name}: {}", line.trim()),
        ));
    };
    if tell.is_echo() && !tell.detail.contains(", in ") {
        return None;
    }
    // Each of several failed tests is an additional name of the failure.
    let named = |detail: &str| format!("{name} | {} | {detail}", tell.kind);
    let parts = tell.parts.iter().map(|part| named(part));
    Some(EvidenceName {
        family: tell.family,
        texts: [named(&tell.detail)].into_iter().chain(parts).collect(),
        ..EvidenceName::new(
            EvidenceDepth::Output,
            "",
            format!("{name}: {}", describe_tell(&tell)),
        )
    })
}

/// Returns whether a line contains a reason; a progress line would give every trial another name.
fn is_complaint(line: &str) -> bool {
    const WORDS: [&str; 37] = [
        "error",
        "fail",
        "fatal",
        "panic",
        "exception",
        "abort",
        "cannot",
        "can't",
        "could not",
        "assert",
        "refused",
        "denied",
        "invalid",
        "unexpected",
        "mismatch",
        "timed out",
        "timeout",
        "no such",
        "not found",
        "corrupt",
        "does not exist",
        "missing",
        "unable",
        "unbound",
        "undefined",
        "unknown",
        "unsupported",
        "usage:",
        "too many",
        "too long",
        "expired",
        "in use",
        "rejected",
        "illegal",
        "out of range",
        "out of memory",
        "broken pipe",
    ];
    let line = line.to_lowercase();
    WORDS.iter().any(|word| line.contains(word))
}

/// Returns the text of a recognized message in a title.
pub(super) fn describe_tell(tell: &MessageMeaning) -> String {
    match (tell.kind, tell.message.as_str()) {
        (kind, "") => kind.to_owned(),
        ("assert", expression) => format!("assertion {expression}"),
        ("c++ exception", exception) => format!("uncaught {exception}"),
        ("go race", functions) => format!("data race in {functions}"),
        (
            "sanitizer"
            | "python exception"
            | "java exception"
            | "javascript exception"
            | "python fatal"
            | "test",
            detail,
        ) => detail.to_owned(),
        (kind, detail) => format!("{kind}: {detail}"),
    }
}
