//! State of the processes of a hung trial.

use super::{CoreObservation, Frame, is_default, micros};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// A thread is busy if it used at least this fraction (one in N) of the CPU time that it could get.
const BUSY_PART: u32 = 4;
/// CPU time that makes a thread busy if it is not known how much it could get.
const BUSY_TIME: Duration = Duration::from_millis(50);

/// All threads of a trial when it counted as hung.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Hang {
    /// The threads, up to a limit.
    pub threads: Vec<HungThread>,
    /// Number of further threads.
    #[serde(skip_serializing_if = "is_default")]
    pub unlisted: u64,
    /// Goroutines of Go programs, up to a limit.
    #[serde(skip_serializing_if = "is_default")]
    pub goroutines: Vec<Goroutine>,
    /// A deadlock cycle: each thread waits for a lock that the next one holds, and the last for the first.
    #[serde(skip_serializing_if = "is_default")]
    pub cycle: Vec<i32>,
    /// The timeout that provoke did not wait for, because it had found this deadlock, and no thread of the trial could
    /// continue. Zero if the trial timed out.
    #[serde(
        rename = "ended_before_us",
        skip_serializing_if = "is_default",
        with = "micros"
    )]
    pub ended_before: Duration,
    /// Time after the time limit at which the trial ended by itself, before its stacks were taken or while they were. Zero
    /// if it did not.
    #[serde(
        rename = "ended_after_us",
        skip_serializing_if = "is_default",
        with = "micros"
    )]
    pub ended_after: Duration,
    /// Processes with the base names of their executables.
    #[serde(skip_serializing_if = "is_default")]
    pub programs: Vec<(i32, String)>,
    /// Processes that were forked from a process with several threads, and that have not called `exec` since.
    #[serde(skip_serializing_if = "is_default")]
    pub forked_from_threads: Vec<i32>,
    /// Output of optional tools: the name of the tool, and its text.
    #[serde(skip_serializing_if = "is_default")]
    pub tools: Vec<(String, String)>,
    /// Cores that were written of the running processes, for their stacks.
    #[serde(skip_serializing_if = "is_default")]
    pub cores: Vec<CoreObservation>,
}

/// The state of a thread at the deadline.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HungThread {
    /// Process ID.
    pub pid: i32,
    /// Thread ID.
    pub tid: i32,
    /// Thread name.
    pub name: String,
    /// Kernel state: R, S, D, T.
    pub state: char,
    /// The kernel function in which it waits, as `/proc` names it.
    #[serde(skip_serializing_if = "is_default")]
    pub channel: String,
    /// The present system call.
    #[serde(skip_serializing_if = "is_default")]
    pub call: String,
    /// CPU time used during the observation.
    #[serde(rename = "cpu_us", skip_serializing_if = "is_default", with = "micros")]
    pub cpu: Duration,
    /// CPU time that the thread could get: the time of the observation, without the time in which it was ready to run
    /// and had no CPU. Zero if unknown.
    #[serde(
        rename = "cpu_available_us",
        skip_serializing_if = "is_default",
        with = "micros"
    )]
    pub cpu_available: Duration,
    /// Whether it was running or ready to run at both observations, and did not sleep in between.
    #[serde(skip_serializing_if = "is_default")]
    pub never_slept: bool,
    /// The object for which it waits, if the system call or the lock shows it.
    #[serde(skip_serializing_if = "is_default")]
    pub waits_on: Option<WaitObject>,
    /// The thread or process that must act first: the owner of the lock, the joined thread, the child. A thread that
    /// waits for a lock that it holds waits for itself.
    #[serde(skip_serializing_if = "is_default")]
    pub waits_for: Option<i32>,
    /// Address of the lock that it waits for.
    #[serde(skip_serializing_if = "is_default")]
    pub lock_at: Option<u64>,
    /// The variable that is the lock or contains it, if it has a symbol: `audit`, `pool+0x28`.
    #[serde(skip_serializing_if = "is_default")]
    pub lock: Option<String>,
    /// The owner of the lock, if that is not a thread of this process.
    #[serde(skip_serializing_if = "is_default")]
    pub absent_owner: Option<AbsentOwner>,
    /// Its calls, innermost first, if the stack could be read.
    #[serde(skip_serializing_if = "is_default")]
    pub frames: Vec<Frame>,
    /// Its calls in Python, Java or JavaScript, innermost first, if they could be read.
    #[serde(alias = "python", skip_serializing_if = "is_default")]
    pub calls: Vec<Frame>,
    /// The language of these calls.
    #[serde(skip_serializing_if = "is_default")]
    pub language: CallLanguage,
}

/// A language whose runtime knows the calls of its threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallLanguage {
    #[default]
    Python,
    Java,
    JavaScript,
}

impl CallLanguage {
    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Python => "Python",
            Self::Java => "Java",
            Self::JavaScript => "JavaScript",
        }
    }
}

/// A goroutine at the deadline.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Goroutine {
    /// Process ID.
    pub pid: i32,
    /// Number of the goroutine; the one that runs `main` is 1.
    pub number: u64,
    /// What it waits for, as Go names it: `chan receive`.
    pub state: String,
    /// Its calls, innermost first, without those of the runtime.
    pub calls: Vec<Frame>,
}

/// The object for which a thread waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitObject {
    /// A mutex of the process.
    Mutex,
    /// A mutex shared between processes.
    SharedMutex,
    /// A read-write lock.
    RwLock {
        /// Number of readers that hold it; zero if a writer does.
        readers: u32,
    },
    /// The end of another thread, in `pthread_join`.
    Join,
    /// The end of a child process.
    Child,
    /// The `exec` or the end of a child that was created with `vfork`.
    Vfork,
}

/// The owner of a lock that is not a thread of the waiting process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AbsentOwner {
    /// Thread ID.
    pub tid: i32,
    /// The process that the waiting one was forked from, if the owner is a thread of it; otherwise the owner has ended.
    #[serde(skip_serializing_if = "is_default")]
    pub of_parent: Option<i32>,
}

/// Activity of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThreadActivity {
    /// In uninterruptible sleep in the kernel.
    Stuck,
    /// Using the CPU time that it can get.
    Busy,
    /// Stopped.
    Stopped,
    /// Waiting for a child.
    WaitsForChild,
    /// Waiting for something else.
    Blocked,
}

impl HungThread {
    /// Returns the activity of the thread.
    pub fn current_activity(&self) -> ThreadActivity {
        match (self.state, self.waits_on) {
            ('T' | 't', _) => ThreadActivity::Stopped,
            // A thread in `vfork` is in state D too, but does not wait for a device.
            (_, Some(WaitObject::Child | WaitObject::Vfork)) => ThreadActivity::WaitsForChild,
            _ if ["wait4", "waitid", "vfork"].contains(&self.call.as_str()) => {
                ThreadActivity::WaitsForChild
            }
            ('D', _) => ThreadActivity::Stuck,
            _ if self.is_busy() => ThreadActivity::Busy,
            _ => ThreadActivity::Blocked,
        }
    }

    /// Returns whether the thread used the CPU as far as it could: a busy loop on a loaded machine or below a CPU quota
    /// gets little time, and is still busy.
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
    /// Returns a thread by its ID.
    pub fn find_thread(&self, tid: i32) -> Option<&HungThread> {
        self.threads.iter().find(|thread| thread.tid == tid)
    }

    /// Returns the base name of the executable of a process.
    pub fn program_name(&self, pid: i32) -> Option<&str> {
        let mut programs = self.programs.iter();
        programs
            .find(|(program_pid, _)| *program_pid == pid)
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
    fn a_thread_is_busy_if_it_uses_a_large_share_of_the_available_cpu_time() {
        for (name, seen, expected) in [
            (
                "a whole CPU",
                thread('R', 200, 200, true),
                ThreadActivity::Busy,
            ),
            (
                "a fifth of a CPU, all there was",
                thread('S', 39, 40, false),
                ThreadActivity::Busy,
            ),
            (
                "no CPU time at all",
                thread('R', 0, 0, true),
                ThreadActivity::Busy,
            ),
            (
                "polls now and then",
                thread('S', 4, 190, false),
                ThreadActivity::Blocked,
            ),
            (
                "polls, seen at work",
                thread('R', 4, 100, false),
                ThreadActivity::Blocked,
            ),
            (
                "slept in an older journal",
                thread('S', 49, 0, false),
                ThreadActivity::Blocked,
            ),
            (
                "busy in an older journal",
                thread('R', 50, 0, false),
                ThreadActivity::Busy,
            ),
            (
                "in a driver",
                thread('D', 0, 200, false),
                ThreadActivity::Stuck,
            ),
            (
                "stopped",
                thread('T', 100, 200, false),
                ThreadActivity::Stopped,
            ),
        ] {
            assert_eq!(seen.current_activity(), expected, "{name}");
        }
    }

    #[test]
    fn a_parent_in_vfork_waits_for_its_child() {
        let mut parent = thread('D', 0, 200, false);
        parent.waits_on = Some(WaitObject::Vfork);
        assert_eq!(parent.current_activity(), ThreadActivity::WaitsForChild);
    }

    #[test]
    fn a_hang_of_an_older_journal_is_read() {
        let text = r#"{"threads":[{"pid":7,"tid":8,"name":"x","state":"S","call":"futex","cpu_us":3,"waits_for":9,"python":[{"function":"f"}]}],"cycle":[8,9]}"#;
        let hang: Hang = serde_json::from_str(text).unwrap();
        assert_eq!(hang.find_thread(8).unwrap().waits_for, Some(9));
        assert_eq!(hang.find_thread(8).unwrap().waits_on, None);
        assert_eq!(hang.find_thread(8).unwrap().calls.len(), 1);
    }
}
