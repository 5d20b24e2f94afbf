//! Observation of a trial: facts without judgement.

use super::{
    Casualty, ContainerSeen, CoreSeen, Hang, KernelLine, LoadSeen, Signal, Site, Stage, Text,
    is_default, micros,
};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// What was seen of a trial: facts, without any judgement.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Observation {
    /// Until the last main process ended, without what comes before and after.
    #[serde(rename = "us", with = "micros")]
    pub elapsed: Duration,
    /// Every copy of every actor, in the order of the plan.
    pub actors: Vec<ActorSeen>,
    /// What was left of the tree after the main process ended.
    #[serde(skip_serializing_if = "is_default")]
    pub residue: Residue,
    /// Out-of-memory kills that the lane's own memory group counted meanwhile;
    /// nothing where there is no such group.
    #[serde(skip_serializing_if = "is_default")]
    pub oom_kills: Option<u64>,
    /// OOM kills anywhere on this machine meanwhile: not
    /// necessarily of this trial. Only looked at after a plain SIGKILL.
    #[serde(skip_serializing_if = "is_default")]
    pub oom_kills_on_host: Option<u64>,
    /// Output rules that matched: which, and the first line that did.
    #[serde(skip_serializing_if = "is_default")]
    pub matched: Vec<(usize, String)>,
    /// Other processes of the tree that died of a signal: crashes that the exit code may hide.
    #[serde(skip_serializing_if = "is_default")]
    pub casualties: Vec<Casualty>,
    /// What the kernel's log said of processes of the trial.
    #[serde(skip_serializing_if = "is_default")]
    pub kernel: Vec<KernelLine>,
    /// Core files that its processes left.
    #[serde(skip_serializing_if = "is_default")]
    pub cores: Vec<CoreSeen>,
    /// What its processes were doing at the deadline, where it did not end.
    #[serde(skip_serializing_if = "is_default")]
    pub hang: Option<Hang>,
    /// What the clients saw of it, where the trial is the life of a service.
    #[serde(skip_serializing_if = "is_default")]
    pub load: Option<Box<LoadSeen>>,
    /// How large what `setup` left running was after the trial, where that was looked at.
    #[serde(skip_serializing_if = "is_default")]
    pub around: Option<Around>,
    /// The hook before the trial, where it failed.
    #[serde(skip_serializing_if = "is_default")]
    pub prepare: Option<HookSeen>,
    /// The hook after the trial, where it failed.
    #[serde(skip_serializing_if = "is_default")]
    pub conclude: Option<HookSeen>,
    /// The trial was ended by us, on the way out.
    #[serde(skip_serializing_if = "is_default")]
    pub interrupted: bool,
    /// Why nothing is known of the trial: its lane was lost.
    #[serde(skip_serializing_if = "is_default")]
    pub lost: Option<String>,
}

impl Observation {
    /// Returns why the life of a service shows nothing, in words.
    pub fn not_ready(&self) -> Option<String> {
        let load = self.load.as_ref()?;
        let lives = |service: &&ActorSeen| service.ending == Ending::Stopped;
        if load.stage != Stage::Starting && self.actors.first().is_some_and(|one| lives(&one)) {
            let ends = load.ends.iter().max_by_key(|(_, count)| **count);
            let most = ends.map_or_else(String::new, |(ended, _)| format!(": {ended}"));
            let nothing = || format!("no request was answered{most}");
            return Some(load.trouble.clone().unwrap_or_else(nothing));
        }
        let ended = self.actors.first().map(|service| {
            let words = match service.last_words.as_str() {
                "" => String::new(),
                words => format!(": {words}"),
            };
            format!(
                "it ended before its first response, {}{words}",
                service.ending
            )
        });
        load.trouble.clone().or(ended)
    }
}

/// What was seen of one copy of one actor.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ActorSeen {
    /// Its place in the plan's list of actors.
    #[serde(skip_serializing_if = "is_default")]
    pub actor: u32,
    /// Which of the copies.
    #[serde(skip_serializing_if = "is_default")]
    pub copy: u32,
    /// Its number.
    #[serde(skip_serializing_if = "is_default")]
    pub pid: i32,
    /// How it ended.
    pub ending: Ending,
    /// From its start to its end.
    #[serde(rename = "us", with = "micros")]
    pub elapsed: Duration,
    /// Processor time, user and system, of it and the children it waited for.
    #[serde(rename = "cpu_us", with = "micros")]
    pub cpu: Duration,
    /// Largest resident set, in KiB.
    #[serde(rename = "rss_kib")]
    pub max_rss: u64,
    /// Bytes written to standard output and standard error.
    #[serde(skip_serializing_if = "is_default")]
    pub written: (u64, u64),
    /// The last line written to standard error, or else to standard output;
    /// only of processes that did not simply exit with 0.
    #[serde(skip_serializing_if = "is_default")]
    pub last_words: String,
    /// The line that tells why it gave up, in the words of the C library or of a runtime.
    #[serde(skip_serializing_if = "is_default")]
    pub telling: Option<String>,
    /// The line of source code that its output names.
    #[serde(skip_serializing_if = "is_default")]
    pub site: Option<Site>,
    /// The container that it ran in; `ending` is then what its engine said.
    #[serde(skip_serializing_if = "is_default")]
    pub container: Option<Box<ContainerSeen>>,
}

/// How a process ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// It returned this code.
    Exited(i32),
    /// It died of this signal; the flag says whether the kernel dumped a core.
    Signaled(Signal, #[serde(default)] bool),
    /// It did not end in time and was killed.
    TimedOut {
        /// Its state at the deadline, as `/proc` tells it: R, S, D, T, Z.
        state: char,
        /// True when the polite signal was not enough.
        killed: bool,
    },
    /// It could not be started.
    NotStarted(String),
    /// The trial ended before it did, and it was stopped by us.
    Stopped,
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited(code) => write!(f, "exit {code}"),
            Self::Signaled(signal, _) => signal.fmt(f),
            Self::TimedOut { .. } => f.write_str("it did not end in time"),
            Self::NotStarted(why) => f.write_str(why),
            Self::Stopped => f.write_str("it was stopped"),
        }
    }
}

impl Default for Ending {
    fn default() -> Self {
        Self::Exited(0)
    }
}

/// What was left of a trial's tree of processes after its main process had ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Residue {
    /// How long it took until nothing was left, where something was left at first
    /// and went away by itself.
    #[serde(
        rename = "settled_us",
        skip_serializing_if = "is_default",
        with = "micros"
    )]
    pub settled: Duration,
    /// Processes that outlived the grace, as they were before they were killed.
    #[serde(skip_serializing_if = "is_default")]
    pub leaked: Vec<ProcessSeen>,
    /// Leaked processes beyond those listed.
    #[serde(skip_serializing_if = "is_default")]
    pub unlisted: u64,
    /// Processes that could not be killed.
    #[serde(skip_serializing_if = "is_default")]
    pub unkillable: Vec<ProcessSeen>,
    /// What it had an engine of containers make, and what outlived the grace there, where that is
    /// watched.
    #[serde(skip_serializing_if = "is_default")]
    pub objects: Vec<ObjectSeen>,
}

impl Residue {
    /// Returns how many processes were left behind.
    pub fn processes(&self) -> u64 {
        self.leaked.len() as u64 + self.unlisted
    }

    /// True where something was left behind.
    pub fn is_leak(&self) -> bool {
        !self.leaked.is_empty() || !self.objects.is_empty()
    }
}

/// Something that an engine of containers keeps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ObjectSeen {
    /// What it is.
    pub sort: ObjectSort,
    /// Its name.
    pub name: String,
    /// The image of a container.
    #[serde(skip_serializing_if = "is_default")]
    pub image: String,
    /// Of a container: `running`, `exited` ...
    #[serde(skip_serializing_if = "is_default")]
    pub status: String,
}

/// What an engine of containers keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ObjectSort {
    /// A container.
    #[default]
    Container,
    /// A volume.
    Volume,
    /// A network.
    Network,
}

impl fmt::Display for ObjectSeen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unnamed =
            self.name.len() == 64 && self.name.bytes().all(|byte| byte.is_ascii_hexdigit());
        match self.sort {
            ObjectSort::Container => write!(f, "container of {}", self.image),
            ObjectSort::Volume if unnamed => f.write_str("volume without a name"),
            ObjectSort::Volume => write!(f, "volume {}", self.name),
            ObjectSort::Network => write!(f, "network {}", self.name),
        }
    }
}

/// A process as `/proc` showed it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProcessSeen {
    /// Its number.
    pub pid: i32,
    /// Its parent when it was seen; for an orphan that is the slot that adopted it.
    pub ppid: i32,
    /// Names of its living ancestors within the trial, nearest first.
    #[serde(skip_serializing_if = "is_default")]
    pub ancestors: Vec<String>,
    /// Its session.
    pub session: i32,
    /// R, S, D, T ...
    pub state: char,
    /// Time since it was started.
    #[serde(rename = "age_us", with = "micros")]
    pub age: Duration,
    /// Resident memory in KiB.
    pub rss_kib: u64,
    /// Number of its threads.
    pub threads: u64,
    /// Its command line, or its name in brackets where that is empty.
    pub command: Vec<Text>,
    /// Its working directory.
    pub cwd: Text,
    /// What its first thread waits for: a system call, or its state.
    #[serde(skip_serializing_if = "is_default")]
    pub waiting: String,
    /// A core that was written of it, for its stacks.
    #[serde(skip_serializing_if = "is_default")]
    pub core: Option<CoreSeen>,
}

/// How large the processes were together that live across trials.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Around {
    /// Resident memory in KiB; pages that several of them share count for each.
    pub rss_kib: u64,
    /// Their number, those included that have ended and that nobody has asked about.
    pub processes: u64,
    /// Threads of those that live.
    pub threads: u64,
    /// Open file descriptors.
    pub descriptors: u64,
}

/// How a hook ended that did not succeed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HookSeen {
    /// How it ended.
    pub ending: Ending,
    /// The end of what it wrote.
    pub output: String,
}
