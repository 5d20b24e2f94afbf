//! What the processes of a trial were doing when it did not end in time.
//!
//! Looked at when the deadline has passed and before anything is done about it, first
//! without touching anything: `/proc` tells of every thread. Then optional tools, and
//! at last the processes are held still for their stacks.

use super::container::Held;
use super::process::Process;
use super::snapshots::Snapshots;
use super::{Slot, tree};
use crate::model::{Hang, HungThread};
use crate::sys::threads::{self, Glance};
use crate::sys::{calls, engine, memory, spawn, tool};
use regex::bytes::RegexSet;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// All of it takes no longer.
const BUDGET: Duration = Duration::from_secs(5);
/// Between two looks at each thread.
const WATCHED: Duration = Duration::from_millis(200);
/// Threads that are listed one by one; the rest is counted.
const LISTED: usize = 256;
/// Processes whose stacks are kept.
const STACKS: usize = 8;
/// Python processes that a tool is asked about, how long it may take, what it may say.
const ASKED: usize = 4;
const TOOL: Duration = Duration::from_secs(2);
const WORDS: usize = 64 * 1024;

/// A thread and what it did at one moment.
struct Look {
    pid: i32,
    tid: i32,
    glance: Glance,
    waits_for: Option<i32>,
}

impl Slot {
    /// Looks into a hang; cut short when provoke has something to say.
    pub(super) fn inspect(
        &mut self,
        processes: &mut [Process],
        patterns: &RegexSet,
        snapshots: &Snapshots,
    ) -> Hang {
        let until = Instant::now() + BUDGET;
        // Of the client of an engine nobody wants to know, but of who is in its container.
        let contained = || processes.iter().filter(|one| one.container.is_some());
        let mut pids = tree::living(&self.given_up);
        pids.retain(|pid| contained().all(|one| one.pid != Some(*pid)));
        let held = || contained().filter_map(|one| one.container.as_ref());
        if held().next().is_some() {
            // Where there is no daemon, containers and who watches over them are below us.
            pids.retain(|pid| !engine::is_of_container(*pid));
            pids.extend(held().flat_map(Held::living));
        }
        let all = threads_of(&pids);
        let listed = &all[..all.len().min(LISTED)];
        let first = look(listed, &all);
        // What is written meanwhile is read, or else everything would seem to wait for us.
        let pause = Instant::now() + WATCHED;
        let mut called = false;
        while Instant::now() < pause && !called {
            called = self.watch(processes, patterns, pause);
        }
        let mut threads = compare(first, look(listed, &all));
        for thread in &mut threads {
            thread.state = self.tracer.state(thread.tid, thread.state);
        }
        let mut hang = Hang {
            cycle: cycle(&threads),
            unlisted: (all.len() - listed.len()) as u64,
            threads,
            ..Hang::default()
        };
        if called || self.control.is_closed() {
            return hang;
        }
        hang.tools = python(&pids, until);
        for pid in pids.into_iter().take(STACKS) {
            if Instant::now() < until {
                hang.cores.extend(snapshots.take("hang", pid, None, until));
            }
        }
        hang
    }
}

fn threads_of(pids: &[i32]) -> Vec<(i32, i32)> {
    let pids = pids.iter();
    pids.flat_map(|pid| threads::of(*pid).into_iter().map(|tid| (*pid, tid)))
        .collect()
}

fn look(listed: &[(i32, i32)], all: &[(i32, i32)]) -> Vec<Look> {
    let mut siblings: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
    for (pid, tid) in all {
        siblings.entry(*pid).or_default().push(*tid);
    }
    let one = |&(pid, tid): &(i32, i32)| {
        let glance = threads::glance(pid, tid)?;
        let siblings = siblings.get(&pid)?;
        let waits_for = glance
            .call
            .and_then(|call| threads::waits_for(pid, tid, call, siblings));
        Some(Look {
            pid,
            tid,
            glance,
            waits_for,
        })
    };
    listed.iter().filter_map(one).collect()
}

/// Says what threads did between two looks. One that waited for different ones waits
/// for none in particular.
fn compare(first: Vec<Look>, second: Vec<Look>) -> Vec<HungThread> {
    let first: BTreeMap<i32, Look> = first.into_iter().map(|look| (look.tid, look)).collect();
    let one = |now: Look| {
        let before = first.get(&now.tid);
        let cpu = before.map(|before| now.glance.cpu.saturating_sub(before.glance.cpu));
        HungThread {
            pid: now.pid,
            tid: now.tid,
            state: now.glance.state,
            channel: now.glance.channel,
            call: now
                .glance
                .call
                .map(|call| calls::name(call.number))
                .unwrap_or_default(),
            cpu: cpu.unwrap_or_default(),
            waits_for: now
                .waits_for
                .filter(|_| before.is_some_and(|before| before.waits_for == now.waits_for)),
            name: now.glance.name,
            frames: Vec::new(),
        }
    };
    second.into_iter().map(one).collect()
}

/// Returns threads each of which waits for the next one, the last for the first. Each
/// waits for one other at most, so that whoever follows them ends, or goes round.
fn cycle(threads: &[HungThread]) -> Vec<i32> {
    let waits_for: BTreeMap<i32, i32> = threads
        .iter()
        .filter_map(|thread| Some((thread.tid, thread.waits_for?)))
        .collect();
    for thread in threads {
        let mut path = vec![thread.tid];
        while let Some(next) = path.last().and_then(|last| waits_for.get(last)) {
            if let Some(at) = path.iter().position(|known| known == next) {
                return path.split_off(at);
            }
            path.push(*next);
        }
    }
    Vec::new()
}

/// Asks a tool for the Python calls of those that run Python, if it is there.
fn python(pids: &[i32], until: Instant) -> Vec<(String, String)> {
    const NAME: &str = "py-spy";
    let mut pids = pids.iter().filter(|pid| runs_python(**pid)).peekable();
    if pids.peek().is_none() {
        return Vec::new();
    }
    let path = std::env::var_os("PATH");
    let Ok(program) = spawn::find(OsStr::new(NAME), path.as_deref(), Path::new("/")) else {
        return Vec::new();
    };
    let said = pids.take(ASKED).filter_map(|pid| {
        let pid = pid.to_string();
        let arguments = ["dump", "--nonblocking", "--pid", &pid].map(OsStr::new);
        let until = until.min(Instant::now() + TOOL);
        let words = tool::run(&program, &arguments, until, WORDS).ok()?;
        Some((NAME.to_owned(), words))
    });
    said.collect()
}

fn runs_python(pid: i32) -> bool {
    let named = |path: &Path, name: &[u8]| {
        path.file_name()
            .is_some_and(|last| last.as_encoded_bytes().starts_with(name))
    };
    fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| named(&exe, b"python"))
        || memory::mappings(pid).is_ok_and(|all| {
            all.iter()
                .any(|one| named(Path::new(&one.name), b"libpython"))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting(edges: &[(i32, i32)]) -> Vec<HungThread> {
        let thread = |(tid, waits_for): &(i32, i32)| HungThread {
            tid: *tid,
            waits_for: Some(*waits_for).filter(|tid| *tid > 0),
            ..HungThread::default()
        };
        edges.iter().map(thread).collect()
    }

    #[test]
    fn a_cycle_is_found_from_outside_and_starts_where_it_is_met() {
        let threads = waiting(&[(1, 2), (2, 3), (3, 4), (4, 2), (5, 0)]);
        assert_eq!(cycle(&threads), [2, 3, 4]);
    }

    #[test]
    fn a_chain_is_no_cycle() {
        assert_eq!(cycle(&waiting(&[(1, 2), (2, 3), (3, 9)])), [] as [i32; 0]);
        assert_eq!(cycle(&[]), [] as [i32; 0]);
    }

    #[test]
    fn only_who_is_waited_for_all_the_time_counts() {
        let look = |waits_for, cpu| Look {
            pid: 1,
            tid: 1,
            glance: Glance {
                name: "x".to_owned(),
                state: 'S',
                channel: String::new(),
                call: None,
                cpu: Duration::from_millis(cpu),
            },
            waits_for,
        };
        let seen = compare(vec![look(Some(2), 10)], vec![look(Some(2), 15)]);
        assert_eq!(seen[0].waits_for, Some(2));
        assert_eq!(seen[0].cpu, Duration::from_millis(5));
        let seen = compare(vec![look(Some(2), 0)], vec![look(Some(3), 0)]);
        assert_eq!(seen[0].waits_for, None);
    }
}
