//! Tests the evidence of trials that time out.

use super::bench::{Bench, LONG};
use crate::needs::{interpreters, needs, program, success};
use provoke_model::{Ending, Hang, HungThread, Observation, WaitObject};
use std::fs;
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

fn main_thread(seen: &Observation) -> &HungThread {
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

/// Writes a file in the bench's folder, and returns its path.
fn write(bench: &Bench, name: &str, text: &str) -> String {
    let path = bench.path(name);
    fs::write(&path, text).expect("the file is written");
    path.to_str().expect("a path in UTF-8").to_owned()
}

/// Returns the stacks that the debugger reads from a core.
fn backtraces(program: &str, core: &str) -> String {
    let output = Command::new("gdb")
        .args(["-nx", "-batch", "-ex", "set debuginfod enabled off"])
        .args(["-ex", "info sharedlibrary", "-ex", "thread apply all bt"])
        .args([program, core])
        .output()
        .expect("gdb");
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

#[test]
fn a_deadlock_is_recorded_with_its_cycle_and_both_stacks() {
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
    assert_eq!(seen.crashed_children, []);

    let core = &hang.cores[0];
    let file = core.file.as_os_str().to_str().unwrap();
    assert_eq!((core.pid, hang.cores.len(), &core.unread), (pid, 1, &None));
    assert_eq!(core.size, std::fs::metadata(file).unwrap().len());
    assert!(core.size < 4 << 20, "{} bytes", core.size);
    let output = backtraces(&program, file);
    for expected in [
        "in forwards ()",
        "in main ()",
        "in backwards (",
        "libc.so",
        "start_thread",
    ] {
        assert!(output.contains(expected), "no `{expected}`:\n{output}");
    }
    assert!(!output.contains("?? ()"), "{output}");
}

/// Reads the time until which it sleeps from its argument, in milliseconds.
const SLOW: &str = r"
#include <stdlib.h>
#include <unistd.h>
int main(int count, char **words) { (void)count; return usleep(1000 * atoi(words[1])); }
";

#[test]
fn a_program_that_ends_while_it_is_examined_only_timed_out() {
    let mut bench = Bench::new();
    // The trial ends with its last process. A wait for SIGTERM to act would last as long as this.
    bench.grace = 100 * LONG;
    let program = bench.compile("slow", SLOW);
    let limit = Duration::from_millis(200);
    // How long after its start the program is examined is not known.
    let seen = (0..).find_map(|trial| {
        let sleep = (220 + trial % 8 * 20).to_string();
        let seen = bench.run(&[&program, &sleep], limit);
        let hang = seen.hang.as_ref()?;
        (!hang.ended_after.is_zero() && hang.threads.is_empty()).then_some(seen)
    });
    let seen = seen.expect("there are infinitely many trials");
    assert!(matches!(seen.actors[0].ending, Ending::TimedOut { .. }));
    assert_eq!(hang(&seen).cores, []);
    assert!(seen.actors[0].elapsed > limit);
    assert!(hang(&seen).ended_after < seen.actors[0].elapsed);
}

#[test]
fn a_program_that_is_ended_after_its_timeout_did_not_end_by_itself() {
    let mut bench = Bench::new();
    let seen = bench.run(&["sleep", "1000"], Duration::from_millis(200));
    assert_eq!(hang(&seen).ended_after, Duration::ZERO);
}

#[test]
fn a_deadlock_is_found_without_root() {
    let mut bench = Bench::without_root();
    let program = bench.compile("deadlock", DEADLOCK);
    let seen = bench.hang(&[&program], |seen| hang(seen).cycle.len() == 2);
    assert_eq!(hang(&seen).cores[0].unread, None);
    assert!(is_gone(&seen));
}

#[test]
fn a_busy_loop_is_recorded_with_its_cpu_time() {
    let mut bench = Bench::new();
    let seen = bench.hang(&["sh", "-c", "while :; do :; done"], |seen| {
        main_thread(seen).state == 'R' && main_thread(seen).cpu > Duration::ZERO
    });
    assert_eq!(state(&seen), 'R');
    assert_eq!(
        (&*main_thread(&seen).call, main_thread(&seen).waits_for),
        ("", None)
    );
    assert!(is_gone(&seen));
}

#[test]
fn an_endless_writer_is_recorded_as_using_cpu_time() {
    let mut bench = Bench::new();
    let seen = bench.hang(&["yes"], |seen| main_thread(seen).cpu > Duration::ZERO);
    assert_eq!(main_thread(&seen).name, "yes");
}

#[test]
fn a_process_waiting_for_a_child_is_recorded_with_that_child() {
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
fn a_stopped_process_is_recorded_as_stopped_and_killed() {
    let mut bench = Bench::new();
    let command = ["sh", "-c", "kill -STOP $$"];
    let seen = bench.hang(&command, |seen| main_thread(seen).state == 'T');
    assert_eq!(state(&seen), 'T');
    assert_eq!(hang(&seen).cores[0].unread, None);
    assert!(is_gone(&seen));
}

#[test]
fn a_hung_process_can_handle_sigterm_after_the_inspection() {
    let mut bench = Bench::new();
    bench.grace = LONG;
    let script = "exec 2>/dev/null; trap 'echo bye; exit 3' TERM; while :; do sleep 0.01; done";
    let command = ["sh", "-c", script];
    let seen = bench.hang(&command, |seen| seen.actors[0].last_words == "bye");
    let killed = matches!(seen.actors[0].ending, Ending::TimedOut { killed: true, .. });
    assert!(!killed, "{seen:?}");
    assert_eq!(seen.crashed_children, []);
}

#[test]
fn python_calls_are_read_from_every_supported_interpreter() {
    needs!(program("python3"));
    let script = "import time
class Job:
    def dawdle(self):
        time.sleep(1000)
def numbers():
    yield 1
    Job().dawdle()
def läsa():
    sorted([1, 2], key=lambda value: list(numbers()))
läsa()
";
    for python in interpreters(8..=13) {
        let mut bench = Bench::new();
        bench.hang(&[&python, "-c", script], |seen| {
            let calls = main_thread(seen).calls.iter();
            let calls: Vec<String> = calls
                .map(|call| {
                    let (file, line) = call.line.clone().unwrap_or_default();
                    format!(
                        "{} {file}:{line}",
                        call.function.as_deref().unwrap_or_default()
                    )
                })
                .collect();
            let qualified = [
                "Job.dawdle <string>:4",
                "numbers <string>:7",
                "läsa.<locals>.<lambda> <string>:9",
                "läsa <string>:9",
                "<module> <string>:10",
            ];
            // Before 3.11, code knows only the name of its function.
            let plain =
                qualified.map(|call| call.replace("Job.", "").replace("läsa.<locals>.", ""));
            calls == qualified || calls == plain
        });
    }
}

#[test]
fn a_thread_of_python_waits_for_the_thread_that_it_joins() {
    needs!(program("python3"));
    let script = "import threading, time
def dawdle():
    time.sleep(1000)
threads = [threading.Thread(target=dawdle) for _ in range(3)]
for thread in threads:
    thread.start()
threads[1].join()
";
    for python in interpreters(8..=13) {
        let mut bench = Bench::new();
        bench.hang(&[&python, "-c", script], |seen| {
            let (main, threads) = (main_thread(seen), &hang(seen).threads);
            // The kernel lists threads in the order of their creation.
            let joined = threads.get(2).map(|thread| thread.tid);
            main.waits_on == Some(WaitObject::Join) && main.waits_for == joined
        });
    }
}

#[test]
fn python_calls_are_those_of_the_threads_in_a_container() {
    let container = ["unshare", "--pid", "--fork", "--mount-proc"];
    needs!(
        program("python3"),
        success(&[&container[..], &["true"]].concat())
    );
    let script = "import threading, time
def dawdle():
    time.sleep(1000)
thread = threading.Thread(target=dawdle)
thread.start()
thread.join()
";
    for python in interpreters(8..=13) {
        let mut bench = Bench::new();
        bench.hang(
            &[&container[..], &[&python, "-c", script]].concat(),
            |seen| {
                let threads = &hang(seen).threads;
                let innermost = |thread: &HungThread| thread.calls.first()?.function.clone();
                let dawdles = |thread: &&HungThread| innermost(thread).as_deref() == Some("dawdle");
                let joined = threads.iter().find(dawdles).map(|thread| thread.tid);
                let joins = |thread: &HungThread| {
                    thread.waits_on == Some(WaitObject::Join) && thread.waits_for == joined
                };
                joined.is_some() && threads.iter().any(joins)
            },
        );
    }
}

#[test]
fn python_calls_of_older_interpreters_are_read_with_py_spy() {
    needs!(program("python3"), program("py-spy"));
    let script = "import time\ndef dawdle():\n    time.sleep(1000)\ndawdle()\n";
    for python in interpreters(6..=7).into_iter().take(1) {
        let mut bench = Bench::new();
        let seen = bench.hang(&[&python, "-c", script], |seen| {
            let calls = &main_thread(seen).calls;
            calls
                .iter()
                .any(|call| call.function.as_deref() == Some("dawdle"))
        });
        assert!(is_gone(&seen));
    }
}

const BANK: &str = "import java.util.concurrent.CyclicBarrier;
public class Bank {
    static final Object from = new Object(), to = new Object();
    static final CyclicBarrier both = new CyclicBarrier(2);
    static void transfer(Object first, Object second) throws Exception {
        synchronized (first) {
            both.await();
            synchronized (second) {}
        }
    }
    static void credit() { try { transfer(from, to); } catch (Exception e) {} }
    static void debit() { try { transfer(to, from); } catch (Exception e) {} }
    public static void main(String[] none) {
        new Thread(Bank::credit, \"credit\").start();
        debit();
    }
}
";

#[test]
fn a_deadlock_of_java_has_the_calls_and_the_owners_of_its_locks() {
    needs!(program("java"), program("javac"));
    let mut bench = Bench::new();
    let source = write(&bench, "Bank.java", BANK);
    let folder = source.trim_end_matches("/Bank.java");
    assert_eq!(success(&["javac", "-d", folder, &source]), None);
    let java = ["java", "-cp", folder, "Bank"];
    let seen = bench.hang(&java, |seen| hang(seen).cycle.len() == 2);
    let mut names: Vec<&str> = Vec::new();
    for tid in &hang(&seen).cycle {
        let thread = hang(&seen).find_thread(*tid).expect("a thread");
        let calls: Vec<&str> = thread
            .calls
            .iter()
            .filter_map(|call| call.function.as_deref())
            .collect();
        assert_eq!(calls[0], "Bank.transfer");
        names.push(calls[1]);
    }
    names.sort_unstable();
    assert_eq!(names, ["Bank.credit", "Bank.debit"]);
    let pid = seen.actors[0].pid;
    for name in [format!(".java_pid{pid}"), format!(".attach_pid{pid}")] {
        assert!(!std::path::Path::new("/tmp").join(name).exists());
    }
}

const RETRY: &str = "function connect(n) { while (n) { n = n % 7 + 1; } }
function start() { connect(3); }
process.stderr.write('started\\n');
setTimeout(start, 10);
";

#[test]
fn a_busy_loop_of_javascript_has_its_calls_and_the_debugger_is_not_in_its_output() {
    needs!(program("node"));
    let mut bench = Bench::new();
    let source = write(&bench, "retry.js", RETRY);
    let seen = bench.hang(&["node", &source], |seen| {
        !hang(seen).threads[0].calls.is_empty()
    });
    let calls = &hang(&seen).threads[0].calls;
    let names: Vec<&str> = calls
        .iter()
        .filter_map(|call| call.function.as_deref())
        .collect();
    assert_eq!(names[..2], ["connect", "start"]);
    assert_eq!(calls[0].line, Some((source, 1)));
    assert_eq!(seen.actors[0].written, (0, "started\n".len() as u64));
    assert!(is_gone(&seen));
}

const CHANNEL: &str = "package main
import \"time\"
func fetch(from chan int) int {
\treturn <-from
}
func main() {
\tgo func() {
\t\tfor {
\t\t\ttime.Sleep(time.Second)
\t\t}
\t}()
\tprintln(\"started\")
\tfetch(make(chan int))
}
";

#[test]
fn a_hang_of_go_has_goroutines_which_are_not_in_its_output() {
    needs!(program("go"));
    let mut bench = Bench::new();
    let source = write(&bench, "channel.go", CHANNEL);
    let program = source.trim_end_matches(".go");
    assert_eq!(success(&["go", "build", "-o", program, &source]), None);
    let seen = bench.hang(&[program], |seen| !hang(seen).goroutines.is_empty());
    let main = &hang(&seen).goroutines[0];
    assert_eq!((main.number, main.state.as_str()), (1, "chan receive"));
    let calls = main.calls.iter();
    let calls: Vec<&str> = calls.filter_map(|call| call.function.as_deref()).collect();
    assert_eq!(calls, ["main.fetch", "main.main"]);
    assert_eq!(seen.actors[0].written, (0, "started\n".len() as u64));
    assert!(is_gone(&seen));
}
