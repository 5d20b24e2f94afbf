//! Events of a run, which are the lines of its journal.

use super::{
    Choice, Host, Observation, Outcome, Plan, Signal, Survey, Trial, TrialId, VariantId,
    is_default, micros,
};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The version of the journal's format.
pub const FORMAT: u32 = 1;

/// One line of the journal. Everything known about a run is the fold of these.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// The first line: what was asked for, and where it runs.
    RunStarted {
        /// See [`FORMAT`].
        format: u32,
        /// The version of the program.
        version: String,
        /// The run's name.
        run: String,
        /// What was asked for.
        plan: Box<Plan>,
        /// The machine.
        host: Host,
        /// What else about it may make a difference.
        #[serde(default, skip_serializing_if = "is_default")]
        survey: Survey,
        /// Seconds since 1970.
        at: i64,
    },
    /// A search chose what to try: the next variant of the plan.
    VariantChosen(Choice),
    /// A variant is being made.
    MakingBegun(VariantId),
    /// A variant is made: it can be tried.
    VariantMade {
        /// Which.
        variant: VariantId,
        /// How long that took.
        #[serde(with = "micros")]
        took: Duration,
        /// Variants whose folders had to go for it: they must be made again.
        #[serde(default, skip_serializing_if = "is_default")]
        gone: Vec<VariantId>,
        /// A name for its artifacts, the same where they are identical; nothing where none were named.
        #[serde(default, skip_serializing_if = "is_default")]
        build: Option<String>,
        /// When.
        #[serde(with = "micros")]
        at: Duration,
    },
    /// A variant cannot be tried: nothing more of it is launched.
    VariantUntestable {
        /// Which.
        variant: VariantId,
        /// Why.
        why: String,
        /// When.
        #[serde(with = "micros")]
        at: Duration,
    },
    /// The search runs under the setting of this variant. Trials under other settings do not count in it.
    SettingChosen(VariantId),
    /// A trial was handed to its lane.
    TrialStarted(Trial),
    /// A trial is over. `at` is the working time of the run so far: time between
    /// an interruption and the resumption does not count.
    TrialFinished {
        /// Which.
        trial: TrialId,
        /// When.
        #[serde(with = "micros")]
        at: Duration,
        /// What was seen.
        seen: Box<Observation>,
        /// What it means.
        outcome: Outcome,
    },
    /// The question is answered; further trials catch evidence of what was seen, and count apart.
    CaptureBegun {
        /// When.
        #[serde(with = "micros")]
        at: Duration,
    },
    /// The time budget is spent: nothing more is launched.
    BudgetSpent {
        /// When.
        #[serde(with = "micros")]
        at: Duration,
    },
    /// Something a person should know.
    Note {
        /// How bad it is.
        level: Level,
        /// What.
        text: String,
    },
    /// The run was broken off and can be resumed.
    RunStopped {
        /// By what.
        why: StopCause,
        /// When.
        #[serde(with = "micros")]
        at: Duration,
    },
    /// The user resumes the run with other limits.
    LimitsChanged(Limits),
    /// The run goes on. Trials that were under way are void and made up for.
    RunResumed {
        /// Seconds since 1970.
        at: i64,
    },
    /// The question is answered, as far as it ever will be.
    RunFinished {
        /// When.
        #[serde(with = "micros")]
        at: Duration,
    },
}

/// Limits of a run that is resumed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Limits {
    /// Trials of each variant.
    #[serde(skip_serializing_if = "is_default")]
    pub trials: Option<u64>,
    /// Working time in microseconds.
    #[serde(skip_serializing_if = "is_default")]
    pub duration_us: Option<u64>,
    /// A fix that only halves the rate is to be excluded, too.
    #[serde(skip_serializing_if = "is_default")]
    pub exclude_half: bool,
    /// The last trial that counted, if the question was answered; trials after it ended too late to count.
    #[serde(skip_serializing_if = "is_default")]
    pub answered_by: Option<TrialId>,
}

/// How bad a note is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// Good to know.
    Info,
    /// Numbers may be affected.
    Warning,
}

/// Why a run was broken off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopCause {
    /// A signal to provoke itself.
    Signal(Signal),
    /// Trial after trial said nothing.
    NothingCounts,
    /// The machine could not make what was to be tried.
    CannotMake,
    /// The first trials all failed with the same exit code and message.
    AllAlike,
}
