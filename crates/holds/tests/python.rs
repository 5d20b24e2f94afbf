//! Tests that holds before lines of Python provoke the failures of racy programs, and never make a correct program fail.

use provoke_holds::code::CodeCache;
use provoke_holds::python::{prepare_lines, read_lines};
use provoke_holds::run::{HeldRun, run_programs};
use provoke_model::{CodeScope, Hold, HoldEnd, HoldPlan, HoldPoint, Occurrence};
use provoke_sys::child::become_subreaper;
use provoke_test_needs::needs;
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tempfile::TempDir;

/// The children of a process belong to all of its threads, so only one test at a time has children.
static CHILDREN_LOCK: Mutex<()> = Mutex::new(());

const RACY: &str = r#"import sys
import threading

entries = {}
guard = threading.Lock()
errors = []


def look_up():
    for _ in range(5):
        with guard:
            entries.setdefault("key", 1)
        entries["key"]


def clear():
    for _ in range(5):
        with guard:
            entries.clear()


threading.excepthook = errors.append
threads = [threading.Thread(target=look_up), threading.Thread(target=clear)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
sys.exit(bool(errors))
"#;
/// The line that reads the entry without the lock.
const RACING_LINE: u32 = 13;

const CORRECT: &str = r#"import os
import queue
import threading

assert os.environ["CHAINED"] == "yes"
items = queue.Queue()
doubled = []


def double():
    while True:
        item = items.get()
        if item is None:
            return
        doubled.append(item * 2)


threads = [threading.Thread(target=double) for _ in range(3)]
for thread in threads:
    thread.start()
for number in range(20):
    items.put(number)
for _ in threads:
    items.put(None)
for thread in threads:
    thread.join()
assert sorted(doubled) == [2 * number for number in range(20)]
"#;

fn run(folder: &Path, plan: &HoldPlan) -> HeldRun {
    let lines = folder.join("lines");
    fs::create_dir_all(&lines).unwrap();
    let variables = prepare_lines(&lines, plan, Some(folder.as_os_str())).unwrap();
    let command: Vec<OsString> = vec!["python3".into(), folder.join("program.py").into()];
    let limit = Duration::from_secs(10);
    let mut files = CodeCache::default();
    let mut run = run_programs(&[command], &variables, plan, &mut files, limit).unwrap();
    read_lines(&lines, plan, &mut run.holds).unwrap();
    run
}

fn write_program(text: &str) -> TempDir {
    become_subreaper().unwrap();
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("program.py"), text).unwrap();
    // The module of the folder must not hide this one.
    let chained = "import os\nos.environ['CHAINED'] = 'yes'\n";
    fs::write(folder.path().join("sitecustomize.py"), chained).unwrap();
    folder
}

/// Returns the lines that the program reaches while it has several threads.
fn learned_lines(folder: &Path) -> Vec<HoldPoint> {
    let learn = HoldPlan::Learn(CodeScope::Named(Vec::new()));
    let learned = run(folder, &learn).holds.learned.into_iter();
    learned
        .map(|learned| learned.point)
        .filter(|point| matches!(point, HoldPoint::Line { .. }))
        .collect()
}

fn plan_of(point: &HoldPoint, seed: u64) -> HoldPlan {
    let hold = Hold {
        point: point.clone(),
        occurrence: Occurrence::Half(seed),
        end: HoldEnd::Time,
        limit: Duration::from_millis(3),
        watches: false,
        anchor: None,
    };
    HoldPlan::Hold {
        holds: vec![hold],
        total_limit: Duration::from_millis(500),
        evidence: false,
    }
}

#[test]
fn a_hold_between_check_and_use_makes_it_fail() {
    needs!(provoke_test_needs::program("python3"));
    let _children_lock = CHILDREN_LOCK.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = write_program(RACY);
    let points = learned_lines(folder.path());
    let racing = points
        .iter()
        .find(|point| matches!(point, HoldPoint::Line { line, .. } if *line == RACING_LINE));
    let racing = racing.unwrap_or_else(|| panic!("{points:?}"));
    let runs: Vec<HeldRun> = (0..12)
        .map(|seed| run(folder.path(), &plan_of(racing, seed)))
        .collect();
    let failures = runs.iter().filter(|run| run.has_failed()).count();
    // Nearly all fail, but on a busy machine, a hold can end before the other thread runs.
    assert!(failures >= 4, "{runs:?}");
    assert!(runs.iter().all(|run| run.holds.times[0] > 0), "{runs:?}");
}

#[test]
fn a_correct_python_program_never_fails() {
    needs!(provoke_test_needs::program("python3"));
    let _children_lock = CHILDREN_LOCK.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = write_program(CORRECT);
    let points = learned_lines(folder.path());
    assert!(points.len() > 3, "{points:?}");
    for point in &points {
        for seed in 0..2 {
            let run = run(folder.path(), &plan_of(point, seed));
            assert!(!run.has_failed(), "{point:?}: {run:?}");
        }
    }
}

const DAEMON: &str = "\
import threading
threading.Thread(target=threading.Event().wait, daemon=True).start()
";

#[test]
fn a_python_program_with_a_daemon_thread_is_held_at_its_exit() {
    needs!(provoke_test_needs::program("python3"));
    let _children_lock = CHILDREN_LOCK.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = write_program(DAEMON);
    let is_at_exit = |point: &&HoldPoint| matches!(point, HoldPoint::Line { file, .. } if file.to_string().ends_with("threading.py"));
    let points = learned_lines(folder.path());
    let at_exit: Vec<&HoldPoint> = points.iter().filter(is_at_exit).collect();
    assert!(!at_exit.is_empty(), "{points:?}");
    let runs: Vec<HeldRun> = at_exit
        .iter()
        .map(|point| run(folder.path(), &plan_of(point, 0)))
        .collect();
    assert!(runs.iter().all(|run| !run.has_failed()), "{runs:?}");
    assert!(runs.iter().any(|run| run.holds.times[0] > 0), "{runs:?}");
}
