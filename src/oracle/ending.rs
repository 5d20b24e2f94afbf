//! Interprets the end of one process: a signal that was observed, one that a code reports, or a code.

use crate::model::{ActorSeen, Casualty, ContainerSeen, Ending, Kind, Rules, Signal, Witness};
use std::collections::BTreeSet;

/// How the life of a service ended before its load did. No exit code is fine then.
pub(super) fn end_of_life(service: &ActorSeen, dead: &[Casualty]) -> Option<Kind> {
    let rules = Rules {
        ok: BTreeSet::new(),
        ..Rules::default()
    };
    ending(&rules, service, dead)
}

pub(super) fn ending(rules: &Rules, main: &ActorSeen, dead: &[Casualty]) -> Option<Kind> {
    match main.ending {
        Ending::Exited(code) if rules.ok.contains(&code) => None,
        Ending::Exited(code) => Some(match &main.container {
            Some(container) => contained(code, container, &main.last_words, dead),
            None => read(code, &main.last_words),
        }),
        Ending::Signaled(signal, core) => Some(Kind::Signal {
            signal,
            witness: Witness::Seen { core },
        }),
        Ending::TimedOut { state, .. } => Some(Kind::Hang {
            stopped: state == 'T',
        }),
        Ending::NotStarted(_) | Ending::Stopped => None,
    }
}

/// Returns the kind of failure that the exit code of a container stands for. An engine says 128+n
/// of a death, and the same of a program that returns that number; the kernel knows which it was.
fn contained(code: i32, container: &ContainerSeen, last_words: &str, dead: &[Casualty]) -> Kind {
    let signal = Signal(code - 128);
    let is_signal = (1..=31).contains(&signal.0);
    match container.ended {
        Some(Ending::Signaled(signal, core)) => Kind::Signal {
            signal,
            witness: Witness::Inside { code, core },
        },
        None if is_signal => Kind::Signal {
            signal,
            witness: Witness::Engine { code },
        },
        // What was seen is the end of the little init above the program, which repeats how that ended.
        Some(_) if is_signal => match dead.iter().find(|one| one.signal == Some(signal)) {
            Some(Casualty { core, .. }) => Kind::Signal {
                signal,
                witness: Witness::Inside { code, core: *core },
            },
            None => Kind::Exit { code },
        },
        _ => read(code, last_words),
    }
}

/// Returns the kind of failure that an exit code stands for by the habits of launchers.
fn read(code: i32, last_words: &str) -> Kind {
    let signal = Signal(code - 128);
    if (1..=31).contains(&signal.0) {
        let told = shell_words(signal).is_some_and(|words| last_words.contains(words));
        let witness = if told {
            Witness::Told { code }
        } else {
            Witness::Shell { code }
        };
        return Kind::Signal { signal, witness };
    }
    // Python's `sys.exit(returncode)` of a child that died. Only the signals of a
    // crash and the kill: 255 and its like are everybody's plain error codes.
    let signal = Signal(256 - code);
    if signal.is_crash() || signal == Signal::KILL {
        return Kind::Signal {
            signal,
            witness: Witness::Negated { code },
        };
    }
    Kind::Exit { code }
}

/// What a shell writes when a child dies of this signal.
fn shell_words(signal: Signal) -> Option<&'static str> {
    Some(match signal.0 {
        4 => "Illegal instruction",
        6 => "Aborted",
        7 => "Bus error",
        8 => "rithmetic exception", // dash; bash: "Floating point exception"
        9 => "Killed",
        11 => "Segmentation fault",
        15 => "Terminated",
        31 => "Bad system call",
        _ => return None,
    })
}
