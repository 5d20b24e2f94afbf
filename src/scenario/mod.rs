//! Settings of an experiment, with the same names in flags and in scenario files.
//!
//! A [`Scenario`] holds only the settings that the user gave. [`Scenario::to_plan`] adds the defaults.

mod check;
mod container;
mod deserialize;
mod error;
mod expected_value;
mod file;
mod load;
mod matrix;
mod plan;
mod question;
mod request;
mod restore;
mod schema;
mod search;
mod shrink;
mod suggest;
mod syntax;
mod value;
mod write;

pub use error::ScenarioError;
pub use file::{complain_about, load_scenario, plan_file};
pub use load::{AttachedProcess, Load};
pub use matrix::{Matrix, MatrixValue, MatrixVariable};
pub use plan::{DEFAULT_DURATION, DEFAULT_RUNS, PlanContext, PlanError};
pub use question::MEASURE_FIRST;
pub use request::Request;
pub use restore::NonUtf8Argument;
pub use schema::scenario_schema;
pub use search::SearchSources;
pub use shrink::shrink_plan;
pub use suggest::{intended_name as similar_field, nearest_name};
pub use value::{
    Codes, Concurrency, Confidence, DurationValue, EnvValue, Expectation, Frequency, IntegerRange,
    LimitValue, OnlyRule, Pattern, RateValue, ReadyWhen, ResourceName, TimeoutValue,
};
pub use write::under_load;

use crate::model::{ActorRole, CaptureMode, CompareGoal, CoreSize, KeepRule, LeakRule};
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::path::PathBuf;

/// An experiment: what to run, how often, and what counts as a failure.
///
/// Every name is that of the flag of `provoke run` which does the same.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Scenario {
    /// What this scenario is about, in one sentence.
    pub description: Option<String>,
    /// The question: `rate` (how often does it fail?), `confirm` (is it fixed?), `compare` (which variants fail?), `bisect` (which candidate is the first bad one?), `reduce` (which items does the failure need?) or `ramp` (at which concurrency does it fail?).
    pub ask: Option<QuestionSettings>,
    /// To confirm: the failure rate before the fix, as counts such as `3/30` or as a run. To compare: the failure rate of failing variants.
    pub baseline: Option<String>,
    /// Use this variant of the baseline.
    pub of: Option<String>,
    /// Assume this failure rate instead of a baseline.
    pub assume_rate: Option<RateValue>,
    /// Also rule out a fix that merely halves the failure rate; if this is not set, only if that takes less than a minute.
    pub exclude_half: Option<bool>,
    /// To confirm or search: count every failure, not only the failures seen in the baseline or at the bad end.
    pub any_failure: Option<bool>,
    /// Assume that trials are independent although they share what `setup` started.
    pub independent: Option<bool>,
    /// To confirm, or compare with a baseline: conditions that differ from the baseline do not change the failure rate.
    pub accept_different_conditions: Option<bool>,
    /// To confirm, compare with a baseline or search: do not count earlier runs of the same program under the same conditions.
    pub ignore_earlier_runs: Option<bool>,
    /// To compare: find the variants that are `failing`, or find out whether the rates are `different`.
    pub find: Option<CompareGoal>,
    /// Compare the other variants with this one; default: the first.
    pub reference: Option<String>,
    /// To compare: call a variant clean only if it fails in fewer than this share of its trials.
    pub floor: Option<RateValue>,
    /// To bisect: the candidates that `{variant}` stands for, good end first. `@FILE` is a file with one candidate per line.
    pub over: Vec<String>,
    /// To bisect: the candidates as numbers, such as `1..64`, good end first.
    pub range: Option<IntegerRange>,
    /// To bisect: the commits of the repository of the working directory, such as `v1.2..main`, good end first. Each commit is checked out in its own directory.
    pub git: Option<String>,
    /// To bisect commits: stop at a merge commit. By default, the commits that it brought are searched next.
    pub first_parent: Option<bool>,
    /// To bisect: the versions of a Python package, such as `torch==1.0..1.4`, `torch==1.0,1.2`, or `torch` for all. Each is installed in its own virtual environment.
    pub pip: Option<String>,
    /// To bisect: the versions of a crate that the project depends on. Each is built in a copy of the project.
    pub cargo: Option<String>,
    /// To bisect: the versions of a Debian package. Each is unpacked in its own directory.
    pub apt: Option<String>,
    /// To bisect: the versions of a Node package. Each is installed in its own directory.
    pub npm: Option<String>,
    /// With `pip`: install the packages of this file as well.
    pub requirements: Option<PathBuf>,
    /// With `pip`: restrict the versions of other packages by this file.
    pub constraints: Option<PathBuf>,
    /// With packages: the interpreter; default: `python3`.
    pub python: Option<String>,
    /// To bisect commits or crates: build each with this shell command, in its directory, before its first trial. If it fails, the candidate is left out.
    pub build: Option<String>,
    /// To bisect commits: files that `build` creates, relative to the working directory. Commits with identical files are one candidate, if nothing else in them can change how the command runs.
    pub artifact: Vec<PathBuf>,
    /// To bisect: search for the fix; the first candidate is bad and the last one good, and the last bad one is reported. To compare two variants: check whether the second is a fix of the first.
    pub fixed: Option<bool>,
    /// To bisect: the prior weight of each candidate, as a file with `NAME WEIGHT` per line. For commits also `size` (the number of lines that each changes), or a run that failed: commits that change a file in its stacks are more likely.
    pub prior: Option<String>,
    /// To bisect: the log of an earlier search.
    pub log: Option<PathBuf>,
    /// To bisect: search for more boundaries between good and bad candidates after the first.
    pub all: Option<bool>,
    /// To reduce: the import statements of these files.
    pub imports: Vec<PathBuf>,
    /// To reduce: the statements of these files.
    pub statements: Vec<PathBuf>,
    /// To reduce: the lines of these files.
    pub lines: Vec<PathBuf>,
    /// To reduce: the files of this directory.
    pub files: Option<PathBuf>,
    /// To reduce: the arguments of the command.
    pub arguments: Option<bool>,
    /// To reduce: the environment variables.
    pub variables: Option<bool>,
    /// To reduce: any items. `{set}` stands for the kept items, `{lines}` for one per line.
    pub set: Vec<String>,
    /// To reduce: an environment that does not fail, as a requirements file or the output of `pip freeze` or `env -0`.
    pub from: Option<PathBuf>,
    /// To reduce: the environment that fails. The smallest set of differences that still fails is searched.
    pub to: Option<PathBuf>,
    /// To reduce: write the result into the files. By default, it is a patch in the directory of the run.
    pub apply: Option<bool>,
    /// To search: build this many variants at a time, while trials run.
    pub builds: Option<NonZeroU32>,
    /// To search: give up on a variant if its build takes longer than this.
    pub build_limit: Option<DurationValue>,
    /// To search: disk budget for variant directories; the oldest is evicted first.
    pub disk: Option<LimitValue>,
    /// To search: assume that good variants never fail this way.
    pub clean: Option<bool>,
    /// To search: give up if the bad end has not failed after this many trials.
    pub reproduce_limit: Option<u64>,
    /// To search: first try `copies`, `jobs` and `wave` on the variant that fails, and use the setting under which failures are at least twice as frequent, if there is one.
    pub raise_rate: Option<bool>,
    /// The program and its arguments. It runs without a shell. `{trial}`, `{slot}`, `{seed}`, `{dir}` and `{variant}` are filled in.
    pub command: Option<Vec<String>>,
    /// A line for `sh -c`, instead of `command`.
    pub shell: Option<String>,
    /// Processes that run together in a trial, instead of `command`.
    #[serde(rename = "actor")]
    pub actors: Vec<Actor>,
    /// Variants of the experiment; their trials take turns.
    #[serde(rename = "variant")]
    pub variants: Vec<Variant>,
    /// Variables with the values to try. Every combination is a variant; `{NAME}` stands for the value.
    pub matrix: Matrix,
    /// HTTP load on the command, which is a service then. A trial is one start of the service.
    pub load: Option<Load>,
    /// The requests of the load; default: GET the URL.
    #[serde(rename = "request")]
    pub requests: Vec<Request>,
    /// The load of a run that is done again.
    #[serde(skip)]
    pub loaded: Option<crate::model::LoadPlan>,
    /// Start this many copies of the command in each trial.
    pub copies: Option<NonZeroU32>,
    /// Environment variables to set; `false` removes one.
    pub env: BTreeMap<String, EnvValue>,
    /// Start from an empty environment.
    pub env_clear: Option<bool>,
    /// Working directory; in a file, relative to the file.
    pub cwd: Option<PathBuf>,
    /// Read stdin from this file; in a scenario file, relative to it.
    pub stdin: Option<PathBuf>,
    /// A container image on this machine; each trial runs in its own container. To bisect, its tags in order, such as `app:1.0,1.1,1.2`.
    pub image: Option<String>,
    /// The container engine: `docker` or `podman`; default: the first that responds.
    pub engine: Option<String>,
    /// Mounts of the container: `PATH`, `PATH:INSIDE` or `PATH:INSIDE:ro`; `none` mounts nothing. Default: the working directory, at the same path.
    pub mount: Vec<String>,
    /// The network of the container; default: `none`, or `host` for a service under load.
    pub network: Option<String>,
    /// Options for the container engine: `memory=1g`, `cpus=2`, `pids-limit=100`, `user=1000`, `runtime=runsc`, `gpus=all`.
    pub container: Vec<String>,
    /// A prefix for the command, such as `rr record -o {dir}/trace`.
    pub wrap: Option<String>,
    /// Shell command to run once before all trials. Processes that it leaves running are stopped at the end of the run.
    pub setup: Option<String>,
    /// Shell command to run before each trial. If it fails, the trial is inconclusive.
    pub prepare: Option<String>,
    /// Shell command to run after each trial.
    pub conclude: Option<String>,
    /// Shell command to run once after all trials.
    pub cleanup: Option<String>,
    /// Limits of every process, with their names in `ulimit` or `prlimit`.
    pub rlimit: BTreeMap<ResourceName, LimitValue>,
    /// Limit the memory of all processes of a trial together: `500M`, `2G`.
    pub memory: Option<LimitValue>,
    /// Give each trial a temporary directory (`{dir}`, `PROVOKE_DIR`, `TMPDIR`).
    pub tmp_per_run: Option<bool>,
    /// Run this many trials of each variant; in a search, of all variants together.
    pub runs: Option<u64>,
    /// Run this many trials in parallel.
    pub jobs: Option<NonZeroU32>,
    /// Start this many trials together, and the next ones when all of them have ended.
    pub wave: Option<NonZeroU32>,
    /// Treat a trial as hung after this long. `auto` is 20 times the slowest passing trial, at least 10 s.
    pub timeout: Option<TimeoutValue>,
    /// Time between SIGTERM and SIGKILL for a hung trial.
    pub grace: Option<DurationValue>,
    /// How long descendants of the main process may run on before they count as leaked.
    pub leak_grace: Option<DurationValue>,
    /// Stop the run after this long.
    pub duration: Option<DurationValue>,
    /// Stop at the first failure.
    pub fail_fast: Option<bool>,
    /// Stop after this many failures.
    pub max_fail: Option<u64>,
    /// Stop when the confidence interval is narrower than this.
    pub width: Option<RateValue>,
    /// Run this many trials first and do not count them.
    pub warmup: Option<u64>,
    /// Wait this long before each trial.
    pub delay: Option<DurationValue>,
    /// Confidence of every interval and answer, in percent.
    pub conf: Option<Confidence>,
    /// Derive the seeds of all trials from this number.
    pub seed: Option<u64>,
    /// Exit codes that pass.
    pub ok: Option<Codes>,
    /// Exit codes to discard: these trials are inconclusive.
    pub skip: Option<Codes>,
    /// A trial fails if a line of its output matches.
    pub fail_if_out: Vec<Pattern>,
    /// A trial passes despite its exit code if a line of its output matches.
    pub ok_if_out: Vec<Pattern>,
    /// Count only these kinds of failure: a signal, `code:N`, `sig:ID`, `hang`, `leak`, `oom` or `output`. Others are counted separately.
    pub only: Vec<OnlyRule>,
    /// How to treat processes still running after a trial.
    pub leaks: Option<LeakRule>,
    /// Run the processes of trials as this user, if provoke runs as root.
    pub user: Option<String>,
    /// Treat containers, volumes and networks that a trial leaves behind as leaks, and remove them.
    pub watch_engine: Option<bool>,
    /// `fail` if reproducing the failure is the hoped-for result: it changes the exit code.
    pub expect: Option<Expectation>,
    /// The failure rate that is allowed: the exit code says whether the rate is below it.
    pub max_rate: Option<RateValue>,
    /// Keep the output of failing trials, of all trials, or none.
    pub keep: Option<KeepRule>,
    /// Keep all evidence of this many trials per crash signature.
    pub keep_per_sig: Option<u64>,
    /// When to dump cores: `auto` in a few extra trials after the measurement, `off`, `on` in every trial, or `trace`.
    pub capture: Option<CaptureMode>,
    /// Core contents: `light` omits the memory of huge processes.
    pub cores: Option<CoreSize>,
    /// Pass a trial although a child process crashed, if the main process passed.
    pub ignore_child_crashes: Option<bool>,
    /// Run commands of runs of other users; cannot be set in a file.
    #[serde(skip)]
    pub trust: bool,
}

/// The question of a scenario.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
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
}

/// One role in a trial.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
#[schemars(extend("required" = ["name"]))]
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
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
#[schemars(extend("required" = ["name"]))]
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
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
#[schemars(extend("required" = ["file", "find", "replace"]))]
pub struct Edit {
    /// The file, relative to the working directory.
    pub file: String,
    /// The text to replace, exactly as it is in the file.
    pub find: String,
    /// The replacement, for every occurrence.
    pub replace: Option<String>,
}
