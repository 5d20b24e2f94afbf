//! Messages between provoke and a slot: JSON, one message per line.

use crate::model::{
    Cores, HookSeen, Leaks, Limit, Observation, Text, Trial, TrialId, VariantId, VariantPlan,
    micros,
};
use crate::sys::user::Identity;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// From provoke to a slot. The end of the stream means: kill everything, and end.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Learn how trials of a variant are run.
    Learn(VariantId, Box<Recipe>),
    /// Run a trial; answered by [`Reply::Finished`].
    Run(Trial),
    /// Run a command whose leftovers live on; answered by [`Reply::Hooked`].
    Hook(Hook),
    /// Write the output of the last trial into this folder, and keep its scratch folder.
    Keep(Text),
    /// The load on the service is over: stop it.
    Over {
        /// It gives no answers any more: look into it first.
        hung: bool,
    },
    /// End the trial that is under way: politely, or at once.
    Stop {
        /// Kill without asking first.
        now: bool,
        /// Take the stacks of its threads first.
        inspect: bool,
    },
}

/// A command around the whole run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Hook {
    /// The variant that it is run for. What is run for all is run as for the first of them.
    pub variant: VariantId,
    /// It is of this variant alone, and sees its variables.
    pub own: bool,
    /// For `sh -c`.
    pub command: Text,
    /// Where it runs, if not where the variant does.
    pub cwd: Option<Text>,
}

/// From a slot to provoke.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// The slot is up.
    Ready,
    /// The processes of a service are up.
    Started(Vec<i32>),
    /// A service said the line that tells it is ready.
    Said,
    /// A service, or a process below it, has died: when, by the clock of [`crate::sys::host::now`].
    Died(Duration),
    /// A trial is over and nothing of it is left.
    Finished(TrialId, Box<Observation>),
    /// A hook is over; nothing is said where it succeeded.
    Hooked(Option<HookSeen>),
    /// Something was asked for that could not be done; the trial is not affected.
    Complaint(String),
}

/// The way to an engine's daemon on which what trials make is marked as theirs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Door {
    /// Below this folder there is a socket for each lane.
    pub folder: Text,
    /// The engine's own.
    pub engine: Text,
    /// Whose trials they are, see [`crate::sys::engine::mark`].
    pub mark: String,
}

/// Everything that a slot must know to run trials of one variant.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Recipe {
    /// The processes.
    pub variant: VariantPlan,
    /// The environment before each actor's own changes.
    pub environment: Vec<(Text, Text)>,
    /// For `sh -c` before each trial.
    pub prepare: Option<Text>,
    /// For `sh -c` after each trial.
    pub conclude: Option<Text>,
    /// Limits of every process.
    pub limits: Vec<Limit>,
    /// Bytes of memory that the processes of a trial may use together.
    pub memory: Option<u64>,
    /// What the kernel may dump, in trials that capture.
    pub cores: Cores,
    /// Every trial captures.
    pub capture: bool,
    /// Main processes, and what comes of them, are followed from their start for the first
    /// fault of each; the kernel dumps nothing.
    pub trace: bool,
    /// Whom the processes of trials become, before they begin.
    pub identity: Option<Identity>,
    /// Below this folder each trial has one of its own.
    pub scratch: Option<Text>,
    /// Below this folder each trial has one for what is found out of it; without it,
    /// nothing is written.
    pub evidence: Option<Text>,
    /// Between the polite signal and the kill.
    #[serde(with = "micros")]
    pub grace: Duration,
    /// How long descendants may outlive the main process.
    #[serde(with = "micros")]
    pub settle: Duration,
    /// Whether anybody wants to know that a child crashed.
    pub children: bool,
    /// Whether anybody wants to know what was left behind.
    pub leaks: Leaks,
    /// Where the service of the engine listens that provoke started.
    pub service: Option<Text>,
    /// How trials reach the engine of containers, where what they make there is watched.
    pub door: Option<Door>,
    /// Regular expressions to look for in each line of output.
    pub patterns: Vec<String>,
    /// One more, which tells that a service is ready.
    pub ready: Option<String>,
}
