//! Reads processes from `/proc`.

use super::child::WaitStatus;
use super::stat::Stat;
use std::collections::HashSet;
use std::fs;
use std::time::Duration;

/// Process id and start time, which together identify a process even if ids are reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ProcessIdentity {
    /// Process id.
    pub pid: i32,
    /// Clock ticks from boot to the start of the process.
    pub start: u64,
}

/// Details of a process.
#[derive(Clone, Debug)]
pub struct ProcessDetails {
    /// Identity of the process.
    pub identity: ProcessIdentity,
    /// Name of the process.
    pub name: String,
    /// Process id of the parent.
    pub ppid: i32,
    /// Session id.
    pub session: i32,
    /// State: R, S, D, T, Z ...
    pub state: char,
    /// Time since the start.
    pub age: Duration,
    /// Resident memory in KiB.
    pub rss_kib: u64,
    /// Number of threads.
    pub threads: u64,
    /// Command line.
    pub command: Vec<std::ffi::OsString>,
    /// Working directory.
    pub cwd: std::ffi::OsString,
}

/// Resource usage of a process.
#[derive(Clone, Copy, Debug)]
pub struct ProcessUsage {
    /// Resident memory in KiB.
    pub rss_kib: u64,
    /// Number of threads; 0 for a process that has ended but was not reaped.
    pub threads: u64,
    /// Number of open file descriptors; 0 without permission to count them.
    pub descriptors: u64,
}

/// Returns the resource usage of a process; `None` if it is gone.
pub fn process_size(pid: i32) -> Option<ProcessUsage> {
    let stat = Stat::of_process(pid)?;
    let is_alive = stat.state != 'Z';
    Some(ProcessUsage {
        rss_kib: stat.resident_kib,
        threads: stat.threads * u64::from(is_alive),
        descriptors: count_descriptors(pid),
    })
}

/// Returns the number of open file descriptors of a process; 0 without permission to count them.
fn count_descriptors(pid: i32) -> u64 {
    let folder = format!("/proc/{pid}/fd");
    // Since Linux 6.2 the size of this folder is the number of descriptors.
    match fs::metadata(&folder) {
        Ok(metadata) if metadata.len() > 0 => metadata.len(),
        _ => fs::read_dir(folder).map_or(0, |entries| entries.count() as u64),
    }
}

/// Returns the children of a process, of all of its threads.
pub fn child_pids(pid: i32) -> Vec<i32> {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return Vec::new();
    };
    let mut pids = Vec::new();
    for thread in threads.flatten() {
        match fs::read_to_string(thread.path().join("children")) {
            Ok(list) => pids.extend(
                list.split_ascii_whitespace()
                    .filter_map(|pid| pid.parse::<i32>().ok()),
            ),
            Err(_) if !thread.path().exists() => {} // the thread has ended meanwhile
            // The kernel was built without this file, so read every process instead.
            Err(_) => return children_by_scan(pid),
        }
    }
    pids
}

/// Returns the children of one thread in the order of their creation.
pub fn children_of_thread(pid: i32, tid: i32) -> Vec<i32> {
    match fs::read_to_string(format!("/proc/{pid}/task/{tid}/children")) {
        Ok(list) => list
            .split_ascii_whitespace()
            .filter_map(|child| child.parse().ok())
            .collect(),
        Err(_) => children_by_scan(pid),
    }
}

fn children_by_scan(parent: i32) -> Vec<i32> {
    let is_child = |pid: &i32| Stat::of_process(*pid).is_some_and(|stat| stat.parent == parent);
    visible_pids().filter(is_child).collect()
}

/// Returns the processes in `/proc`.
pub(super) fn visible_pids() -> impl Iterator<Item = i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Returns all descendants of a process, parents before their children.
pub fn descendant_pids(pid: i32) -> Vec<i32> {
    let mut pids = child_pids(pid);
    let mut known: HashSet<i32> = pids.iter().copied().collect();
    let mut index = 0;
    while index < pids.len() {
        let mut children = child_pids(pids[index]);
        // A process may appear twice if the tree changes during the scan.
        children.retain(|pid| known.insert(*pid));
        pids.extend(children);
        index += 1;
    }
    pids
}

/// Returns the parent of a process; `None` if the process is gone.
pub fn parent_pid(pid: i32) -> Option<i32> {
    Some(Stat::of_process(pid)?.parent)
}

/// Returns state and identity of a process; `None` if it is gone.
pub fn process_state(pid: i32) -> Option<(char, ProcessIdentity)> {
    let stat = Stat::of_process(pid)?;
    Some((
        stat.state,
        ProcessIdentity {
            pid,
            start: stat.start,
        },
    ))
}

/// Returns how a process ended that was not reaped yet.
pub fn zombie_status(pid: i32) -> Option<WaitStatus> {
    let stat = Stat::of_process(pid).filter(|stat| stat.state == 'Z')?;
    Some(WaitStatus::from_raw(stat.exit_code))
}

/// Returns the details of a process; `None` if it is gone.
pub fn process_detail(pid: i32) -> Option<ProcessDetails> {
    let stat = Stat::of_process(pid)?;
    let uptime: f64 = fs::read_to_string("/proc/uptime")
        .ok()?
        .split_ascii_whitespace()
        .next()?
        .parse()
        .ok()?;
    let uptime = Duration::try_from_secs_f64(uptime).ok()?;
    let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let cwd = fs::read_link(format!("/proc/{pid}/cwd"));
    Some(ProcessDetails {
        identity: ProcessIdentity {
            pid,
            start: stat.start,
        },
        ppid: stat.parent,
        session: stat.session,
        state: stat.state,
        age: uptime.saturating_sub(stat.start_time()),
        rss_kib: stat.resident_kib,
        threads: stat.threads,
        command: split_arguments(&command),
        cwd: cwd.map(Into::into).unwrap_or_default(),
        name: stat.name,
    })
}

fn split_arguments(cmdline: &[u8]) -> Vec<std::ffi::OsString> {
    use std::os::unix::ffi::OsStrExt as _;
    let text = cmdline.strip_suffix(b"\0").unwrap_or(cmdline);
    if text.is_empty() {
        return Vec::new();
    }
    text.split(|byte| *byte == 0)
        .map(|argument| std::ffi::OsStr::from_bytes(argument).to_owned())
        .collect()
}
