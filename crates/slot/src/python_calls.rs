//! Reads the Python calls of the threads of a hung trial.

use provoke_model::{Frame, HungThread, WaitObject};
use provoke_sys::memory::{Mapping, ProcessMemory};
use provoke_sys::python::{self, PythonCall, PythonThread};
use provoke_sys::{calls, memory, spawn, threads, tool};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// Python frames that are kept of each thread.
const PYTHON_CALLS: usize = 32;
/// Processes whose Python calls are read.
const ASKED: usize = 4;
/// Limits for py-spy: time, and bytes of output.
const TOOL: Duration = Duration::from_secs(2);
const WORDS: usize = 64 * 1024;

/// A thread in the output of py-spy.
#[derive(serde::Deserialize)]
struct PySpyThread {
    os_thread_id: Option<i32>,
    thread_name: Option<String>,
    frames: Vec<PySpyFrame>,
}

/// A frame in the output of py-spy.
#[derive(serde::Deserialize)]
struct PySpyFrame {
    name: String,
    filename: String,
    line: u32,
}

/// Adds the Python frames of processes that run Python, and the owners of the locks that their threads wait for. Until the
/// given time, py-spy is asked about an interpreter that provoke does not support.
pub(super) fn add_python_calls(
    threads: &mut [HungThread],
    pids: &[i32],
    ask_until: Option<Instant>,
) {
    for pid in pids.iter().filter(|pid| runs_python(**pid)).take(ASKED) {
        if let Some(python_threads) = read_python_threads(*pid) {
            let own_threads = threads.iter_mut().filter(|thread| thread.pid == *pid);
            add_calls_of_process(own_threads, python_threads);
        } else if let Some(deadline) = ask_until {
            ask_py_spy(threads, *pid, deadline);
        }
    }
}

fn read_python_threads(pid: i32) -> Option<Vec<PythonThread>> {
    let mappings = memory::read_mappings(pid).ok()?;
    let starts = mappings.iter().filter(|mapping| mapping.offset == 0);
    let files = starts.map(|mapping| (mapping.range.start, Path::new(&mapping.name)));
    let mut found = python::read_threads(&ProcessMemory::of_process(pid).ok()?, files)?;
    let tids = threads::threads_by_number(pid);
    let tid_of = |number: i32| tids.get(&number).copied();
    for thread in &mut found {
        thread.tid = tid_of(thread.tid).unwrap_or_default();
        thread.joins = thread.joins.and_then(tid_of);
    }
    Some(found)
}

fn add_calls_of_process<'a>(
    threads: impl Iterator<Item = &'a mut HungThread>,
    python_threads: Vec<PythonThread>,
) {
    let owners: BTreeMap<u64, i32> = python_threads
        .iter()
        .flat_map(|thread| thread.held_locks.iter().map(|lock| (*lock, thread.tid)))
        .collect();
    let ends: BTreeMap<u64, i32> = python_threads
        .iter()
        .filter_map(|thread| Some((thread.end_lock?, thread.tid)))
        .collect();
    let mut python_threads: BTreeMap<i32, PythonThread> = python_threads
        .into_iter()
        .map(|thread| (thread.tid, thread))
        .collect();
    for thread in threads {
        let frame = |call: PythonCall| Frame {
            function: Some(call.function),
            line: Some((call.file, call.line)),
            ..Frame::default()
        };
        let Some(python_thread) = python_threads.remove(&thread.tid) else {
            continue;
        };
        thread.calls = python_thread.calls.into_iter().map(frame).collect();
        let Some(futex) = awaited_futex(thread).filter(|_| thread.waits_for.is_none()) else {
            continue;
        };
        if let Some(owner) = owners.get(&futex) {
            thread.waits_on = Some(WaitObject::Mutex);
            thread.waits_for = Some(*owner);
            thread.lock_at = Some(futex);
        } else if let Some(joined) = ends.get(&futex).copied().or(python_thread.joins) {
            thread.waits_on = Some(WaitObject::Join);
            thread.waits_for = Some(joined);
        }
    }
}

/// Returns the address of the futex for which a thread waits without a timeout.
fn awaited_futex(thread: &HungThread) -> Option<u64> {
    let call = threads::glance_at(thread.pid, thread.tid)?.call?;
    let [address, _, _, timeout, ..] = call.arguments;
    (calls::syscall_name(call.number) == "futex" && timeout == 0).then_some(address)
}

/// Adds the Python frames of a process whose interpreter provoke does not support, if py-spy is installed.
fn ask_py_spy(threads: &mut [HungThread], pid: i32, deadline: Instant) {
    let path = std::env::var_os("PATH");
    let Ok(py_spy) = spawn::find_program(OsStr::new("py-spy"), path.as_deref(), Path::new("/"))
    else {
        return;
    };
    let pid = pid.to_string();
    let ask = |options: &[&str]| -> Option<Vec<PySpyThread>> {
        let arguments = [&["dump", "--json", "--pid", &pid], options].concat();
        let arguments: Vec<&OsStr> = arguments.iter().map(OsStr::new).collect();
        let until = deadline.min(Instant::now() + TOOL);
        let text = tool::run_program(&py_spy, &arguments, until, WORDS).ok()?;
        serde_json::from_str(&text).ok()
    };
    // Without stopping the process, py-spy may fail, or not know the threads; then let it stop the process.
    let knows_threads = |threads: &Vec<PySpyThread>| {
        let mut threads = threads.iter();
        threads.any(|thread| thread.os_thread_id.is_some())
    };
    let nonblocking = ask(&["--nonblocking"]).filter(knows_threads);
    let python_threads = nonblocking.or_else(|| ask(&[]));
    for python_thread in python_threads.into_iter().flatten() {
        let mut own_threads = threads.iter_mut();
        let Some(thread) =
            own_threads.find(|thread| Some(thread.tid) == python_thread.os_thread_id)
        else {
            continue;
        };
        let frames = python_thread.frames.into_iter().take(PYTHON_CALLS);
        let frame = |frame: PySpyFrame| Frame {
            function: Some(frame.name),
            line: Some((frame.filename, frame.line)),
            ..Frame::default()
        };
        thread.calls = frames.map(frame).collect();
        let name = python_thread.thread_name;
        if let Some(name) = name.filter(|_| thread.tid != thread.pid) {
            thread.name = name;
        }
    }
}

fn runs_python(pid: i32) -> bool {
    let is_loaded = |mapping: &Mapping| python::is_interpreter(Path::new(&mapping.name));
    fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| python::is_interpreter(&exe))
        || memory::read_mappings(pid).is_ok_and(|mappings| mappings.iter().any(is_loaded))
}
