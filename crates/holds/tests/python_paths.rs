//! Tests that the paths of the threads of Python programs are recorded, with every installed version of Python.

use provoke_holds::code::CodeCache;
use provoke_holds::python::{prepare_lines, read_lines};
use provoke_holds::run::run_programs;
use provoke_model::{
    CodeScope, HoldPlan, PathDetail, PathPart, PathPlace, PathPlan, ThreadEnd, TrialPath,
};
use provoke_sys::child::become_subreaper;
use provoke_test_needs::{interpreters, skip};
use std::ffi::OsString;
use std::fs;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The children of a process belong to all of its threads, so only one test at a time has children.
static CHILDREN_LOCK: Mutex<()> = Mutex::new(());

/// The observation of a trial.
struct RecordedTrial {
    path: TrialPath,
    /// Its two outputs and its exit code.
    output: String,
}

impl RecordedTrial {
    /// Returns the threads that arrived at a line, in the order of their arrivals.
    fn threads_at(&self, line: u32) -> Vec<u32> {
        let events = self.arrivals().into_iter();
        let at_line = events.filter(|(_, reached)| *reached == line.to_string());
        at_line.map(|(thread, _)| thread).collect()
    }

    /// Returns the threads with the lines or the exceptions that they reached: `4` or `4 KeyError`.
    fn arrivals(&self) -> Vec<(u32, String)> {
        let events = self.path.events.0.iter();
        let events = events.map(|event| (event.thread, self.describe_point(event.point)));
        events.collect()
    }

    fn describe_point(&self, point: u32) -> String {
        match &self.path.points[point as usize] {
            PathPlace::Line(0, line) => line.to_string(),
            PathPlace::Exception(0, line, exception) => format!("{line} {exception}"),
            other => format!("{other:?}"),
        }
    }

    /// Returns the active lines at the ends of threads.
    fn ends(&self) -> Vec<(u32, Vec<String>)> {
        let describe_end = |end: &ThreadEnd| {
            let active = end.active.iter();
            let active = active.map(|point| self.describe_point(*point));
            (end.thread, active.collect())
        };
        self.path.ends.iter().map(describe_end).collect()
    }

    /// Returns the lines and the exceptions of a thread.
    fn path_of(&self, thread: u32) -> Vec<String> {
        let arrivals = self.arrivals().into_iter();
        let of_thread = arrivals.filter(|(number, _)| *number == thread);
        of_thread.map(|(_, place)| place).collect()
    }
}

/// Runs a program with an interpreter while its path is recorded, with up to three arrivals.
fn record_path(python: &str, text: &str) -> RecordedTrial {
    let _children_lock = CHILDREN_LOCK.lock().unwrap_or_else(PoisonError::into_inner);
    become_subreaper().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("program.py");
    fs::write(&program, text).unwrap();
    let lines = folder.path().join("lines");
    fs::create_dir(&lines).unwrap();
    let plan = HoldPlan::Record(PathPlan {
        scope: CodeScope::Own,
        detail: PathDetail::None,
        arrivals: 3,
        part: PathPart::All,
        inside: Vec::new(),
        holds: Vec::new(),
        total_limit: Duration::ZERO,
    });
    let variables = prepare_lines(&lines, &plan, None).unwrap();
    let output = folder.path().join("output");
    let (program_path, output_path) = (program.to_string_lossy(), output.to_string_lossy());
    let script = format!("{python} {program_path} >{output_path} 2>&1; echo $? >>{output_path}");
    let command: Vec<OsString> = vec!["sh".into(), "-c".into(), script.into()];
    let mut files = CodeCache::default();
    let limit = Duration::from_secs(30);
    let mut run = run_programs(&[command], &variables, &plan, &mut files, limit).unwrap();
    read_lines(&lines, &plan, &mut run.holds).unwrap();
    assert_eq!(run.holds.refused, None, "{python}");
    let path = *run.holds.path.expect("a path");
    assert_eq!(path.files, [program.as_os_str().into()], "{python}");
    assert!(!path.is_cut);
    let output = fs::read_to_string(&output).unwrap();
    RecordedTrial { path, output }
}

/// Runs a check with every version of Python.
fn check_versions(check: impl Fn(&str)) {
    for python in interpreters(8..=13) {
        check(&python);
    }
}

fn has_no_python() -> bool {
    interpreters(8..=13).is_empty()
}

const THREADS: &str = "\
import threading
first = threading.Event()
def step():
    first
def work():
    for _ in range(9):
        step()
    first.set()
for _ in range(9):
    step()
thread = threading.Thread(target=work)
thread.start()
first.wait()
after = 1
for _ in range(9):
    step()
thread.join()
print('done')
";

#[test]
fn arrivals_of_threads_are_recorded_in_their_order() {
    if has_no_python() {
        skip!("Python is not installed");
    }
    check_versions(|python| {
        let trial = record_path(python, THREADS);
        let arrivals = trial.arrivals();
        assert_eq!(trial.output, "done\n0\n", "{python}");
        // One arrival of the first thread before, and three in all when there are two.
        assert_eq!(trial.threads_at(4), [0, 1, 1, 1], "{python}: {arrivals:?}");
        let position = |thread, line: &str| {
            let is_wanted = |arrival: &(u32, String)| *arrival == (thread, line.to_owned());
            arrivals.iter().position(is_wanted)
        };
        let (set, after) = (position(1, "8"), position(0, "14"));
        assert!(
            set.is_some() && set < after,
            "{python}: {set:?} {after:?} {arrivals:?}"
        );
        assert_eq!(trial.ends(), [], "{python}");
    });
}

const EXCEPTIONS: &str = "\
import json
def fail(value):
    return {}[value]
def call(value):
    return fail(value)
def give():
    yield 1
try:
    call(1)
except KeyError:
    pass
next(give())
for _ in give():
    pass
try:
    json.loads('')
except ValueError:
    pass
print('done')
";

#[test]
fn exceptions_are_recorded_where_they_were_raised() {
    if has_no_python() {
        skip!("Python is not installed");
    }
    check_versions(|python| {
        let trial = record_path(python, EXCEPTIONS);
        assert_eq!(trial.output, "done\n0\n", "{python}");
        let arrivals = trial.arrivals();
        let raised = arrivals.iter().filter(|(_, place)| place.contains(' '));
        let raised: Vec<&str> = raised.map(|(_, place)| &**place).collect();
        assert_eq!(raised, ["3 KeyError", "16 JSONDecodeError"], "{python}");
        let path = trial.path_of(0);
        let first_raised = path.iter().position(|place| place == "3 KeyError");
        let handler = path.iter().position(|place| place == "10");
        assert!(first_raised < handler, "{python}: {path:?}");
    });
}

const ENDS: &str = "\
import sys, threading
def fail():
    raise ValueError('of the program')
def work():
    fail()
thread = threading.Thread(target=work)
thread.start()
thread.join()
def leave():
    sys.exit(3)
leave()
";

#[test]
fn the_lines_at_the_ends_of_threads_are_recorded() {
    if has_no_python() {
        skip!("Python is not installed");
    }
    check_versions(|python| {
        let trial = record_path(python, ENDS);
        let active = |lines: &[&str]| lines.iter().map(ToString::to_string).collect();
        let ends = [(0, active(&["10", "11"])), (1, active(&["3", "5"]))];
        assert_eq!(trial.ends(), ends, "{python}: {:?}", trial.arrivals());
        assert!(trial.output.ends_with("ValueError: of the program\n3\n"));
        assert!(!trial.output.contains("sitecustomize"), "{}", trial.output);
    });
}

const UNCAUGHT: &str = "\
def fail(depth):
    if depth == 0:
        raise ValueError('at the bottom')
    fail(depth - 1)
fail(2)
";

#[test]
fn the_lines_of_an_uncaught_exception_are_recorded() {
    if has_no_python() {
        skip!("Python is not installed");
    }
    check_versions(|python| {
        let trial = record_path(python, UNCAUGHT);
        let active: Vec<String> = ["3", "4", "4", "5"].map(str::to_owned).to_vec();
        assert_eq!(trial.ends(), [(0, active)], "{python}");
        assert_eq!(
            trial.path_of(0),
            ["1", "5", "2", "4", "3", "3 ValueError"],
            "{python}"
        );
    });
}

const PROCESSES: &str = "\
import multiprocessing, os, signal
first_file = open(os.devnull)
def work():
    inside = 1
    os._exit(inside)
def die():
    os.kill(os.getpid(), signal.SIGKILL)
    os._exit(0)
context = multiprocessing.get_context('fork')
for target in (work, die):
    process = context.Process(target=target)
    process.start()
    process.join()
    print(process.exitcode)
print(first_file.fileno())
";

#[test]
fn processes_of_a_program_are_recorded_until_they_end() {
    if has_no_python() {
        skip!("Python is not installed");
    }
    check_versions(|python| {
        let trial = record_path(python, PROCESSES);
        // The first file of a program still has the number 3.
        let output: Vec<&str> = trial.output.lines().collect();
        assert_eq!(output, ["1", "-9", "3", "0"], "{python}");
        let arrivals = trial.arrivals();
        assert_eq!(trial.path_of(1), ["4", "5"], "{python}: {arrivals:?}");
        assert_eq!(trial.path_of(2), ["7"], "{python}: {arrivals:?}");
        let of_first = |(thread, _): &(u32, String)| *thread == 1;
        let start = arrivals.iter().position(of_first).unwrap();
        let end = arrivals.iter().rposition(of_first).unwrap();
        let is_print = |(_, place): &(u32, String)| place == "14";
        let print = arrivals.iter().position(is_print).unwrap();
        assert!(start > 0 && end < print, "{python}: {arrivals:?}");
    });
}
