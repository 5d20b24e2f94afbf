//! Reads threads from `/proc`: the activity of each thread, and the thread that it waits for.

use super::libraries::parse_auxv;
use super::memory::ProcessMemory;
use super::stat::{Stat, read_text};
use super::{calls, process};
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

/// Bits of a lock word that contain a thread id, if the lock stores its owner.
const OWNER: u32 = 0x3fff_ffff;
/// Lock word of a plain mutex with waiters.
const CONTENDED: u32 = 2;
/// Limit of thread ids in the kernel.
const MAX_TID: i32 = 1 << 22;
/// Limit of the threads that use one mutex, including waiters for a condition variable.
const MAX_USERS: u32 = 1 << 16;
/// Limit of the type of a mutex, which is a sum of flags.
const MUTEX_KINDS: u32 = 1 << 10;

/// Activity of a thread at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadSample {
    /// Name of the thread.
    pub name: String,
    /// State: R, S, D, T ...
    pub state: char,
    /// Kernel function in which the thread waits; reading it may need privileges.
    pub channel: String,
    /// Present system call.
    pub call: Option<SystemCall>,
    /// CPU time of the thread.
    pub cpu: Duration,
    /// Time in which the thread was ready to run without a CPU; `None` if the kernel does not count
    /// it.
    pub delay: Option<Duration>,
    /// Number of voluntary context switches: the thread slept or waited.
    pub sleeps: Option<u64>,
}

/// Target that a thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitTarget {
    /// A mutex with an owner.
    Mutex {
        /// Thread id of the owner.
        owner: i32,
        /// The mutex is shared between processes, so the owner may be in another process.
        shared: bool,
        /// Address of the mutex.
        at: u64,
    },
    /// A read-write lock.
    RwLock {
        /// Thread that holds the lock for writing, if there is one.
        writer: Option<i32>,
        /// Number of readers that hold the lock.
        readers: u32,
        /// Address of the lock.
        at: u64,
    },
    /// The end of a thread.
    Join(i32),
    /// The end of a child; its pid is known if there is only one.
    Child(Option<i32>),
    /// A child created with `vfork`, which has not yet started a program or ended.
    Vfork(Option<i32>),
}

/// A system call in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SystemCall {
    /// Number of the system call.
    pub number: i64,
    /// Arguments of the system call.
    pub arguments: [u64; 6],
}

impl ThreadSample {
    /// Returns one word for the wait: the system call, the kernel function, or the state.
    pub fn waiting_reason(&self) -> String {
        match self.call {
            Some(call) => calls::syscall_name(call.number),
            None if self.state == 'R' || self.channel.is_empty() => self.state.to_string(),
            None => self.channel.clone(),
        }
    }
}

/// Returns the threads of a process, beginning with the first.
pub fn thread_ids(pid: i32) -> Vec<i32> {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return Vec::new();
    };
    let mut tids: Vec<i32> = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect();
    tids.sort_by_key(|tid| (*tid != pid, *tid));
    tids
}

/// Returns the process of a thread.
pub fn process_of(tid: i32) -> Option<i32> {
    number_after(&read_text(&format!("/proc/{tid}/status")).ok()?, "Tgid:")
}

/// Returns the activity of a thread; `None` if the thread is gone.
pub fn glance_at(pid: i32, tid: i32) -> Option<ThreadSample> {
    let read = |file: &str| read_text(&format!("/proc/{pid}/task/{tid}/{file}"));
    let stat = Stat::of_thread(pid, tid)?;
    // `schedstat` is more precise than the ticks in `stat`, but not every kernel has it.
    let schedule_text = read("schedstat").unwrap_or_default();
    let mut schedule = schedule_text.split(' ').map(|field| field.parse().ok());
    let mut next_time = || schedule.next().flatten().map(Duration::from_nanos);
    let (ran, delay) = (next_time(), next_time());
    let cpu = ran.unwrap_or(stat.cpu);
    let sleeps = read("status")
        .ok()
        .and_then(|status| number_after(&status, "voluntary_ctxt_switches:"));
    let channel = read("wchan").unwrap_or_default();
    Some(ThreadSample {
        name: stat.name,
        state: stat.state,
        channel: if channel == "0" {
            String::new()
        } else {
            channel
        },
        call: read("syscall").ok().as_deref().and_then(parse_call),
        cpu,
        delay,
        sleeps,
    })
}

/// Returns the last number in the line of `/proc/PID/status` that begins with this name.
fn number_after<T: std::str::FromStr>(status: &str, name: &str) -> Option<T> {
    let value = status.lines().find_map(|line| line.strip_prefix(name))?;
    value.split_ascii_whitespace().last()?.parse().ok()
}

/// Parses `/proc/PID/task/TID/syscall`, which is `running` for a running thread and begins with -1
/// outside of system calls.
pub fn parse_call(text: &str) -> Option<SystemCall> {
    let mut fields = text.split_ascii_whitespace();
    let number = fields.next()?.parse().ok().filter(|number| *number >= 0)?;
    let mut arguments = [0; 6];
    for argument in &mut arguments {
        *argument = u64::from_str_radix(fields.next()?.strip_prefix("0x")?, 16).ok()?;
    }
    Some(SystemCall { number, arguments })
}

/// Returns the target of a thread's wait in this system call, if the call or the lock shows it.
///
/// Locks are recognized if they store their owner: mutexes and read-write locks of glibc, mutexes
/// of musl, and the end of a thread for a join. `threads` are the living threads of the process.
pub fn wait_of_call(pid: i32, tid: i32, call: SystemCall, threads: &[i32]) -> Option<WaitTarget> {
    let [first, second, ..] = call.arguments;
    let number = |word: u64| i32::try_from(word).ok().filter(|pid| *pid > 0);
    let only_child = || match process::child_pids(pid)[..] {
        [child] => Some(child),
        _ => None,
    };
    let child = |named: Option<i32>| {
        // The argument is a pid in the process's namespace, which may differ here.
        let named = named.filter(|child| process::parent_pid(*child) == Some(pid));
        WaitTarget::Child(named.or_else(only_child))
    };
    let vfork = || WaitTarget::Vfork(process::children_of_thread(pid, tid).last().copied());
    let is_vfork = |flags: u64| flags & VFORK == VFORK;
    match call.number {
        libc::SYS_futex => wait_of_futex(pid, tid, call, threads),
        // "Any child" is -1, and the argument is an `int` in a wider word.
        libc::SYS_wait4 => Some(child(number(first & 0xffff_ffff))),
        libc::SYS_waitid if first == u64::from(libc::P_PID) => Some(child(number(second))),
        libc::SYS_waitid if first == u64::from(libc::P_ALL) => Some(child(None)),
        libc::SYS_clone if is_vfork(first) => Some(vfork()),
        libc::SYS_clone3 => {
            let [flags] = ProcessMemory::of_process(pid)
                .ok()?
                .read_words::<1>(first)
                .ok()?;
            is_vfork(flags).then(vfork)
        }
        #[cfg(target_arch = "x86_64")]
        libc::SYS_vfork => Some(vfork()),
        _ => None,
    }
}

/// Flag that `vfork` and `posix_spawn` pass to `clone`.
const VFORK: u64 = libc::CLONE_VFORK as u64;

/// Operations of `futex` that wait, with the time limit as the fourth argument.
pub(super) const FUTEX_WAITS: [i32; 3] = [
    libc::FUTEX_WAIT,
    libc::FUTEX_WAIT_BITSET,
    libc::FUTEX_LOCK_PI,
];

/// Returns the target of a thread's wait in `futex`.
fn wait_of_futex(pid: i32, tid: i32, call: SystemCall, threads: &[i32]) -> Option<WaitTarget> {
    let [address, operation_word, expected, ..] = call.arguments;
    let flags = i32::try_from(operation_word).ok()?;
    let operation = flags & libc::FUTEX_CMD_MASK;
    if !FUTEX_WAITS.contains(&operation) {
        return None;
    }
    let memory = ProcessMemory::of_process(pid).ok()?;
    let mut tids = threads.to_vec();
    // Locks contain the ids that threads have in their container.
    if number_in_container(pid, pid).is_some_and(|number| number != pid) {
        tids = threads
            .iter()
            .map(|tid| number_in_container(pid, *tid).unwrap_or(0))
            .collect();
    }
    // An id without a living thread here belongs to another namespace or to an ended thread.
    let outside = |owner: i32| match tids.iter().position(|tid| *tid == owner) {
        Some(index) => threads[index],
        None => owner,
    };
    let head = memory.read_halves::<3>(address).ok()?;
    let shared = flags & libc::FUTEX_PRIVATE_FLAG == 0;
    if let Some(owner) = mutex_owner(head) {
        let is_of_another = tids.contains(&owner) && outside(owner) != tid;
        // If the owner is not another living thread of the process, the whole structure must look
        // like a mutex.
        let is_mutex = || memory.read_halves::<5>(address).is_ok_and(looks_like_mutex);
        if is_of_another || is_mutex() {
            let owner = outside(owner);
            return Some(WaitTarget::Mutex {
                owner,
                shared,
                at: address,
            });
        }
    }
    if operation == libc::FUTEX_WAIT_BITSET {
        for field in [RWLOCK_PHASE, RWLOCK_WRITERS] {
            let start = address.wrapping_sub(4 * field as u64);
            let lock = memory.read_halves::<8>(start).ok();
            let holders = lock.and_then(|lock| rwlock_holders(lock, field, expected));
            if let Some((writer, readers)) = holders {
                let writer = writer.map(outside);
                return Some(WaitTarget::RwLock {
                    writer,
                    readers,
                    at: start,
                });
            }
        }
    }
    let owner = i32::try_from(head[0] & OWNER).ok()?;
    let living = outside(Some(owner).filter(|owner| tids.contains(owner))?);
    // The futex of a join contains only the thread id; a lock also has a bit for waiters.
    if head[0] & !OWNER == 0 {
        (living != tid).then_some(WaitTarget::Join(living))
    } else {
        Some(WaitTarget::Mutex {
            owner: living,
            shared,
            at: address,
        })
    }
}

/// Returns the id of a thread in its innermost pid namespace.
pub(super) fn number_in_container(pid: i32, tid: i32) -> Option<i32> {
    number_after(
        &read_text(&format!("/proc/{pid}/task/{tid}/status")).ok()?,
        "NSpid:",
    )
}

/// Returns whether a process handles a signal.
pub fn catches_signal(pid: i32, signal: Signal) -> bool {
    has_in_signal_set(pid, "SigCgt:", signal.as_raw())
}

/// Returns whether a set of signals of a process, such as `SigIgn:`, contains a signal.
pub fn has_in_signal_set(pid: i32, set: &str, signal: i32) -> bool {
    let status = read_text(&format!("/proc/{pid}/status")).unwrap_or_default();
    let mut lines = status.lines();
    let mask = lines.find_map(|line| line.strip_prefix(set));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

/// Returns the living thread of a process that has this id in its container.
pub fn find_by_number(pid: i32, number: i32) -> Option<i32> {
    let is_it = |tid: &i32| number_in_container(pid, *tid).unwrap_or(*tid) == number;
    thread_ids(pid).into_iter().find(is_it)
}

/// Returns the living threads of a process by their ids in its container.
pub fn threads_by_number(pid: i32) -> BTreeMap<i32, i32> {
    let numbered = |tid: i32| (number_in_container(pid, tid).unwrap_or(tid), tid);
    thread_ids(pid).into_iter().map(numbered).collect()
}

/// Returns the owner of a plain glibc mutex with waiters: lock word, count, owner.
fn mutex_owner([word, _, owner]: [u32; 3]) -> Option<i32> {
    let owner = i32::try_from(owner).ok().filter(|owner| *owner > 0)?;
    (word == CONTENDED && owner <= MAX_TID).then_some(owner)
}

/// Returns whether the structure looks like a glibc mutex: the number of users and the type follow
/// the owner.
fn looks_like_mutex([word, count, _, users, kind]: [u32; 5]) -> bool {
    let is_used = (1..MAX_USERS).contains(&users);
    word == CONTENDED && count <= 1 && is_used && kind < MUTEX_KINDS
}

/// Words of a glibc read-write lock in which threads wait: for a change of the phase, and for
/// another writer.
const RWLOCK_PHASE: usize = 2;
const RWLOCK_WRITERS: usize = 3;

/// Returns the thread that holds a read-write lock for writing, and the number of readers.
///
/// The words are: readers and flags, writers, phase, futex of writers, two unused ones, the writer,
/// and whether processes share the lock.
fn rwlock_holders(lock: [u32; 8], waits_at: usize, expected: u64) -> Option<(Option<i32>, u32)> {
    const WRITE_PHASE: u32 = 1;
    const WRITE_LOCKED: u32 = 2;
    /// Futex value on which a thread waits in the reading phase, and in the writing phase.
    const READING: u64 = 2;
    const WRITING: u64 = 3;
    // If processes share the lock, the writer may be a thread of any of them.
    let [state, _, _, _, nobody, nor, writer, shared] = lock;
    let readers = state >> 3;
    let (write_phase, locked) = (state & WRITE_PHASE != 0, state & WRITE_LOCKED != 0);
    if u64::from(lock[waits_at]) != expected || [nobody, nor, shared] != [0; 3] {
        return None;
    }
    let writer = i32::try_from(writer)
        .ok()
        .filter(|writer| (1..=MAX_TID).contains(writer));
    match (waits_at, expected) {
        // A writer waits for the last reader.
        (RWLOCK_PHASE, READING) => {
            (!write_phase && locked && readers > 0).then_some((None, readers))
        }
        // A reader or a writer waits for the writer.
        (RWLOCK_PHASE, WRITING) => (write_phase && writer.is_some()).then_some((writer, 0)),
        (RWLOCK_WRITERS, WRITING) if locked => {
            let readers = if writer.is_some() { 0 } else { readers };
            (writer.is_some() || readers > 0).then_some((writer, readers))
        }
        _ => None,
    }
}

/// Returns whether a process still runs the program from which its parent forked it.
///
/// Both then have the same random bytes, which the kernel generates for each executed program.
pub fn shares_program(pid: i32, parent: i32) -> bool {
    let random = |pid: i32| -> Option<[u64; 2]> {
        let address = auxiliary_value(pid, AT_RANDOM)?;
        ProcessMemory::of_process(pid)
            .ok()?
            .read_words(address)
            .ok()
    };
    random(parent).is_some_and(|bytes| random(pid) == Some(bytes))
}

/// In the auxiliary vector: address of the program's random bytes.
const AT_RANDOM: u64 = 25;

/// Returns a value of the auxiliary vector of a process.
pub fn auxiliary_value(pid: i32, key: u64) -> Option<u64> {
    let vector = fs::read(format!("/proc/{pid}/auxv")).ok()?;
    parse_auxv(&vector).get(&key).copied()
}

/// Returns when a thread was started, in clock ticks from boot.
pub fn start_ticks(pid: i32, tid: i32) -> Option<u64> {
    Some(Stat::of_thread(pid, tid)?.start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_thread_in_a_system_call_has_a_call() {
        let text = "202 0x7f00 0x80 0x2 0x0 0x0 0x0 0x7ffe00 0x7f11\n";
        let call_seen = parse_call(text).unwrap();
        assert_eq!(
            (call_seen.number, call_seen.arguments[..3].to_vec()),
            (202, vec![0x7f00, 0x80, 2])
        );
        assert_eq!(parse_call("running\n"), None);
        assert_eq!(parse_call("-1 0x7ffe00 0x7f11\n"), None);
    }

    #[test]
    fn a_contended_mutex_has_its_owner_in_the_third_word() {
        assert_eq!(mutex_owner([2, 1, 4711]), Some(4711));
        assert_eq!(mutex_owner([1, 0, 4711]), None, "nobody waits");
        assert_eq!(mutex_owner([2, 0, 0]), None);
        assert_eq!(mutex_owner([2, 0, u32::MAX]), None);
        assert!(looks_like_mutex([2, 0, 4711, 1, 0]));
        assert!(!looks_like_mutex([2, 0, 4711, 0, 0]), "nobody uses it");
        assert!(!looks_like_mutex([2, 0, 4711, 1, 0x5590]), "no kind");
    }

    #[test]
    fn a_read_write_lock_names_its_writer_and_counts_its_readers() {
        // State while a writer waits for one reader.
        let read = [0xa, 0, 2, 1, 0, 0, 0, 0];
        assert_eq!(rwlock_holders(read, RWLOCK_PHASE, 2), Some((None, 1)));
        // State while a reader waits for the writer 4711.
        let written = [0xb, 0, 3, 1, 0, 0, 4711, 0];
        assert_eq!(
            rwlock_holders(written, RWLOCK_PHASE, 3),
            Some((Some(4711), 0))
        );
        let second_writer = [0x3, 1, 1, 3, 0, 0, 4711, 0];
        assert_eq!(
            rwlock_holders(second_writer, RWLOCK_WRITERS, 3),
            Some((Some(4711), 0))
        );
        assert_eq!(
            rwlock_holders(read, RWLOCK_PHASE, 3),
            None,
            "it waits for another value"
        );
        assert_eq!(rwlock_holders([0; 8], RWLOCK_PHASE, 0), None, "a semaphore");
    }

    #[test]
    fn a_child_after_exec_does_not_share_the_program_of_its_parent() {
        let pid = std::process::id().cast_signed();
        assert!(shares_program(pid, pid));
        let mut child = std::process::Command::new("sleep")
            .arg("100")
            .spawn()
            .unwrap();
        let child_pid = child.id().cast_signed();
        assert!(!shares_program(child_pid, pid));
        assert!(start_ticks(child_pid, child_pid) >= start_ticks(pid, pid));
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn the_own_thread_is_found() {
        let pid = std::process::id().cast_signed();
        let own = fs::read_link("/proc/thread-self").unwrap();
        let tid = own.file_name().unwrap().to_str().unwrap().parse().unwrap();
        assert!(thread_ids(pid).contains(&tid));
        assert_eq!(thread_ids(pid)[0], pid);
        assert_eq!(process_of(tid), Some(pid));
        let seen = glance_at(pid, tid).unwrap();
        assert_eq!(seen.state, 'R');
        assert!(glance_at(pid, i32::MAX).is_none());
    }
}
