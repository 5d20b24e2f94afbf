//! Settings of an experiment, with the same names in flags and in scenario files.
//!
//! A [`Scenario`] holds only the settings that the user gave. [`Scenario::to_plan`] adds the defaults.
//!
#![doc = include_str!("../README.md")]

mod actors;
mod case_settings;
mod check;
mod conditions;
mod container;
mod context;
mod deserialize;
mod edits;
mod error;
mod expected_value;
mod file;
mod hooks;
mod host_list;
mod load;
mod load_arguments;
mod load_value;
mod matrix;
mod plan;
mod planned_question;
mod question;
mod request;
mod restore;
mod schema;
mod search;
mod settings;
mod syntax;
mod table_deserializer;
mod typed_flags;
mod value;
mod write;

pub use case_settings::RunnerValue;
pub use context::{PlanContext, SearchSources};
pub use error::render_in_file;
pub use file::{complain_about, plan_file};
pub use host_list::{HostList, ListedHost};
pub use load::Load;
pub use load_arguments::{LoadTarget, refuse_service_flags, split_service_command};
pub use load_value::{AttachedProcess, Concurrency, Frequency, ReadyWhen};
pub use matrix::{Matrix, MatrixValue, MatrixVariable};
pub use plan::{DEFAULT_DURATION, DEFAULT_RUNS};
pub use planned_question::{PlannedQuestion, QuestionDraft, QuestionPlan, SettingsGroup};
pub use question::{MEASURE_FIRST, SearchShape};
pub use request::Request;
pub use restore::NonUtf8Argument;
pub use schema::SCENARIO_SCHEMA;
pub use settings::{
    BaselineSettings, BisectSettings, CandidateSettings, CaseSettings, ComparisonSettings,
    ConditionSettings, ConfirmSettings, ConnectionSettings, CountSettings, DifferSettings,
    EvidenceSettings, Facts, HostSettings, HuntSettings, ItemSettings, JudgeSettings, OnlyRules,
    ProgramSettings, ReduceSettings, SearchSettings, ServiceSettings, StopSettings,
    TrafficSettings, TrialSettings, Variables, WhySettings,
};
pub use value::{
    Codes, Confidence, DurationValue, EnvValue, Expectation, HostsValue, IntegerRange, LimitValue,
    OnlyRule, Pattern, RateValue, TimeoutValue,
};
pub use write::under_load;

use provoke_model::ActorRole;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::path::PathBuf;

/// The load of a run that is done again.
#[derive(Clone, Debug, Default)]
pub struct RepeatedLoad {
    /// The load, if there was one.
    pub plan: Option<provoke_model::LoadPlan>,
    /// Which requests count as refused.
    pub refusals: provoke_model::RefusalRules,
}

/// An experiment: what to run, how often, and what counts as a failure.
///
/// The fields of each group are flags of `provoke run` or of a question, and have the same names in a file.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    #[serde(flatten)]
    pub outline: Outline,
    #[serde(flatten)]
    pub baseline: BaselineSettings,
    #[serde(flatten)]
    pub confirm: ConfirmSettings,
    #[serde(flatten)]
    pub count: CountSettings,
    #[serde(flatten)]
    pub comparison: ComparisonSettings,
    #[serde(flatten)]
    pub candidates: CandidateSettings,
    #[serde(flatten)]
    pub bisect: BisectSettings,
    #[serde(flatten)]
    pub items: ItemSettings,
    #[serde(flatten)]
    pub reduce: ReduceSettings,
    #[serde(flatten)]
    pub hunt: HuntSettings,
    #[serde(flatten)]
    pub differ: DifferSettings,
    #[serde(flatten)]
    pub why: WhySettings,
    #[serde(flatten)]
    pub search: SearchSettings,
    #[serde(flatten)]
    pub program: ProgramSettings,
    #[serde(flatten)]
    pub conditions: ConditionSettings,
    #[serde(flatten)]
    pub suite: CaseSettings,
    #[serde(flatten)]
    pub trials: TrialSettings,
    #[serde(flatten)]
    pub hosts: HostSettings,
    #[serde(flatten)]
    pub stop: StopSettings,
    #[serde(flatten)]
    pub judge: JudgeSettings,
    #[serde(flatten)]
    pub evidence: EvidenceSettings,
    /// HTTP load on the command, which is a service then. A trial is one start of the service.
    pub load: Option<Load>,
    /// What a run under load had that is done again.
    #[serde(skip)]
    pub again: RepeatedLoad,
    /// Run commands of runs of other users; cannot be set in a file.
    #[serde(skip)]
    pub trust: bool,
}

/// The parts of a scenario that only a file can define.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case", default)]
pub struct Outline {
    /// What this scenario is about, in one sentence.
    pub description: Option<String>,
    /// The question: `rate` (how often does it fail?), `confirm` (is it fixed?), `compare` (which variants fail?), `bisect` (which candidate is the first bad one?), `reduce` (which items does the failure need?), `ramp` (at which concurrency does it fail?), `hunt` (under which schedule does it fail in most runs?), `why` (under which conditions does it fail?) or `differ` (what do failing trials do differently?).
    pub ask: Option<QuestionSettings>,
    /// Processes that run together in a trial, instead of `command`.
    #[serde(rename = "actor")]
    pub actors: Vec<Actor>,
    /// Variants of the experiment; their trials take turns.
    #[serde(rename = "variant")]
    pub variants: Vec<Variant>,
    /// The requests of the load; default: GET the URL.
    #[serde(rename = "request")]
    pub requests: Vec<Request>,
}

/// The question of a scenario.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum QuestionSettings {
    /// How often does it fail?
    #[default]
    Rate,
    /// Is it fixed?
    Confirm,
    /// Which variants fail, and do they differ?
    Compare,
    /// Which candidate is the first bad one?
    Bisect,
    /// Which items does the failure need?
    Reduce,
    /// At which concurrency does it fail?
    Ramp,
    /// Under which schedule does it fail in most runs?
    Hunt,
    /// Under which conditions does it fail?
    Why,
    /// What do failing trials do differently?
    Differ,
}

/// One role in a trial.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
#[cfg_attr(test, schemars(extend("required" = ["name"])))]
pub struct Actor {
    /// Its name in reports and in the names of kept files.
    pub name: String,
    /// `main` decides the outcome; a `helper` runs beside it and is stopped with it; a `service` is a main process under load.
    pub role: ActorRole,
    /// The program and its arguments.
    pub command: Option<Vec<String>>,
    /// A line for `sh -c`, instead of `command`.
    pub shell: Option<String>,
    /// Start this many copies.
    pub copies: Option<NonZeroU32>,
    /// Environment variables to set for it; `false` removes one.
    pub env: BTreeMap<String, EnvValue>,
    /// Working directory.
    pub cwd: Option<PathBuf>,
    /// Read stdin from this file.
    pub stdin: Option<PathBuf>,
}

/// A variant: its differences from the rest of the file.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
#[cfg_attr(test, schemars(extend("required" = ["name"])))]
pub struct Variant {
    /// Its name in reports.
    pub name: String,
    /// The command of the main process.
    pub command: Option<Vec<String>>,
    /// The shell line of the main process.
    pub shell: Option<String>,
    /// Arguments added to the command of the main process.
    pub args: Vec<String>,
    /// Environment variables to set; `false` removes one.
    pub env: BTreeMap<String, EnvValue>,
    /// The working directory.
    pub cwd: Option<PathBuf>,
    /// Read stdin from this file.
    pub stdin: Option<PathBuf>,
    /// Start this many copies of the command.
    pub copies: Option<NonZeroU32>,
    /// The container image.
    pub image: Option<String>,
    /// Shell command to run once before all trials, after the general `setup`. If it fails, the variant is left out.
    pub setup: Option<String>,
    /// Shell command to run before each trial, instead of the general `prepare`.
    pub prepare: Option<String>,
    /// Shell command to run after each trial, instead of the general `conclude`.
    pub conclude: Option<String>,
    /// Shell command to run once after all trials, before the general `cleanup`.
    pub cleanup: Option<String>,
    /// Files of the working directory to replace, and the files to replace them with. The variant runs in a copy of the directory.
    pub files: BTreeMap<String, PathBuf>,
    /// Text to replace in files of the working directory. The variant runs in a copy of the directory.
    #[serde(rename = "edit")]
    pub edits: Vec<Edit>,
}

/// Text to replace in a file of a variant.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
#[cfg_attr(test, schemars(extend("required" = ["file", "find", "replace"])))]
pub struct Edit {
    /// The file, relative to the working directory.
    pub file: String,
    /// The text to replace, exactly as it is in the file.
    pub find: String,
    /// The replacement, for every occurrence.
    pub replace: Option<String>,
}
