//! Tests the evidence of trials that time out.

use super::bench::{Bench, LONG};
use crate::needs::{needs, program};
use provoke::model::{Ending, Hang, HungThread, Observation};
use std::process::Command;
use std::time::Duration;

const DEADLOCK: &str = r"
#include <pthread.h>
#include <unistd.h>
pthread_mutex_t first = PTHREAD_MUTEX_INITIALIZER, second = PTHREAD_MUTEX_INITIALIZER;
pthread_barrier_t both;
void *backwards(void *none) {
    pthread_mutex_lock(&second);
    pthread_barrier_wait(&both);
    pthread_mutex_lock(&first);
    return none;
}
void forwards(void) {
    pthread_mutex_lock(&first);
    pthread_barrier_wait(&both);
    pthread_mutex_lock(&second);
}
int main(void) {
    pthread_t other;
    pthread_barrier_init(&both, 0, 2);
    pthread_create(&other, 0, backwards, 0);
    forwards();
    return 0;
}
";

fn hang(seen: &Observation) -> &Hang {
    seen.hang.as_ref().expect("it hung")
}

fn first(seen: &Observation) -> &HungThread {
    let pid = seen.actors[0].pid;
    let mut threads = hang(seen).threads.iter();
    threads
        .find(|thread| thread.tid == pid)
        .expect("its thread")
}

fn state(seen: &Observation) -> char {
    match seen.actors[0].ending {
        Ending::TimedOut { state, .. } => state,
        ref ending => panic!("{ending:?}"),
    }
}

fn is_gone(seen: &Observation) -> bool {
    !std::path::Path::new(&format!("/proc/{}", seen.actors[0].pid)).exists()
}

/// Returns the stacks that the debugger reads from a core.
fn backtraces(program: &str, core: &str) -> String {
    let said = Command::new("gdb")
        .args(["-nx", "-batch", "-ex", "set debuginfod enabled off"])
        .args(["-ex", "info sharedlibrary", "-ex", "thread apply all bt"])
        .args([program, core])
        .output()
        .expect("gdb");
    String::from_utf8_lossy(&[said.stdout, said.stderr].concat()).into_owned()
}

#[test]
fn a_deadlock_is_told_with_its_cycle_and_both_stacks() {
    needs!(program("gdb"));
    let mut bench = Bench::new();
    let program = bench.compile("deadlock", DEADLOCK);
    let seen = bench.hang(&[&program], |seen| hang(seen).cycle.len() == 2);
    let hang = hang(&seen);
    let pid = seen.actors[0].pid;
    assert_eq!(hang.threads.len(), 2);
    assert_eq!((hang.unlisted, hang.cycle[0]), (0, pid));
    for thread in &hang.threads {
        assert_eq!((thread.pid, thread.state), (pid, 'S'), "{thread:?}");
        assert_eq!((&*thread.call, &*thread.name), ("futex", "deadlock"));
        assert!(thread.cpu < Duration::from_millis(100));
        let other = hang.cycle.iter().find(|tid| **tid != thread.tid);
        assert_eq!(thread.waits_for, other.copied());
    }
    assert!(is_gone(&seen));
    assert_eq!(seen.casualties, []);

    let core = &hang.cores[0];
    let file = core.file.as_os_str().to_str().unwrap();
    assert_eq!((core.pid, hang.cores.len(), &core.unread), (pid, 1, &None));
    assert_eq!(core.size, std::fs::metadata(file).unwrap().len());
    assert!(core.size < 4 << 20, "{} bytes", core.size);
    let said = backtraces(&program, file);
    for expected in [
        "in forwards ()",
        "in main ()",
        "in backwards (",
        "libc.so",
        "start_thread",
    ] {
        assert!(said.contains(expected), "no `{expected}`:\n{said}");
    }
    assert!(!said.contains("?? ()"), "{said}");
}

#[test]
fn a_deadlock_is_found_without_being_root() {
    let mut bench = Bench::without_root();
    let program = bench.compile("deadlock", DEADLOCK);
    let seen = bench.hang(&[&program], |seen| hang(seen).cycle.len() == 2);
    assert_eq!(hang(&seen).cores[0].unread, None);
    assert!(is_gone(&seen));
}

#[test]
fn a_busy_loop_uses_the_processor() {
    let mut bench = Bench::new();
    let seen = bench.hang(&["sh", "-c", "while :; do :; done"], |seen| {
        first(seen).state == 'R' && first(seen).cpu > Duration::ZERO
    });
    assert_eq!(state(&seen), 'R');
    assert_eq!((&*first(&seen).call, first(&seen).waits_for), ("", None));
    assert!(is_gone(&seen));
}

#[test]
fn one_that_writes_for_ever_does_not_seem_to_wait_for_us() {
    let mut bench = Bench::new();
    let seen = bench.hang(&["yes"], |seen| first(seen).cpu > Duration::ZERO);
    assert_eq!(first(&seen).name, "yes");
}

#[test]
fn whoever_waits_for_a_child_waits_for_that_one() {
    let mut bench = Bench::new();
    let command = ["sh", "-c", "sleep 1000; true"];
    let seen = bench.hang(&command, |seen| {
        let threads = &hang(seen).threads;
        threads.len() == 2 && threads[1].name == "sleep"
    });
    let [shell, sleep] = &hang(&seen).threads[..] else {
        panic!("{seen:?}")
    };
    assert_eq!((&*shell.call, shell.state), ("wait4", 'S'));
    assert_eq!((shell.tid, shell.waits_for), (shell.pid, Some(sleep.pid)));
    assert!(sleep.call.ends_with("nanosleep"), "{sleep:?}");
    assert_eq!(sleep.cpu, Duration::ZERO);
    assert_eq!(hang(&seen).cores.len(), 2);
    assert_eq!(hang(&seen).cycle, [] as [i32; 0]);
}

#[test]
fn a_stopped_process_is_told_as_one_and_still_ends() {
    let mut bench = Bench::new();
    let command = ["sh", "-c", "kill -STOP $$"];
    let seen = bench.hang(&command, |seen| first(seen).state == 'T');
    assert_eq!(state(&seen), 'T');
    assert_eq!(hang(&seen).cores[0].unread, None);
    assert!(is_gone(&seen));
}

#[test]
fn after_the_inspection_a_process_still_ends_politely() {
    let mut bench = Bench::new();
    bench.grace = LONG;
    let script = "exec 2>/dev/null; trap 'echo bye; exit 3' TERM; while :; do sleep 0.01; done";
    let command = ["sh", "-c", script];
    let seen = bench.hang(&command, |seen| seen.actors[0].last_words == "bye");
    let killed = matches!(seen.actors[0].ending, Ending::TimedOut { killed: true, .. });
    assert!(!killed, "{seen:?}");
    assert_eq!(seen.casualties, []);
}

#[test]
fn python_calls_are_told_where_a_tool_is_there() {
    needs!(program("python3"), program("py-spy"));
    let mut bench = Bench::new();
    let script = "import time\ndef dawdle():\n    time.sleep(1000)\ndawdle()\n";
    let seen = bench.hang(&["python3", "-c", script], |seen| {
        let calls = &first(seen).python;
        calls
            .iter()
            .any(|call| call.function.as_deref() == Some("dawdle"))
    });
    assert!(is_gone(&seen));
}
