//! Tests which trials a deadlock ends before their timeout.

use super::bench::{Bench, LONG};
use crate::needs::{needs, program};
use provoke_model::{Ending, HoldPlan, Observation};
use std::time::Duration;

/// Ways to wait. After the first look at a trial and two more, programs that can continue do so.
const WAITS: &str = r#"
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LATER = 4 };
static pthread_mutex_t a = PTHREAD_MUTEX_INITIALIZER, b = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t queue = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t work = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t both;
static sem_t posted;
static int over;

static void *forwards(void *none) {
    pthread_mutex_lock(&a); pthread_barrier_wait(&both); pthread_mutex_lock(&b);
    return none;
}
static void *backwards(void *none) {
    pthread_mutex_lock(&b); pthread_barrier_wait(&both); pthread_mutex_lock(&a);
    return none;
}
static void start_cycle(pthread_t *threads) {
    pthread_barrier_init(&both, 0, 2);
    pthread_create(threads, 0, forwards, 0);
    pthread_create(threads + 1, 0, backwards, 0);
}
static void deadlock(void) {
    pthread_t threads[2];
    start_cycle(threads);
    pthread_join(threads[0], 0);
}
static void *worker(void *none) {
    pthread_mutex_lock(&queue);
    while (!over) pthread_cond_wait(&work, &queue);
    pthread_mutex_unlock(&queue);
    return none;
}
static void *timer(void *none) {
    sleep(LATER);
    pthread_mutex_lock(&queue);
    over = 1;
    pthread_cond_broadcast(&work);
    pthread_mutex_unlock(&queue);
    return none;
}
static void *holder(void *none) {
    pthread_mutex_lock(&a); pthread_barrier_wait(&both); sleep(LATER); pthread_mutex_unlock(&a);
    return none;
}
static void *owner(void *none) {
    pthread_mutex_lock(&a); pthread_barrier_wait(&both);
    for (;;) {}
}
static void *busy(void *none) { for (;;) {} }
static void *leaver(void *none) { sleep(LATER); exit(0); }
static void post(int signal) { sem_post(&posted); }
static void wait_for_post(int signal_number) {
    pthread_t threads[2];
    sem_init(&posted, 0, 0);
    signal(signal_number, post);
    start_cycle(threads);
    while (sem_wait(&posted)) {}
}

int main(int count, char **words) {
    pthread_t threads[8];
    const char *how = words[1];
    if (!strcmp(how, "deadlock")) deadlock();
    if (!strcmp(how, "itself")) { pthread_mutex_lock(&a); pthread_mutex_lock(&a); }
    if (!strcmp(how, "pool")) {
        for (int i = 0; i < 7; i++) pthread_create(threads + i, 0, worker, 0);
        pthread_create(threads + 7, 0, timer, 0);
        for (int i = 0; i < 8; i++) pthread_join(threads[i], 0);
    }
    if (!strcmp(how, "pool-deadlock")) {
        for (int i = 0; i < 7; i++) pthread_create(threads + i, 0, worker, 0);
        deadlock();
    }
    if (!strcmp(how, "holder")) {
        pthread_barrier_init(&both, 0, 2);
        pthread_create(threads, 0, holder, 0);
        pthread_barrier_wait(&both);
        pthread_mutex_lock(&a);
    }
    if (!strcmp(how, "child")) { if (!fork()) deadlock(); wait(0); }
    if (!strcmp(how, "orphan")) {
        pthread_barrier_init(&both, 0, 2);
        pthread_create(threads, 0, owner, 0);
        pthread_barrier_wait(&both);
        if (!fork()) pthread_mutex_lock(&a);
        wait(0);
    }
    if (!strcmp(how, "slow-child")) {
        pthread_create(threads, 0, busy, 0);
        if (!fork()) {
            pthread_barrier_init(&both, 0, 2);
            pthread_create(threads, 0, holder, 0);
            pthread_barrier_wait(&both);
            pthread_mutex_lock(&a);
            _exit(0);
        }
        wait(0);
    }
    if (!strcmp(how, "leaver")) { pthread_create(threads, 0, leaver, 0); deadlock(); }
    if (!strcmp(how, "alarm")) { alarm(LATER); wait_for_post(SIGALRM); }
    if (!strcmp(how, "timer")) {
        timer_t id;
        struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
        struct itimerspec time = {.it_value.tv_sec = LATER};
        timer_create(CLOCK_MONOTONIC, &event, &id);
        timer_settime(id, 0, &time, 0);
        wait_for_post(SIGUSR1);
    }
    return 0;
}
"#;

/// Returns the timeout that a trial was too short for.
fn ended_before(seen: &Observation) -> Option<Duration> {
    let hang = seen.hang.as_ref()?;
    assert!(
        matches!(seen.actors[0].ending, Ending::TimedOut { state: 'S', .. }),
        "{seen:?}"
    );
    Some(hang.ended_before)
}

fn cycle_length(seen: &Observation) -> usize {
    seen.hang.as_ref().map_or(0, |hang| hang.cycle.len())
}

#[test]
fn a_deadlock_ends_a_trial_before_its_timeout() {
    let mut bench = Bench::new();
    let program = bench.compile("waits", WAITS);
    let seen = bench.run(&[&program, "deadlock"], LONG);
    assert_eq!((ended_before(&seen), cycle_length(&seen)), (Some(LONG), 2));
    let hang = seen.hang.as_ref().unwrap();
    assert_eq!((hang.threads.len(), hang.cores.len()), (3, 1));
    assert_eq!(hang.cores[0].unread, None);
    assert_eq!(seen.crashed_children, []);
}

#[test]
fn a_self_deadlock_ends_a_trial_before_its_timeout() {
    let mut bench = Bench::new();
    let program = bench.compile("waits", WAITS);
    let seen = bench.run(&[&program, "itself"], LONG);
    assert_eq!((ended_before(&seen), cycle_length(&seen)), (Some(LONG), 1));
}

#[test]
fn idle_threads_do_not_hide_a_deadlock() {
    let mut bench = Bench::without_root();
    let program = bench.compile("waits", WAITS);
    let seen = bench.run(&[&program, "pool-deadlock"], LONG);
    assert_eq!((ended_before(&seen), cycle_length(&seen)), (Some(LONG), 2));
}

#[test]
fn processes_waiting_for_a_deadlocked_process_do_not_hide_it() {
    let mut bench = Bench::new();
    let program = bench.compile("waits", WAITS);
    let line = format!("{program} child | cat; true");
    let seen = bench.run(&["sh", "-c", &line], LONG);
    assert_eq!((ended_before(&seen), cycle_length(&seen)), (Some(LONG), 2));
    let programs = &seen.hang.as_ref().unwrap().programs;
    assert_eq!(
        programs.len(),
        4,
        "the shell, cat, the parent and the child"
    );
}

#[test]
fn a_deadlock_ends_a_traced_trial_before_its_timeout() {
    let mut bench = Bench::new();
    bench.trace = true;
    let program = bench.compile("waits", WAITS);
    let seen = bench.run(&[&program, "deadlock"], LONG);
    assert_eq!((ended_before(&seen), cycle_length(&seen)), (Some(LONG), 2));
}

/// Returns a bench whose trials are looked at as those with held threads.
fn bench_with_holds() -> Bench {
    let mut bench = Bench::new();
    bench.hold = Some(HoldPlan::Hold {
        holds: Vec::new(),
        total_limit: Duration::ZERO,
        evidence: false,
    });
    bench
}

#[test]
fn a_running_thread_does_not_hide_a_child_that_waits_for_a_lock_taken_before_the_fork() {
    let mut bench = bench_with_holds();
    let program = bench.compile("waits", WAITS);
    let seen = bench.run(&[&program, "orphan"], LONG);
    assert_eq!(ended_before(&seen), Some(LONG));
    let threads = &seen.hang.as_ref().unwrap().threads;
    assert!(threads.iter().any(|thread| thread.absent_owner.is_some()));
}

#[test]
fn a_child_that_waits_for_its_own_thread_is_not_a_deadlock() {
    let mut bench = bench_with_holds();
    let program = bench.compile("waits", WAITS);
    let seen = bench.run(&[&program, "slow-child"], LONG);
    assert_eq!(seen.actors[0].ending, Ending::Exited(0), "{seen:?}");
}

/// Runs a program that continues after some time, and checks that it ended by itself.
fn assert_continues(how: &str) {
    let mut bench = Bench::new();
    let program = bench.compile("waits", WAITS);
    let seen = bench.run(&[&program, how], LONG);
    assert_eq!(seen.actors[0].ending, Ending::Exited(0), "{seen:?}");
    assert_eq!(seen.hang, None);
}

#[test]
fn an_idle_pool_that_a_timer_wakes_is_not_a_deadlock() {
    assert_continues("pool");
}

#[test]
fn a_lock_held_by_a_sleeping_thread_is_not_a_deadlock() {
    assert_continues("holder");
}

#[test]
fn a_deadlock_does_not_end_a_program_that_another_thread_ends() {
    assert_continues("leaver");
}

#[test]
fn a_deadlock_does_not_end_a_program_that_handles_an_alarm() {
    assert_continues("alarm");
}

#[test]
fn a_deadlock_does_not_end_a_program_with_a_timer() {
    assert_continues("timer");
}

const PYTHON: &str = "
import threading
one, other, both = threading.Lock(), threading.Lock(), threading.Barrier(2)
def take(first, second):
    with first:
        both.wait()
        with second:
            pass
for locks in (one, other), (other, one):
    threading.Thread(target=take, args=locks).start()
";

#[test]
fn a_deadlock_of_python_locks_ends_before_the_timeout() {
    needs!(program("python3"));
    let mut bench = Bench::new();
    let timeout = Duration::from_secs(60);
    let seen = bench.run(&["python3", "-c", PYTHON], timeout);
    assert_eq!(
        (ended_before(&seen), cycle_length(&seen)),
        (Some(timeout), 2)
    );
    assert!(seen.elapsed < timeout);
}
