//! What the user asks for, from flags or from a file: one vocabulary for both.
//!
//! A [`Scenario`] holds what was said and nothing else. [`Scenario::plan`] adds
//! what was not said, so that every default stands in one place.

mod again;
mod check;
mod complaint;
mod container;
mod file;
mod load;
mod matrix;
mod plan;
mod question;
mod read;
mod request;
mod schema;
mod search;
mod shape;
mod shrink;
mod spell;
mod syntax;
mod value;
mod write;

pub use again::NoText;
pub use complaint::Complaint;
pub use file::{complain, load, plan_file};
pub use load::{Attach, Load};
pub use matrix::{Level, Matrix, Variable};
pub use plan::{DEFAULT_DURATION, DEFAULT_RUNS, DEFAULT_TIMEOUT, Refusal, Surroundings};
pub use request::Request;
pub use schema::schema;
pub use search::Searched;
pub use shrink::shrink;
pub use value::{
    Amount, Clients, Codes, Confidence, EnvValue, Expectation, Frequency, Numbers, OnlyRule,
    Pattern, Rate, ReadyWhen, ResourceName, Span, TimeoutValue,
};
pub use write::under_load;

use crate::model::{Capture, CoreSize, Find, Keep, Leaks, Role};
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
    /// A sentence for people: what this is about.
    pub description: Option<String>,
    /// The question: `rate` (how often does it fail?), `confirm` (is it fixed?), `compare` (which variants fail?), `bisect` (which is the first that fails?), `reduce` (what does the failure need?) or `ramp` (from how many clients on does it fail?).
    pub ask: Option<Ask>,
    /// To confirm a fix, how often it failed before: counts such as `3/30`, or a run. To compare, how often those variants fail that do.
    pub baseline: Option<String>,
    /// Of a baseline with several variants, which one.
    pub of: Option<String>,
    /// A failure rate that is taken for granted, where there is no baseline.
    pub assume_rate: Option<Rate>,
    /// A fix that only halves the rate must not pass for one.
    pub exclude_half: Option<bool>,
    /// To confirm or search: every failure is the bug, not only those that the baseline saw, or what is known to fail.
    pub any_failure: Option<bool>,
    /// Trials do not influence each other, though what `setup` started lives through all of them.
    pub independent: Option<bool>,
    /// To confirm, or compare with a baseline: conditions that differ from the baseline do not change the failure rate.
    pub accept_different_conditions: Option<bool>,
    /// To confirm, compare with a baseline or search: earlier runs of the same program under the same conditions do not count.
    pub ignore_earlier_runs: Option<bool>,
    /// To compare: which variants are `failing`, or which fail at `different` rates.
    pub find: Option<Find>,
    /// The variant that the others are compared with; the first, unless told.
    pub reference: Option<String>,
    /// To compare: call a variant clean only if it fails in fewer of its trials than this.
    pub floor: Option<Rate>,
    /// To bisect: what `{variant}` stands for, in order; the first is good, the last one bad. `@FILE` is a file with a line for each.
    pub over: Vec<String>,
    /// To bisect: the same as numbers, such as `1..64`.
    pub range: Option<Numbers>,
    /// To bisect: commits of the repository around the working folder, such as `v1.2..main`; the first is good. Each is checked out in a folder of its own.
    pub git: Option<String>,
    /// To bisect commits: stop at a merge; otherwise what it merged is searched next.
    pub first_parent: Option<bool>,
    /// To bisect: versions of a Python package, such as `torch==1.0..1.4`, `torch==1.0,1.2` or `torch` for all; each gets an environment of its own.
    pub pip: Option<String>,
    /// To bisect: versions of a crate that the project depends on; each is built in a copy of the project.
    pub cargo: Option<String>,
    /// To bisect: versions of a Debian package; each is unpacked in a folder of its own.
    pub apt: Option<String>,
    /// To bisect: versions of a Node package; each is installed in a folder of its own.
    pub npm: Option<String>,
    /// With `pip`: a file of other packages that the environment holds.
    pub requirements: Option<PathBuf>,
    /// With `pip`: a file that says which versions other packages may have.
    pub constraints: Option<PathBuf>,
    /// With `pip`: the interpreter; `python3`, unless told.
    pub python: Option<String>,
    /// To bisect commits or crates: shell command in the folder of each, before its first trial; if it fails, that one is left out.
    pub build: Option<String>,
    /// To bisect commits: files that `build` makes, from the working folder; commits that build identical ones are one candidate. Only if nothing else of a commit can change how the command runs.
    pub artifact: Vec<PathBuf>,
    /// To bisect: the first of the list is bad and the last one good; the last that fails is searched, before the fix. To compare two: the second is a fix of the first, does it hold?
    pub fixed: Option<bool>,
    /// To bisect: how likely each candidate is the culprit: a file with a name and a weight on each line; of commits also `size`, for the number of lines that each changes, or a run that failed: commits that change a file in its stacks are more likely.
    pub prior: Option<String>,
    /// To bisect: what is known of an earlier search, as its log says it.
    pub log: Option<PathBuf>,
    /// To bisect: search for more boundaries after the first, between versions that fail and others that do not.
    pub all: Option<bool>,
    /// To reduce: files of which imports are left out.
    pub imports: Vec<PathBuf>,
    /// To reduce: files of which statements are left out.
    pub statements: Vec<PathBuf>,
    /// To reduce: files of which lines are left out.
    pub lines: Vec<PathBuf>,
    /// To reduce: a folder of which files are left out.
    pub files: Option<PathBuf>,
    /// To reduce: arguments of the command are left out.
    pub arguments: Option<bool>,
    /// To reduce: variables of the environment are left out.
    pub variables: Option<bool>,
    /// To reduce: any things; `{set}` stands for those that are kept, `{lines}` for the same with each on a line.
    pub set: Vec<String>,
    /// To reduce: an environment that does not fail, as a requirements file or the output of `pip freeze` or `env` say it.
    pub from: Option<PathBuf>,
    /// To reduce: the environment that fails; of what differs from the other, the least is searched that brings the failure.
    pub to: Option<PathBuf>,
    /// To reduce: write what is found into the files themselves; otherwise it is a patch beside the journal.
    pub apply: Option<bool>,
    /// To search: variants that are made at the same time, beside the trials.
    pub builds: Option<NonZeroU32>,
    /// To search: how long it may take to make a variant.
    pub build_limit: Option<Span>,
    /// To search: what the folders of variants may hold before the oldest goes.
    pub disk: Option<Amount>,
    /// To search: a good variant never fails this way.
    pub clean: Option<bool>,
    /// To search: trials of what fails, after which it is given up that it does.
    pub reproduce_limit: Option<u64>,
    /// To search: first try `copies`, `jobs` and `wave` on the variant that fails, and use the one under which failures come at least twice as often, if any.
    pub raise_rate: Option<bool>,
    /// The program and its arguments, executed directly. `{trial}`, `{slot}`, `{seed}`, `{dir}` and `{variant}` are filled in.
    pub command: Option<Vec<String>>,
    /// A command for `sh -c`, instead of `command`.
    pub shell: Option<String>,
    /// Processes that run together in a trial, instead of `command`.
    #[serde(rename = "actor")]
    pub actors: Vec<Actor>,
    /// Ways of running it; trials go round them in turn.
    #[serde(rename = "variant")]
    pub variants: Vec<Variant>,
    /// Variables, each with the values to be tried: every combination is a variant, and `{NAME}` stands for the value.
    pub matrix: Matrix,
    /// HTTP load on the command, which is a service then: a trial is one life of it.
    pub load: Option<Load>,
    /// What the load sends; without any, the URL is asked for.
    #[serde(rename = "request")]
    pub requests: Vec<Request>,
    /// The load of a run that is done again.
    #[serde(skip)]
    pub loaded: Option<crate::model::Load>,
    /// Copies of the command that run at once within each trial.
    pub copies: Option<NonZeroU32>,
    /// Variables to set; `false` removes one.
    pub env: BTreeMap<String, EnvValue>,
    /// Start from an empty environment.
    pub env_clear: Option<bool>,
    /// Working directory; in a file, relative to the file.
    pub cwd: Option<PathBuf>,
    /// A file for standard input; in a file, relative to the file.
    pub stdin: Option<PathBuf>,
    /// A container image that is on this machine: each trial runs in a container of its own. To bisect, its tags in order, such as `app:1.0,1.1,1.2`.
    pub image: Option<String>,
    /// What runs containers: `docker` or `podman`; the first that answers, unless told.
    pub engine: Option<String>,
    /// What a container sees of this machine: `PATH`, `PATH:INSIDE` or `PATH:INSIDE:ro`; the working folder at the same path, unless told; `none`.
    pub mount: Vec<String>,
    /// The network of a container: `none`, unless told; of a service under load `host`.
    pub network: Option<String>,
    /// Further options of the engine for a container: `memory=1g`, `cpus=2`, `pids-limit=100`, `user=1000`, `runtime=runsc`, `gpus=all`.
    pub container: Vec<String>,
    /// A prefix for the command, such as `rr record -o {dir}/trace`.
    pub wrap: Option<String>,
    /// Shell command once before all trials; what it leaves running lives until the end.
    pub setup: Option<String>,
    /// Shell command before each trial; if it fails, the trial says nothing.
    pub prepare: Option<String>,
    /// Shell command after each trial.
    pub conclude: Option<String>,
    /// Shell command once after all trials.
    pub cleanup: Option<String>,
    /// Limits of every process, by their names in `ulimit` or `prlimit`.
    pub rlimit: BTreeMap<ResourceName, Amount>,
    /// Limit the memory that the processes of a trial use together: `500M`, `2G`.
    pub memory: Option<Amount>,
    /// Give each trial a folder of its own (`{dir}`, `PROVOKE_DIR`, `TMPDIR`).
    pub tmp_per_run: Option<bool>,
    /// Trials of each variant; of a search, all together.
    pub runs: Option<u64>,
    /// Trials side by side.
    pub jobs: Option<NonZeroU32>,
    /// Start so many trials together, and the next ones when all have ended.
    pub wave: Option<NonZeroU32>,
    /// A trial that takes longer is a hang; `auto` takes ten times the median of those that passed.
    pub timeout: Option<TimeoutValue>,
    /// Time between the polite signal and the kill.
    pub grace: Option<Span>,
    /// How long descendants may outlive the main process before they are leaks.
    pub leak_grace: Option<Span>,
    /// Time for the whole run.
    pub duration: Option<Span>,
    /// Stop at the first failure.
    pub fail_fast: Option<bool>,
    /// Stop after so many failures.
    pub max_fail: Option<u64>,
    /// Stop when the interval is narrower than this.
    pub width: Option<Rate>,
    /// First trials that are not counted.
    pub warmup: Option<u64>,
    /// Pause before each trial.
    pub delay: Option<Span>,
    /// Confidence of every interval, in per cent.
    pub conf: Option<Confidence>,
    /// What all seeds of trials derive from.
    pub seed: Option<u64>,
    /// Exit codes that are fine.
    pub ok: Option<Codes>,
    /// Exit codes that say nothing about the program.
    pub skip: Option<Codes>,
    /// A line of output that matches makes a trial a failure.
    pub fail_if_out: Vec<Pattern>,
    /// A line of output that matches makes a failing exit a pass.
    pub ok_if_out: Vec<Pattern>,
    /// Which failures are the bug: a signal, `code:N`, `sig:ID`, `hang`, `leak`, `oom` or `output`. Others are tallied apart.
    pub only: Vec<OnlyRule>,
    /// What a process that stays behind means.
    pub leaks: Option<Leaks>,
    /// The user that the processes of trials run as, where provoke runs as root.
    pub user: Option<String>,
    /// Containers, volumes and networks that a trial makes and leaves behind are leaks too, and removed.
    pub watch_engine: Option<bool>,
    /// `fail` if the failure is what you hope for: it turns the exit code.
    pub expect: Option<Expectation>,
    /// The failure rate that is allowed: the exit code says whether the interval is below it.
    pub max_rate: Option<Rate>,
    /// Whose output is kept.
    pub keep: Option<Keep>,
    /// How many trials of each signature are kept in full.
    pub keep_per_sig: Option<u64>,
    /// When cores are dumped: `auto` in some trials after the measurement, `off`, `on` in every trial, or `trace`.
    pub capture: Option<Capture>,
    /// What is dumped: `light` leaves out the memory, for huge processes.
    pub cores: Option<CoreSize>,
    /// A child that crashed is no failure of a trial that ended well.
    pub ignore_child_crashes: Option<bool>,
    /// Commands and variables of runs of other users may be taken; never said in a file.
    #[serde(skip)]
    pub trust: bool,
}

/// The question that is asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Ask {
    /// How often does it fail?
    #[default]
    Rate,
    /// Is it fixed?
    Confirm,
    /// Which variants fail, and do they differ?
    Compare,
    /// Which is the first that fails?
    Bisect,
    /// What does the failure need?
    Reduce,
    /// From how many clients on does it fail?
    Ramp,
}

/// One role in a trial.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
#[schemars(extend("required" = ["name"]))]
pub struct Actor {
    /// Its name in reports and in the names of kept files.
    pub name: String,
    /// `main` decides the outcome, `helper` runs beside it and is stopped with it; `service` is a main one under load.
    pub role: Role,
    /// The program and its arguments.
    pub command: Option<Vec<String>>,
    /// A command for `sh -c`, instead of `command`.
    pub shell: Option<String>,
    /// How many run at once.
    pub copies: Option<NonZeroU32>,
    /// Variables to set for it; `false` removes one.
    pub env: BTreeMap<String, EnvValue>,
    /// Working directory.
    pub cwd: Option<PathBuf>,
    /// A file for standard input.
    pub stdin: Option<PathBuf>,
}

/// One way of running it: what differs from the rest of the file.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
#[schemars(extend("required" = ["name"]))]
pub struct Variant {
    /// Its name in reports.
    pub name: String,
    /// Another command for the main process.
    pub command: Option<Vec<String>>,
    /// Another shell command for the main process.
    pub shell: Option<String>,
    /// Arguments added to the command of the main process.
    pub args: Vec<String>,
    /// Variables to set; `false` removes one.
    pub env: BTreeMap<String, EnvValue>,
    /// Another working directory.
    pub cwd: Option<PathBuf>,
    /// Another file for standard input.
    pub stdin: Option<PathBuf>,
    /// Another number of copies.
    pub copies: Option<NonZeroU32>,
    /// Another container image.
    pub image: Option<String>,
    /// Shell command once before all trials, after the general `setup`; if it fails, the variant is left out.
    pub setup: Option<String>,
    /// Another shell command before each trial.
    pub prepare: Option<String>,
    /// Another shell command after each trial.
    pub conclude: Option<String>,
    /// Shell command once after all trials, before the general `cleanup`.
    pub cleanup: Option<String>,
    /// Files of the working folder, and the files whose contents they have instead; the variant runs in a copy of the folder.
    pub files: BTreeMap<String, PathBuf>,
    /// Text in files of the working folder that is replaced; the variant runs in a copy of the folder.
    #[serde(rename = "edit")]
    pub edits: Vec<Edit>,
}

/// A piece of text in a file that a variant has otherwise.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
#[schemars(extend("required" = ["file", "find", "replace"]))]
pub struct Edit {
    /// The file, from the working folder.
    pub file: String,
    /// The text to look for, as it stands there.
    pub find: String,
    /// What takes its place, wherever it stands.
    pub replace: Option<String>,
}
