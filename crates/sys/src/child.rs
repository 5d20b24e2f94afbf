//! Waits for child processes, and inherits orphans as a child subreaper.

#![expect(
    unsafe_code,
    reason = "wait4 with resource usage is not in any safe wrapper"
)]

use std::io;
use std::time::Duration;

/// How a child ended, and the resources that it used.
#[derive(Clone, Copy, Debug)]
pub struct ChildEnd {
    /// Exit code, or signal and whether a core was dumped.
    pub status: WaitStatus,
    /// User and system time of the child and of the children that it waited for.
    pub cpu: Duration,
    /// Largest resident set, in KiB.
    pub max_rss: u64,
}

/// A decoded wait status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitStatus {
    /// Exit code.
    Exited(i32),
    /// Signal, and whether a core was dumped.
    Signaled(i32, bool),
}

impl WaitStatus {
    /// Decodes a wait status of the kernel.
    pub fn from_raw(status: i32) -> Self {
        if libc::WIFSIGNALED(status) {
            Self::Signaled(libc::WTERMSIG(status), libc::WCOREDUMP(status))
        } else {
            Self::Exited(libc::WEXITSTATUS(status))
        }
    }
}

/// Next event of child processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChildEvent {
    /// This child has ended and can be reaped.
    Ended(i32),
    /// This thread of a traced process has ended and can be reaped.
    Thread(i32),
    /// This thread of a traced process has stopped.
    Stopped(i32),
    /// There are children, and all of them live.
    Alive,
    /// The process does not have any children.
    None,
}

/// Returns the next event without reaping.
///
/// For a subreaper, `None` means that the whole tree is gone: when a process ends, its children
/// become children of the subreaper at that moment.
pub fn peek_child() -> ChildEvent {
    // SAFETY: an all-zero siginfo is valid, and the kernel fills it.
    let (answer, info) = unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
        (libc::waitid(libc::P_ALL, 0, &raw mut info, options), info)
    };
    // SAFETY: `si_pid` is in every siginfo of waitid; zero if nothing has ended.
    match (answer, unsafe { info.si_pid() }) {
        (0, 0) => ChildEvent::Alive,
        // The kernel reports stops to the tracer without being asked.
        (0, tid) if info.si_code == libc::CLD_TRAPPED => ChildEvent::Stopped(tid),
        (0, pid) if is_process(pid) => ChildEvent::Ended(pid),
        (0, tid) => ChildEvent::Thread(tid),
        _ => ChildEvent::None,
    }
}

/// Returns false if the id belongs to a thread that is not the first of its process.
fn is_process(tid: i32) -> bool {
    // SAFETY: signal 0 is never delivered; the kernel only looks up the thread.
    let answer = unsafe { libc::syscall(libc::SYS_tgkill, tid, tid, 0) };
    answer == 0 || io::Error::last_os_error().raw_os_error() != Some(libc::ESRCH)
}

/// Waits for the end of this child, and reaps it.
pub fn wait_for_child(pid: i32) -> io::Result<ChildEnd> {
    let mut status = 0;
    // SAFETY: both out-parameters are live local variables.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        while libc::wait4(pid, &raw mut status, 0, &raw mut usage) < 0 {
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
        usage
    };
    Ok(ChildEnd {
        status: WaitStatus::from_raw(status),
        cpu: timeval_duration(usage.ru_utime) + timeval_duration(usage.ru_stime),
        max_rss: u64::try_from(usage.ru_maxrss).unwrap_or(0),
    })
}

/// Reaps this child if it has ended.
pub fn reap_if_ended(pid: i32) {
    let pid = rustix::process::Pid::from_raw(pid);
    let _ = rustix::process::waitpid(pid, rustix::process::WaitOptions::NOHANG);
}

fn timeval_duration(time: libc::timeval) -> Duration {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let micros = u64::try_from(time.tv_usec).unwrap_or(0);
    Duration::from_secs(seconds) + Duration::from_micros(micros)
}

/// Makes this process the parent of every orphan among its descendants.
pub fn become_subreaper() -> io::Result<()> {
    rustix::process::set_child_subreaper(Some(rustix::process::getpid())).map_err(Into::into)
}
