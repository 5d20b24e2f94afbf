//! Observation of a trial: facts without judgement.

use super::{
    CaseRecord, ContainerObservation, CoreObservation, CrashedProcess, Hang, HoldObservation,
    KernelLine, LoadObservation, LoadStage, Signal, Site, Text, TrialCases, is_default, micros,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// The observed facts about a trial, without judgement.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Observation {
    /// Time until the last main process ended, without preparation and cleanup.
    #[serde(rename = "us", with = "micros")]
    pub elapsed: Duration,
    /// Every copy of every actor, in the order of the plan.
    pub actors: Vec<ActorObservation>,
    /// What remained of the process tree after the main process ended.
    #[serde(skip_serializing_if = "is_default")]
    pub residue: RemainingProcesses,
    /// OOM kills that the memory cgroup of the slot counted during the trial; `None` without such a cgroup.
    #[serde(skip_serializing_if = "is_default")]
    pub oom_kills: Option<u64>,
    /// OOM kills anywhere on this machine during the trial, which may belong to other programs. Only read after a plain
    /// SIGKILL.
    #[serde(skip_serializing_if = "is_default")]
    pub oom_kills_on_host: Option<u64>,
    /// Processes and threads that the kernel refused to start, because the cgroup of the slot was at its limit.
    #[serde(skip_serializing_if = "is_default")]
    pub refused_forks: u64,
    /// Output rules that matched: the index of the rule, and the first matching line.
    #[serde(skip_serializing_if = "is_default")]
    pub matched: Vec<(usize, String)>,
    /// Other processes of the tree that died of a signal: crashes that the exit code may hide.
    #[serde(skip_serializing_if = "is_default")]
    #[serde(rename = "casualties")]
    pub crashed_children: Vec<CrashedProcess>,
    /// Lines of the kernel's log about processes of the trial.
    #[serde(skip_serializing_if = "is_default")]
    pub kernel: Vec<KernelLine>,
    /// Core files of its processes.
    #[serde(skip_serializing_if = "is_default")]
    pub cores: Vec<CoreObservation>,
    /// The state of its processes at the deadline, if it timed out.
    #[serde(skip_serializing_if = "is_default")]
    pub hang: Option<Hang>,
    /// The observations of the clients, if the trial is one of a service.
    #[serde(skip_serializing_if = "is_default")]
    pub load: Option<Box<LoadObservation>>,
    /// Size of the processes that `setup` left running, after the trial, if it was measured.
    #[serde(skip_serializing_if = "is_default")]
    pub around: Option<TotalUsage>,
    /// The hook before the trial, if it failed.
    #[serde(skip_serializing_if = "is_default")]
    pub prepare: Option<FailedHook>,
    /// The hook after the trial, if it failed.
    #[serde(skip_serializing_if = "is_default")]
    pub conclude: Option<FailedHook>,
    /// Whether provoke ended the trial because it was exiting.
    #[serde(skip_serializing_if = "is_default")]
    pub interrupted: bool,
    /// Points that the trial reached, and threads that were held in it.
    #[serde(skip_serializing_if = "is_default")]
    pub holds: Option<Box<HoldObservation>>,
    /// Why the trial was lost with its slot.
    #[serde(skip_serializing_if = "is_default")]
    pub lost: Option<String>,
    /// The cases of the trial, as the runner reported them; not in the journal.
    #[serde(skip_serializing_if = "is_default")]
    pub cases: Option<Box<TrialCases>>,
    /// The same by their numbers in the run.
    #[serde(rename = "cases_by_number", skip_serializing_if = "is_default")]
    pub case_record: Option<Box<CaseRecord>>,
}

impl Observation {
    /// Returns why a process could not be started.
    pub fn not_started(&self) -> Option<String> {
        self.actors.iter().find_map(|actor| match &actor.ending {
            Ending::NotStarted(reason) => Some(reason.clone()),
            _ => None,
        })
    }

    /// Returns whether nothing happened but the end of its processes with exit code 0. A slot that runs several trials
    /// in turn stops after any other, because it may have evidence.
    pub fn is_plain(&self) -> bool {
        let Self {
            elapsed: _,
            actors,
            residue,
            oom_kills,
            oom_kills_on_host,
            refused_forks,
            matched,
            crashed_children,
            kernel,
            cores,
            hang,
            load,
            around: _,
            prepare,
            conclude,
            interrupted,
            holds,
            lost,
            // The report of the runner is read after the slot has gone on.
            cases: _,
            case_record: _,
        } = self;
        let ended_plainly = |actor: &ActorObservation| {
            matches!(actor.ending, Ending::Exited(0) | Ending::Stopped) && actor.container.is_none()
        };
        actors.iter().all(ended_plainly)
            && is_default(residue)
            && oom_kills.is_none_or(|kills| kills == 0)
            && oom_kills_on_host.is_none()
            && *refused_forks == 0
            && matched.is_empty()
            && crashed_children.is_empty()
            && kernel.is_empty()
            && cores.is_empty()
            && hang.is_none()
            && load.is_none()
            && prepare.is_none()
            && conclude.is_none()
            && !interrupted
            && holds.is_none()
            && lost.is_none()
    }

    /// Returns why a trial of a service is inconclusive.
    pub fn not_ready(&self) -> Option<String> {
        let load = self.load.as_ref()?;
        let is_running = |service: &&ActorObservation| service.ending == Ending::Stopped;
        if load.stage != LoadStage::Starting
            && self.actors.first().is_some_and(|actor| is_running(&actor))
        {
            let ends = load.ends.iter().max_by_key(|(_, count)| **count);
            let reason = ends.map_or_else(String::new, |(result, _)| format!(": {result}"));
            let no_answer = || format!("no request was answered{reason}");
            return Some(load.trouble.clone().unwrap_or_else(no_answer));
        }
        let ending = self.actors.first().map(|service| {
            let words = match service.last_words.as_str() {
                "" => String::new(),
                words => format!(": {words}"),
            };
            format!(
                "it ended before its first response, {}{words}",
                service.ending
            )
        });
        load.trouble.clone().or(ending)
    }
}

/// The observed facts about one copy of one actor.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ActorObservation {
    /// Index in the plan's list of actors.
    #[serde(skip_serializing_if = "is_default")]
    pub actor: u32,
    /// Number of the copy.
    #[serde(skip_serializing_if = "is_default")]
    pub copy: u32,
    /// Process ID.
    #[serde(skip_serializing_if = "is_default")]
    pub pid: i32,
    /// How it ended.
    pub ending: Ending,
    /// Time from its start to its end.
    #[serde(rename = "us", with = "micros")]
    pub elapsed: Duration,
    /// CPU time, user and system, of the process and the children it waited for.
    #[serde(rename = "cpu_us", with = "micros")]
    pub cpu: Duration,
    /// Largest resident set, in KiB.
    #[serde(rename = "rss_kib")]
    pub max_rss: u64,
    /// Bytes written to stdout and stderr.
    #[serde(skip_serializing_if = "is_default")]
    pub written: (u64, u64),
    /// The last line of stderr, or else of stdout; only for processes that did not exit with 0.
    #[serde(skip_serializing_if = "is_default")]
    pub last_words: String,
    /// The crash message of the C library or of a runtime.
    #[serde(skip_serializing_if = "is_default")]
    #[serde(rename = "telling")]
    pub crash_message: Option<String>,
    /// The line of source code that its output names.
    #[serde(skip_serializing_if = "is_default")]
    pub site: Option<Site>,
    /// The container that it ran in; `ending` is then the end that the engine reported.
    #[serde(skip_serializing_if = "is_default")]
    pub container: Option<Box<ContainerObservation>>,
}

/// How a process ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// It exited with this code.
    Exited(i32),
    /// It died of this signal; the flag says whether the kernel dumped a core.
    Signaled(Signal, #[serde(default)] bool),
    /// It timed out and was killed.
    TimedOut {
        /// Its state at the deadline, from `/proc`: R, S, D, T, Z.
        state: char,
        /// Whether it needed SIGKILL.
        killed: bool,
    },
    /// It could not be started.
    NotStarted(String),
    /// provoke stopped it at the end of the trial.
    Stopped,
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited(code) => write!(f, "exit {code}"),
            Self::Signaled(signal, _) => signal.fmt(f),
            Self::TimedOut { .. } => f.write_str("it did not end in time"),
            Self::NotStarted(reason) => f.write_str(reason),
            Self::Stopped => f.write_str("it was stopped"),
        }
    }
}

impl Default for Ending {
    fn default() -> Self {
        Self::Exited(0)
    }
}

/// What remained of a trial's process tree after its main process had ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RemainingProcesses {
    /// Time until no process was left, if some were left at first and ended by themselves.
    #[serde(
        rename = "settled_us",
        skip_serializing_if = "is_default",
        with = "micros"
    )]
    pub ended_in_grace: Duration,
    /// Leaked processes, which exceeded the leak grace, as they were before they were killed.
    #[serde(skip_serializing_if = "is_default")]
    pub leaked: Vec<ProcessObservation>,
    /// Number of leaked processes beyond those listed.
    #[serde(skip_serializing_if = "is_default")]
    pub unlisted: u64,
    /// Processes that could not be killed.
    #[serde(skip_serializing_if = "is_default")]
    pub unkillable: Vec<ProcessObservation>,
    /// Containers, volumes and networks, which earlier versions counted as leaks.
    #[serde(skip_serializing_if = "is_default")]
    pub objects: Vec<BTreeMap<String, String>>,
}

impl RemainingProcesses {
    /// Returns the number of leaked processes.
    pub fn process_count(&self) -> u64 {
        self.unlisted.saturating_add(self.leaked.len() as u64)
    }

    /// Returns whether anything was leaked.
    pub fn is_leak(&self) -> bool {
        !self.leaked.is_empty() || !self.objects.is_empty()
    }
}

/// A process as `/proc` shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProcessObservation {
    /// Process ID.
    pub pid: i32,
    /// Parent process ID; for an orphan this is the slot, which is its subreaper.
    pub ppid: i32,
    /// Names of its running ancestors within the trial, nearest first.
    #[serde(skip_serializing_if = "is_default")]
    pub ancestors: Vec<String>,
    /// Session ID.
    pub session: i32,
    /// Kernel state: R, S, D, T ...
    pub state: char,
    /// Time since its start.
    #[serde(rename = "age_us", with = "micros")]
    pub age: Duration,
    /// Resident memory in KiB.
    pub rss_kib: u64,
    /// Number of its threads.
    pub threads: u64,
    /// Command line, or its name in brackets if the command line is empty.
    pub command: Vec<Text>,
    /// Its working directory.
    pub cwd: Text,
    /// The system call in which its first thread waits, or the state of the thread.
    #[serde(skip_serializing_if = "is_default")]
    pub waiting: String,
    /// A core that was written of it, for its stacks.
    #[serde(skip_serializing_if = "is_default")]
    pub core: Option<CoreObservation>,
}

/// Total size of processes that live across trials.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TotalUsage {
    /// Resident memory in KiB; shared pages count once for each process.
    pub rss_kib: u64,
    /// Number of processes, zombies included.
    pub processes: u64,
    /// Number of threads.
    pub threads: u64,
    /// Open file descriptors.
    pub descriptors: u64,
}

/// A hook that failed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedHook {
    /// How it ended.
    pub ending: Ending,
    /// The end of its output.
    pub output: String,
}
