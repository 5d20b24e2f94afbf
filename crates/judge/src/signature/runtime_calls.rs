//! Selects the calls that name a hang, as the runtimes of Python, Java, JavaScript and Go know them.

use provoke_messages::{SourceOwner, bare_name};
use provoke_model::{CallLanguage, Frame, Goroutine, Hang, HungThread, ThreadActivity};

/// A counted call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RuntimeCall {
    pub(super) function: String,
    file: String,
}

impl RuntimeCall {
    /// Formats the call as `job.py!run`. The line is left out, because it may change in the next
    /// version.
    pub(super) fn file_and_function(&self) -> String {
        format!("{}!{}", self.file, self.function)
    }
}

/// Returns the calls of a waiting thread, innermost first: the function of the language's library that it called, and
/// its callers. Calls within the library are left out.
pub(super) fn blocked_calls(frames: &[Frame]) -> Vec<RuntimeCall> {
    let inner = frames.iter().take_while(|frame| is_library(frame)).count();
    let api = inner.checked_sub(1).map(|index| &frames[index]);
    let calls = own_calls(frames);
    if calls.is_empty() {
        return frames.iter().map(call_of_frame).collect();
    }
    api.map(call_of_frame).into_iter().chain(calls).collect()
}

/// Native functions with which the interpreter waits for a lock of Python.
const ACQUIRE: [&str; 3] = [
    "PyThread_acquire_lock_timed",
    "lock_PyThread_acquire_lock",
    "_PyMutex_LockTimed",
];

/// The object for which a thread of Python waits.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PythonWait {
    Lock,
    Join,
    Other,
}

/// Returns the threads of a process that wait for locks of Python, if at least two do and all others wait for the end
/// of threads: then no thread of Python can release a lock.
pub(super) fn lock_waiters(hang: &Hang, pid: i32) -> Vec<&HungThread> {
    let threads = hang.threads.iter();
    let threads = threads.filter(|thread| thread.pid == pid && !thread.calls.is_empty());
    let threads = threads.filter(|thread| thread.language == CallLanguage::Python);
    let waits: Vec<(PythonWait, &HungThread)> = threads
        .map(|thread| (wait_of_thread(thread), thread))
        .collect();
    if waits.iter().any(|(wait, _)| *wait == PythonWait::Other) {
        return Vec::new();
    }
    let waiters = waits
        .into_iter()
        .filter(|(wait, _)| *wait == PythonWait::Lock);
    let waiters: Vec<&HungThread> = waiters.map(|(_, thread)| thread).collect();
    if waiters.len() < 2 {
        Vec::new()
    } else {
        waiters
    }
}

/// Returns whether a goroutine waits for a lock of package `sync`.
pub(super) fn waits_for_lock(goroutine: &Goroutine) -> bool {
    let library = goroutine.calls.iter().take_while(|frame| is_library(frame));
    let mut functions = library.filter_map(|frame| frame.function.as_deref());
    functions.any(|name| {
        [
            "sync.(*Mutex).Lock",
            "sync.(*RWMutex).Lock",
            "sync.(*RWMutex).RLock",
        ]
        .contains(&name)
    })
}

/// Returns whether a goroutine runs a test of package `testing`.
pub(super) fn runs_test(goroutine: &Goroutine) -> bool {
    let mut functions = goroutine
        .calls
        .iter()
        .filter_map(|frame| frame.function.as_deref());
    functions.any(|name| name == "testing.tRunner")
}

fn wait_of_thread(thread: &HungThread) -> PythonWait {
    let library = thread.calls.iter().take_while(|frame| is_library(frame));
    let names = library.filter_map(|frame| frame.function.as_deref());
    let names = |ending: &str| names.clone().any(|name| name.ends_with(ending));
    let acquires = thread
        .frames
        .iter()
        .filter_map(|frame| frame.function.as_deref());
    let acquires = acquires
        .map(bare_name)
        .any(|name| ACQUIRE.contains(&name.as_str()));
    if thread.current_activity() != ThreadActivity::Blocked {
        PythonWait::Other
    } else if names("join") {
        PythonWait::Join
    } else if acquires && !names("wait") {
        PythonWait::Lock
    } else {
        PythonWait::Other
    }
}

/// Returns the calls of the program itself, innermost first.
pub(super) fn own_calls(frames: &[Frame]) -> Vec<RuntimeCall> {
    let own = frames.iter().filter(|frame| !is_library(frame));
    let calls: Vec<RuntimeCall> = own.map(call_of_frame).collect();
    let is_named = |call: &RuntimeCall| call.function != "<module>";
    if calls.iter().any(is_named) {
        calls.into_iter().filter(is_named).collect()
    } else {
        calls
    }
}

fn call_of_frame(frame: &Frame) -> RuntimeCall {
    let file = frame.line.as_ref().map_or("", |(file, _)| file.as_str());
    RuntimeCall {
        function: frame.function.clone().unwrap_or_default(),
        file: file.rsplit('/').next().unwrap_or(file).to_owned(),
    }
}

/// Returns whether the call is in the library of the language: `…/lib/python3.11/queue.py`, or in a module of Java.
fn is_library(frame: &Frame) -> bool {
    if frame.module.is_some() {
        return true;
    }
    let file = frame.line.as_ref().map_or("", |(file, _)| file.as_str());
    SourceOwner::of_file(file) == SourceOwner::Library
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(stack: &[(&str, &str)]) -> Vec<Frame> {
        let frame = |(function, file): &(&str, &str)| Frame {
            function: Some((*function).to_owned()),
            line: Some(((*file).to_owned(), 7)),
            ..Frame::default()
        };
        stack.iter().map(frame).collect()
    }

    fn call_texts(calls: &[RuntimeCall]) -> Vec<String> {
        calls.iter().map(RuntimeCall::file_and_function).collect()
    }

    const THREADING: &str = "/usr/lib/python3.11/threading.py";

    #[test]
    fn calls_inside_the_standard_library_are_left_out() {
        let queue = frames(&[
            ("Condition.wait", THREADING),
            ("Queue.get", "/usr/lib/python3.11/queue.py"),
            ("mail", "/src/hangs.py"),
            ("<module>", "/src/hangs.py"),
        ]);
        assert_eq!(
            call_texts(&blocked_calls(&queue)),
            ["queue.py!Queue.get", "hangs.py!mail"]
        );
        let thread = frames(&[
            ("poll", "/venv/lib/python3.11/site-packages/kit/loop.py"),
            ("Thread.run", THREADING),
            ("Thread._bootstrap", THREADING),
        ]);
        assert_eq!(call_texts(&blocked_calls(&thread)), ["loop.py!poll"]);
    }

    #[test]
    fn library_calls_are_kept_if_there_are_no_others() {
        let idle = frames(&[("Condition.wait", THREADING), ("Thread.run", THREADING)]);
        assert_eq!(
            call_texts(&blocked_calls(&idle)),
            ["threading.py!Condition.wait", "threading.py!Thread.run"]
        );
        let script = frames(&[("<module>", "<string>")]);
        assert_eq!(call_texts(&blocked_calls(&script)), ["<string>!<module>"]);
        assert_eq!(own_calls(&[]), []);
    }
}
