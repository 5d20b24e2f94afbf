//! Outcome of a trial: pass, failure of some kind, or inconclusive with its reason.

use super::{Signal, Signature, Site, is_default};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The judgement of an observation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The trial passed.
    Pass,
    /// The trial showed the bug.
    Fail(Box<Failure>),
    /// The trial failed, but not with the bug: counted neither as a pass nor as a failure.
    Other(Box<Failure>),
    /// The trial is inconclusive.
    #[serde(rename = "void")]
    Inconclusive(InconclusiveReason),
}

/// A failure: its kind and its signature.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// Kind.
    pub kind: FailureKind,
    /// Which it is.
    pub signature: Signature,
    /// The lines of source code that it points at: one for a crash, one for each thread of a deadlock.
    #[serde(default, skip_serializing_if = "is_default")]
    pub sites: Vec<Site>,
    /// The functions that it points at, if no line is known.
    #[serde(default, skip_serializing_if = "is_default")]
    pub functions: Vec<String>,
}

/// Kind of a failure.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// Death by a signal, observed or reported.
    Signal {
        /// The signal.
        signal: Signal,
        /// How the signal is known.
        #[serde(rename = "witness")]
        evidence: SignalEvidence,
    },
    /// An unexpected exit code.
    Exit {
        /// The exit code.
        code: i32,
    },
    /// The trial timed out, and did not end.
    Hang {
        /// Whether the process was stopped (by a signal, or waiting for a terminal) rather than hung.
        stopped: bool,
    },
    /// The trial timed out, but ended by itself before provoke ended it.
    #[serde(rename = "timeout")]
    Slow,
    /// The trial leaked processes.
    Leak,
    /// A process of the trial was OOM-killed.
    Oom {
        /// Whether the main process itself ended in another way, because a child was killed.
        masked: bool,
    },
    /// The output matched a rule of the user.
    Output,
    /// A service that provoke did not start was no longer running.
    #[serde(rename = "gone")]
    ServiceVanished,
    /// A service refused most of its load, and the run looks for that.
    Refused,
    /// A case failed, and the run looks for failures of cases.
    Test,
    /// A test of the suite passed, and the search is for what it needs to pass.
    TestPassed,
}

/// How a death by signal is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SignalEvidence {
    /// From the wait status of the process itself.
    #[serde(rename = "seen")]
    WaitStatus {
        /// Whether the kernel dumped a core.
        core: bool,
    },
    /// From exit code 128+n, as shells and containers report it, together with a message of the shell.
    #[serde(rename = "told")]
    ShellMessage {
        /// The exit code.
        code: i32,
    },
    /// From exit code 128+n alone: as shells and containers report it, or a plain exit code.
    #[serde(rename = "shell")]
    ExitCode {
        /// The exit code.
        code: i32,
    },
    /// From the death of another process of the trial; the main process exited by itself.
    #[serde(rename = "masked")]
    HiddenByExit {
        /// The exit code of the main process.
        code: i32,
    },
    /// From the death of a child process of a service that continued to run.
    #[serde(rename = "below")]
    InDescendant,
    /// From the wait status of a process in a container; the engine only reports an exit code.
    #[serde(rename = "inside")]
    InContainer {
        /// The exit code that the engine reported.
        code: i32,
        /// Whether the kernel dumped a core.
        core: bool,
    },
    /// From the exit code 128+n of a container alone: a death, or a plain exit code.
    Engine {
        /// The exit code.
        code: i32,
    },
    /// From exit code 256-n alone: as Python's `sys.exit(-n)` reports it, or a plain exit code.
    Negated {
        /// The exit code.
        code: i32,
    },
}

/// Why a trial is inconclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InconclusiveReason {
    /// The command could not be started.
    NotStarted,
    /// Its `prepare` hook failed.
    Unprepared,
    /// It requested to be skipped, by its exit code.
    Skipped,
    /// provoke ended it because the run was interrupted.
    Interrupted,
    /// The slot that supervised it was lost.
    Lost,
    /// It was one of the warm-up trials.
    Warmup,
    /// It failed, but the evidence that would identify the bug is missing.
    #[serde(rename = "untold")]
    UnknownFailure,
    /// The service did not become ready.
    NotReady,
    /// No thread was held at a point where the run holds one.
    NotHeld,
    /// It explored a schedule, and was stopped before a plain trial would count as hung.
    StoppedEarly,
    /// The case that the run looks for did not run.
    CaseNotRun,
    /// The suite has no case that the run looks for.
    NoCase,
}

impl FailureKind {
    /// Returns the exit code, if the main process exited.
    pub fn exit_code(&self) -> Option<i32> {
        match *self {
            Self::Exit { code } => Some(code),
            Self::Signal { evidence, .. } => match evidence {
                SignalEvidence::WaitStatus { .. } | SignalEvidence::InDescendant => None,
                SignalEvidence::ShellMessage { code }
                | SignalEvidence::ExitCode { code }
                | SignalEvidence::HiddenByExit { code }
                | SignalEvidence::InContainer { code, .. }
                | SignalEvidence::Engine { code }
                | SignalEvidence::Negated { code } => Some(code),
            },
            _ => None,
        }
    }

    /// Returns whether this is a death by a signal that dumps a core by default.
    pub fn is_crash(&self) -> bool {
        matches!(self, Self::Signal { signal, .. } if signal.is_crash())
    }

    /// Returns whether evidence of such a failure contains a stack, if it could be captured.
    pub fn has_stack(&self) -> bool {
        self.is_crash() || matches!(self, Self::Hang { .. })
    }

    /// Returns whether the trial took longer than its time limit.
    pub fn is_timeout(&self) -> bool {
        matches!(self, Self::Hang { .. } | Self::Slow)
    }

    /// Returns whether the program, or a test of a suite, ended by itself, so that its message was written.
    pub fn ends_by_itself(&self) -> bool {
        matches!(self, Self::Exit { .. } | Self::Test)
    }

    /// Returns the name under which failures of this kind are counted: one name for each signal, however it is known.
    pub fn name(&self) -> String {
        match self {
            Self::Signal { signal, .. } => signal.to_string(),
            Self::Exit { code } => format!("exit {code}"),
            Self::Hang { stopped: false } => "hang".to_owned(),
            Self::Hang { stopped: true } => "stopped".to_owned(),
            Self::Slow => "timeout".to_owned(),
            Self::Leak => "leak".to_owned(),
            Self::Oom { .. } => "oom".to_owned(),
            Self::Output => "output".to_owned(),
            Self::ServiceVanished => "gone".to_owned(),
            Self::Refused => "refused".to_owned(),
            Self::Test => "test failed".to_owned(),
            Self::TestPassed => "test passed".to_owned(),
        }
    }

    /// Returns a description for the user.
    pub fn meaning_words(&self) -> String {
        match self {
            Self::Signal { signal, .. } => signal.meaning_words().to_owned(),
            Self::Exit { code } => exit_words(*code).to_owned(),
            Self::Hang { stopped: false } => "did not end in time".to_owned(),
            Self::Hang { stopped: true } => {
                "was stopped at the timeout: it waited for a terminal, or received SIGSTOP"
                    .to_owned()
            }
            Self::Slow => {
                "ended just after the time limit: it is slow, and does not hang".to_owned()
            }
            Self::Leak => "left processes or containers behind".to_owned(),
            Self::Oom { masked: false } => "killed by the kernel because memory ran out".to_owned(),
            Self::Oom { masked: true } => {
                "the kernel killed a child because memory ran out".to_owned()
            }
            Self::Output => "its output matched a failure rule".to_owned(),
            Self::ServiceVanished => {
                "the service no longer exists, and how it ended is not known".to_owned()
            }
            Self::Refused => "more of the requests than --refusal-share".to_owned(),
            Self::Test => "a test of the suite failed".to_owned(),
            Self::TestPassed => "a test of the suite passed".to_owned(),
        }
    }

    /// Returns how this is known, if several facts have the same name.
    pub fn evidence_label(&self) -> Option<String> {
        match self {
            // A signal that provoke observed itself needs no explanation.
            Self::Signal {
                evidence: SignalEvidence::WaitStatus { core: false },
                ..
            } => None,
            Self::Signal { evidence, .. } => Some(evidence.to_string()),
            _ => None,
        }
    }
}

/// Returns a description of exit codes that have a conventional meaning.
fn exit_words(code: i32) -> &'static str {
    match code {
        0 => "ended by itself",
        2 => "the program reported failure: often wrong usage, or a panic of Go",
        23 => "the program reported failure; LeakSanitizer uses this code",
        66 => "the program reported failure; ThreadSanitizer uses this code",
        101 => "a Rust program panicked, by convention",
        124 => "ended by timeout(1), by convention",
        125 => "a wrapper could not start it, by convention",
        126 => "found but not executable, by a shell's convention",
        127 => "command not found, by a shell's convention",
        _ => "the program reported failure",
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kind.fmt(f)
    }
}

impl fmt::Display for FailureKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())?;
        match self.evidence_label() {
            Some(label) => write!(f, " ({label})"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for SignalEvidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WaitStatus { core: true } => f.write_str("core dumped"),
            Self::WaitStatus { core: false } => f.write_str("seen by provoke"),
            Self::ShellMessage { code } => write!(f, "exit {code}, confirmed by the shell"),
            Self::ExitCode { code } => write!(f, "inferred from exit {code}"),
            Self::Negated { code } => write!(f, "inferred from exit {code}, as Python reports it"),
            Self::InContainer { core: true, .. } => f.write_str("core dumped, in a container"),
            Self::InContainer { core: false, .. } => f.write_str("seen in a container"),
            Self::Engine { code } => write!(f, "inferred from exit {code} of a container"),
            Self::InDescendant => f.write_str("in a descendant of the service, which kept running"),
            Self::HiddenByExit { code } => {
                write!(f, "in a child; the command itself exited with {code}")
            }
        }
    }
}

impl Outcome {
    /// Returns the kind of outcome in one word.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Fail(_) => "fail",
            Self::Other(_) => "other",
            Self::Inconclusive(_) => "inconclusive",
        }
    }

    /// Returns the failure, whether or not it is the bug.
    pub fn any_failure(&self) -> Option<&Failure> {
        match self {
            Self::Fail(failure) | Self::Other(failure) => Some(failure),
            Self::Pass | Self::Inconclusive(_) => None,
        }
    }
}

impl InconclusiveReason {
    /// All reasons, for reports that list them.
    pub const ALL: [Self; 12] = [
        Self::NotStarted,
        Self::Unprepared,
        Self::Skipped,
        Self::Interrupted,
        Self::Lost,
        Self::Warmup,
        Self::UnknownFailure,
        Self::NotReady,
        Self::NotHeld,
        Self::StoppedEarly,
        Self::CaseNotRun,
        Self::NoCase,
    ];
}

impl fmt::Display for InconclusiveReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::NotStarted => "not started",
            Self::Unprepared => "prepare failed",
            Self::Skipped => "skipped",
            Self::Interrupted => "interrupted",
            Self::Lost => "lost",
            Self::Warmup => "warm-up",
            Self::UnknownFailure => "not known which failure",
            Self::NotReady => "service not ready",
            Self::NotHeld => "hold not reached",
            Self::StoppedEarly => "stopped early",
            Self::CaseNotRun => "the test did not run",
            Self::NoCase => "no such test",
        })
    }
}
