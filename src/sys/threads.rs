//! Threads as `/proc` shows them: what each is doing, and whom it waits for.

use super::memory::Memory;
use super::{calls, process};
use std::fs;
use std::io;
use std::time::Duration;

/// The bits of a lock word that hold the number of a thread, where they do.
const OWNER: u32 = 0x3fff_ffff;
/// What the lock word of a plain mutex holds while somebody waits for it.
const CONTENDED: u32 = 2;

/// What a thread was doing at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glance {
    /// Its name.
    pub name: String,
    /// R, S, D, T ...
    pub state: char,
    /// The kernel's function in which it waits; needs rights that not everybody has.
    pub channel: String,
    /// The system call that it is in.
    pub call: Option<Call>,
    /// Processor time that it has used.
    pub cpu: Duration,
}

/// A system call under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// Its number.
    pub number: i64,
    /// Its arguments.
    pub arguments: [u64; 6],
}

impl Glance {
    /// Says in one word what it waits for: the call that it is in, the kernel's function,
    /// or else its state.
    pub fn waiting(&self) -> String {
        match self.call {
            Some(call) => calls::name(call.number),
            None if self.state == 'R' || self.channel.is_empty() => self.state.to_string(),
            None => self.channel.clone(),
        }
    }
}

/// Returns the threads of a process, the first one first.
pub fn of(pid: i32) -> Vec<i32> {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return Vec::new();
    };
    let mut all: Vec<i32> = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect();
    all.sort_by_key(|tid| (*tid != pid, *tid));
    all
}

/// Reads a file about a thread. The kernel cuts its name after 15 bytes, which may be in
/// the middle of a letter.
fn text(path: &str) -> io::Result<String> {
    Ok(String::from_utf8_lossy(&fs::read(path)?).into_owned())
}

/// Returns the process of a thread.
pub fn process_of(tid: i32) -> Option<i32> {
    let status = text(&format!("/proc/{tid}/status")).ok()?;
    let mut lines = status.lines();
    let value = lines.find_map(|line| line.strip_prefix("Tgid:"))?;
    value.trim().parse().ok()
}

/// Returns what a thread is doing; nothing when it is gone.
pub fn glance(pid: i32, tid: i32) -> Option<Glance> {
    let read = |file: &str| text(&format!("/proc/{pid}/task/{tid}/{file}"));
    let stat = read("stat").ok()?;
    let (name, rest) = name_and_rest(&stat)?;
    let mut fields = rest.split(' ');
    let state = fields.next()?.chars().next()?;
    // Finer than the ticks in `stat`, where the kernel keeps it.
    let ran = read("schedstat").ok();
    let ran = ran.and_then(|text| text.split(' ').next()?.parse().ok());
    let cpu = ran.map_or_else(|| ticks(fields).unwrap_or_default(), Duration::from_nanos);
    let channel = read("wchan").unwrap_or_default();
    Some(Glance {
        name: name.to_owned(),
        state,
        channel: if channel == "0" {
            String::new()
        } else {
            channel
        },
        call: read("syscall").ok().as_deref().and_then(call),
        cpu,
    })
}

/// A name may hold anything, also what ends it elsewhere.
fn name_and_rest(stat: &str) -> Option<(&str, &str)> {
    let (_, after) = stat.split_once('(')?;
    after.rsplit_once(") ")
}

/// Returns user and system time, the eleventh and twelfth field after the state.
fn ticks<'a>(mut fields: impl Iterator<Item = &'a str>) -> Option<Duration> {
    let user: u64 = fields.nth(10)?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(Duration::from_millis(
        (user + system) * 1000 / procfs::ticks_per_second(),
    ))
}

/// Of a thread that runs, the kernel says so; of one that waits outside of any call, -1.
fn call(text: &str) -> Option<Call> {
    let mut fields = text.split_ascii_whitespace();
    let number = fields.next()?.parse().ok().filter(|number| *number >= 0)?;
    let mut arguments = [0; 6];
    for argument in &mut arguments {
        *argument = u64::from_str_radix(fields.next()?.strip_prefix("0x")?, 16).ok()?;
    }
    Some(Call { number, arguments })
}

/// Returns the thread, or the process, without which this call does not return.
///
/// Of locks it knows those that tell their owner: mutexes of glibc and musl, and the
/// end of a thread that is to be joined. `threads` are the living ones of the process:
/// a word that names none of them is no owner.
pub fn waits_for(pid: i32, tid: i32, call: Call, threads: &[i32]) -> Option<i32> {
    let [first, second, ..] = call.arguments;
    let number = |word: u64| i32::try_from(word).ok().filter(|pid| *pid > 0);
    let only_child = || match process::children(pid)[..] {
        [child] => Some(child),
        _ => None,
    };
    match call.number {
        libc::SYS_futex => {
            let operation = i32::try_from(second).ok()? & libc::FUTEX_CMD_MASK;
            let waits = [
                libc::FUTEX_WAIT,
                libc::FUTEX_WAIT_BITSET,
                libc::FUTEX_LOCK_PI,
            ];
            let words = waits
                .contains(&operation)
                .then(|| Memory::open(pid).ok()?.halves::<3>(first).ok())??;
            owner(words).filter(|owner| *owner != tid && threads.contains(owner))
        }
        // "Any child" is -1 there, and the argument is an int in a wider word.
        libc::SYS_wait4 => number(first & 0xffff_ffff).or_else(only_child),
        libc::SYS_waitid if first == u64::from(libc::P_PID) => number(second),
        libc::SYS_waitid if first == u64::from(libc::P_ALL) => only_child(),
        _ => None,
    }
}

/// Returns who owns the lock that begins with these words, if they tell.
fn owner([word, _, third]: [u32; 3]) -> Option<i32> {
    // A plain mutex of glibc: the lock, a count, the owner. Of every other lock that
    // tells, and of a thread that is joined, the word itself is the number.
    let owner = if word == CONTENDED {
        third
    } else {
        word & OWNER
    };
    i32::try_from(owner).ok().filter(|owner| *owner > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_hold_brackets_and_spaces() {
        assert_eq!(name_and_rest("7 (a) (b) R 1 2"), Some(("a) (b", "R 1 2")));
    }

    #[test]
    fn only_a_thread_that_waits_in_a_call_has_one() {
        let text = "202 0x7f00 0x80 0x2 0x0 0x0 0x0 0x7ffe00 0x7f11\n";
        let call_seen = call(text).unwrap();
        assert_eq!(
            (call_seen.number, call_seen.arguments[..3].to_vec()),
            (202, vec![0x7f00, 0x80, 2])
        );
        assert_eq!(call("running\n"), None);
        assert_eq!(call("-1 0x7ffe00 0x7f11\n"), None);
    }

    #[test]
    fn the_owner_of_a_lock_is_where_its_kind_keeps_it() {
        assert_eq!(owner([2, 1, 4711]), Some(4711), "glibc");
        assert_eq!(owner([0x8000_1267, 0, 0]), Some(0x1267), "musl, PI");
        assert_eq!(owner([4711, 0, 99]), Some(4711), "a thread to be joined");
        assert_eq!(owner([0, 0, 0]), None, "a semaphore");
    }

    #[test]
    fn our_own_thread_is_seen() {
        let pid = std::process::id().cast_signed();
        let own = fs::read_link("/proc/thread-self").unwrap();
        let tid = own.file_name().unwrap().to_str().unwrap();
        let tid = tid.parse().unwrap();
        assert!(of(pid).contains(&tid));
        assert_eq!(of(pid)[0], pid);
        assert_eq!(process_of(tid), Some(pid));
        let seen = glance(pid, tid).unwrap();
        assert_eq!(seen.state, 'R');
        assert!(glance(pid, i32::MAX).is_none());
    }
}
