//! Messages between provoke and a worker: JSON, one message per line.
//!
//! They have no version, because a worker is the same program: its digest is checked before it is started.

use provoke_exec::{PreparationResult, StopUrgency};
use provoke_model::{
    FailedHook, Host, Observation, SlotId, Survey, Text, Trial, TrialId, TrialsPlan, VariantId,
    VariantPlan,
};
use provoke_sys::files;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Longest line of a message in bytes: an observation contains the stacks of its cores and all tests of a suite, whose text is
/// limited to 40 MiB.
pub const MAX_LINE: usize = 64 << 20;
/// Longest line of any other message than a result.
pub const MAX_SHORT_LINE: usize = 1 << 20;
/// Limits of the files of one trial: their bytes together, and their number. A worker sends no others.
pub const MAX_FILES: u64 = 2 << 30;
pub const MAX_FILE_COUNT: u32 = 1000;

/// The first message from provoke to a worker.
#[derive(Debug, Serialize, Deserialize)]
pub struct WorkerTask {
    /// The plan, whose parallel trials are those of the worker.
    pub plan: Box<TrialsPlan>,
    /// A file below the directory of the run, if the host must see this directory.
    pub shared_file: Option<SharedFile>,
}

/// A file that shows whether a host sees a directory.
#[derive(Debug, Serialize, Deserialize)]
pub struct SharedFile {
    /// Its path.
    pub path: Text,
    /// Its contents, which no other file has.
    pub contents: String,
}

impl SharedFile {
    /// Returns whether this machine sees the file.
    pub fn is_seen(&self) -> bool {
        let length = self.contents.len() as u64;
        files::read_itself(Path::new(self.path.as_os_str()), length)
            .is_ok_and(|contents| contents == self.contents.as_bytes())
    }
}

/// Message from provoke to a worker. At the end of the stream the worker ends all processes, removes its files, and ends.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkerOrder {
    /// Add a variant to the plan.
    Learn(VariantId, Box<VariantPlan>),
    /// Prepare a variant; answered by [`WorkerReply::Made`].
    Make(VariantId),
    /// Stop the preparation of variants.
    #[serde(rename = "stop_making")]
    StopPreparation,
    /// Run trials in turn in their slot; answered by [`WorkerReply::Finished`] for each that was run, then by
    /// [`WorkerReply::Idle`].
    Run(SlotId, Vec<Trial>),
    /// End the trials of a slot.
    Halt(SlotId, StopUrgency),
    /// Send the files of the last trial of a slot; answered by [`WorkerReply::Kept`].
    Keep {
        /// The slot.
        slot: SlotId,
        /// Whether to send its cores, too.
        with_cores: bool,
    },
    /// Run a hook for a variant, or for all; answered by [`WorkerReply::Hooked`].
    Hook(Option<VariantId>, Text),
    /// End the running hook.
    HaltHook(StopUrgency),
    /// The connection works.
    Alive,
}

/// Message from a worker to provoke.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkerReply {
    /// The worker is ready.
    Ready(Box<WorkerGreeting>),
    /// Trials cannot run on this host, for this reason; the second text is a hint.
    Refused(String, Option<String>),
    /// The preparation of a variant ended.
    Made(VariantId, PreparationResult),
    /// A trial of a slot is over, and no process of it is left. Only its line may be long.
    Finished(SlotId, TrialId, Box<Observation>),
    /// A slot runs no further trials of the order.
    Idle(SlotId),
    /// A file of the last trial of a slot; its bytes follow.
    File {
        /// The slot.
        #[serde(rename = "lane")]
        slot: SlotId,
        /// Its path below the directory of the trial.
        path: Text,
        /// Its length.
        size: u64,
    },
    /// All files of the last trial of this slot were sent.
    Kept(SlotId),
    /// A hook has ended: it succeeded, it failed, or it could not run.
    Hooked(Result<Option<FailedHook>, String>),
    /// An operation failed that does not affect the trials.
    Complaint(String),
    /// The connection works.
    Alive,
    /// The worker has ended all processes and removed its files.
    Closed,
}

/// Returns the longest line that may begin like this.
pub fn longest_line(beginning: &[u8]) -> usize {
    const FINISHED: &[u8] = b"{\"finished\":";
    if beginning.starts_with(FINISHED) {
        MAX_LINE
    } else {
        MAX_SHORT_LINE
    }
}

/// Facts about a worker that is ready.
#[derive(Debug, Serialize, Deserialize)]
pub struct WorkerGreeting {
    /// What distinguishes the running kernel of its machine from all others.
    pub boot_id: String,
    /// The machine.
    pub machine: Host,
    /// Further facts of its environment.
    pub survey: Survey,
    /// Directory of its trials.
    pub trials: Text,
}
