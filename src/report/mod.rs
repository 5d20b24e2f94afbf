//! Reports of a run, for people and for other tools.
//!
//! [`Report`] is derived from the [`State`](crate::state::State) and holds every number that is shown
//! anywhere: the terminal's summary, JSON, `JUnit` and Markdown all read it. Its
//! field names are a promise; `docs/report.md` describes them.

pub mod answer;
pub mod bars;
mod csv;
mod derive;
mod export;
mod group;
mod growth;
mod issue;
mod json;
mod jsonl;
mod junit;
mod limit;
mod listing;
mod load;
mod log;
mod markdown;
mod output;
pub mod partings;
mod rates;
mod row;
mod rows;
mod source;
pub mod story;
#[cfg(test)]
mod tests;
mod when;
pub mod words;
mod wrap;

pub use answer::Answer;
pub use derive::command_line;
pub use export::{ExportError, Format, export};
pub use group::{Group, groups};
pub use limit::MaxRate;
pub use listing::Listing;
pub use load::{LoadTotals, Speed, assumed, forecast};
pub use log::log;
pub use rates::chance_of_difference;
pub use row::{Class, Row};
pub use source::source_line;
pub use when::when;
pub use wrap::wrap;

use crate::model::{Capture, Depth, Host, Site};
use crate::policy::{StopRule, Verdict};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// The version of the report's format.
pub const FORMAT: u32 = 1;

/// Everything that a run says.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Report {
    /// Version of this format; it changes when a field changes its meaning or goes.
    pub format: u32,
    /// Version of provoke that made the run.
    pub version: String,
    /// The run's name.
    pub run: String,
    /// By what the run is found in commands: its name, or a path where it was copied or moved.
    #[serde(skip)]
    pub reference: String,
    /// The command that was repeated, as it can be typed.
    pub command: String,
    /// The scenario file, where the run came from one.
    pub scenario: Option<String>,
    /// The answer.
    pub verdict: Verdict,
    /// The answer in full, where more was asked than how often it fails.
    pub answer: Option<Answer>,
    /// The failure rate compared with `--max-rate`; null if none was given.
    pub max_rate: Option<MaxRate>,
    /// Why the trials came to an end; of several variants, the weakest reason.
    pub stop_rule: StopRule,
    /// The run has ended by its own rule. Otherwise it was broken off, or goes on.
    pub finished: bool,
    /// Every event was written down.
    pub journal_complete: bool,
    /// Confidence of the intervals, in per cent.
    pub confidence: f64,
    /// When the run was begun (RFC 3339, UTC).
    pub begun: String,
    /// Working time in seconds.
    pub seconds: f64,
    /// Working time that is left in seconds; null without `-d`, and once the run is finished.
    pub seconds_left: Option<f64>,
    /// Trials side by side: neighbours change timing.
    pub jobs: u32,
    /// What all seeds of trials derive from.
    pub seed: u64,
    /// When cores were dumped: it changes the run, so the rates of two settings do not compare.
    pub capture: Capture,
    /// The machine.
    pub host: Host,
    /// What was run, each way of running it.
    pub variants: Vec<Variant>,
    /// How what `setup` left running grew in the course of the run, since it last ran; empty where
    /// nothing lived on, or too little was seen.
    pub growth: Vec<Growth>,
    /// Attempts that were interrupted or lost, and made up for under the same number.
    pub repeated_attempts: u64,
    /// Trials that ran unusually long when the run was stopped, and what they were doing; they are not counted.
    pub late_trials: Vec<LateTrial>,
    /// Trials that ended after the question was answered, and are not counted.
    pub after_decision: u64,
    /// The number of the last trial that was looked at for all of this, and 0 when there is none.
    /// Those after it ended after the decision, or wait for a trial before them that has not ended.
    pub last_counted_trial: u64,
    /// What a person should know.
    pub notes: Vec<String>,
}

/// A trial that ran unusually long when the run was stopped.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct LateTrial {
    /// Its number.
    pub trial: u64,
    /// How long it had run, in seconds.
    pub seconds: f64,
    /// What its threads were doing.
    pub title: String,
    /// The lines of source code where they were; empty if they are not known.
    pub sites: Vec<Site>,
}

/// What is known of one variant.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Variant {
    /// Its name; empty when it is the only one.
    pub name: String,
    /// Its command, as it can be typed.
    pub command: String,
    /// Why its trials came to an end.
    pub stop_rule: StopRule,
    /// Trials that count: those that passed and those that showed the bug.
    pub trials: u64,
    /// Trials that showed the bug.
    pub failures: u64,
    /// Trials that failed otherwise; they count as neither.
    pub other: u64,
    /// Trials that say nothing.
    #[serde(rename = "inconclusive")]
    pub void: u64,
    /// Trials by the name of their outcome, `pass` included.
    pub outcomes: BTreeMap<String, u64>,
    /// Trials that say nothing by reason, and those that were only to warm up, which `void` leaves out.
    #[serde(rename = "inconclusive_reasons")]
    pub void_reasons: BTreeMap<String, u64>,
    /// Every kind of failure that was seen.
    pub kinds: Vec<KindSeen>,
    /// Which failures these are: each kind may be several bugs.
    pub signatures: Vec<SignatureSeen>,
    /// What the trials showed that were run to catch evidence, with cores being dumped; null
    /// without any. They are not in any of the other numbers.
    pub captured: Option<Captured>,
    /// The failure rate.
    pub rate: Rate,
    /// The trials that showed the bug.
    pub failing_trials: Vec<u64>,
    /// Clean trials that would confirm a fix at this confidence; null without a failure.
    pub clean_runs_to_confirm: Option<u64>,
    /// The same, if a fix that only halves the rate must be excluded, too.
    pub clean_runs_to_exclude_half: Option<u64>,
    /// How long trials took, by `pass` and `fail`.
    pub durations: BTreeMap<&'static str, Durations>,
    /// The failure rate on the axis of time.
    pub time_between_failures: Mtbf,
    /// Trials that left something behind, whatever their outcome.
    pub leaking_trials: u64,
    /// Processes that were left behind and killed.
    pub leaked_processes: u64,
    /// Containers, volumes and networks that were left behind and removed, where that is watched.
    pub leaked_objects: u64,
    /// Processes that could not be killed, and may still live.
    pub unkillable_processes: u64,
    /// Trials whose descendants outlived the main process for a moment only.
    pub settled_trials: u64,
    /// Trials in which a helper ended before the main process.
    pub helpers_ended_early: u64,
    /// What the clients of its lives saw; null where it is no service under load.
    pub load: Option<LoadTotals>,
    /// Whether failures clump among trials side by side; null where that cannot be told.
    pub dependence: Option<Dependence>,
    /// Whether failures clump in the order of the trials; null if the failures are too few, and
    /// unless the question is how often it fails.
    pub clumps: Option<ClumpsSeen>,
    /// Whether the rate changed in the course of the run; null where that cannot be told.
    pub trend: Option<Trend>,
}

/// One kind of failure.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct KindSeen {
    /// The name it is counted under.
    pub outcome: String,
    /// How it is known, where several facts go by one name.
    pub label: Option<String>,
    /// What it means.
    pub words: String,
    /// Whether it is the bug looked for, or another failure.
    pub is_the_bug: bool,
    /// How often it was seen.
    pub count: u64,
    /// In which trials.
    pub trials: Vec<u64>,
}

/// Failures of one signature.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SignatureSeen {
    /// Its short name, for `--only sig:ID`.
    pub id: String,
    /// The same for people.
    pub title: String,
    /// What it rests on.
    pub depth: Depth,
    /// The name that its outcome is counted under.
    pub outcome: String,
    /// The lines of source code that it points at: one of a crash, one for each thread of a deadlock; empty if they are
    /// not known.
    pub sites: Vec<Site>,
    /// A wider name under which it may be counted.
    pub family: Option<String>,
    /// Wider names, of one function or of one library, that other signatures may have too.
    pub families: Vec<FamilySeen>,
    /// Whether it is the bug looked for, or another failure.
    pub is_the_bug: bool,
    /// How often it was seen.
    pub count: u64,
    /// In which trials.
    pub trials: Vec<u64>,
    /// How often a trial shows it, at least and at most: as wide as the stop rule asks for.
    pub interval: [f64; 2],
    /// Signatures of captured trials that are the same failure, better known: the same instruction.
    pub same_as: Vec<String>,
    /// Signatures of captured trials that may be the same failure: nothing speaks against it.
    pub perhaps: Vec<String>,
}

/// Signatures of one signal in one function, or in one library.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub struct FamilySeen {
    /// Its short name, for `--only sig:ID`.
    pub id: String,
    /// The same for people.
    pub title: String,
}

/// Trials that were run to catch evidence.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Captured {
    /// Those that ran.
    pub trials: u64,
    /// Those that showed the bug.
    pub failures: u64,
    /// Those that failed otherwise.
    pub other: u64,
    /// Which failures these are.
    pub signatures: Vec<SignatureSeen>,
}

/// A failure rate and how sure it is.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct Rate {
    /// Failures by trials; null where that number would mislead: without a trial,
    /// without a failure, or when the run stopped at its first failure.
    pub point: Option<f64>,
    /// Clopper-Pearson interval: exact for a planned number of trials or failures.
    pub cp: [f64; 2],
    /// Confidence sequence: holds whenever and why ever one looks.
    pub cs: [f64; 2],
    /// What the rate is below, with all of the confidence on one side.
    pub upper_one_sided: f64,
    /// Which of the intervals the stop rule allows.
    pub basis: Basis,
    /// Trials that are worth one independent trial; above 1 the intervals are widened by it.
    pub design_effect: f64,
}

/// Which interval the stop rule allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Basis {
    /// The one for planned designs.
    Cp,
    /// The one that holds at any time.
    Cs,
}

/// How long trials took, in seconds.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct Durations {
    /// Half took no longer.
    pub p50: f64,
    /// Nine of ten took no longer.
    pub p90: f64,
    /// None took longer.
    pub max: f64,
}

/// Mean time between failures, in seconds of trial time.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct Mtbf {
    /// All the time that counted trials took.
    pub exposure: f64,
    /// Time per failure; null without a failure, or when the run stopped at its first.
    pub mean: Option<f64>,
    /// Lower end of its interval.
    pub low: f64,
    /// Upper end; null when there is none.
    pub high: Option<f64>,
    /// What it is above, with all of the confidence on one side.
    pub low_one_sided: f64,
}

/// Whether failures clump among trials side by side.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct Dependence {
    /// Groups of trials that ran side by side.
    pub batches: u64,
    /// The chance of so much clumping among independent trials.
    pub p_value: f64,
    /// Correlation within a group: 0 for independent trials.
    pub icc: Option<f64>,
    /// It is strong enough to be reported, and the intervals are widened for it.
    pub warns: bool,
}

/// Whether failures clump in the order of the trials.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct ClumpsSeen {
    /// In how many clumps the failures came; a lone failure is a clump, too.
    pub clumps: u64,
    /// The chance of failures so close together among independent trials.
    pub p_value: f64,
    /// It is strong enough to be reported, and the intervals are widened for it.
    pub warns: bool,
}

/// Whether the rate changed in the course of the run.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct Trend {
    /// Laplace's score: above 0 failures came late, below 0 early.
    pub u: f64,
    /// The chance of such a score at a constant rate.
    pub p_value: f64,
    /// It is strong enough to be reported.
    pub warns: bool,
}

/// By how much something grew of what lives across trials.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct Growth {
    /// What is counted.
    pub what: Quantity,
    /// Growth with each trial, in the second half of what was seen.
    pub per_trial: f64,
    /// Lower end of its interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// The chance of so steady a growth if there is none.
    pub p_value: f64,
    /// What was seen first.
    pub from: u64,
    /// What was seen last.
    pub to: u64,
    /// It is strong enough to be reported.
    pub warns: bool,
}

/// What may grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Quantity {
    /// Resident memory in KiB.
    RssKib,
    /// Processes.
    Processes,
    /// Threads.
    Threads,
    /// Open file descriptors.
    Descriptors,
}

impl Rate {
    /// Returns the two-sided interval that the stop rule allows.
    pub fn interval(&self) -> [f64; 2] {
        match self.basis {
            Basis::Cp => self.cp,
            Basis::Cs => self.cs,
        }
    }
}
