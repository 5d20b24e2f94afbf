//! Recognizes process trees in which every thread waits for another one, from `/proc`.
//!
//! Nothing is stopped. A thread in such a wait continues only if another thread of the tree acts,
//! or if a process outside of the tree sends a signal.

use super::process;
use super::stat;
use super::threads::{self, FUTEX_WAITS, SystemCall, WaitTarget};
use std::fs;

/// Signals that the kernel sends by itself if the program requested them: when a time is over, or
/// when input is available.
const REQUESTED_SIGNALS: [i32; 2] = [libc::SIGALRM, libc::SIGIO];

/// A thread that waits for another thread or process of its tree, or that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitingThread {
    tid: i32,
    /// System call in which the thread waits; `None` if the thread has ended.
    call: Option<SystemCall>,
    /// Number of voluntary context switches, which grows if the thread continues and waits again.
    sleeps: u64,
}

/// Returns the threads below a process, if all of them wait. The error is the process and the thread
/// that can continue by itself, because of input, or when a time is over.
pub fn waiting_descendants(pid: i32) -> Result<Vec<WaitingThread>, (i32, i32)> {
    let mut pids = process::child_pids(pid);
    let mut threads = Vec::new();
    let mut index = 0;
    while let Some(pid) = pids.get(index).copied() {
        threads.extend(waiting_threads(pid)?);
        let children = process::child_pids(pid).into_iter();
        let new_pids: Vec<i32> = children.filter(|child| !pids.contains(child)).collect();
        pids.extend(new_pids);
        index += 1;
    }
    Ok(threads)
}

/// Returns the threads of a stuck process and the threads that wait for it, if a process is stuck, or if one of its threads
/// waits for a child that is stuck or waits for a stuck child in turn.
///
/// In a stuck process, each thread waits for another one, and one of them for a lock whose owner is not in the process.
/// Other threads of the waiting processes may run, but could only kill the stuck process.
pub fn wait_for_stuck_process(pid: i32) -> Option<Vec<WaitingThread>> {
    let tids = threads::thread_ids(pid);
    if let Some(threads) = stuck_threads(pid, &tids) {
        return Some(threads);
    }
    tids.iter().find_map(|tid| {
        let waiting = waiting_thread(pid, *tid, &tids)?;
        let target = threads::wait_of_call(pid, *tid, waiting.call?, &tids);
        let Some(WaitTarget::Child(Some(child))) = target else {
            return None;
        };
        let mut path = wait_for_stuck_process(child)?;
        path.push(waiting);
        Some(path)
    })
}

/// Returns the threads of a process, if each waits for another one and an owner of a lock is absent.
fn stuck_threads(pid: i32, tids: &[i32]) -> Option<Vec<WaitingThread>> {
    let threads: Vec<WaitingThread> = tids
        .iter()
        .map(|tid| waiting_thread(pid, *tid, tids))
        .collect::<Option<_>>()?;
    let waits_inside = |thread: &WaitingThread| {
        let call = thread.call;
        call.is_none_or(|call| call.number == libc::SYS_futex)
    };
    let lacks_owner = |thread: &WaitingThread| {
        let call = thread.call;
        let target = call.and_then(|call| threads::wait_of_call(pid, thread.tid, call, tids));
        matches!(
            target,
            Some(WaitTarget::Mutex { owner, shared: false, .. })
                if !tids.contains(&owner) && threads::find_by_number(pid, owner).is_none()
        )
    };
    let is_stuck =
        threads.iter().all(waits_inside) && threads.iter().any(lacks_owner) && !has_timer(pid);
    is_stuck.then_some(threads)
}

/// Returns whether a thread of a process exists and can continue by itself.
pub fn can_continue((pid, tid): (i32, i32)) -> bool {
    let tids = threads::thread_ids(pid);
    tids.contains(&tid) && waiting_thread(pid, tid, &tids).is_none()
}

fn waiting_threads(pid: i32) -> Result<Vec<WaitingThread>, (i32, i32)> {
    let tids = threads::thread_ids(pid);
    let threads: Vec<WaitingThread> = tids
        .iter()
        .map(|tid| waiting_thread(pid, *tid, &tids).ok_or((pid, *tid)))
        .collect::<Result<_, _>>()?;
    if threads.is_empty() || has_timer(pid) {
        return Err((pid, pid));
    }
    Ok(threads)
}

fn waiting_thread(pid: i32, tid: i32, siblings: &[i32]) -> Option<WaitingThread> {
    let read = |file: &str| stat::read_text(&format!("/proc/{pid}/task/{tid}/{file}")).ok();
    let call = threads::parse_call(&read("syscall")?);
    // A program that makes progress usually fails this test at one of its first threads.
    if call.is_some_and(|call| !needs_another_thread(pid, tid, call, siblings)) {
        return None;
    }
    let status = read("status")?;
    let state = text_after(&status, "State:")?.chars().next()?;
    let waits = matches!((state, call), ('S' | 'D', Some(_)) | ('Z' | 'X', None));
    let handled = u64::from_str_radix(text_after(&status, "SigCgt:")?, 16).ok()?;
    let is_handled = |signal: &i32| handled & (1 << (signal - 1)) != 0;
    if !waits || REQUESTED_SIGNALS.iter().any(is_handled) {
        return None;
    }
    Some(WaitingThread {
        tid,
        call,
        sleeps: text_after(&status, "voluntary_ctxt_switches:")?
            .parse()
            .ok()?,
    })
}

/// Returns whether only another thread or process of the tree can end the system call of a thread.
fn needs_another_thread(pid: i32, tid: i32, call: SystemCall, siblings: &[i32]) -> bool {
    let [first, operation, _, timeout, ..] = call.arguments;
    let target = || threads::wait_of_call(pid, tid, call, siblings);
    match call.number {
        libc::SYS_futex => {
            let flags = i32::try_from(operation).unwrap_or_default();
            let is_private = flags & libc::FUTEX_PRIVATE_FLAG != 0;
            // A process outside of the tree may share memory, but cannot end a thread.
            timeout == 0
                && FUTEX_WAITS.contains(&(flags & libc::FUTEX_CMD_MASK))
                && (is_private || matches!(target(), Some(WaitTarget::Join(_))))
        }
        libc::SYS_wait4 | libc::SYS_waitid => true,
        libc::SYS_read => is_pipe(pid, first),
        _ => matches!(target(), Some(WaitTarget::Vfork(_))),
    }
}

/// Returns whether a descriptor is a pipe without a name: processes outside of the tree do not
/// write to it.
fn is_pipe(pid: i32, descriptor: u64) -> bool {
    fs::read_link(format!("/proc/{pid}/fd/{descriptor}"))
        .is_ok_and(|target| target.as_os_str().as_encoded_bytes().starts_with(b"pipe:"))
}

/// Returns whether a process has a POSIX timer, or whether that is not known.
fn has_timer(pid: i32) -> bool {
    fs::read(format!("/proc/{pid}/timers")).map_or(true, |timers| !timers.is_empty())
}

/// Returns the text in the line of `/proc/PID/status` that begins with this name.
fn text_after<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    let value = status.lines().find_map(|line| line.strip_prefix(name))?;
    Some(value.trim())
}
