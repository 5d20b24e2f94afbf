//! Tests the signatures of hangs: each bug has its own, and the same one in every trial.

use super::evidence::compile;
use super::support::{PROVOKE, Sandbox, words};
use crate::needs::{interpreters, needs, program, skip};
use serde_json::Value;
use std::fs;
use std::path::Path;

const FLAGS: [&str; 3] = ["-g", "-O1", "-pthread"];

/// Returns the title and the signature that several trials of a hanging program have in common.
fn named(sandbox: &Sandbox, command: &[&str]) -> (String, String) {
    let args = [
        "-n", "3", "-j", "3", "-t", "500ms", "--grace", "200ms", "--",
    ];
    let (report, output) = sandbox.report(&[&args, command].concat());
    let signatures = report["variants"][0]["signatures"].as_array().unwrap();
    assert_eq!(signatures.len(), 1, "{output}");
    assert_eq!(signatures[0]["count"], 3, "{output}");
    let text = |name: &str| signatures[0][name].as_str().unwrap().to_owned();
    (text("title"), text("id"))
}

const LOST_WAKEUP: &str = r"
    #include <pthread.h>
    static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
    static pthread_cond_t ready = PTHREAD_COND_INITIALIZER;
    __attribute__((noinline)) void *CONSUMER(void *x) {
        pthread_mutex_lock(&m);
        pthread_cond_wait(&ready, &m);
        return x;
    }
    int main(void) {
        pthread_t thread;
        pthread_create(&thread, 0, CONSUMER, 0);
        pthread_join(thread, 0);
        return 0;
    }
";

#[test]
fn a_hang_is_named_by_the_function_of_the_thread_that_main_joins() {
    let sandbox = Sandbox::new();
    let [one, other] = ["consumer", "other_function"].map(|function| {
        let define = format!("-DCONSUMER={function}");
        let flags = [&FLAGS[..], &[&define]].concat();
        let program = compile(&sandbox, function, LOST_WAKEUP, &flags);
        let (title, id) = named(&sandbox, &[&program]);
        assert_eq!(title, format!("hang: blocked in {function}"));
        id
    });
    assert_ne!(one, other);
    // With another file name it has the same signature.
    let renamed = sandbox.path("renamed");
    fs::copy(sandbox.path("consumer"), &renamed).unwrap();
    assert_eq!(named(&sandbox, &[renamed.to_str().unwrap()]).1, one);
    let explanation = sandbox.provoke(&["explain", "last#1"]).stdout;
    assert!(
        explanation.contains("waits for the end of thread"),
        "{explanation}"
    );
}

const LOCKS: &str = r#"
    #include <pthread.h>
    #include <string.h>
    #include <sys/wait.h>
    #include <unistd.h>
    static pthread_mutex_t a = PTHREAD_MUTEX_INITIALIZER;
    static pthread_rwlock_t table = PTHREAD_RWLOCK_INITIALIZER;
    static pthread_barrier_t both;
    __attribute__((noinline)) void *reader(void *x) {
        pthread_rwlock_rdlock(&table); pthread_barrier_wait(&both); pthread_mutex_lock(&a);
        return x;
    }
    __attribute__((noinline)) void *writer(void *x) {
        pthread_mutex_lock(&a); pthread_barrier_wait(&both); pthread_rwlock_wrlock(&table);
        return x;
    }
    __attribute__((noinline)) void inner(void) { pthread_mutex_lock(&a); }
    __attribute__((noinline)) void outer(void) { pthread_mutex_lock(&a); inner(); }
    __attribute__((noinline)) void *taker(void *x) { pthread_mutex_lock(&a); return x; }
    __attribute__((noinline)) void waiter(void) { pthread_mutex_lock(&a); }
    __attribute__((noinline)) void *logger(void *x) {
        pthread_mutex_lock(&a); pthread_barrier_wait(&both); sleep(1000);
        return x;
    }
    int main(int count, char **words) {
        pthread_t one, other;
        pthread_barrier_init(&both, 0, 2);
        if (!strcmp(words[1], "readers")) {
            pthread_create(&one, 0, reader, 0);
            pthread_create(&other, 0, writer, 0);
            pthread_join(one, 0);
        } else if (!strcmp(words[1], "self")) {
            outer();
        } else if (!strcmp(words[1], "ended")) {
            pthread_create(&one, 0, taker, 0);
            pthread_join(one, 0);
            waiter();
        } else if (!strcmp(words[1], "fork")) {
            pthread_create(&one, 0, logger, 0);
            pthread_setname_np(one, "idx-worker");
            pthread_barrier_wait(&both);
            usleep(30000);
            pid_t child = fork();
            if (!child) waiter();
            waitpid(child, 0, 0);
        } else if (!strcmp(words[1], "vfork")) {
            if (!vfork()) pause();
        }
        return 0;
    }
"#;

#[test]
fn a_lock_that_is_never_released_is_reported_with_its_reason() {
    let sandbox = Sandbox::new();
    let program = compile(&sandbox, "locks", LOCKS, &FLAGS);
    for (case, title, explanation) in [
        (
            "readers",
            "hang: deadlock, reader <-> writer",
            "waits for a read-write lock, table, that is held for reading by thread",
        ),
        (
            "self",
            "hang: deadlock, inner waits for itself",
            "waits for a lock, a, that it holds itself",
        ),
        (
            "ended",
            "hang: waiter < main waits for a lock of a thread that has ended",
            ", which has ended.",
        ),
        (
            "fork",
            "hang: waiter < main waits for a lock taken before the fork (forked from a multi-threaded process)",
            "(idx-worker)",
        ),
        (
            "vfork",
            "hang: blocked in main",
            "waits until its child starts a program or ends",
        ),
    ] {
        let (name, _) = named(&sandbox, &[&program, case]);
        assert_eq!(name, title);
        let story = sandbox.provoke(&["explain", "last#1"]).stdout;
        let words = story.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains(explanation), "{case}: {story}");
        assert!(!words.contains("a disk"), "{case}: {story}");
    }
}

#[test]
fn a_trial_still_running_at_an_interrupt_shows_where_it_hangs() {
    let sandbox = Sandbox::new();
    let program = compile(&sandbox, "locks", LOCKS, &FLAGS);
    // The usual duration is known after five passing trials.
    let script = format!("echo >> ran; [ $(wc -l < ran) -le 5 ] || exec {program} ended");
    let child = sandbox.start(&["run", "-n", "9", "-t", "10m", "--", "sh", "-c", &script]);
    child.wait_for_stderr("#6 takes longer than usual");
    child.signal(rustix::process::Signal::INT);
    let output = child.end();
    assert_eq!(output.code, Some(130), "{output}");
    for words in [
        "0 of 5 trials failed",
        "trial 6 still running after",
        "waiter < main waits for a lock of a thread that has ended",
        "trial 6 and the trials that started after it are not counted",
    ] {
        assert!(output.stdout.contains(words), "{words}: {output}");
    }
    assert!(
        output.to_string().contains("provoke explain RUN#6"),
        "{output}"
    );
    let story = sandbox.provoke(&["explain", "last#6"]).stdout;
    let words = story.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        words.contains("when the run was stopped, and not counted"),
        "{story}"
    );
    assert!(words.contains(", which has ended."), "{story}");
    let output = sandbox.provoke(&["report", "last", "--json"]);
    let report: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(report["late_trials"][0]["trial"], 6);
}

const NAMED_LOCKS: &str = r"
    #include <pthread.h>
    static pthread_mutex_t audit = PTHREAD_MUTEX_INITIALIZER;
    static struct { long size; pthread_mutex_t lock; } pool = { 0, PTHREAD_MUTEX_INITIALIZER };
    static pthread_barrier_t both;
    __attribute__((noinline)) static void *transfer(void *x) {
        pthread_mutex_lock(&audit); pthread_barrier_wait(&both);
        pthread_mutex_lock(&pool.lock);
        return x;
    }
    __attribute__((noinline)) static void *summary(void *x) {
        pthread_mutex_lock(&pool.lock); pthread_barrier_wait(&both);
        pthread_mutex_lock(&audit);
        return x;
    }
    int main(void) {
        pthread_t one, other;
        pthread_barrier_init(&both, 0, 2);
        pthread_create(&one, 0, transfer, 0);
        pthread_create(&other, 0, summary, 0);
        pthread_join(one, 0);
        return 0;
    }
";

#[test]
fn a_deadlock_is_reported_with_the_names_of_its_locks() {
    let sandbox = Sandbox::new();
    let program = compile(&sandbox, "dead", NAMED_LOCKS, &FLAGS);
    let args = [
        "run",
        "--progress=none",
        "-n",
        "1",
        "-t",
        "1s",
        "--grace",
        "200ms",
        "--",
        &program,
    ];
    let output = sandbox.provoke(&args);
    for wait in [
        "summary waits at dead.c:13 for audit, which transfer holds",
        "transfer waits at dead.c:8 for pool+0x8, which summary holds",
        "main waits at dead.c:21 for the end of transfer",
    ] {
        assert!(output.stdout.contains(wait), "{output}");
        let story = sandbox.provoke(&["explain", "last#1"]).stdout;
        assert!(story.contains(wait), "{story}");
    }
    let report = sandbox.provoke(&["report", "last", "--md"]).stdout;
    assert!(
        report.contains("for audit, which transfer holds"),
        "{report}"
    );

    // Without symbols the signature has no further detail.
    let stripped = compile(
        &sandbox,
        "stripped",
        NAMED_LOCKS,
        &["-s", "-O1", "-pthread"],
    );
    let (title, _) = named(&sandbox, &[&stripped]);
    assert!(title.starts_with("hang: deadlock"), "{title}");
    let story = sandbox.provoke(&["explain", "last#1"]).stdout;
    assert!(
        story.contains("waits for a lock that is held by"),
        "{story}"
    );
}

#[test]
fn a_deadlock_ends_before_the_timeout_with_the_same_signature() {
    let sandbox = Sandbox::new();
    let program = compile(&sandbox, "dead", NAMED_LOCKS, &FLAGS);
    let at_timeout = named(&sandbox, &[&program]);
    let (report, output) = sandbox.report(&["-n", "1", "-t", "10m", "--", &program]);
    let signature = &report["variants"][0]["signatures"][0];
    assert_eq!(signature["id"], at_timeout.1, "{output}");
    let early = " instead of 10m 00s, because no thread can continue";
    assert!(output.stderr.contains(early), "{output}");
    let story = sandbox.provoke(&["explain", "last#1"]).stdout;
    assert!(story.contains(early), "{story}");
    let rows = sandbox.provoke(&["report", "last", "--jsonl"]).stdout;
    assert!(rows.contains(early), "{rows}");
}

const PYTHON: &str = "
import os, queue, sys, threading, time
def bank():
    lock = threading.Lock(); lock.acquire(); lock.acquire()
def mail():
    queue.Queue().get()
def job():
    thread = threading.Thread(target=lambda: threading.Event().wait(), daemon=True)
    thread.start(); thread.join()
def spawn():
    lock = threading.Lock()
    def hold():
        lock.acquire(); time.sleep(1000)
    threading.Thread(target=hold, daemon=True).start()
    time.sleep(0.05)
    child = os.fork()
    if not child:
        write(lock)
    os.waitpid(child, 0)
def write(lock):
    lock.acquire()
first, second = threading.Lock(), threading.RLock()
both = threading.Barrier(2)
def audit():
    with first:
        both.wait()
        with second:
            pass
def transfer():
    with second:
        both.wait()
        with first:
            pass
def cross():
    threading.Thread(target=audit).start()
    transfer()
globals()[sys.argv[1]]()
";

#[test]
fn python_hangs_are_distinguished_by_their_python_calls() {
    needs!(program("python3"));
    let sandbox = Sandbox::new();
    sandbox.write("hangs.py", PYTHON);
    // Long enough for all of them to start, even on a busy machine.
    let line = "set -- bank mail job spawn; shift $((PROVOKE_TRIAL % 4)); exec python3 hangs.py $1";
    let args = [
        "-n", "8", "-j", "8", "-t", "3s", "--grace", "200ms", "--shell", line,
    ];
    let (report, output) = sandbox.report(&args);
    let signatures = report["variants"][0]["signatures"].as_array().unwrap();
    assert!(signatures.iter().all(|seen| seen["count"] == 2), "{output}");
    let mut titles: Vec<&str> = signatures
        .iter()
        .map(|seen| seen["title"].as_str().unwrap())
        .collect();
    titles.sort_unstable();
    assert_eq!(
        titles,
        [
            "hang: blocked in Event.wait < job.<locals>.<lambda>",
            "hang: blocked in Queue.get < mail",
            "hang: blocked in bank",
            "hang: blocked in write < spawn (forked from a multi-threaded process)",
        ]
    );
    let explanation = sandbox.provoke(&["explain", "last#3"]).stdout;
    assert!(
        explanation.contains("Python: write (hangs.py:"),
        "{explanation}"
    );
}

#[test]
fn every_version_of_python_gives_a_hang_the_same_name() {
    let pythons = interpreters(8..=13);
    if pythons.is_empty() {
        skip!("no interpreter of Python 3.8 to 3.13");
    }
    let sandbox = Sandbox::new();
    sandbox.write("hangs.py", PYTHON);
    let count = pythons.len().to_string();
    for (kind, title) in [
        ("cross", "hang: deadlock, audit <-> transfer"),
        (
            "spawn",
            "hang: blocked in write < spawn (forked from a multi-threaded process)",
        ),
    ] {
        let line = format!(
            "set -- {}; shift $((PROVOKE_TRIAL % $#)); exec $1 hangs.py {kind}",
            pythons.join(" ")
        );
        let args = [
            "-n", &count, "-j", &count, "-t", "3s", "--grace", "200ms", "--shell", &line,
        ];
        let (report, output) = sandbox.report(&args);
        let signatures = report["variants"][0]["signatures"].as_array().unwrap();
        assert_eq!(signatures.len(), 1, "{output}");
        assert_eq!(signatures[0]["title"], title, "{output}");
    }
}

#[test]
fn a_python_hang_also_has_the_name_without_its_python_calls() {
    needs!(program("python3"), program("py-spy"));
    // provoke reads the calls of newer versions without a tool.
    let Some(python) = interpreters(6..=7).pop() else {
        skip!("no interpreter of Python 3.6 or 3.7");
    };
    let sandbox = Sandbox::new();
    sandbox.write("hangs.py", PYTHON);
    let run = |path: &str, options: &[&str]| {
        let settings = words("run --progress=none -n 1 -t 3s --grace 200ms");
        let command = [
            "--export-json",
            "report.json",
            "--",
            &python,
            "hangs.py",
            "mail",
        ];
        let mut command = sandbox.command(&[&settings, options, &command[..]].concat());
        command.env("PATH", path).output().unwrap();
        let report: Value = serde_json::from_str(&sandbox.read("report.json")).unwrap();
        report["variants"][0].clone()
    };
    let path = std::env::var("PATH").unwrap();
    let without = &run("/nowhere", &[])["signatures"][0];
    let title = without["title"].as_str().unwrap();
    assert!(
        !title.contains("mail") && !title.contains("Eval"),
        "{title}"
    );
    let with = &run(&path, &[])["signatures"][0];
    assert_eq!(with["title"], "hang: blocked in get < mail");
    assert_ne!(with["id"], without["id"]);
    // The name from less evidence selects the hang.
    let only = format!("sig:{}", without["id"].as_str().unwrap());
    assert_eq!(run(&path, &["--only", &only])["failures"], 1);
    assert_eq!(run(&path, &["--only", "sig:00000001"])["failures"], 0);
}

const BUSY: &str = r"
    static volatile int flag;
    __attribute__((noinline)) void spin_until_ready(void) { while (!flag); }
    int main(void) { spin_until_ready(); return 0; }
";

/// A CPU cgroup with a quota of a fifth of a CPU; it is removed at the end.
struct Quota(std::path::PathBuf);

impl Quota {
    fn new() -> Option<Self> {
        let name = format!("provoke-test-{}", std::process::id());
        let first = Path::new("/sys/fs/cgroup/cpu").join(&name);
        let second = Path::new("/sys/fs/cgroup").join(&name);
        let groups = [
            (first, "cpu.cfs_quota_us", "20000"),
            (second, "cpu.max", "20000 100000"),
        ];
        groups.into_iter().find_map(|(folder, file, quota)| {
            fs::create_dir(&folder).ok()?;
            let group = Self(folder);
            fs::write(group.0.join(file), quota).ok().map(|()| group)
        })
    }
}

impl Drop for Quota {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

#[test]
fn a_busy_loop_is_recognized_under_a_cpu_quota() {
    let sandbox = Sandbox::new();
    let program = compile(&sandbox, "busy", BUSY, &FLAGS);
    let Some(group) = Quota::new() else {
        skip!("no CPU group with a quota can be made here: that needs root and writable cgroups");
    };
    let (_, free) = named(&sandbox, &[&program]);
    let procs = group.0.join("cgroup.procs");
    let inside = format!(
        "echo $$ > {}; exec {PROVOKE} run -q -n 2 -t 1s --grace 300ms --export-json report.json -- {program}",
        procs.display()
    );
    let output = sandbox
        .program_command("sh", &["-c", &inside])
        .output()
        .unwrap();
    let report: Value = serde_json::from_str(&sandbox.read("report.json")).unwrap();
    let signatures = &report["variants"][0]["signatures"];
    assert_eq!(signatures[0]["id"], *free, "{signatures} {output:?}");
    let title = signatures[0]["title"].as_str().unwrap();
    assert_eq!(title, "hang: busy loop in spin_until_ready < main");
    let explanation = sandbox.provoke(&["explain", "last#1"]).stdout;
    assert!(
        explanation.contains("Busy: 1 thread kept running."),
        "{explanation}"
    );
}
