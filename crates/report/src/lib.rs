//! Stored runs, and their reports for people and for other tools.
//!
//! [`Report`] is derived from the [`State`](provoke_state::State), and all formats read it. Its field names
//! are stable.
//!
//! To add a format: a file with an [`Exporter`], and a line in [`EXPORTERS`]. Its flag and its help follow
//! from it.
//!
#![doc = include_str!("../README.md")]

mod annotations;
mod before_start;
mod case_list;
mod case_table;
mod count_ranges;
mod csv;
mod derive;
mod distribution;
mod document;
mod export;
mod failure_evidence;
mod failure_groups;
mod growth;
pub mod headlines;
mod host_losses;
mod hosts;
mod html;
mod issue;
mod json;
mod jsonl;
mod junit;
mod junit_suite;
mod junit_trials;
mod junit_xml;
mod listing;
mod load;
mod load_forecast;
mod load_plan;
mod markdown;
mod masked;
mod next_commands;
mod output;
mod page_text;
mod rates;
mod results_table;
mod row;
mod rows;
mod service_trial;
mod shared_failures;
mod source_line;
pub mod story;
mod suite;
mod suite_order;
mod svg;
#[cfg(test)]
mod tests;
mod time;
mod variant_facts;
mod wrap;

pub use annotations::{Annotation, AnnotationLevel, export_annotations};
pub use before_start::lines_before_start;
pub use case_list::{CSV_CASES, CaseSelection};
pub use case_table::case_table;
pub use count_ranges::{CountRange, count_ranges};
pub use csv::CSV;
pub use derive::command_line;
pub use distribution::{RateWindow, TimeRange};
pub use export::{
    ExportError, ExportOptions, Exporter, RunOfTrend, RunOrder, export_report, export_trend,
};
pub use failure_groups::{FailureGroup, group_failures};
pub use host_losses::HostLosses;
pub use hosts::{HostDifference, HostReport, HostTotals, host_lines, host_table};
pub use html::{HTML, PageOptions, PictureFile, export_pictures};
pub use json::JSON;
pub use jsonl::JSONL;
pub use junit::JUNIT;
pub use junit_trials::JUNIT_TRIALS;
pub use listing::RunListing;
pub use load::LoadTotals;
pub use load_forecast::{ANNOUNCED_FROM, LoadForecast, LoadMeasurements, forecast_duration};
pub(crate) use load_plan::{load_assumptions, load_summary};
pub use markdown::{MARKDOWN, export_short_summary, summarize_document};
pub use masked::{Masked, MaskedRun};
pub use next_commands::next_commands;
pub use output::describe_last_lines;
pub use rates::{RateTest, check_conditions, compare_failures, test_rates};
pub use row::{TrialClass, TrialRow};
pub use shared_failures::{CapturedFailure, captured_failures};
pub use source_line::source_line;
pub use suite::{CaseOrder, CaseReport, CaseSignature, CaseVerdict, IsolatedTrials, SuiteReport};
pub use suite_order::{
    CaseCluster, CaseDependence, CaseOrderPart, CasePlace, DependenceKind, OrderEffect,
};
pub use svg::RateAxis;
pub use time::relative_time;
pub use wrap::wrap_text;

use provoke_model::{CaptureMode, EvidenceDepth, ExpectedResult, Host, Site};
use provoke_questions::{Answer, MaxRateCheck, StopRule, Verdict};
use provoke_words::document::Document;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// All formats, in the order of the help.
pub static EXPORTERS: &[&Exporter] = &[
    &json::JSON,
    &jsonl::JSONL,
    &csv::CSV,
    &case_list::CSV_CASES,
    &junit::JUNIT,
    &junit_trials::JUNIT_TRIALS,
    &markdown::MARKDOWN,
    &html::HTML,
];

/// Version of the report's format.
pub const FORMAT: u32 = 1;

/// The report of a run.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Report {
    /// Version of this format; it changes when a field changes its meaning or is removed.
    pub format: u32,
    /// Version of provoke that made the run.
    pub version: String,
    /// The run's name.
    pub run: String,
    /// By what the run is found in commands: its name, or a path where it was copied or moved.
    #[serde(skip)]
    pub reference: String,
    /// The command that was repeated, as a shell line.
    pub command: String,
    /// The scenario file, if the run was started from one.
    pub scenario: Option<String>,
    /// The answer.
    pub verdict: Verdict,
    /// The answer in full, if the question was more than how often it fails.
    pub answer: Option<Answer>,
    /// The result that the user expects.
    #[serde(skip)]
    #[cfg_attr(test, schemars(skip))]
    pub expected: ExpectedResult,
    /// The failure rate compared with `--max-rate`; null if none was given.
    pub max_rate: Option<MaxRateCheck>,
    /// What the answer or the comparison with `--max-rate` says; `None` if only the rate was asked.
    #[serde(skip)]
    #[cfg_attr(test, schemars(skip))]
    pub document: Option<Document>,
    /// Why the trials ended; of several variants, the weakest reason.
    pub stop_rule: StopRule,
    /// Whether the run ended by its own stop rule; false if it was interrupted or is still running.
    pub finished: bool,
    /// Whether the run ended early because every trial ended in the same deadlock.
    pub same_deadlock: bool,
    /// Whether every event was written to the journal.
    pub journal_complete: bool,
    /// Confidence of the intervals, in per cent.
    pub confidence: f64,
    /// When the run started (RFC 3339, UTC).
    #[serde(rename = "begun")]
    pub started_at: String,
    /// Working time in seconds.
    pub seconds: f64,
    /// Remaining working time in seconds; null without `-d`, and once the run is finished.
    pub seconds_left: Option<f64>,
    /// The largest number of trials that are still to run, and the time that they will probably take, in seconds.
    #[serde(skip)]
    pub trials_left: Option<(u64, f64)>,
    /// Mean time per trial in which its program does not run, in seconds: hooks, delays, evidence and the journal.
    pub overhead_seconds: f64,
    /// Number of parallel trials: they influence each other's timing.
    pub jobs: u32,
    /// The number that the seeds of all trials derive from.
    pub seed: u64,
    /// When cores were dumped. Dumping changes the run, so rates with different settings are not comparable.
    pub capture: CaptureMode,
    /// The machine. Of trials on several hosts, each field has all values that differ, or the smallest number.
    pub host: Host,
    /// The hosts on which trials ran; empty if all ran on this machine.
    pub hosts: Vec<HostReport>,
    /// The hosts on which it fails more often, and the facts that distinguish them; null if there is no clear difference.
    pub host_difference: Option<HostDifference>,
    /// The variants during whose trials hosts were lost significantly more often.
    pub host_losses: Vec<HostLosses>,
    /// The variants.
    pub variants: Vec<VariantReport>,
    /// How the processes that `setup` left running grew in the course of the run, since `setup` last ran; empty if
    /// there are none, or if there are too few measurements.
    pub growth: Vec<ProcessGrowth>,
    /// Attempts that were interrupted or lost, and retried under the same number.
    pub repeated_attempts: u64,
    /// Trials that ran unusually long when the run was stopped, and what they were doing; not counted.
    pub late_trials: Vec<LateTrial>,
    /// Trials that ended after the question was answered; not counted.
    pub after_decision: u64,
    /// The number of the last trial that this report takes into account; 0 without any. Later trials ended after the
    /// decision, or wait for an earlier trial that has not ended.
    pub last_counted_trial: u64,
    /// Trials that counted as the bug when they ended, and show another failure than the one that the search then chose.
    #[serde(skip)]
    pub with_another_failure: BTreeSet<u64>,
    /// Notes for the reader.
    pub notes: Vec<String>,
}

/// A trial that ran unusually long when the run was stopped.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
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

/// The result for one variant.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct VariantReport {
    /// Its name; empty if it is the only one.
    pub name: String,
    /// Its command, as a shell line.
    pub command: String,
    /// Why its trials ended.
    pub stop_rule: StopRule,
    /// Counted trials: those that passed and those that showed the bug.
    pub trials: u64,
    /// Trials that showed the bug.
    pub failures: u64,
    /// Trials with another failure; counted neither as a pass nor as a failure.
    pub other: u64,
    /// Inconclusive trials.
    #[serde(rename = "inconclusive")]
    pub void: u64,
    /// Trials by the name of their outcome, `pass` included.
    pub outcomes: BTreeMap<String, u64>,
    /// Inconclusive trials by reason, and warm-up trials, which `inconclusive` does not include.
    #[serde(rename = "inconclusive_reasons")]
    pub void_reasons: BTreeMap<String, u64>,
    /// Every kind of failure that occurred.
    pub kinds: Vec<FailureKindReport>,
    /// The failures by signature: one kind may be several bugs.
    pub signatures: Vec<SignatureReport>,
    /// The results of extra trials with cores enabled; null without any. No other number includes them.
    pub captured: Option<CapturedTrials>,
    /// The failure rate.
    pub rate: FailureRate,
    /// The trials that showed the bug.
    pub failing_trials: Vec<u64>,
    /// How often the rarest of several failures occurred, which a fix must remove, too; null if there is only one.
    pub rarest_failures: Option<u64>,
    /// Passing trials that would confirm a fix at this confidence; null without a failure.
    pub clean_runs_to_confirm: Option<u64>,
    /// The same, if a fix that only halves the failure rate must be excluded as well.
    pub clean_runs_to_exclude_half: Option<u64>,
    /// How long trials took, by `pass` and `fail`.
    pub durations: BTreeMap<&'static str, Durations>,
    /// How many failing trials took how long; empty if there are few, or if all took about as long.
    pub failure_times: Vec<TimeRange>,
    /// The failure rate in windows of equal numbers of trials, in order; empty without a failure, with few trials, or if
    /// trials were chosen by earlier results.
    pub windows: Vec<RateWindow>,
    /// The failure rate per time.
    pub time_between_failures: Mtbf,
    /// Trials that left processes behind, whatever their outcome.
    pub leaking_trials: u64,
    /// Processes that were left behind and killed.
    pub leaked_processes: u64,
    /// Processes that could not be killed and may still run.
    pub unkillable_processes: u64,
    /// Trials in which the kernel refused to start processes or threads, because the limit of a trial was reached.
    #[serde(default)]
    pub trials_at_process_limit: u64,
    /// Trials in which a descendant outlived the main process only for a moment.
    #[serde(rename = "settled_trials")]
    pub trials_ended_in_grace: u64,
    /// Trials in which a helper ended before the main process.
    pub helpers_ended_early: u64,
    /// What the clients measured; null without `load`.
    pub load: Option<LoadTotals>,
    /// The tests of the suite; null without `cases`.
    pub suite: Option<SuiteReport>,
    /// Whether failures come in clumps among parallel trials; null if that is not known.
    pub dependence: Option<Dependence>,
    /// Whether failures come in clumps in the order of the trials; null if there are too few failures, or if the
    /// question is not how often it fails.
    pub clumps: Option<ClumpsReport>,
    /// Whether the failure rate changed during the run; null if that is not known.
    pub trend: Option<Trend>,
}

/// One kind of failure.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct FailureKindReport {
    /// The name under which it is counted.
    pub outcome: String,
    /// How it is known, if one name covers several facts.
    pub label: Option<String>,
    /// What it means.
    pub words: String,
    /// Whether it is the searched bug or another failure.
    pub is_the_bug: bool,
    /// The number of failures.
    pub count: u64,
    /// The trials.
    pub trials: Vec<u64>,
}

/// Failures of one signature.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SignatureReport {
    /// Its id, for `--only sig:ID`.
    pub id: String,
    /// Its title.
    pub title: String,
    /// The evidence that it is made from.
    pub depth: EvidenceDepth,
    /// The name under which its outcome is counted.
    pub outcome: String,
    /// The lines of source code that it points at: one of a crash, with the Python line that called it; one for each
    /// thread of a deadlock; empty if they are not known.
    pub sites: Vec<Site>,
    /// Its family.
    pub family: Option<String>,
    /// Its families, of one function or of one library, which other signatures may share.
    pub families: Vec<FamilyReport>,
    /// Whether it is the searched bug or another failure.
    pub is_the_bug: bool,
    /// The number of failures.
    pub count: u64,
    /// The trials.
    pub trials: Vec<u64>,
    /// The interval of its rate, at the confidence that the stop rule allows.
    pub interval: [f64; 2],
    /// Signatures of captured trials that are the same failure, with more detail: the same instruction.
    pub same_as: Vec<String>,
    /// Signatures of captured trials that may be the same failure.
    pub perhaps: Vec<String>,
}

/// Signatures of one signal in one function, or in one library.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct FamilyReport {
    /// Its id, for `--only sig:ID`.
    pub id: String,
    /// Its title.
    pub title: String,
}

/// Trials that were run to catch evidence.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CapturedTrials {
    /// Extra trials that ran.
    pub trials: u64,
    /// Extra trials that showed the bug.
    pub failures: u64,
    /// Extra trials with another failure.
    pub other: u64,
    /// The failures by signature.
    pub signatures: Vec<SignatureReport>,
}

/// A failure rate with its intervals.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct FailureRate {
    /// Failures divided by trials; null if that number would mislead: without a trial, without a failure, or if the run
    /// stopped at its first failure.
    pub point: Option<f64>,
    /// Clopper-Pearson interval: exact for a planned number of trials or failures.
    pub cp: [f64; 2],
    /// Confidence sequence: valid whenever the run is stopped, for any reason.
    pub cs: [f64; 2],
    /// One-sided upper bound of the rate.
    pub upper_one_sided: f64,
    /// The interval that the stop rule allows.
    pub basis: IntervalBasis,
    /// Trials that count as one independent trial; if above 1, the intervals are widened by it.
    pub design_effect: f64,
}

/// Which interval the stop rule allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum IntervalBasis {
    /// The interval for planned designs.
    Cp,
    /// The interval that is valid at any time.
    Cs,
}

/// How long trials took, in seconds.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Durations {
    /// Median.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// Maximum.
    pub max: f64,
}

/// Mean time between failures, in seconds of trial time.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Mtbf {
    /// The total time of counted trials.
    pub exposure: f64,
    /// Time per failure; null without a failure, or if the run stopped at its first failure.
    pub mean: Option<f64>,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval; null if there is none.
    pub high: Option<f64>,
    /// One-sided lower bound.
    pub low_one_sided: f64,
}

/// Whether failures come in clumps among parallel trials.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Dependence {
    /// Groups of trials that ran in parallel.
    pub batches: u64,
    /// The probability of such clumps among independent trials.
    pub p_value: f64,
    /// Correlation within a group: 0 for independent trials.
    pub icc: Option<f64>,
    /// Whether it is strong enough to be reported and to widen the intervals.
    pub warns: bool,
}

/// Whether failures come in clumps in the order of the trials.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ClumpsReport {
    /// In how many clumps the failures came; a single failure is a clump, too.
    pub clumps: u64,
    /// The probability of failures this close together among independent trials.
    pub p_value: f64,
    /// Whether it is strong enough to be reported and to widen the intervals.
    pub warns: bool,
}

/// Whether the failure rate changed during the run.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Trend {
    /// Laplace's score: above 0 if failures came late, below 0 if early.
    pub u: f64,
    /// The probability of such a score at a constant rate.
    pub p_value: f64,
    /// Whether it is strong enough to be reported.
    pub warns: bool,
}

/// How much a quantity of processes that live across trials grew.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ProcessGrowth {
    /// The quantity.
    pub what: GrowingQuantity,
    /// Growth per trial, in the second half of the measurements.
    pub per_trial: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// The probability of such steady growth by chance.
    pub p_value: f64,
    /// The first value.
    pub from: u64,
    /// The last value.
    pub to: u64,
    /// Whether it is strong enough to be reported.
    pub warns: bool,
}

/// A quantity that may grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum GrowingQuantity {
    /// Resident memory in KiB.
    RssKib,
    /// Processes.
    Processes,
    /// Threads.
    Threads,
    /// Open file descriptors.
    Descriptors,
}

impl FailureRate {
    /// Returns the two-sided interval that the stop rule allows.
    pub fn interval(&self) -> [f64; 2] {
        match self.basis {
            IntervalBasis::Cp => self.cp,
            IntervalBasis::Cs => self.cs,
        }
    }
}
