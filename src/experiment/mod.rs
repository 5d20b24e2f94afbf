//! Experiments from their settings to their results.
//!
//! [`plan_from_settings`] and [`plan_from_file`] make a plan, [`Experiment::begin`] checks everything that can be checked
//! before the first trial, and [`Experiment::run_to_end`] runs trials until the question is answered. Nothing here
//! prints: an [`ExperimentObserver`] receives what there is to show. The trials run in processes of the running program,
//! which therefore calls [`serve_if_helper`] first. The other items read stored runs: they compare them, replay their
//! trials, and write them into archives.

mod baseline;
mod baseline_check;
mod baseline_run;
mod begin;
mod bundle;
mod ci_server;
mod compare_runs;
mod conditions;
mod core_analysis;
mod core_limits;
mod default_baseline;
mod earlier_runs;
mod engine;
mod explanation;
mod exports;
mod forecast;
mod helper;
mod hooks;
mod hunt_holds;
mod known_difference;
mod measured_variant;
mod merge_commits;
mod missing_file;
mod observer;
mod outcome;
mod planning;
mod preflight;
mod replay;
mod request_scenarios;
mod rerun;
mod results;
mod resume;
mod run;
mod run_order;
mod search;
mod source_file;
mod stored_runs;
mod stored_trial;
mod trial_command;
mod trial_evidence;
mod trial_story;
mod typed_words;
mod worker;

pub use baseline::pooled_baseline;
pub use baseline_run::{BaselineRun, ResolvedBaseline};
pub use bundle::write_bundle;
pub use ci_server::{CiServer, show_on_github, show_text_on_github};
pub use compare_runs::{compare_many_runs, compare_two_runs};
pub use conditions::condition_table;
pub use core_analysis::CoreAnalysis;
pub use explanation::Explanation;
pub use exports::{ReportTarget, RequestedReports, write_trend};
pub use forecast::{AskedForecast, TrialForecast};
pub use helper::serve_if_helper;
pub use observer::{ExperimentMessage, ExperimentObserver, SilentObserver};
pub use outcome::{ExperimentOutcome, FinishedRun};
pub use planning::{plan_from_file, plan_from_settings};
pub use preflight::find_ourselves;
pub use replay::{ReplayEnding, ReplayResult, TrialReplay};
pub use rerun::RerunLimits;
pub use results::ResultFile;
pub use resume::NewLimits;
pub use run::{Experiment, ExperimentSettings};
pub use run_order::order_runs;
pub use stored_runs::{StoredReport, StoredRun, list_runs, run_table};
pub use stored_trial::StoredTrial;
pub use typed_words::{is_program, is_run, kind_of_word};
