//! Tests crashes that exit codes hide, and the kernel's log lines about them.

use super::bench::{Bench, LONG, PROVOKE};
use crate::needs::{kernel_log, needs, process_events};
use provoke_model::{CrashedProcess, Ending, Observation, Signal};
use std::thread::sleep;
use std::time::Duration;

const CRASH: &str = "kill -SEGV $$";

fn only_casualty(seen: &Observation) -> &CrashedProcess {
    assert_eq!(seen.crashed_children.len(), 1, "{seen:#?}");
    &seen.crashed_children[0]
}

#[test]
fn a_crashed_child_behind_exit_code_0_is_recorded() {
    needs!(process_events());
    let mut bench = Bench::new();
    let script = format!("sh -c '{CRASH}' & wait; true");
    for _ in 0..20 {
        let seen = bench.run(&["sh", "-c", &script], LONG);
        assert_eq!(seen.actors[0].ending, Ending::Exited(0));
        let casualty = only_casualty(&seen);
        assert_eq!(casualty.signal, Some(Signal::SEGV));
        assert!(casualty.pid > seen.actors[0].pid);
    }
}

#[test]
fn a_crashed_child_is_recorded_without_root() {
    needs!(process_events());
    let mut bench = Bench::without_root();
    let script = format!("sh -c '{CRASH}' & wait; true");
    let seen = bench.run(&["sh", "-c", &script], LONG);
    assert_eq!(only_casualty(&seen).signal, Some(Signal::SEGV));
}

#[test]
fn a_crashed_grandchild_below_a_failing_child_is_recorded() {
    needs!(process_events());
    let mut bench = Bench::new();
    let script = r#"sh -c 'sh -c "kill -SEGV \$\$"; exit 2'; true"#;
    let seen = bench.run(&["sh", "-c", script], LONG);
    assert_eq!(only_casualty(&seen).signal, Some(Signal::SEGV));
}

#[test]
fn a_crashed_orphan_is_recorded() {
    needs!(process_events());
    let mut bench = Bench::new();
    bench.leak_grace = LONG;
    // Waits until its parent has changed to the slot.
    let orphan = r#"mine() { awk "/^PPid/ { print \$2 }" /proc/$$/status; }
        before=$1; while [ "$(mine)" = "$before" ]; do :; done; kill -ABRT $$"#;
    let script = r#"sh -c "$0" orphan $$ & exit 0"#;
    let seen = bench.run(&["sh", "-c", script, orphan], LONG);
    assert_eq!(only_casualty(&seen).signal, Some(Signal::ABRT), "{seen:#?}");
}

#[test]
fn a_crash_of_the_main_process_is_not_a_crashed_child() {
    let mut bench = Bench::new();
    let seen = bench.run(&["sh", "-c", CRASH], LONG);
    assert!(matches!(
        seen.actors[0].ending,
        Ending::Signaled(Signal::SEGV, _)
    ));
    assert_eq!(seen.crashed_children, []);
    let seen = bench.run(&["sh", "-c", "sh -c 'exit 3'; true"], LONG);
    assert_eq!(
        (seen.crashed_children, seen.kernel, seen.hang),
        (vec![], vec![], None)
    );
}

#[test]
fn processes_killed_by_provoke_are_not_crashes() {
    let mut bench = Bench::new();
    let script = "sh -c 'sleep 1000; true' & sleep 1000; true";
    let seen = bench.run(&["sh", "-c", script], Duration::from_millis(300));
    assert_eq!(seen.crashed_children, []);
    let seen = bench.run(&["sh", "-c", "sleep 1000 & true"], LONG);
    assert_eq!(
        (seen.crashed_children, seen.residue.leaked.len()),
        (vec![], 1)
    );
}

/// Retries a command, because the kernel logs at most ten crashes in five seconds for all processes together.
fn run_until_kernel_logs(bench: &mut Bench, command: &[&str]) -> Observation {
    for _ in 0..200 {
        let seen = bench.run(command, LONG);
        if !seen.kernel.is_empty() {
            return seen;
        }
        sleep(Duration::from_millis(500));
    }
    panic!("the kernel's log is silent: is it readable, and does it tell of crashes?");
}

#[test]
fn the_kernel_log_line_of_a_crash_is_recorded() {
    needs!(kernel_log());
    let mut bench = Bench::new();
    let seen = run_until_kernel_logs(&mut bench, &[PROVOKE, "victim", "segv"]);
    let pid = seen.actors[0].pid;
    assert!(seen.kernel.iter().all(|line| line.pid == pid));
    let text = &seen.kernel[0].text;
    assert!(
        text.contains(&format!("[{pid}]: segfault at 10 ")),
        "{text}"
    );
}

#[test]
fn the_kernel_log_line_of_a_crashed_child_thread_is_recorded() {
    needs!(kernel_log());
    let mut bench = Bench::new();
    let program = bench.compile(
        "threaded",
        "#include <pthread.h>
        void *fall(void *none) { *(volatile int *)16 = 1; return none; }
        int main(void) {
            pthread_t other;
            pthread_create(&other, 0, fall, 0);
            pthread_join(other, 0);
        }",
    );
    let script = format!("{program} & wait; true");
    let seen = run_until_kernel_logs(&mut bench, &["sh", "-c", &script]);
    let casualty = only_casualty(&seen);
    assert_eq!(casualty.program, "threaded");
    assert_eq!(casualty.signal, Some(Signal::SEGV));
    assert_eq!(seen.kernel[0].pid, casualty.pid);
}
