//! State of the processes of a hung trial.

use super::{CoreSeen, Frame, is_default, micros};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// A thread is busy if it used at least this fraction (one in N) of the CPU time that it could get.
const BUSY_PART: u32 = 4;
/// CPU time from which on a thread is busy where it is not known how much it could get.
const BUSY_TIME: Duration = Duration::from_millis(50);

/// Every thread of a trial at its deadline.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Hang {
    /// Every thread, as far as they are listed.
    pub threads: Vec<HungThread>,
    /// Threads beyond those.
    #[serde(skip_serializing_if = "is_default")]
    pub unlisted: u64,
    /// Threads each of which waits for a lock that the next one holds, the last for the first.
    #[serde(skip_serializing_if = "is_default")]
    pub cycle: Vec<i32>,
    /// Processes, each with the base name of its executable file.
    #[serde(skip_serializing_if = "is_default")]
    pub programs: Vec<(i32, String)>,
    /// Processes that were forked from a process that had several threads at that moment, and
    /// that have not started a program since.
    #[serde(skip_serializing_if = "is_default")]
    pub forked_from_threads: Vec<i32>,
    /// What optional tools had to say: the tool's name, and its words.
    #[serde(skip_serializing_if = "is_default")]
    pub tools: Vec<(String, String)>,
    /// Cores that were written of the living processes, for their stacks.
    #[serde(skip_serializing_if = "is_default")]
    pub cores: Vec<CoreSeen>,
}

/// What one thread was doing at the deadline.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HungThread {
    /// Its process.
    pub pid: i32,
    /// Its own number.
    pub tid: i32,
    /// Its name.
    pub name: String,
    /// R, S, D, T.
    pub state: char,
    /// Where in the kernel it waits, as `/proc` names it.
    #[serde(skip_serializing_if = "is_default")]
    pub channel: String,
    /// The system call that it is in.
    #[serde(skip_serializing_if = "is_default")]
    pub call: String,
    /// CPU time that it used while it was watched.
    #[serde(rename = "cpu_us", skip_serializing_if = "is_default", with = "micros")]
    pub cpu: Duration,
    /// CPU time that it could get: the time watched, without the time in which it was ready to
    /// run and had no CPU. Zero where that is not known.
    #[serde(
        rename = "cpu_available_us",
        skip_serializing_if = "is_default",
        with = "micros"
    )]
    pub cpu_available: Duration,
    /// It was running or ready to run at both looks, and did not sleep in between.
    #[serde(skip_serializing_if = "is_default")]
    pub never_slept: bool,
    /// The thing it waits for, if the system call or the lock tells.
    #[serde(skip_serializing_if = "is_default")]
    pub waits_on: Option<WaitsOn>,
    /// The thread or process that must act first: the owner of the lock, the thread that is
    /// joined, the child. A thread that waits for a lock that it holds waits for itself.
    #[serde(skip_serializing_if = "is_default")]
    pub waits_for: Option<i32>,
    /// The address of the lock that it waits for.
    #[serde(skip_serializing_if = "is_default")]
    pub lock_at: Option<u64>,
    /// The variable that is the lock or contains it, if it has a symbol: `audit`, `pool+0x28`.
    #[serde(skip_serializing_if = "is_default")]
    pub lock: Option<String>,
    /// The owner of the lock, if it is not a thread of this process.
    #[serde(skip_serializing_if = "is_default")]
    pub absent_owner: Option<AbsentOwner>,
    /// Its calls, innermost first, where its stack could be read.
    #[serde(skip_serializing_if = "is_default")]
    pub frames: Vec<Frame>,
    /// Its Python calls, innermost first, where a tool could read them.
    #[serde(skip_serializing_if = "is_default")]
    pub python: Vec<Frame>,
}

/// The thing a thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitsOn {
    /// A mutex of the process.
    Mutex,
    /// A mutex that processes share.
    SharedMutex,
    /// A read-write lock.
    RwLock {
        /// How many readers hold it; zero where a writer does.
        readers: u32,
    },
    /// The end of another thread.
    Join,
    /// The end of a child.
    Child,
    /// A child that was made with `vfork` starts a program or ends.
    Vfork,
}

/// The owner of a lock that is not a thread of the process that waits for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AbsentOwner {
    /// The thread.
    pub tid: i32,
    /// The process that the waiting one was forked from, where the owner is a thread of that;
    /// otherwise it has ended.
    #[serde(skip_serializing_if = "is_default")]
    pub of_parent: Option<i32>,
}

/// The activity of a thread, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    /// It cannot be interrupted in the kernel.
    Stuck,
    /// It uses the CPU time that it can get.
    Busy,
    /// It was stopped.
    Stopped,
    /// It waits for a child.
    WaitsForChild,
    /// It waits for something else.
    Blocked,
}

impl HungThread {
    /// Returns what it was doing.
    pub fn activity(&self) -> Activity {
        match (self.state, self.waits_on) {
            ('T' | 't', _) => Activity::Stopped,
            // A thread in `vfork` is in state D too, and no device is late.
            (_, Some(WaitsOn::Child | WaitsOn::Vfork)) => Activity::WaitsForChild,
            _ if ["wait4", "waitid", "vfork"].contains(&self.call.as_str()) => {
                Activity::WaitsForChild
            }
            ('D', _) => Activity::Stuck,
            _ if self.is_busy() => Activity::Busy,
            _ => Activity::Blocked,
        }
    }

    /// True where it used the CPU as far as others let it: a busy loop on a crowded machine or
    /// below a CPU quota gets little time, and is still busy.
    fn is_busy(&self) -> bool {
        if self.never_slept {
            return true;
        }
        if self.cpu_available.is_zero() {
            return self.cpu >= BUSY_TIME;
        }
        !self.cpu.is_zero() && self.cpu * BUSY_PART >= self.cpu_available
    }
}

impl Hang {
    /// Returns a thread by its number.
    pub fn thread(&self, tid: i32) -> Option<&HungThread> {
        self.threads.iter().find(|thread| thread.tid == tid)
    }

    /// Returns the base name of the executable of a process.
    pub fn program(&self, pid: i32) -> Option<&str> {
        let mut programs = self.programs.iter();
        programs
            .find(|(known, _)| *known == pid)
            .map(|(_, name)| name.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thread(state: char, cpu: u64, available: u64, never_slept: bool) -> HungThread {
        HungThread {
            state,
            cpu: Duration::from_millis(cpu),
            cpu_available: Duration::from_millis(available),
            never_slept,
            ..HungThread::default()
        }
    }

    #[test]
    fn a_thread_is_busy_by_its_share_of_the_cpu_time_that_it_could_get() {
        for (name, seen, expected) in [
            ("a whole CPU", thread('R', 200, 200, true), Activity::Busy),
            (
                "a fifth of a CPU, all there was",
                thread('S', 39, 40, false),
                Activity::Busy,
            ),
            (
                "no CPU time at all",
                thread('R', 0, 0, true),
                Activity::Busy,
            ),
            (
                "polls now and then",
                thread('S', 4, 190, false),
                Activity::Blocked,
            ),
            (
                "polls, seen at work",
                thread('R', 4, 100, false),
                Activity::Blocked,
            ),
            (
                "slept in an older journal",
                thread('S', 49, 0, false),
                Activity::Blocked,
            ),
            (
                "busy in an older journal",
                thread('R', 50, 0, false),
                Activity::Busy,
            ),
            ("in a driver", thread('D', 0, 200, false), Activity::Stuck),
            ("stopped", thread('T', 100, 200, false), Activity::Stopped),
        ] {
            assert_eq!(seen.activity(), expected, "{name}");
        }
    }

    #[test]
    fn a_parent_in_vfork_waits_for_its_child() {
        let mut parent = thread('D', 0, 200, false);
        parent.waits_on = Some(WaitsOn::Vfork);
        assert_eq!(parent.activity(), Activity::WaitsForChild);
    }

    #[test]
    fn older_journals_are_read() {
        let text = r#"{"threads":[{"pid":7,"tid":8,"name":"x","state":"S","call":"futex","cpu_us":3,"waits_for":9}],"cycle":[8,9]}"#;
        let hang: Hang = serde_json::from_str(text).unwrap();
        assert_eq!(hang.thread(8).unwrap().waits_for, Some(9));
        assert_eq!(hang.thread(8).unwrap().waits_on, None);
    }
}
