//! Examines the processes of a hung trial.
//!
//! The examination runs after the deadline or after a deadlock was found, before the processes are
//! asked to end. First it reads `/proc`, which does not disturb the processes. Then it runs optional
//! tools. At last it stops the processes to take their stacks.

use super::capture::OutputPatterns;
use super::container::RunningContainer;
use super::java_calls::add_java_calls;
use super::process::TrialProcess;
use super::python_calls::add_python_calls;
use super::snapshots::SnapshotFolder;
use super::{Slot, process_tree};
use provoke_model::{AbsentOwner, Hang, HungThread, WaitObject};
use provoke_sys::cgroup::TrialGroup;
use provoke_sys::snapshot::CoreThreads;
use provoke_sys::threads::{self, ThreadSample, WaitTarget};
use provoke_sys::{calls, engine, process};
use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

/// Time limit of taking the stacks.
const BUDGET: Duration = Duration::from_secs(5);
/// Interval between two snapshots of each thread.
const WATCHED: Duration = Duration::from_millis(200);
/// Threads that are listed individually; the rest is counted.
const LISTED: usize = 256;
/// Processes whose stacks are kept.
const STACKS: usize = 8;
/// System calls that wait, and during which the mappings of a process are not locked.
const WAITS: [&str; 17] = [
    "wait4",
    "waitid",
    "futex",
    "read",
    "poll",
    "ppoll",
    "select",
    "pselect6",
    "epoll_wait",
    "epoll_pwait",
    "nanosleep",
    "clock_nanosleep",
    "pause",
    "rt_sigsuspend",
    "rt_sigtimedwait",
    "recvfrom",
    "recvmsg",
];

/// State of a thread at one moment.
struct ThreadState {
    pid: i32,
    tid: i32,
    at: Instant,
    glance: ThreadSample,
    waits: Option<WaitTarget>,
}

impl Slot {
    /// Examines a hang; ends early when provoke sends a message.
    pub(super) fn inspect_hang(
        &mut self,
        processes: &mut [TrialProcess],
        patterns: &OutputPatterns,
        snapshots: &SnapshotFolder,
    ) -> Hang {
        let (mut hang, called) = self.watch_threads(processes, patterns);
        if !called && !self.control.is_closed() {
            self.add_stacks(&mut hang, processes, snapshots);
        }
        hang
    }

    /// Watches all threads for a moment without stopping them. Returns their state, and whether
    /// provoke sent a message meanwhile, which ends the watch.
    pub(super) fn watch_threads(
        &mut self,
        processes: &mut [TrialProcess],
        patterns: &OutputPatterns,
    ) -> (Hang, bool) {
        let pids = self.examined_pids(processes);
        let tids = threads_of(&pids);
        let listed = &tids[..tids.len().min(LISTED)];
        let first = look_at_threads(listed, &tids);
        // Read output during the pause; otherwise processes would block on full pipes.
        let pause = Instant::now() + WATCHED;
        let mut called = false;
        let is_any_left = |processes: &[TrialProcess]| {
            let mut processes = processes.iter();
            processes.any(|process| process.pid.is_some())
        };
        while Instant::now() < pause && !called && is_any_left(processes) {
            called = self.wait_for_activity(processes, patterns, pause);
        }
        let mut threads = compare_looks(first, look_at_threads(listed, &tids));
        for thread in &mut threads {
            thread.state = self.tracer.own_state(thread.tid, thread.state);
        }
        let unlisted = (tids.len() - listed.len()) as u64;
        find_absent_owners(&mut threads, &tids);
        if unlisted == 0 {
            find_readers(&mut threads);
        }
        let hang = Hang {
            cycle: find_wait_cycle(&threads),
            unlisted,
            programs: pids
                .iter()
                .filter_map(|pid| process_program(*pid))
                .collect(),
            forked_from_threads: pids
                .iter()
                .copied()
                .filter(|pid| is_forked_from_threads(*pid))
                .collect(),
            threads,
            ..Hang::default()
        };
        (hang, called)
    }

    /// Adds the calls of the threads in Python and Java, and the cores of their processes.
    pub(super) fn add_stacks(
        &self,
        hang: &mut Hang,
        processes: &[TrialProcess],
        snapshots: &SnapshotFolder,
    ) {
        let deadline = Instant::now() + BUDGET;
        let pids = self.examined_pids(processes);
        add_python_calls(&mut hang.threads, &pids, Some(deadline));
        add_java_calls(&mut hang.threads, &pids, deadline);
        complete_cycle(hang);
        for pid in pids.into_iter().take(STACKS) {
            if Instant::now() < deadline {
                hang.cores
                    .extend(snapshots.write_core("hang", pid, CoreThreads::All, deadline));
            }
        }
    }

    /// Adds the Python calls of the threads, as far as they can be read without another program.
    pub(super) fn add_python_stacks(&self, hang: &mut Hang, processes: &[TrialProcess]) {
        add_python_calls(&mut hang.threads, &self.examined_pids(processes), None);
        complete_cycle(hang);
    }

    /// Returns the living processes of the trial. For a container these are the processes in it,
    /// and not the engine's client.
    ///
    /// After an OOM kill these are only the processes that the slot started and that wait for something: a process that forks
    /// without memory keeps its mappings locked, so reading its command line or its stack may take minutes.
    pub(super) fn examined_pids(&self, processes: &[TrialProcess]) -> Vec<i32> {
        if self.group.as_ref().is_some_and(TrialGroup::has_oom_kills) {
            let pids = processes.iter().filter_map(|process| process.pid);
            return pids.filter(|pid| waits_for_something(*pid)).collect();
        }
        let contained = || {
            processes
                .iter()
                .filter(|process| process.container.is_some())
        };
        let mut pids = process_tree::living_processes(&self.given_up);
        pids.retain(|pid| contained().all(|process| process.pid != Some(*pid)));
        let held_containers = || contained().filter_map(|process| process.container.as_ref());
        if held_containers().next().is_some() {
            // Without a daemon, containers and their monitors are children of the slot.
            pids.retain(|pid| !engine::is_of_container(*pid));
            pids.extend(held_containers().flat_map(RunningContainer::living_processes));
        }
        pids
    }
}

/// Returns whether the main thread of a process sleeps in a system call that waits for another process, input or time.
fn waits_for_something(pid: i32) -> bool {
    threads::glance_at(pid, pid).is_some_and(|glance| {
        let call = glance.call.map(|call| calls::syscall_name(call.number));
        glance.state == 'S' && call.is_some_and(|call| WAITS.contains(&call.as_str()))
    })
}

fn threads_of(pids: &[i32]) -> Vec<(i32, i32)> {
    let pids = pids.iter();
    pids.flat_map(|pid| threads::thread_ids(*pid).into_iter().map(|tid| (*pid, tid)))
        .collect()
}

fn look_at_threads(listed: &[(i32, i32)], tids: &[(i32, i32)]) -> Vec<ThreadState> {
    let mut siblings: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
    for (pid, tid) in tids {
        siblings.entry(*pid).or_default().push(*tid);
    }
    let state_of = |&(pid, tid): &(i32, i32)| {
        let glance = threads::glance_at(pid, tid)?;
        let siblings = siblings.get(&pid)?;
        let waits = glance
            .call
            .and_then(|call| threads::wait_of_call(pid, tid, call, siblings));
        Some(ThreadState {
            pid,
            tid,
            at: Instant::now(),
            glance,
            waits,
        })
    };
    listed.iter().filter_map(state_of).collect()
}

/// Compares two snapshots of threads. A thread that waited for different targets has no particular
/// target.
fn compare_looks(first: Vec<ThreadState>, second: Vec<ThreadState>) -> Vec<HungThread> {
    let first: BTreeMap<i32, ThreadState> =
        first.into_iter().map(|state| (state.tid, state)).collect();
    let compare_state = |state: ThreadState| {
        let mut thread = HungThread {
            pid: state.pid,
            tid: state.tid,
            state: state.glance.state,
            channel: state.glance.channel,
            call: state
                .glance
                .call
                .map(|call| calls::syscall_name(call.number))
                .unwrap_or_default(),
            name: state.glance.name,
            ..HungThread::default()
        };
        let Some(earlier_state) = first.get(&state.tid) else {
            return thread;
        };
        thread.cpu = state.glance.cpu.saturating_sub(earlier_state.glance.cpu);
        if let Some((delay, delay_before)) = state.glance.delay.zip(earlier_state.glance.delay) {
            // The kernel adds a delay when it ends, so a delay may have begun before the first
            // snapshot.
            let delay = delay.saturating_sub(delay_before);
            let watched = state.at.duration_since(earlier_state.at);
            thread.cpu_available = watched.saturating_sub(delay).max(thread.cpu);
        }
        let is_ready = earlier_state.glance.state == 'R' && state.glance.state == 'R';
        let slept =
            state.glance.sleeps != earlier_state.glance.sleeps || state.glance.sleeps.is_none();
        thread.never_slept = is_ready && !slept;
        if let Some(wait) = state
            .waits
            .filter(|wait| earlier_state.waits == Some(*wait))
        {
            (thread.waits_on, thread.waits_for) = waits_of(wait);
            thread.lock_at = match wait {
                WaitTarget::Mutex { at: address, .. } | WaitTarget::RwLock { at: address, .. } => {
                    Some(address)
                }
                _ => None,
            };
        }
        thread
    };
    second.into_iter().map(compare_state).collect()
}

/// Returns what a thread waits for, and the thread or process that must act first.
fn waits_of(wait: WaitTarget) -> (Option<WaitObject>, Option<i32>) {
    let (object, target) = match wait {
        WaitTarget::Mutex { owner, shared, .. } if shared => (WaitObject::SharedMutex, Some(owner)),
        WaitTarget::Mutex { owner, .. } => (WaitObject::Mutex, Some(owner)),
        WaitTarget::RwLock {
            writer, readers, ..
        } => (WaitObject::RwLock { readers }, writer),
        WaitTarget::Join(thread) => (WaitObject::Join, Some(thread)),
        WaitTarget::Child(child) => (WaitObject::Child, child),
        WaitTarget::Vfork(child) => (WaitObject::Vfork, child),
    };
    (Some(object), target)
}

/// Finds locks whose owner is not a thread of the waiting process: the owner has ended, or belongs
/// to the process from which this one was forked.
fn find_absent_owners(threads: &mut [HungThread], tids: &[(i32, i32)]) {
    for thread in threads {
        let is_lock = matches!(
            thread.waits_on,
            Some(WaitObject::Mutex | WaitObject::SharedMutex | WaitObject::RwLock { .. })
        );
        let owner = match thread.waits_for {
            Some(owner) if is_lock => owner,
            _ => continue,
        };
        if tids.contains(&(thread.pid, owner)) {
            continue;
        }
        // The thread may have been started after the list was made.
        if let Some(owner) = threads::find_by_number(thread.pid, owner) {
            thread.waits_for = Some(owner);
            continue;
        }
        let process = threads::process_of(owner);
        if thread.waits_on == Some(WaitObject::SharedMutex) && process.is_some() {
            continue;
        }
        // The memory of a forked process contains the owners from its parent. In any other process,
        // the owner has ended and its number has been reused.
        let of_parent = process.filter(|pid| threads::shares_program(thread.pid, *pid));
        thread.waits_for = None;
        thread.absent_owner = Some(AbsentOwner {
            tid: owner,
            of_parent,
        });
    }
}

/// Finds the reader that holds a lock which a writer waits for.
///
/// Such a lock only counts its readers. If every other thread of the process waits for the writer,
/// one of them is the reader.
fn find_readers(threads: &mut [HungThread]) {
    let mut found = Vec::new();
    for (index, writer) in threads.iter().enumerate() {
        let held_by_readers = matches!(writer.waits_on, Some(WaitObject::RwLock { readers: 1.. }));
        if !held_by_readers || writer.waits_for.is_some() {
            continue;
        }
        let siblings = || {
            let other_threads = threads
                .iter()
                .filter(|other_thread| other_thread.tid != writer.tid);
            other_threads.filter(|other_thread| other_thread.pid == writer.pid)
        };
        if !siblings()
            .all(|other_thread| wait_path(threads, other_thread.tid).contains(&writer.tid))
        {
            continue;
        }
        let waits = |other_thread: &&HungThread| other_thread.waits_for == Some(writer.tid);
        let by_lock = |other_thread: &&HungThread| other_thread.waits_on != Some(WaitObject::Join);
        let reader = siblings()
            .filter(waits)
            .find(by_lock)
            .or_else(|| siblings().find(waits));
        found.extend(reader.map(|reader| (index, reader.tid)));
    }
    for (index, reader) in found {
        threads[index].waits_for = Some(reader);
    }
}

/// Returns a thread, the thread that it waits for, and so on, until a thread waits for none or is
/// already in the list.
fn wait_path(threads: &[HungThread], start: i32) -> Vec<i32> {
    let mut path = vec![start];
    loop {
        let last = path[path.len() - 1];
        let thread = threads.iter().find(|thread| thread.tid == last);
        match thread.and_then(|thread| thread.waits_for) {
            Some(next) if !path.contains(&next) => path.push(next),
            _ => return path,
        }
    }
}

/// Returns a process with the base name of its executable.
fn process_program(pid: i32) -> Option<(i32, String)> {
    let path = fs::read_link(format!("/proc/{pid}/exe")).ok()?;
    let name = path.file_name()?.to_string_lossy().into_owned();
    // The kernel appends this suffix if the file was deleted.
    let name = name.strip_suffix(" (deleted)").unwrap_or(&name);
    Some((pid, name.to_owned()))
}

/// Returns whether a process was forked from a process with several threads, without starting
/// another program since then: locks of the other threads stay locked in it.
fn is_forked_from_threads(pid: i32) -> bool {
    let Some((parent, born)) = process::parent_pid(pid).zip(threads::start_ticks(pid, pid)) else {
        return false;
    };
    // Times are in ticks; the order within one tick is unknown.
    let older = threads::thread_ids(parent)
        .into_iter()
        .filter(|tid| threads::start_ticks(parent, *tid).is_some_and(|started| started < born));
    older.count() > 1 && threads::shares_program(pid, parent)
}

/// Returns threads each of which waits for the next one, and the last for the first. Each thread
/// waits for at most one other, so a chain either ends or becomes a cycle.
fn find_wait_cycle(threads: &[HungThread]) -> Vec<i32> {
    let waits_for: BTreeMap<i32, i32> = threads
        .iter()
        .filter_map(|thread| Some((thread.tid, thread.waits_for?)))
        .collect();
    for thread in threads {
        let mut path = vec![thread.tid];
        while let Some(next) = path.last().and_then(|last| waits_for.get(last)) {
            if let Some(position) = path.iter().position(|visited| visited == next) {
                return path.split_off(position);
            }
            path.push(*next);
        }
    }
    Vec::new()
}

/// Adds a cycle of locks that only runtimes know.
fn complete_cycle(hang: &mut Hang) {
    if hang.cycle.is_empty() {
        hang.cycle = find_wait_cycle(&hang.threads);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use provoke_model::ThreadActivity;

    fn waiting(edges: &[(i32, i32)]) -> Vec<HungThread> {
        let thread = |(tid, waits_for): &(i32, i32)| HungThread {
            tid: *tid,
            waits_for: Some(*waits_for).filter(|tid| *tid > 0),
            ..HungThread::default()
        };
        edges.iter().map(thread).collect()
    }

    #[test]
    fn a_wait_cycle_is_found_from_a_thread_outside_of_it() {
        let threads = waiting(&[(1, 2), (2, 3), (3, 4), (4, 2), (5, 0)]);
        assert_eq!(find_wait_cycle(&threads), [2, 3, 4]);
    }

    #[test]
    fn a_chain_of_waits_is_not_a_cycle() {
        assert_eq!(
            find_wait_cycle(&waiting(&[(1, 2), (2, 3), (3, 9)])),
            [] as [i32; 0]
        );
        assert_eq!(find_wait_cycle(&[]), [] as [i32; 0]);
    }

    fn snapshot(
        state: char,
        cpu: u64,
        delay: u64,
        sleeps: u64,
        waits: Option<WaitTarget>,
    ) -> ThreadState {
        ThreadState {
            pid: 1,
            tid: 1,
            at: Instant::now(),
            glance: ThreadSample {
                name: "x".to_owned(),
                state,
                channel: String::new(),
                call: None,
                cpu: Duration::from_millis(cpu),
                delay: Some(Duration::from_millis(delay)),
                sleeps: Some(sleeps),
            },
            waits,
        }
    }

    fn compare_snapshots(first: ThreadState, mut second: ThreadState) -> HungThread {
        second.at = first.at + WATCHED;
        compare_looks(vec![first], vec![second]).remove(0)
    }

    #[test]
    fn a_wait_counts_only_if_both_snapshots_show_the_same_target() {
        let join = |tid| Some(WaitTarget::Join(tid));
        let same = compare_snapshots(
            snapshot('S', 10, 0, 1, join(2)),
            snapshot('S', 15, 0, 1, join(2)),
        );
        assert_eq!(
            (same.waits_for, same.waits_on),
            (Some(2), Some(WaitObject::Join))
        );
        assert_eq!(same.cpu, Duration::from_millis(5));
        let other = compare_snapshots(
            snapshot('S', 0, 0, 1, join(2)),
            snapshot('S', 0, 0, 1, join(3)),
        );
        assert_eq!((other.waits_for, other.waits_on), (None, None));
    }

    #[test]
    fn a_loop_that_gets_a_fifth_of_a_cpu_is_busy() {
        let throttled = compare_snapshots(
            snapshot('R', 100, 300, 1, None),
            snapshot('R', 139, 461, 1, None),
        );
        assert_eq!(throttled.cpu_available, Duration::from_millis(39));
        assert!(throttled.never_slept);
        assert_eq!(throttled.current_activity(), ThreadActivity::Busy);
        // The thread sleeps between the snapshots, and each snapshot finds it working.
        let polls = compare_snapshots(
            snapshot('R', 100, 0, 1, None),
            snapshot('R', 101, 2, 19, None),
        );
        assert!(!polls.never_slept);
        assert_eq!(polls.current_activity(), ThreadActivity::Blocked);
    }

    fn lock_waiter(tid: i32, on: WaitObject, waits_for: Option<i32>) -> HungThread {
        HungThread {
            pid: 1,
            tid,
            waits_on: Some(on),
            waits_for,
            ..HungThread::default()
        }
    }

    #[test]
    fn the_only_possible_reader_of_a_lock_is_found() {
        let one_reader = WaitObject::RwLock { readers: 1 };
        let main = lock_waiter(1, WaitObject::Join, Some(2));
        let reader = lock_waiter(2, WaitObject::Mutex, Some(3));
        let writer = lock_waiter(3, one_reader, None);
        let mut threads = vec![main, reader, writer];
        let mut with_another = threads.clone();
        find_readers(&mut threads);
        assert_eq!(find_wait_cycle(&threads), [2, 3]);
        // Another thread that does not wait for a lock may be the reader.
        with_another.push(HungThread {
            pid: 1,
            tid: 4,
            ..HungThread::default()
        });
        find_readers(&mut with_another);
        assert_eq!(with_another[2].waits_for, None);
    }

    #[test]
    fn a_lock_owner_that_is_not_a_thread_of_the_process_is_absent() {
        let pid = std::process::id().cast_signed();
        let gone = i32::MAX;
        let mut threads = vec![
            lock_waiter(2, WaitObject::Mutex, Some(gone)),
            lock_waiter(3, WaitObject::Join, Some(gone)),
            lock_waiter(4, WaitObject::Mutex, Some(pid)),
            lock_waiter(5, WaitObject::SharedMutex, Some(1)),
        ];
        for thread in &mut threads {
            thread.pid = pid;
        }
        find_absent_owners(&mut threads, &[(pid, 2), (pid, 3), (pid, 4), (pid, 5)]);
        let ended = AbsentOwner {
            tid: gone,
            of_parent: None,
        };
        assert_eq!(
            (threads[0].waits_for, threads[0].absent_owner),
            (None, Some(ended))
        );
        assert_eq!(threads[1].waits_for, Some(gone), "a join is no lock");
        assert_eq!(threads[2].absent_owner, None, "it was started meanwhile");
        assert_eq!(threads[3].waits_for, Some(1), "another process may own it");
    }
}
