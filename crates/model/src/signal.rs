//! Signals by number, with name and description.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A signal by its Linux number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Signal(pub i32);

/// Number, name, and meaning for a program that died of it.
const TABLE: [(i32, &str, &str); 31] = [
    (
        1,
        "SIGHUP",
        "hangup: its terminal was closed, or its parent ended",
    ),
    (2, "SIGINT", "interrupted"),
    (3, "SIGQUIT", "quit from the terminal"),
    (
        4,
        "SIGILL",
        "illegal instruction: this CPU lacks it, or it is a deliberate trap",
    ),
    (5, "SIGTRAP", "breakpoint or deliberate trap"),
    (
        6,
        "SIGABRT",
        "abort: the program found an error and ended itself",
    ),
    (
        7,
        "SIGBUS",
        "bus error: a mapped file was truncated, shared memory is full, or misaligned",
    ),
    (
        8,
        "SIGFPE",
        "arithmetic fault: integer division by zero or overflow",
    ),
    (
        9,
        "SIGKILL",
        "killed from outside; the signal cannot be caught",
    ),
    (10, "SIGUSR1", "user signal 1, not caught"),
    (11, "SIGSEGV", "segmentation fault: invalid memory access"),
    (12, "SIGUSR2", "user signal 2, not caught"),
    (13, "SIGPIPE", "broken pipe: the reader of its output ended"),
    (14, "SIGALRM", "alarm, not caught"),
    (15, "SIGTERM", "terminated: asked to stop from outside"),
    (16, "SIGSTKFLT", "stack fault"),
    (17, "SIGCHLD", "a child changed state"),
    (18, "SIGCONT", "continued"),
    (19, "SIGSTOP", "stopped"),
    (20, "SIGTSTP", "stopped from the terminal"),
    (
        21,
        "SIGTTIN",
        "stopped: a background read from the terminal",
    ),
    (22, "SIGTTOU", "stopped: a background write to the terminal"),
    (23, "SIGURG", "urgent data on a socket"),
    (24, "SIGXCPU", "CPU time limit reached"),
    (25, "SIGXFSZ", "file size limit reached"),
    (26, "SIGVTALRM", "virtual alarm, not caught"),
    (27, "SIGPROF", "profiling alarm, not caught"),
    (28, "SIGWINCH", "window size changed"),
    (29, "SIGIO", "input or output possible, not caught"),
    (30, "SIGPWR", "power failure"),
    (
        31,
        "SIGSYS",
        "forbidden system call: seccomp, or an unknown call",
    ),
];

impl Signal {
    /// Hang-up.
    pub const HUP: Self = Self(1);
    /// Interrupt from the keyboard.
    pub const INT: Self = Self(2);
    /// Abort.
    pub const ABRT: Self = Self(6);
    /// Bus error: for example, an access to a mapped file that was truncated.
    pub const BUS: Self = Self(7);
    /// SIGKILL, which cannot be caught.
    pub const KILL: Self = Self(9);
    /// Segmentation fault.
    pub const SEGV: Self = Self(11);
    /// Termination request.
    pub const TERM: Self = Self(15);

    /// Returns the signal with this name: `SEGV`, `SIGSEGV`, `segv` or `11`.
    pub fn from_name(name: &str) -> Option<Self> {
        if let Ok(number) = name.parse::<i32>() {
            return (1..=64).contains(&number).then_some(Self(number));
        }
        let upper = name.to_ascii_uppercase();
        let short = upper.strip_prefix("SIG").unwrap_or(&upper);
        let entry = TABLE.iter().find(|(_, full, _)| &full[3..] == short);
        entry.map(|(number, ..)| Self(*number))
    }

    /// Returns all known names, for "did you mean".
    pub fn known_names() -> impl Iterator<Item = &'static str> {
        TABLE.iter().map(|(_, name, _)| *name)
    }

    /// Returns the meaning of the signal, without its name.
    pub fn meaning_words(self) -> &'static str {
        match TABLE.iter().find(|(number, ..)| *number == self.0) {
            Some((_, _, words)) => words,
            None if self.0 >= 32 => "real-time signal, not caught",
            None => "unknown signal",
        }
    }

    /// Returns whether this signal shows a fault of the program.
    pub fn is_crash(self) -> bool {
        matches!(self.0, 4 | 5 | 6 | 7 | 8 | 11 | 31)
    }
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match TABLE.iter().find(|(number, ..)| *number == self.0) {
            Some((_, name, _)) => f.pad(name),
            None => f.pad(&format!("signal {}", self.0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_is_found_by_name_prefix_case_and_number() {
        for name in ["SEGV", "SIGSEGV", "sigsegv", "11"] {
            assert_eq!(Signal::from_name(name), Some(Signal::SEGV), "{name}");
        }
        assert_eq!(Signal::from_name("SEGFAULT"), None);
        assert_eq!(Signal::from_name("0"), None);
    }

    #[test]
    fn the_signal_table_is_sorted_by_number() {
        assert!(
            TABLE
                .iter()
                .enumerate()
                .all(|(at, (number, ..))| i32::try_from(at + 1) == Ok(*number))
        );
    }
}
