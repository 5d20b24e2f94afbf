//! The story of a hang.

use super::super::words::{plural_of, sanitize, seconds};
use super::lines::Lines;
use super::{alike, chain, tools};
use crate::model::{Hang, HungThread};

/// Calls that are shown of each thread.
const CALLS: usize = 8;

/// Returns what the processes of a trial were doing when it did not end in time.
pub fn hang_story(hang: &Hang) -> String {
    let mut lines = Lines::default();
    lines.prose("", &answer(hang));
    lines.gap();
    lines.line("At the deadline:");
    for (text, threads) in alike(hang.threads.iter().map(|it| (line(it), it))) {
        let (doing, calls) = text.split_once('\n').unwrap_or((&text, ""));
        lines.prose(&format!("  {}: ", who(&threads)), doing);
        if !calls.is_empty() {
            lines.prose("      ", calls);
        }
    }
    if hang.unlisted > 0 {
        let more = plural_of(hang.unlisted, "more thread", "more threads");
        lines.line(&format!("  and {more}"));
    }
    for core in &hang.cores {
        if let Some(why) = &core.unread {
            lines.prose(&format!("  no stack of {}: ", core.pid), &sanitize(why));
        }
    }
    tools(&mut lines, &hang.tools);
    lines.finish()
}

fn answer(hang: &Hang) -> String {
    if let Some((first, rest)) = hang.cycle.split_first() {
        let name = |tid: &i32| match hang.threads.iter().find(|it| it.tid == *tid) {
            Some(thread) if !thread.name.is_empty() => {
                format!("thread {tid} ({})", sanitize(&thread.name))
            }
            _ => format!("thread {tid}"),
        };
        let rest: Vec<String> = rest.iter().chain([first]).map(name).collect();
        return format!(
            "Deadlock: {} waits for a lock that is held by {}.",
            name(first),
            rest.join(", which waits for one held by ")
        );
    }
    let has = |state: char| hang.threads.iter().any(|it| it.state == state);
    let busy = hang.threads.iter().filter(|it| !it.cpu.is_zero()).count();
    match hang.threads.as_slice() {
        [] => "It did not end in time; what it was doing is not known.".to_owned(),
        _ if has('D') => {
            "Stuck in the kernel: a disk, a network file system or a driver does not answer."
                .to_owned()
        }
        all if all.iter().all(|it| it.state == 'T') => {
            "Stopped: by SIGSTOP, or because it wanted its terminal.".to_owned()
        }
        _ if busy > 0 => format!(
            "Busy: {} still used the processor.",
            plural_of(busy as u64, "thread", "threads")
        ),
        _ => "Blocked: every thread waits, and none used the processor.".to_owned(),
    }
}

/// What a thread was doing, and in a second line its calls.
fn line(thread: &HungThread) -> String {
    let mut parts = vec![state(thread.state).to_owned()];
    if !thread.call.is_empty() {
        parts.push(format!("in {}", sanitize(&thread.call)));
    }
    if !matches!(thread.channel.as_str(), "" | "0") {
        parts.push(format!("at {} in the kernel", sanitize(&thread.channel)));
    }
    if !thread.cpu.is_zero() {
        parts.push(format!(
            "used {} of processor time",
            seconds(thread.cpu.as_secs_f64())
        ));
    }
    if let Some(other) = thread.waits_for {
        parts.push(format!("waits for {other}"));
    }
    let calls = chain(&thread.frames, CALLS);
    format!("{}\n{calls}", parts.join(", "))
}

fn state(state: char) -> &'static str {
    match state {
        'R' => "running",
        'S' => "asleep",
        'D' => "stuck in the kernel",
        'T' | 't' => "stopped",
        'Z' => "ended, and not collected",
        _ => "in an unknown state",
    }
}

fn who(threads: &[&HungThread]) -> String {
    match threads {
        [one] => {
            let process = if one.pid == one.tid {
                "process".to_owned()
            } else {
                format!("process {}, thread", one.pid)
            };
            let name = match one.name.as_str() {
                "" => String::new(),
                name => format!(" ({})", sanitize(name)),
            };
            format!("{process} {}{name}", one.tid)
        }
        many => plural_of(many.len() as u64, "thread", "threads"),
    }
}
