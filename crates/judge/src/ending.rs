//! Interprets the end of one process: a signal that was observed, one that a code reports, or a code.

use provoke_model::{
    ActorObservation, ContainerObservation, CrashedProcess, Ending, FailureKind, Hang, Rules,
    Signal, SignalEvidence,
};
use std::collections::BTreeSet;

/// Signals, and the texts that a shell prints when a child dies of them.
const SHELL_WORDS: [(i32, &str); 8] = [
    (4, "Illegal instruction"),
    (6, "Aborted"),
    (7, "Bus error"),
    (8, "rithmetic exception"), // dash; bash prints "Floating point exception"
    (9, "Killed"),
    (11, "Segmentation fault"),
    (15, "Terminated"),
    (31, "Bad system call"),
];

/// Returns how a service ended before its load did. Every exit code is then a failure.
pub(super) fn end_of_life(
    service: &ActorObservation,
    dead: &[CrashedProcess],
) -> Option<FailureKind> {
    let rules = Rules {
        ok: BTreeSet::new(),
        ..Rules::default()
    };
    judge_ending(&rules, service, dead, None)
}

pub(super) fn judge_ending(
    rules: &Rules,
    main: &ActorObservation,
    dead: &[CrashedProcess],
    hang: Option<&Hang>,
) -> Option<FailureKind> {
    match main.ending {
        Ending::Exited(code) if rules.ok.contains(&code) => None,
        Ending::Exited(code) => Some(match &main.container {
            Some(container) => judge_container_ending(code, container, &main.last_words, dead),
            None => judge_exit_code(code, &main.last_words),
        }),
        Ending::Signaled(signal, core) => Some(FailureKind::Signal {
            signal,
            evidence: SignalEvidence::WaitStatus { core },
        }),
        Ending::TimedOut { .. } if hang.is_some_and(|hang| !hang.ended_after.is_zero()) => {
            Some(FailureKind::Slow)
        }
        Ending::TimedOut { state, .. } => Some(FailureKind::Hang {
            stopped: state == 'T',
        }),
        Ending::NotStarted(_) | Ending::Stopped => None,
    }
}

/// Returns the kind of failure for the exit code of a container.
///
/// An engine reports 128+n if the program died of signal n, but also if it returned that number;
/// the kernel's events show the difference.
fn judge_container_ending(
    code: i32,
    container: &ContainerObservation,
    last_words: &str,
    dead: &[CrashedProcess],
) -> FailureKind {
    let signal = Signal(code.saturating_sub(128));
    let is_signal = (1..=31).contains(&signal.0);
    match container.ended {
        Some(Ending::Signaled(signal, core)) => FailureKind::Signal {
            signal,
            evidence: SignalEvidence::InContainer { code, core },
        },
        None if is_signal => FailureKind::Signal {
            signal,
            evidence: SignalEvidence::Engine { code },
        },
        // The observed process is the init process above the program, which repeats how the program
        // ended.
        Some(_) if is_signal => match dead.iter().find(|process| process.signal == Some(signal)) {
            Some(CrashedProcess { core, .. }) => FailureKind::Signal {
                signal,
                evidence: SignalEvidence::InContainer { code, core: *core },
            },
            None => FailureKind::Exit { code },
        },
        _ => judge_exit_code(code, last_words),
    }
}

/// Interprets an exit code by the conventions of launchers.
fn judge_exit_code(code: i32, last_words: &str) -> FailureKind {
    let shell_signal = Signal(code.saturating_sub(128));
    if (1..=31).contains(&shell_signal.0) {
        let has_message = SHELL_WORDS
            .iter()
            .any(|(signal, words)| *signal == shell_signal.0 && last_words.contains(words));
        let evidence = if has_message {
            SignalEvidence::ShellMessage { code }
        } else {
            SignalEvidence::ExitCode { code }
        };
        return FailureKind::Signal {
            signal: shell_signal,
            evidence,
        };
    }
    // Python's `sys.exit(returncode)` for a crashed child. Only SIGKILL and the signals of crashes
    // are accepted, because 255 and similar numbers are common error codes.
    let signal = Signal(256_i32.saturating_sub(code));
    if signal.is_crash() || signal == Signal::KILL {
        return FailureKind::Signal {
            signal,
            evidence: SignalEvidence::Negated { code },
        };
    }
    FailureKind::Exit { code }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_exit_code_of_a_host_is_judged() {
        for code in [i32::MIN, -1, i32::MAX] {
            assert_eq!(judge_exit_code(code, ""), FailureKind::Exit { code });
        }
    }
}
