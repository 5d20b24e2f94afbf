//! Describes a hang.

use super::lines::WrappedText;
use super::{call_chain, group_equal, push_tool_output};
use provoke_judge::{HangDiagnosis, diagnose_hang};
use provoke_model::{CallLanguage, Frame, Goroutine, Hang, HungThread, ThreadActivity, WaitObject};
use provoke_words::capitalize_first;
use provoke_words::{format_count, format_seconds, plural_of, sanitize_line};

/// Maximum number of calls shown of each thread.
const CALLS: usize = 8;

/// Describes the state of the processes of a trial at its deadline; `main` is the PID of the main process. Without the
/// cause, if that `is_shown` already.
pub(super) fn hang_story(lines: &mut WrappedText, hang: &Hang, main: Option<i32>, is_shown: bool) {
    if !is_shown {
        lines.push_prose("", &answer_sentence(hang, main));
    }
    let mut forked = hang.forked_from_threads.iter();
    if let Some(pid) = forked.next() {
        lines.push_prose(
            "",
            &format!(
                "{} was forked from a multi-threaded process: a lock that another thread held at that \
                 moment stays locked in it.",
                capitalize_first(&name_thread(hang, *pid))
            ),
        );
    }
    lines.push_gap();
    push_goroutines(lines, &hang.goroutines);
    // Threads of a Go program only run its goroutines.
    let runs_goroutines = |thread: &&HungThread| {
        let mut goroutines = hang.goroutines.iter();
        goroutines.any(|goroutine| goroutine.pid == thread.pid)
    };
    let threads = hang.threads.iter();
    let (of_java, threads): (Vec<&HungThread>, Vec<&HungThread>) = threads
        .filter(|thread| !runs_goroutines(thread))
        .partition(|thread| is_only_of_java(hang, thread));
    if !threads.is_empty() {
        lines.push_line("What its threads were doing:");
    }
    for (text, threads) in group_equal(threads.iter().map(|thread| (thread_lines(thread), *thread)))
    {
        push_calls(lines, &describe_threads(&threads), &text);
    }
    if !of_java.is_empty() {
        let count = plural_of(of_java.len() as u64, "thread", "threads");
        lines.push_line(&format!("  and {count} of the Java virtual machine"));
    }
    if hang.unlisted > 0 {
        let more = plural_of(hang.unlisted, "more thread", "more threads");
        lines.push_line(&format!("  and {more}"));
    }
    for core in &hang.cores {
        if let Some(reason) = &core.unread {
            lines.push_prose(
                &format!("  no stack of {}: ", core.pid),
                &sanitize_line(reason),
            );
        }
    }
    let is_python = |frame: &Frame| {
        let module = frame.module.as_deref().unwrap_or_default();
        module.starts_with("python") || module.starts_with("libpython")
    };
    let mut threads = hang.threads.iter();
    let no_calls = |thread: &HungThread| thread.calls.is_empty();
    if threads.clone().all(no_calls) && threads.any(|thread| thread.frames.iter().any(is_python)) {
        lines.push_line("  no Python calls: `pip install py-spy` to see them");
    }
    push_tool_output(lines, &hang.tools);
}

/// Returns whether a thread of a Java virtual machine runs nothing of the program.
fn is_only_of_java(hang: &Hang, thread: &HungThread) -> bool {
    let mut siblings = hang.threads.iter().filter(|other| other.pid == thread.pid);
    let is_java = siblings.any(|other| other.language == CallLanguage::Java);
    is_java && thread.calls.iter().all(|call| call.module.is_some())
}

/// Lists goroutines with their calls, equal ones together.
fn push_goroutines(lines: &mut WrappedText, goroutines: &[Goroutine]) {
    if !goroutines.is_empty() {
        lines.push_line("What its goroutines were doing:");
    }
    let described = |goroutine: &Goroutine| {
        let state = sanitize_line(&goroutine.state);
        format!("{state}\n{}", list_calls("Go", &goroutine.calls))
    };
    for (text, equal) in group_equal(
        goroutines
            .iter()
            .map(|found| (described(found), found.number)),
    ) {
        let who = match equal.as_slice() {
            [number] => format!("goroutine {number}"),
            many => format_count(many.len() as u64, "goroutine"),
        };
        push_calls(lines, &who, &text);
    }
    lines.push_gap();
}

/// Writes who does what, and the calls, which are further lines of the text.
fn push_calls(lines: &mut WrappedText, who: &str, text: &str) {
    let mut rows = text.split('\n');
    lines.push_prose(&format!("  {who}: "), rows.next().unwrap_or_default());
    for calls in rows.filter(|calls| !calls.is_empty()) {
        lines.push_prose("      ", calls);
    }
}

fn answer_sentence(hang: &Hang, main: Option<i32>) -> String {
    if let Some(first) = hang.cycle.first() {
        return describe_deadlock(hang, *first);
    }
    if !hang.ended_after.is_zero() {
        let late = format_seconds(hang.ended_after.as_secs_f64());
        let it = match hang.threads.as_slice() {
            [] => "No stack was taken: it",
            _ => "It",
        };
        return format!(
            "{it} ended by itself {late} after the time limit. It was only slow: a longer limit (-t) lets it end."
        );
    }
    if hang.threads.is_empty() && hang.ended_before.is_zero() {
        return "It did not end in time. No stack was taken: when its threads were examined, none was left."
            .to_owned();
    }
    let Some(diagnosis) = diagnose_hang(hang, main) else {
        return "It did not end in time; what it was doing is not known.".to_owned();
    };
    if hang
        .threads
        .iter()
        .all(|thread| thread.current_activity() == ThreadActivity::Stopped)
    {
        return "Stopped: by SIGSTOP, or because it wanted its terminal.".to_owned();
    }
    let chain = describe_waits(hang, &diagnosis);
    let culprit = diagnosis.culprit;
    let busy = hang
        .threads
        .iter()
        .filter(|thread| thread.current_activity() == ThreadActivity::Busy)
        .count();
    let answer = match culprit.current_activity() {
        _ if culprit.absent_owner.is_some() => "Blocked: a thread waits forever.".to_owned(),
        ThreadActivity::Stuck => {
            "Stuck in the kernel: a disk, a network file system or a driver does not respond."
                .to_owned()
        }
        ThreadActivity::Busy => format!(
            "Busy: {} kept running.",
            format_count(busy as u64, "thread")
        ),
        _ => match diagnosis.goroutines(hang).as_slice() {
            [] => "Blocked: every thread waits.".to_owned(),
            [goroutine] => format!(
                "Blocked: goroutine {} waits ({}).",
                goroutine.number,
                sanitize_line(&goroutine.state)
            ),
            many => format!("Blocked: {} goroutines wait for locks.", many.len()),
        },
    };
    format!("{answer}{chain}")
}

/// Describes the chain of waiting threads from the main thread on.
fn describe_waits(hang: &Hang, diagnosis: &HangDiagnosis<'_>) -> String {
    let mut chain = diagnosis.chain.clone();
    let last = diagnosis.culprit;
    if chain.last().is_none_or(|end| end.tid != last.tid) {
        // Another thread explains more than the one for which the main thread waits.
        chain = vec![last];
    }
    let waits: Vec<String> = chain
        .iter()
        .filter_map(|thread| waits_for(hang, thread))
        .collect();
    match waits.join(", which ") {
        text if text.is_empty() => text,
        waits => {
            let first = capitalize_first(&name_thread(hang, chain[0].tid));
            format!(" {first} {waits}.")
        }
    }
}

fn describe_deadlock(hang: &Hang, first: i32) -> String {
    let name = name_thread(hang, first);
    if hang.cycle.len() == 1 {
        let thread = hang.find_thread(first);
        let lock = thread.map_or_else(|| "a lock".to_owned(), |thread| name_lock(thread, "a lock"));
        return format!("Deadlock: {name} waits for {lock} that it holds itself.");
    }
    let threads = hang.cycle.iter().filter_map(|tid| hang.find_thread(*tid));
    let waits: Vec<String> = threads
        .filter_map(|thread| waits_for(hang, thread))
        .collect();
    format!("Deadlock: {name} {}.", waits.join(", which "))
}

/// Names the lock that a thread waits for, if it has a name.
fn name_lock(thread: &HungThread, kind: &str) -> String {
    match &thread.lock {
        Some(name) => format!("{kind}, {},", sanitize_line(name)),
        None => kind.to_owned(),
    }
}

/// Returns `waits for a mutex that is held by thread 78 (worker)`.
fn waits_for(hang: &Hang, thread: &HungThread) -> Option<String> {
    if let Some(owner) = thread.absent_owner {
        let tid = owner.tid;
        return Some(match owner.of_parent {
            Some(parent) => format!(
                "waits for a lock that thread {tid} of process {parent} held when that one forked it"
            ),
            None => format!("waits for a lock of thread {tid}, which has ended"),
        });
    }
    let Some(target) = thread.waits_for else {
        return match thread.waits_on {
            Some(WaitObject::RwLock { readers: 1.. }) => {
                Some("waits for a read-write lock that readers hold".to_owned())
            }
            _ => None,
        };
    };
    let other_name = name_thread(hang, target);
    let lock = |kind: &str| name_lock(thread, kind);
    Some(match thread.waits_on {
        Some(WaitObject::Join) => format!("waits for the end of {other_name}"),
        Some(WaitObject::Child) => format!("waits for its child, {other_name}"),
        Some(WaitObject::Vfork) => {
            format!("waits until its child starts a program or ends, {other_name}")
        }
        Some(WaitObject::RwLock { readers: 0 }) => {
            format!(
                "waits for {} that is held by {other_name}",
                lock("a read-write lock")
            )
        }
        Some(WaitObject::RwLock { .. }) => {
            format!(
                "waits for {} that is held for reading by {other_name}",
                lock("a read-write lock")
            )
        }
        Some(WaitObject::Mutex | WaitObject::SharedMutex) | None => {
            format!("waits for {} that is held by {other_name}", lock("a lock"))
        }
    })
}

/// Returns `thread 78 (worker)`, `process 77 (boom)`.
fn name_thread(hang: &Hang, tid: i32) -> String {
    let thread = hang.find_thread(tid);
    let thread_text = if thread.is_some_and(|thread| thread.pid == tid) {
        "process"
    } else {
        "thread"
    };
    match thread.map_or("", |thread| thread.name.as_str()) {
        "" => format!("{thread_text} {tid}"),
        name => format!("{thread_text} {tid} ({})", sanitize_line(name)),
    }
}

/// Returns the activity of a thread, and its calls in further lines.
fn thread_lines(thread: &HungThread) -> String {
    let mut parts = vec![state_name(thread).to_owned()];
    if !thread.call.is_empty() {
        parts.push(format!("in {}", sanitize_line(&thread.call)));
    }
    if !matches!(thread.channel.as_str(), "" | "0") {
        parts.push(format!(
            "at {} in the kernel",
            sanitize_line(&thread.channel)
        ));
    }
    if !thread.cpu.is_zero() {
        let cpu_time = format_seconds(thread.cpu.as_secs_f64());
        let available = format_seconds(thread.cpu_available.as_secs_f64());
        parts.push(match thread.current_activity() {
            ThreadActivity::Busy if !thread.cpu_available.is_zero() => {
                format!("used {cpu_time} of {available} of available CPU time")
            }
            _ => format!("used {cpu_time} of CPU time"),
        });
    }
    if let Some(owner) = thread.waits_for {
        let lock = thread.lock.as_deref();
        let lock_text = lock.map_or(String::new(), |lock| {
            format!("{}, held by ", sanitize_line(lock))
        });
        parts.push(if owner == thread.tid {
            format!("waits for {lock_text}itself")
        } else {
            format!("waits for {lock_text}{owner}")
        });
    }
    if let Some(owner) = thread.absent_owner {
        parts.push(format!("waits for a lock of thread {}", owner.tid));
    }
    let calls = match thread.language {
        CallLanguage::Python => call_chain(&thread.frames, CALLS),
        // The virtual machine compiles it to code without names.
        CallLanguage::Java | CallLanguage::JavaScript => String::new(),
    };
    let runtime_calls = list_calls(thread.language.name(), &thread.calls);
    format!("{}\n{calls}\n{runtime_calls}", parts.join(", "))
}

/// Returns `Python: Queue.get (queue.py:171) < mail (job.py:5)`.
pub(super) fn list_calls(language: &str, frames: &[Frame]) -> String {
    let call = |frame: &Frame| {
        let function = sanitize_line(frame.function.as_deref().unwrap_or("?"));
        match &frame.line {
            Some((file, line)) => {
                let file = file.rsplit('/').next().unwrap_or(file);
                format!("{function} ({}:{line})", sanitize_line(file))
            }
            None => function,
        }
    };
    let calls: Vec<String> = frames.iter().take(CALLS).map(call).collect();
    match calls.join(" < ") {
        text if text.is_empty() => text,
        calls if frames.len() > CALLS => format!("{language}: {calls} < …"),
        calls => format!("{language}: {calls}"),
    }
}

fn state_name(thread: &HungThread) -> &'static str {
    match thread.state {
        'R' => "running",
        'S' => "asleep",
        'D' if thread.current_activity() == ThreadActivity::WaitsForChild => "asleep",
        'D' => "stuck in the kernel",
        'T' | 't' => "stopped",
        'Z' => "ended, not yet reaped",
        _ => "in an unknown state",
    }
}

fn describe_threads(threads: &[&HungThread]) -> String {
    match threads {
        [thread] => {
            let process = if thread.pid == thread.tid {
                "process".to_owned()
            } else {
                format!("process {}, thread", thread.pid)
            };
            let name = match thread.name.as_str() {
                "" => String::new(),
                name => format!(" ({})", sanitize_line(name)),
            };
            format!("{process} {}{name}", thread.tid)
        }
        many => plural_of(many.len() as u64, "thread", "threads"),
    }
}
