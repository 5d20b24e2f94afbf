//! What name a hang has.

use super::frames::{self, Step};
use crate::model::{Frame, Hang, HungThread};
use crate::tells::bare_name;
use std::time::Duration;

/// A hang in words that stay the same from trial to trial, and in words for people.
pub(super) struct Named {
    pub(super) text: String,
    pub(super) title: String,
}

/// Processor time, of the time a thread was watched, from which on it is called busy.
const BUSY: Duration = Duration::from_millis(50);

/// Functions that wait: the call that counts is the one that went into them. Those of the
/// C library are listed for programs that it is linked into.
const WAITS: &[&str] = &[
    "__futex*",
    "futex*",
    "syscall",
    "__lll_lock_wait*",
    "__internal_syscall*",
    "__syscall_*",
    "pthread_mutex_*",
    "___pthread_mutex_*",
    "__pthread_*",
    "___pthread_*",
    "pthread_cond_*",
    "pthread_join*",
    "pthread_rwlock_*",
    "sem_wait*",
    "__new_sem_*",
    "do_futex_wait*",
    "poll",
    "__poll",
    "select",
    "epoll_wait*",
    "read",
    "__read",
    "__libc_read",
    "recv",
    "recvfrom",
    "recvmsg",
    "accept",
    "accept4",
    "wait4",
    "__wait4",
    "waitpid",
    "waitid",
    "nanosleep",
    "clock_nanosleep*",
    "__clock_nanosleep*",
    "sleep",
    "usleep",
    "pause",
    "sigsuspend",
    "std::mutex::*",
    "std::condition_variable*",
    "std::thread::join",
    "std::sys::*",
    "std::sync::*",
    "std::__atomic*",
    "__gthread*",
    "parking_lot*",
    "PyThread_*",
    "take_gil",
    "lock_PyThread*",
    "acquire_timed*",
];

/// Names what the processes of a trial were doing, by the main process of which this is the number.
pub(super) fn name(hang: &Hang, main: Option<i32>) -> Option<Named> {
    if !hang.cycle.is_empty() {
        return Some(deadlock(hang));
    }
    let thread = culprit(hang, main)?;
    let where_to = frames_of(thread);
    Some(match doing(thread) {
        Doing::Stuck => {
            let channel = or_unknown(&thread.channel);
            said(&format!("stuck in the kernel ({channel})"), None)
        }
        Doing::Busy => {
            // A sample finds the loop anywhere in what it calls: only the outermost calls are
            // always the same.
            let outermost = frames::outermost(&thread.frames);
            let mut named = said("busy loop", Some(&frames::texts(&outermost, &thread.name)));
            named.title = titled("busy loop", &frames::words(&where_to, &thread.name));
            named
        }
        Doing::Child => said("waiting for a child", None),
        Doing::Blocked => {
            let mut named = said("blocked", Some(&frames::texts(&where_to, &thread.name)));
            let words = match where_to.as_slice() {
                [] => thread.call.clone(),
                steps => frames::words(steps, &thread.name),
            };
            if where_to.is_empty() {
                named.text = format!("blocked | {words}");
            }
            named.title = titled("blocked", &words);
            named
        }
    })
}

fn said(words: &str, place: Option<&str>) -> Named {
    Named {
        text: match place {
            Some(place) => format!("{words} | {place}"),
            None => words.to_owned(),
        },
        title: format!("hang: {words}"),
    }
}

fn titled(words: &str, place: &str) -> String {
    if place.is_empty() {
        format!("hang: {words}")
    } else {
        format!("hang: {words} in {place}")
    }
}

fn or_unknown(channel: &str) -> &str {
    match channel {
        "" | "0" => "it does not say where",
        known => known,
    }
}

/// The functions that wait for each other, in the order of their names: which thread the
/// circle was found from is chance.
fn deadlock(hang: &Hang) -> Named {
    let place = |tid: &i32| {
        let thread = hang.threads.iter().find(|thread| thread.tid == *tid)?;
        frames_of(thread).into_iter().next()
    };
    let places: Option<Vec<Step>> = hang.cycle.iter().map(place).collect();
    let Some(mut places) = places else {
        let length = hang.cycle.len();
        return said(&format!("deadlock of {length} threads"), None);
    };
    places.sort();
    places.dedup();
    let texts: Vec<String> = places.iter().map(Step::text).collect();
    let names: Vec<&str> = places.iter().map(|step| step.name.as_str()).collect();
    Named {
        text: format!("deadlock | {}", texts.join(" <-> ")),
        title: match names.as_slice() {
            [one] => format!("hang: deadlock, {one} <-> {one}"),
            names => format!("hang: deadlock, {}", names.join(" <-> ")),
        },
    }
}

enum Doing {
    Stuck,
    Busy,
    Child,
    Blocked,
}

fn doing(thread: &HungThread) -> Doing {
    match thread.state {
        'D' => Doing::Stuck,
        _ if thread.cpu >= BUSY => Doing::Busy,
        _ if ["wait4", "waitid"].contains(&thread.call.as_str()) => Doing::Child,
        _ => Doing::Blocked,
    }
}

/// Returns the thread that the others are most likely waiting for: the main one where it does
/// something itself, or else one that is stuck or busy, or else what the child does that it
/// waits for.
fn culprit(hang: &Hang, main: Option<i32>) -> Option<&HungThread> {
    let leader = |pid: i32| {
        hang.threads
            .iter()
            .find(|it| it.tid == pid && it.pid == pid)
    };
    let first = main.and_then(leader).or(hang.threads.first())?;
    if matches!(doing(first), Doing::Stuck | Doing::Busy) {
        return Some(first);
    }
    let all = || hang.threads.iter();
    let stuck = all().find(|it| matches!(doing(it), Doing::Stuck));
    let busy = || all().find(|it| matches!(doing(it), Doing::Busy));
    let child = || {
        let others = all().filter(|it| it.pid != first.pid && it.tid == it.pid);
        let waits = matches!(doing(first), Doing::Child);
        let mut blocked = others.filter(|it| matches!(doing(it), Doing::Blocked));
        blocked.next().filter(|_| waits)
    };
    stuck.or_else(busy).or_else(child).or(Some(first))
}

/// Returns the calls that count, without those that only wait.
fn frames_of(thread: &HungThread) -> Vec<Step> {
    let waits = |frame: &&Frame| {
        let name = frame.function.as_deref().map(bare_name).unwrap_or_default();
        WAITS.iter().any(|row| frames::fits(&name, row))
    };
    let inner = thread.frames.iter().take_while(waits).count();
    let rest = &thread.frames[inner..];
    frames::steps(if rest.is_empty() {
        &thread.frames
    } else {
        rest
    })
}
