//! Messages between provoke and a slot: JSON, one message per line.

use provoke_levers::TrialStart;
use provoke_model::{
    FailedHook, LeakRule, Observation, Text, Trial, TrialId, TrialSettings, VariantId, VariantPlan,
};
use provoke_sys::held_folder::FolderIdentity;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Message from provoke to a slot. At the end of the stream the slot kills all processes and ends.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SlotOrder {
    /// Add the recipe of a variant.
    Learn(VariantId, Box<VariantRecipe>),
    /// Run these trials in turn; each is answered by [`SlotReply::Finished`]. The last is the first that is not plain by
    /// [`Observation::is_plain`].
    Run(Vec<Trial>),
    /// Run a hook, whose processes may continue; answered by [`SlotReply::HookEnded`].
    Hook(RunHook),
    /// Write the output of the last trial into this folder, and keep its scratch folder; answered by
    /// [`SlotReply::OutputKept`].
    Keep(Text),
    /// The load on the service is over: stop the service.
    StopService {
        /// The service does not respond: examine it first.
        hung: bool,
    },
    /// End the running trial.
    Stop {
        /// Send SIGKILL without SIGTERM.
        now: bool,
        /// Take the stacks of its threads first.
        inspect: bool,
    },
}

impl SlotOrder {
    /// Returns what is ordered, in one word.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Learn(..) => "learn",
            Self::Run(_) => "run",
            Self::Hook(_) => "hook",
            Self::Keep(_) => "keep",
            Self::StopService { .. } => "stop service",
            Self::Stop { .. } => "stop",
        }
    }
}

/// A hook of the whole run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RunHook {
    /// Variant of the hook; a hook for all variants runs as for the first.
    pub variant: VariantId,
    /// The hook belongs to this variant only, and gets its variables.
    pub own: bool,
    /// Its output is written to a file, and not only shown in an error.
    pub has_log: bool,
    /// Command for `sh -c`.
    pub command: Text,
    /// Working directory, if it is not that of the variant.
    pub cwd: Option<Text>,
}

/// Message from a slot to provoke.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SlotReply {
    /// The slot has started.
    Ready,
    /// The processes of a service have started.
    Started(Vec<i32>),
    /// The output of a service contains the line that marks it as ready.
    ServiceReady,
    /// A service, or a process below it, has crashed; contains the time by
    /// [`provoke_sys::host::monotonic_now`].
    ServiceCrashed(Duration),
    /// A trial is over, and no process of it is left.
    Finished(TrialId, Box<Observation>),
    /// The output of the last trial was written, or [`SlotReply::Complaint`] says why not.
    OutputKept,
    /// A hook has ended; `None` if it succeeded.
    HookEnded(Option<FailedHook>),
    /// An operation failed that does not affect the trial.
    Complaint(String),
}

/// All data that a slot needs to run trials of one variant.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct VariantRecipe {
    /// The processes.
    pub variant: VariantPlan,
    /// Environment before each actor's own changes.
    pub environment: Vec<(Text, Text)>,
    /// Command for `sh -c` before each trial.
    pub prepare: Option<Text>,
    /// Command for `sh -c` after each trial.
    pub conclude: Option<Text>,
    /// The conditions of a trial.
    pub start: TrialStart,
    /// A working directory, and its copy from before the first trial.
    pub cwd_snapshot: Option<(Text, Text)>,
    /// Processes and threads that a trial may have without such a limit, where a cgroup exists.
    pub default_pids: u64,
    /// How a trial is run.
    pub settings: TrialSettings,
    /// Folder of the run, which the slot opens once.
    pub run: Option<(Text, FolderIdentity)>,
    /// Folder with a scratch folder for each trial.
    pub scratch: Option<Text>,
    /// Folder with a folder for the evidence of each trial; without it, no evidence is written.
    pub evidence: Option<Text>,
    /// Whether crashes of children are reported.
    pub children: bool,
    /// Whether leaked processes are reported.
    pub leaks: LeakRule,
    /// Socket of the engine's API service that provoke started.
    pub service: Option<Text>,
    /// Regular expressions to search in each line of output.
    pub patterns: Vec<String>,
    /// Regular expression that marks a service as ready.
    pub ready: Option<String>,
    /// The preparation of the reports about the cases of trials.
    pub cases: Option<CaseRecipe>,
}

/// What a slot prepares for the report about the cases of a trial. The mark `{cases}` stands for the folder of the
/// report.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CaseRecipe {
    /// Folder with a folder for each trial.
    pub trials: Text,
    /// Variables, whose values may contain marks.
    pub variables: Vec<(String, String)>,
    /// Files in the folder of the report, whose texts may contain marks.
    pub files: Vec<(String, String)>,
    /// File in that folder to which the complete stdout is written.
    pub stdout: Option<String>,
}
