//! Tests trials whose processes see another wall-clock time.

use super::bench::{Bench, LONG};
use crate::needs::{needs, program, root, success};
use provoke_levers::TrialStart;
use provoke_model::{
    CodeScope, CreationSide, Ending, Hold, HoldEnd, HoldPlan, HoldPoint, Observation, Occurrence,
    Signal, TrialConditions,
};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime};

/// Prints the years that all calls return which read the time, and whether it has a vDSO.
const YEARS: &str = r#"
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
extern char **environ;
int year(time_t time) { return gmtime(&time)->tm_year + 1900; }
int main(void) {
    struct timespec precise, coarse, atomic, raw;
    struct timeval micro, raw_micro;
    struct timezone zone = {1, 2};
    clock_gettime(CLOCK_REALTIME, &precise);
    clock_gettime(CLOCK_REALTIME_COARSE, &coarse);
    clock_gettime(CLOCK_TAI, &atomic);
    gettimeofday(&micro, 0);
    time_t stored, returned = time(&stored);
    syscall(SYS_clock_gettime, CLOCK_REALTIME, &raw);
    syscall(SYS_gettimeofday, &raw_micro, &zone);
    long raw_time = syscall(SYS_time, 0);
    time_t times[] = {precise.tv_sec, coarse.tv_sec, atomic.tv_sec, micro.tv_sec, stored,
        returned, raw.tv_sec, raw_micro.tv_sec, raw_time};
    int first = year(times[0]);
    for (int i = 0; i < 9; i++) if (year(times[i]) != first) return printf("%d: %d\n", i, year(times[i])), 4;
    if (zone.tz_minuteswest != 0 || micro.tv_usec >= 1000000) return 5;
    if (syscall(SYS_clock_gettime, CLOCK_REALTIME, 8) != -1 || errno != EFAULT) return 6;
    struct timespec monotonic;
    if (clock_gettime(CLOCK_MONOTONIC, &monotonic) || monotonic.tv_sec > 1000000000) return 7;
    // The runtime of Go finds the vDSO in this way.
    char **words = environ;
    while (*words) words++;
    Elf64_auxv_t *entry = (Elf64_auxv_t *)(words + 1);
    while (entry->a_type != AT_NULL && entry->a_type != AT_SYSINFO_EHDR) entry++;
    printf("%d%s\n", first, entry->a_type == AT_NULL ? "" : ", with vDSO");
    return 3;
}
"#;

/// Waits 50 ms by all calls that wait until a time of the wall clock, and checks that each takes so long and returns
/// the same as with the clock of the machine.
const WAITS: &str = r#"
#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>
static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}
static struct timespec soon(int clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    time.tv_nsec += 50 * 1000 * 1000;
    if (time.tv_nsec >= 1000 * 1000 * 1000) { time.tv_sec++; time.tv_nsec -= 1000 * 1000 * 1000; }
    return time;
}
static double began;
static struct timespec until, given;
static void begin(void) { began = now(); until = given = soon(CLOCK_REALTIME); }
static void check(const char *name, long is, long expected) {
    double took = now() - began;
    int unchanged = !memcmp(&until, &given, sizeof until);
    // A late read of the time may shorten a wait.
    if (is == expected && took > 0.04 && unchanged) return;
    printf("%s: %ld, %f s\n", name, is, took);
    exit(4);
}
static long error_of(long result) { return result < 0 ? errno : result; }
static void *lock(void *mutex) { return (void *)(long)pthread_mutex_timedlock(mutex, &until); }
static long lock_in_thread(int protocol) {
    pthread_mutex_t mutex;
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setprotocol(&attributes, protocol);
    pthread_mutex_init(&mutex, &attributes);
    pthread_mutex_lock(&mutex);
    pthread_t thread;
    void *result;
    pthread_create(&thread, 0, lock, &mutex);
    pthread_join(thread, &result);
    return (long)result;
}
static void ignore(int signal) {}
static long wait_for_file(int clock, struct timespec time) {
    int file = timerfd_create(clock, 0);
    struct itimerspec timer = {.it_value = time}, disarmed = {0};
    if (timerfd_settime(file, TFD_TIMER_ABSTIME, &timer, 0)) return -1;
    long expirations = 0;
    if (read(file, &expirations, sizeof expirations) < 0) return -2;
    return timerfd_settime(file, TFD_TIMER_ABSTIME, &disarmed, 0) ? -3 : expirations;
}
static long wait_for_signal(void) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_BLOCK, &set, 0);
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
    timer_t other, timer;
    timer_create(CLOCK_MONOTONIC, &event, &other);
    timer_create(CLOCK_REALTIME, &event, &timer);
    struct itimerspec setting = {.it_value = until};
    if (timer_settime(timer, TIMER_ABSTIME, &setting, 0)) return -1;
    int signal = 0;
    sigwait(&set, &signal);
    return signal;
}
static void keep_registers(void) {
    static int word;
    long before, after, result;
    __asm__ volatile(
        "mov %[time], %%r10\n xor %%r8d, %%r8d\n mov $-1, %%r9\n mov %%r10, %[before]\n syscall\n mov %%r10, %[after]"
        : "=a"(result), [after] "=&r"(after), [before] "=&r"(before)
        : "a"((long)SYS_futex), "D"(&word), "S"((long)(FUTEX_WAIT_BITSET_PRIVATE | FUTEX_CLOCK_REALTIME)), "d"(0L),
          [time] "r"(&until)
        : "rcx", "r11", "r10", "r8", "r9", "memory");
    check("registers", before == after ? result : 1, -ETIMEDOUT);
}
int main(void) {
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
    sem_t semaphore;
    sem_init(&semaphore, 0, 0);
    pthread_mutex_lock(&mutex);
    begin(); check("condition", pthread_cond_timedwait(&condition, &mutex, &until), ETIMEDOUT);
    begin(); check("semaphore", error_of(sem_timedwait(&semaphore, &until)), ETIMEDOUT);
    begin(); check("mutex", lock_in_thread(PTHREAD_PRIO_NONE), ETIMEDOUT);
    begin(); check("priority mutex", lock_in_thread(PTHREAD_PRIO_INHERIT), ETIMEDOUT);
    begin(); check("sleep", clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &until, 0), 0);
    begin();
    struct sigaction action = {.sa_handler = ignore};
    sigaction(SIGALRM, &action, 0);
    ualarm(5000, 0);
    int interrupted = clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &until, 0);
    check("interrupted sleep", clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &until, 0), 0);
    if (interrupted != EINTR && interrupted != 0) return 5;
    begin(); check("file", wait_for_file(CLOCK_REALTIME, until), 1);
    begin(); check("monotonic file", wait_for_file(CLOCK_MONOTONIC, soon(CLOCK_MONOTONIC)), 1);
    begin(); check("signal", wait_for_signal(), SIGUSR1);
    begin(); keep_registers();
    struct timespec past = {0, 0}, wrong = {1, 2000000000};
    if (clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &past, 0)) return 6;
    if (clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &wrong, 0) != EINVAL) return 7;
    return 0;
}
"#;

/// Returns a bench whose trials have these conditions.
fn bench_under(conditions: &[(&'static str, &str)]) -> Bench {
    under(Bench::new(), conditions)
}

fn under(mut bench: Bench, conditions: &[(&'static str, &str)]) -> Bench {
    let mut set = TrialConditions::default();
    for (name, value) in conditions {
        set.set(name, (*value).to_owned());
    }
    bench.start = TrialStart::new(&set).unwrap();
    bench
}

/// Returns the last line of a trial that fails on purpose.
fn last_words(seen: &Observation) -> &str {
    assert_eq!(seen.actors[0].ending, Ending::Exited(3), "{seen:#?}");
    &seen.actors[0].last_words
}

#[test]
fn a_dynamic_and_a_static_program_see_the_date_in_all_calls() {
    let mut bench = bench_under(&[("date", "2039-06-15")]);
    for options in [&["-O1"][..], &["-O1", "-static"]] {
        let program = bench.compile_with(options, "years", YEARS);
        let seen = bench.run(&[&program], LONG);
        assert_eq!(last_words(&seen), "2039", "{options:?}");
    }
    assert!(bench.complaints.is_empty());
}

#[test]
fn without_a_condition_a_program_sees_the_clock_of_the_machine() {
    let mut bench = Bench::new();
    let program = bench.compile("years", YEARS);
    let seen = bench.run(&[&program], LONG);
    assert!(last_words(&seen).ends_with(", with vDSO"), "{seen:#?}");
}

#[test]
fn children_and_programs_that_they_execute_see_the_date() {
    needs!(program("python3"));
    let mut bench = bench_under(&[("date", "2015-06-15"), ("clock", "12:00")]);
    let script = "import datetime, multiprocessing, subprocess, threading
multiprocessing.set_start_method('fork')
results = multiprocessing.SimpleQueue()
ask = lambda: results.put(datetime.date.today().isoformat())
threads = [threading.Thread(target=ask)]
children = [multiprocessing.Process(target=ask)]
for one in threads + children: one.start()
for one in threads + children: one.join()
executed = subprocess.run(['sh', '-c', 'date +%F'], capture_output=True, text=True).stdout.strip()
print({datetime.date.today().isoformat(), executed, results.get(), results.get()})
raise SystemExit(3)";
    let seen = bench.run(&["python3", "-c", script], LONG);
    assert_eq!(last_words(&seen), "{'2015-06-15'}");
}

#[test]
fn a_program_of_go_sees_the_date() {
    needs!(program("go"));
    let mut bench = bench_under(&[("date", "2039-06-15")]);
    let source = r#"package main

import (
    "os"
    "time"
)

func main() {
    time.Sleep(time.Millisecond)
    println(time.Now().Year())
    os.Exit(3)
}
"#;
    let (file, program) = (bench.path("main.go"), bench.path("main"));
    fs::write(&file, source).unwrap();
    let mut go = Command::new("go");
    let built = go
        .args(["build", "-o"])
        .args([&program, &file])
        .env("CGO_ENABLED", "0")
        .status();
    assert!(built.unwrap().success());
    let seen = bench.run(&[program.to_str().unwrap()], LONG);
    assert_eq!(last_words(&seen), "2039");
}

#[test]
fn each_trial_starts_at_its_time_of_day_in_its_time_zone() {
    let conditions = [("date", "2039-06-15"), ("clock", "23:59:58")];
    let assert_start = |mut bench: Bench| {
        let seen = bench.run(&["sh", "-c", "date +%FT%T; exit 3"], LONG);
        let words = last_words(&seen);
        // A slow machine may take seconds to start a program.
        let is_near = ["2039-06-15T23:59:5", "2039-06-16T00:0"];
        assert!(
            is_near.iter().any(|start| words.starts_with(start)),
            "{words}"
        );
    };
    for zone in ["UTC", "XYZ-5:30"] {
        let mut bench = bench_under(&conditions);
        bench.environment = vec![("TZ".into(), zone.into())];
        assert_start(bench);
    }
    needs!(success(&["test", "-e", "/usr/share/zoneinfo/Asia/Tokyo"]));
    let zone = [("tz", "Asia/Tokyo")];
    assert_start(bench_under(&[&conditions[..], &zone].concat()));
}

#[test]
fn waits_until_a_time_end_at_that_time() {
    for (date, options) in [("+2y", &["-O2"][..]), ("-30d", &["-O2", "-static"])] {
        let mut bench = bench_under(&[("date", date)]);
        let program = bench.compile_with(options, "waits", WAITS);
        let seen = bench.run(&[&program], LONG);
        assert_eq!(seen.actors[0].ending, Ending::Exited(0), "{date} {seen:#?}");
    }
}

#[test]
fn a_stopped_and_continued_process_waits_until_the_same_time() {
    let mut bench = bench_under(&[("date", "+2y")]);
    let source = r"
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>
int main(void) {
    pid_t self = getpid();
    if (!fork()) {
        for (int i = 0; i < 5; i++) { usleep(5000); kill(self, SIGSTOP); usleep(5000); kill(self, SIGCONT); }
        _exit(0);
    }
    sem_t semaphore;
    sem_init(&semaphore, 0, 0);
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec++;
    return sem_timedwait(&semaphore, &until) == -1 && errno == ETIMEDOUT ? 0 : 4;
}
";
    let program = bench.compile("stopped", source);
    let seen = bench.run(&[&program], LONG);
    assert_eq!(seen.actors[0].ending, Ending::Exited(0), "{seen:#?}");
}

#[test]
fn another_date_needs_no_root() {
    let mut bench = under(Bench::without_root(), &[("date", "2039-06-15")]);
    let program = bench.compile("years", YEARS);
    let seen = bench.run(&[&program], LONG);
    assert_eq!(last_words(&seen), "2039");
}

#[test]
fn another_user_can_have_another_date() {
    needs!(root());
    let mut bench = bench_under(&[("date", "2039-06-15"), ("user", "nobody")]);
    fs::set_permissions(bench.path(""), fs::Permissions::from_mode(0o755)).unwrap();
    let program = bench.compile("years", YEARS);
    let script = format!("test $(id -un) = nobody && {program}");
    let seen = bench.run(&["sh", "-c", &script], LONG);
    assert_eq!(last_words(&seen), "2039");
}

#[test]
fn a_program_that_cannot_be_traced_is_not_started_under_another_date() {
    let mut bench = under(Bench::without_root(), &[("date", "+2y")]);
    let program = bench.path("unreadable");
    fs::copy("/bin/sh", &program).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o111)).unwrap();
    let marker = bench.path("marker");
    let script = format!(": > {}", marker.display());
    let seen = bench.run(&[program.to_str().unwrap(), "-c", &script], LONG);
    let reason = "cannot trace it, as its conditions need: \
                  the memory of a program that may not be read is protected";
    assert_eq!(seen.actors[0].ending, Ending::NotStarted(reason.to_owned()));
    assert!(!marker.exists());
}

#[test]
fn programs_that_differ_under_another_date_are_reported() {
    let source = ".globl _start\n_start: mov $1, %eax\n mov $3, %ebx\n int $0x80\n";
    let mut bench = bench_under(&[("date", "+2y")]);
    fs::write(bench.path("narrow.s"), source).unwrap();
    let narrow = bench.path("narrow").to_str().unwrap().to_owned();
    let file = format!("{narrow}.s");
    needs!(success(&[
        "cc",
        "-m32",
        "-nostdlib",
        "-static",
        "-o",
        &narrow,
        &file
    ]));
    let seen = bench.run(&[&narrow], LONG);
    let reason = "cannot trace it, as its conditions need: \
                  a 32-bit program reads the time in another way";
    assert_eq!(seen.actors[0].ending, Ending::NotStarted(reason.to_owned()));
    let seen = bench.run(&["sh", "-c", &format!("{narrow}; exit $?")], LONG);
    assert_eq!(seen.actors[0].ending, Ending::Exited(3));
    let complaint = format!(
        "`{narrow}` has the time of the machine: a 32-bit program reads the time in another way"
    );
    assert_eq!(bench.complaints, [complaint]);
}

#[test]
fn a_program_without_its_privileges_is_reported() {
    needs!(program("su"));
    let mut bench = under(Bench::without_root(), &[("date", "+2y")]);
    bench.run(&["sh", "-c", "su --version"], LONG);
    let [complaint] = &bench.complaints[..] else {
        panic!("{:?}", bench.complaints);
    };
    let end = "/su` has no privileges, because its clock is traced";
    assert!(complaint.ends_with(end), "{complaint}");
}

#[test]
fn a_program_that_asks_for_the_time_without_end_hangs_as_a_busy_loop() {
    let mut bench = bench_under(&[("date", "+2y")]);
    let program = bench.compile(
        "busy",
        "#include <time.h>\nint main(void) { for (;;) time(0); }",
    );
    let seen = bench.run(&[&program], Duration::from_millis(300));
    let ending = &seen.actors[0].ending;
    assert!(
        matches!(ending, Ending::TimedOut { state: 'R', .. }),
        "{ending:?}"
    );
}

#[test]
fn a_crash_under_another_date_has_a_core() {
    let mut bench = bench_under(&[("date", "+2y")]);
    bench.trace = true;
    let seen = bench.run(&["sh", "-c", "date; kill -SEGV $$"], LONG);
    assert_eq!(seen.actors[0].ending, Ending::Signaled(Signal::SEGV, false));
    assert_eq!(seen.cores.len(), 1, "{seen:#?}");
}

#[test]
fn a_hang_and_leaks_under_another_date_are_recorded() {
    let mut bench = bench_under(&[("date", "+2y")]);
    let script = "import threading; threading.Condition().acquire(); threading.Event().wait(1000)";
    needs!(program("python3"));
    let seen = bench.hang(&["python3", "-c", script], |seen| {
        seen.hang
            .as_ref()
            .is_some_and(|hang| hang.cores.first().is_some_and(|core| core.unread.is_none()))
    });
    let ending = &seen.actors[0].ending;
    assert!(matches!(ending, Ending::TimedOut { .. }), "{ending:?}");
    let seen = bench.run(&["sh", "-c", "setsid sleep 1001 & true"], LONG);
    assert_eq!(seen.residue.leaked.len(), 1, "{seen:#?}");
    assert_eq!(seen.residue.unkillable, []);
}

#[test]
fn threads_can_be_held_under_another_date() {
    let source = r#"
#include <pthread.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>
void *work(void *none) { time_t now = time(0); return (void *)(long)gmtime(&now)->tm_year; }
int main(void) {
    pthread_t thread;
    void *year;
    pthread_create(&thread, 0, work, 0);
    pthread_join(thread, &year);
    printf("%ld\n", (long)year + 1900);
    return 3;
}
"#;
    let mut bench = bench_under(&[("date", "2039-06-15")]);
    let program = bench.compile("held", source);
    bench.hold = Some(HoldPlan::Hold {
        holds: vec![Hold {
            point: HoldPoint::Start(CreationSide::Created),
            occurrence: Occurrence::Nth(1),
            end: HoldEnd::Time,
            limit: Duration::from_millis(20),
            watches: false,
            anchor: None,
        }],
        total_limit: LONG,
        evidence: false,
    });
    let seen = bench.run(&[&program], LONG);
    assert_eq!(last_words(&seen), "2039");
    let holds = seen.holds.as_ref().unwrap();
    assert_eq!((&holds.refused, &holds.times[..]), (&None, &[1][..]));
    bench.hold = Some(HoldPlan::Learn(CodeScope::default()));
    let seen = bench.run(&[&program], LONG);
    assert_eq!(last_words(&seen), "2039");
    let learned = &seen.holds.as_ref().unwrap().learned;
    let calls = learned.iter().filter_map(|learned| match learned.point {
        HoldPoint::Call { call, .. } => Some(call),
        _ => None,
    });
    let write = 1;
    assert!(calls.clone().any(|call| call == write), "{learned:#?}");
    // No call about the time is a point.
    assert!(
        calls
            .clone()
            .all(|call| ![96, 201, 228, u64::MAX].contains(&call))
    );
}

#[test]
fn the_clock_of_the_machine_does_not_change() {
    let (before, began) = (SystemTime::now(), Instant::now());
    let mut bench = bench_under(&[("date", "2039-06-15")]);
    let seen = bench.run(&["sh", "-c", "date +%Y; exit 3"], LONG);
    assert_eq!(last_words(&seen), "2039");
    let expected = before + began.elapsed();
    let now = SystemTime::now();
    let difference = now
        .duration_since(expected)
        .or_else(|_| expected.duration_since(now));
    assert!(difference.unwrap() < Duration::from_secs(60));
}

#[test]
fn no_trial_can_change_the_machine() {
    let script = "grep -E '^Cap(Inh|Prm|Eff|Bnd|Amb):' /proc/self/status | tr '\\n' ' '; exit 3";
    for mut bench in [
        Bench::new(),
        bench_under(&[("date", "+2y")]),
        Bench::without_root(),
    ] {
        let seen = bench.run(&["sh", "-c", script], LONG);
        let sets = last_words(&seen).split_whitespace().collect::<Vec<_>>();
        let sets = sets
            .chunks(2)
            .map(|pair| u64::from_str_radix(pair[1], 16).unwrap());
        let sets: Vec<u64> = sets.collect();
        let (modules, boot, time) = (1 << 16, 1 << 22, 1 << 25);
        let has_one = |set: &u64| set & (modules | boot | time) != 0;
        assert_eq!(sets.len(), 5);
        // An ordinary user cannot limit what set-user-ID programs may do.
        let checked = if sets[2] == 0 { &sets[..3] } else { &sets[..] };
        assert!(!checked.iter().any(has_one), "{seen:#?}");
    }
}
