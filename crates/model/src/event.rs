//! Events of a run, which are the lines of its journal.

use super::{
    CaseName, Host, HostId, HostPlan, JoinedHost, Observation, Outcome, Plan, Signal, Survey,
    Trial, TrialId, VariantChoice, VariantId, is_default, micros, parse_untrusted_json,
};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Version of the journal's format.
pub const FORMAT: u32 = 2;

/// One line of the journal. The state of a run is the fold of these events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// The first line: the plan and the environment.
    RunStarted {
        /// See [`FORMAT`].
        format: u32,
        /// The version of provoke.
        version: String,
        /// Name of the run.
        run: String,
        /// The plan of the run.
        plan: Box<Plan>,
        /// The machine.
        host: Host,
        /// Further facts of the environment.
        #[serde(default, skip_serializing_if = "is_default")]
        survey: Survey,
        /// Seconds since 1970.
        at: i64,
    },
    /// A search chose its next variant, which is added to the plan.
    VariantChosen(VariantChoice),
    /// Preparation of a variant began.
    #[serde(rename = "making_begun")]
    PreparationStarted(VariantId),
    /// Preparation of a variant ended: it can be tried.
    VariantMade {
        /// The variant.
        variant: VariantId,
        /// Duration of the preparation.
        #[serde(with = "micros")]
        took: Duration,
        /// Variants whose directories were evicted to make room; they must be prepared again.
        #[serde(default, skip_serializing_if = "is_default")]
        gone: Vec<VariantId>,
        /// Digest of its artifacts, equal for identical artifacts; `None` if the plan names no artifacts.
        #[serde(default, skip_serializing_if = "is_default")]
        build: Option<String>,
        /// Working time of the run.
        #[serde(with = "micros")]
        at: Duration,
    },
    /// A variant is not testable; none of its trials is launched any longer.
    VariantUntestable {
        /// The variant.
        variant: VariantId,
        /// The reason.
        why: String,
        /// Working time of the run.
        #[serde(with = "micros")]
        at: Duration,
    },
    /// The search runs under the setting of this variant. Trials under other settings do not count in it.
    SettingChosen(VariantId),
    /// A trial was handed to its slot.
    TrialStarted(Trial),
    /// A trial ended. `at` is the working time of the run so far: time between an interruption and the resumption does
    /// not count.
    TrialFinished {
        /// The trial.
        trial: TrialId,
        /// Working time of the run.
        #[serde(with = "micros")]
        at: Duration,
        /// The facts about the trial.
        seen: Box<Observation>,
        /// The judgement of these facts.
        outcome: Outcome,
    },
    /// Cases that the run had not seen before. The number of a case is the number of names before it.
    CasesNamed(Vec<CaseName>),
    /// The question was answered before the slot began this trial: it never ran.
    TrialWithdrawn(TrialId),
    /// The measurement is over; further trials run each failing case alone and are counted separately.
    #[serde(rename = "reruns_begun")]
    RerunsStarted {
        /// Working time of the run.
        #[serde(with = "micros")]
        at: Duration,
    },
    /// The question is answered; further trials capture evidence of the failures and are counted separately.
    #[serde(rename = "capture_begun")]
    CaptureStarted {
        /// Working time of the run.
        #[serde(with = "micros")]
        at: Duration,
    },
    /// The time budget is spent; no further trial is launched.
    BudgetSpent {
        /// Working time of the run.
        #[serde(with = "micros")]
        at: Duration,
    },
    /// The run continues on other hosts, or on this machine.
    HostsChanged {
        /// The hosts; `None` for this machine.
        hosts: Option<HostPlan>,
        /// Number of parallel trials in all.
        jobs: u32,
    },
    /// A host is ready for trials. The number of the host is the number of such events before.
    HostJoined {
        /// The host.
        joined: Box<JoinedHost>,
        /// Working time of the run.
        #[serde(with = "micros")]
        at: Duration,
    },
    /// A host cannot start. It gets no trials.
    HostMissing {
        /// Its name.
        name: String,
        /// The reason.
        why: String,
        /// Working time of the run.
        #[serde(with = "micros")]
        at: Duration,
    },
    /// A host does not respond any longer. Its running trials are lost.
    HostLost {
        /// The host.
        host: HostId,
        /// The reason.
        why: String,
        /// Working time of the run.
        #[serde(with = "micros")]
        at: Duration,
    },
    /// A message for the user.
    Note {
        /// Severity.
        level: NoteLevel,
        /// The message.
        text: String,
    },
    /// The run was interrupted and can be resumed.
    RunStopped {
        /// The cause.
        why: StopCause,
        /// Working time of the run.
        #[serde(with = "micros")]
        at: Duration,
    },
    /// The user resumes the run with other limits.
    LimitsChanged(ResumeLimits),
    /// The run was resumed. Trials that were running are inconclusive and are retried.
    RunResumed {
        /// Seconds since 1970.
        at: i64,
    },
    /// The run ended, with or without an answer.
    RunFinished {
        /// Working time of the run.
        #[serde(with = "micros")]
        at: Duration,
    },
}

impl Event {
    /// Reads a line of the journal. This code is compiled once, in this crate, and for speed.
    pub fn from_json(json: &[u8]) -> serde_json::Result<Self> {
        parse_untrusted_json(json)
    }

    /// Appends the event as JSON.
    pub fn write_json(&self, line: &mut Vec<u8>) -> serde_json::Result<()> {
        serde_json::to_writer(line, self)
    }
}

/// Limits of a resumed run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ResumeLimits {
    /// Trials of each variant.
    #[serde(skip_serializing_if = "is_default")]
    pub trials: Option<u64>,
    /// Working time in microseconds.
    #[serde(skip_serializing_if = "is_default")]
    pub duration_us: Option<u64>,
    /// Whether a fix that only halves the rate must be excluded, too.
    #[serde(skip_serializing_if = "is_default")]
    pub exclude_half: bool,
    /// The last counted trial, if the question was answered; trials after it ended too late to count.
    #[serde(skip_serializing_if = "is_default")]
    pub answered_by: Option<TrialId>,
}

/// Severity of a note.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NoteLevel {
    /// Information.
    Info,
    /// A warning: results may be affected.
    Warning,
}

/// Cause of an interruption.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopCause {
    /// provoke received a signal.
    Signal(Signal),
    /// Too many consecutive trials were inconclusive.
    NothingCounts,
    /// The machine could not prepare a variant.
    CannotMake,
    /// The first trials all failed with the same exit code and message, or in the same deadlock.
    AllAlike,
    /// No host is left.
    HostsLost,
}
