//! Tests crashes that exit codes hide, and the kernel's log lines about them.

use super::bench::{Bench, LONG, PROVOKE};
use crate::needs::{kernel_log, needs};
use provoke::model::{CrashedProcess, Ending, Observation, Signal};
use std::thread::sleep;
use std::time::Duration;

const CRASH: &str = "kill -SEGV $$";

fn only_casualty(seen: &Observation) -> &CrashedProcess {
    assert_eq!(seen.casualties.len(), 1, "{seen:#?}");
    &seen.casualties[0]
}

#[test]
fn a_crash_that_the_exit_code_hides_is_a_casualty() {
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
fn a_hidden_crash_is_found_without_being_root() {
    let mut bench = Bench::without_root();
    let script = format!("sh -c '{CRASH}' & wait; true");
    let seen = bench.run(&["sh", "-c", &script], LONG);
    assert_eq!(only_casualty(&seen).signal, Some(Signal::SEGV));
}

#[test]
fn a_crash_below_one_that_fails_is_a_casualty_too() {
    let mut bench = Bench::new();
    let script = r#"sh -c 'sh -c "kill -SEGV \$\$"; exit 2'; true"#;
    let seen = bench.run(&["sh", "-c", script], LONG);
    assert_eq!(only_casualty(&seen).signal, Some(Signal::SEGV));
}

#[test]
fn an_orphan_that_crashes_is_a_casualty() {
    let mut bench = Bench::new();
    bench.settle = LONG;
    // Waits until its parent has changed to the slot.
    let orphan = r#"mine() { awk "/^PPid/ { print \$2 }" /proc/$$/status; }
        before=$1; while [ "$(mine)" = "$before" ]; do :; done; kill -ABRT $$"#;
    let script = r#"sh -c "$0" orphan $$ & exit 0"#;
    let seen = bench.run(&["sh", "-c", script, orphan], LONG);
    assert_eq!(only_casualty(&seen).signal, Some(Signal::ABRT), "{seen:#?}");
}

#[test]
fn the_programs_own_crash_and_a_clean_trial_have_none() {
    let mut bench = Bench::new();
    let seen = bench.run(&["sh", "-c", CRASH], LONG);
    assert!(matches!(
        seen.actors[0].ending,
        Ending::Signaled(Signal::SEGV, _)
    ));
    assert_eq!(seen.casualties, []);
    let seen = bench.run(&["sh", "-c", "sh -c 'exit 3'; true"], LONG);
    assert_eq!(
        (seen.casualties, seen.kernel, seen.hang),
        (vec![], vec![], None)
    );
}

#[test]
fn whom_we_kill_is_no_casualty() {
    let mut bench = Bench::new();
    let script = "sh -c 'sleep 1000; true' & sleep 1000; true";
    let seen = bench.run(&["sh", "-c", script], Duration::from_millis(300));
    assert_eq!(seen.casualties, []);
    let seen = bench.run(&["sh", "-c", "sleep 1000 & true"], LONG);
    assert_eq!((seen.casualties, seen.residue.leaked.len()), (vec![], 1));
}

/// Retries a command, because the kernel logs at most ten crashes in five seconds for all processes together.
fn until_the_kernel_speaks(bench: &mut Bench, command: &[&str]) -> Observation {
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
fn the_kernel_tells_where_a_program_crashed() {
    needs!(kernel_log());
    let mut bench = Bench::new();
    let seen = until_the_kernel_speaks(&mut bench, &[PROVOKE, "victim", "segv"]);
    let pid = seen.actors[0].pid;
    assert!(seen.kernel.iter().all(|line| line.pid == pid));
    let text = &seen.kernel[0].text;
    assert!(
        text.contains(&format!("[{pid}]: segfault at 10 ")),
        "{text}"
    );
}

#[test]
fn the_kernel_tells_of_a_hidden_crash_in_a_thread_and_names_it() {
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
    let seen = until_the_kernel_speaks(&mut bench, &["sh", "-c", &script]);
    let casualty = only_casualty(&seen);
    assert_eq!(casualty.program, "threaded");
    assert_eq!(casualty.signal, Some(Signal::SEGV));
    assert_eq!(seen.kernel[0].pid, casualty.pid);
}
