//! Tests traced trials.

use super::bench::{Bench, LONG, PROVOKE};
use crate::needs::{interpreters, needs, process_events, program};
use provoke_autopsy::{Examiner, ExaminerSettings};
use provoke_model::{
    Autopsy, CodeScope, CoreObservation, CreationSide, Ending, Hold, HoldEnd, HoldPlan, HoldPoint,
    Observation, Occurrence, PathDetail, PathPart, PathPlace, PathPlan, Signal,
};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// One thread crashes, while others wait, start and end.
const THREADED: &str = r"
#include <pthread.h>
#include <unistd.h>
void fall(int *into) { *into = 1; }
void *work(void *none) { fall((int *)16); return none; }
pthread_barrier_t there;
void *idle(void *none) { pthread_barrier_wait(&there); pause(); return none; }
void *brief(void *none) { return none; }
int main(void) {
    pthread_t other;
    // Nothing falls before it is there.
    pthread_barrier_init(&there, 0, 2);
    pthread_create(&other, 0, idle, 0);
    pthread_barrier_wait(&there);
    for (int i = 0; i < 20; i++) {
        pthread_create(&other, 0, brief, 0);
        pthread_join(other, 0);
    }
    pthread_create(&other, 0, work, 0);
    pthread_join(other, 0);
}
";

/// The signal handler decides about a fault.
const HANDLED: &str = r#"
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static sigjmp_buf before;
static const char *how;
void handler(int signal) {
    if (!strcmp(how, "raise")) { struct sigaction none = {0}; sigaction(SIGSEGV, &none, 0); raise(signal); }
    if (!strcmp(how, "abort")) abort();
    if (!strcmp(how, "exit")) _exit(3);
    siglongjmp(before, 1);
}
void fall(int *into) { *into = 1; }
int main(int count, char **arguments) {
    how = arguments[1];
    struct sigaction action = {0};
    action.sa_handler = handler;
    sigaction(SIGSEGV, &action, 0);
    volatile int times = 0;
    sigsetjmp(before, 1);
    if (times++ < atoi(arguments[2])) fall((int *)16);
    return atoi(arguments[3]);
}
"#;

fn bench() -> Bench {
    let mut bench = Bench::new();
    bench.trace = true;
    bench
}

fn only_core(seen: &Observation) -> &CoreObservation {
    assert_eq!(seen.cores.len(), 1, "{seen:#?}");
    let core = &seen.cores[0];
    let file = core.file.as_os_str().to_str().unwrap();
    assert!(file.ends_with(&format!("trace.{}.core", core.pid)));
    assert_eq!(core.unread, None);
    assert_eq!(core.size, fs::metadata(file).unwrap().len());
    core
}

fn analyze_core(core: &CoreObservation) -> Autopsy {
    let mut examiner = Examiner::new(ExaminerSettings::default());
    examiner
        .examine_core(Path::new(core.file.as_os_str()))
        .unwrap()
}

fn functions(autopsy: &Autopsy) -> Vec<&str> {
    let frames = autopsy.crash.frames.iter();
    frames
        .map(|frame| frame.function.as_deref().unwrap_or_default())
        .collect()
}

fn assert_nothing_is_kept(bench: &Bench, seen: &Observation) {
    assert_eq!(seen.cores, []);
    let trials = fs::read_dir(bench.path("evidence")).into_iter().flatten();
    let files = trials.flat_map(|trial| fs::read_dir(trial.unwrap().path()).unwrap());
    let names: Vec<_> = files.map(|file| file.unwrap().file_name()).collect();
    assert!(names.is_empty(), "{names:?}");
}

#[test]
fn a_fault_in_a_thread_is_recorded_with_every_stack() {
    needs!(program("gdb"));
    let mut bench = bench();
    let program = bench.compile("threaded", THREADED);
    let seen = bench.run(&[&program], LONG);
    assert_eq!(seen.actors[0].ending, Ending::Signaled(Signal::SEGV, false));
    let core = only_core(&seen);
    assert_eq!(core.pid, seen.actors[0].pid);
    let autopsy = analyze_core(core);
    assert_eq!(autopsy.crash.signal, Some(Signal::SEGV));
    assert_eq!(functions(&autopsy)[..2], ["fall", "work"], "{autopsy:#?}");
    assert_eq!(autopsy.threads.len(), 3);
    let output = Command::new("gdb")
        .args(["-nx", "-batch", "-ex", "p $_siginfo.si_code"])
        .args(["-ex", "p $_siginfo._sifields._sigfault.si_addr"])
        .args(["-ex", "thread apply all bt", &program])
        .arg(core.file.as_os_str())
        .output()
        .expect("gdb");
    let output = String::from_utf8_lossy(&output.stdout).into_owned();
    for expected in [
        "SIGSEGV",
        "$1 = 1",
        "$2 = (void *) 0x10",
        "in idle (",
        "in main ()",
    ] {
        assert!(output.contains(expected), "no `{expected}`:\n{output}");
    }
}

#[test]
fn a_fault_while_a_thread_is_held_is_recorded_with_its_stack() {
    let mut bench = bench();
    let source = r"
#include <pthread.h>
void fall(int *into) { *into = 1; }
void *idle(void *none) { return none; }
int main(void) {
    pthread_t other;
    pthread_create(&other, 0, idle, 0);
    fall((int *)16);
}
";
    bench.hold = Some(HoldPlan::Hold {
        holds: vec![Hold {
            point: HoldPoint::Start(CreationSide::Created),
            occurrence: Occurrence::Nth(1),
            end: HoldEnd::Time,
            limit: LONG,
            watches: false,
            anchor: None,
        }],
        total_limit: LONG,
        evidence: true,
    });
    let program = bench.compile("held", source);
    let seen = bench.run(&[&program], LONG);
    assert_eq!(seen.actors[0].ending, Ending::Signaled(Signal::SEGV, false));
    let autopsy = analyze_core(only_core(&seen));
    assert_eq!(functions(&autopsy)[..2], ["fall", "main"], "{autopsy:#?}");
    assert_eq!(autopsy.threads.len(), 2, "{autopsy:#?}");
}

#[test]
fn the_path_of_a_python_program_is_recorded() {
    let text = "import sys\nif len(sys.argv) == 1:\n    {}['key']\n";
    for python in interpreters(8..=13) {
        let mut bench = bench();
        bench.hold = Some(HoldPlan::Record(PathPlan {
            scope: CodeScope::Own,
            detail: PathDetail::None,
            arrivals: 4,
            part: PathPart::All,
            inside: Vec::new(),
            holds: Vec::new(),
            total_limit: Duration::ZERO,
        }));
        let program = bench.path("program.py");
        fs::write(&program, text).unwrap();
        let seen = bench.run(&[&python, program.to_str().unwrap()], LONG);
        assert_eq!(seen.actors[0].ending, Ending::Exited(1));
        let holds = seen.holds.as_ref().unwrap();
        let path = holds.path.as_ref().unwrap_or_else(|| panic!("{holds:?}"));
        assert_eq!(path.files, [program.as_os_str().into()]);
        let lines = [1, 2, 3].map(|line| PathPlace::Line(0, line));
        let mut places = lines.to_vec();
        places.push(PathPlace::Exception(0, 3, "KeyError".to_owned()));
        assert_eq!(path.points, places, "{python}");
        assert_eq!(path.ends[0].active, [2], "{python}");
    }
}

#[test]
fn the_fault_before_a_signal_handler_is_recorded() {
    let mut bench = bench();
    let program = bench.compile("handled", HANDLED);
    for (how, ending) in [
        ("raise", Ending::Signaled(Signal::SEGV, false)),
        ("abort", Ending::Signaled(Signal::ABRT, false)),
        ("exit", Ending::Exited(3)),
    ] {
        let seen = bench.run(&[&program, how, "1", "0"], LONG);
        assert_eq!(seen.actors[0].ending, ending);
        let autopsy = analyze_core(only_core(&seen));
        assert_eq!(autopsy.crash.signal, Some(Signal::SEGV));
        assert_eq!(functions(&autopsy)[..2], ["fall", "main"], "{how}");
    }
}

#[test]
fn faults_that_a_program_survives_are_not_crashes() {
    let mut bench = bench();
    let program = bench.compile("handled", HANDLED);
    for (times, code) in [("1", 0), ("1000", 0), ("1000", 7)] {
        let seen = bench.run(&[&program, "jump", times, &code.to_string()], LONG);
        assert_eq!(seen.actors[0].ending, Ending::Exited(code));
        assert_eq!(seen.crashed_children, []);
        assert_nothing_is_kept(&bench, &seen);
    }
}

#[test]
fn a_program_that_faults_endlessly_ends_at_its_timeout() {
    let mut bench = bench();
    let program = bench.compile("handled", HANDLED);
    let command = [&*program, "jump", "2000000000", "0"];
    let seen = bench.run(&command, Duration::from_millis(300));
    assert!(matches!(seen.actors[0].ending, Ending::TimedOut { .. }));
    assert_eq!(seen.cores, []);
    let hang = seen.hang.unwrap();
    assert_eq!((hang.cores.len(), &hang.cores[0].unread), (1, &None));
}

#[test]
fn an_overflowed_stack_is_recorded() {
    let mut bench = bench();
    let program = bench.compile(
        "deep",
        "#include <pthread.h>
        int down(int *above) { int here = *above + 1; return down(&here) + here; }
        void *work(void *none) { int zero = 0; down(&zero); return none; }
        int main(int count, char **arguments) {
            pthread_t other;
            if (count > 1) work(0);
            pthread_create(&other, 0, work, 0);
            pthread_join(other, 0);
        }",
    );
    for command in [&[&*program][..], &[&*program, "main"]] {
        let seen = bench.run(command, LONG);
        let autopsy = analyze_core(only_core(&seen));
        assert_eq!(functions(&autopsy)[..2], ["down", "down"], "{autopsy:#?}");
    }
}

#[test]
fn a_crashed_child_behind_exit_code_0_has_a_core() {
    let mut bench = bench();
    let program = bench.compile("threaded", THREADED);
    let script = format!("{program}; true");
    let seen = bench.run(&["sh", "-c", &script], LONG);
    assert_eq!(seen.actors[0].ending, Ending::Exited(0));
    assert_eq!(seen.crashed_children.len(), 1, "{seen:#?}");
    let core = only_core(&seen);
    assert_eq!(core.pid, seen.crashed_children[0].pid);
    assert_eq!(functions(&analyze_core(core))[..2], ["fall", "work"]);
}

#[test]
fn a_crashed_grandchild_below_a_passing_child_is_found() {
    let mut bench = bench();
    let script = r#"sh -c 'sh -c "kill -BUS \$\$"; exit 0'; true"#;
    let seen = bench.run(&["sh", "-c", script], LONG);
    assert_eq!(
        seen.crashed_children[0].signal,
        Some(Signal(7)),
        "{seen:#?}"
    );
    assert_eq!(seen.crashed_children.len(), 1);
    assert_eq!(only_core(&seen).pid, seen.crashed_children[0].pid);
}

#[test]
fn at_most_eight_faults_are_recorded() {
    let mut bench = bench();
    let script = "for i in 1 2 3 4 5 6 7 8 9 10 11 12; do sh -c 'kill -SEGV $$'; done; true";
    let seen = bench.run(&["sh", "-c", script], LONG);
    assert_eq!((seen.cores.len(), seen.crashed_children.len()), (8, 12));
}

#[test]
fn a_core_is_recorded_despite_a_zero_limit_and_a_read_only_directory() {
    let mut bench = bench();
    let seen = bench.run(&["sh", "-c", "ulimit -Hc 0; cd /proc; kill -ABRT $$"], LONG);
    assert_eq!(seen.actors[0].ending, Ending::Signaled(Signal::ABRT, false));
    assert_eq!(
        analyze_core(only_core(&seen)).crash.signal,
        Some(Signal::ABRT)
    );
}

#[test]
fn a_fault_in_the_first_instruction_of_a_program_is_recorded() {
    let mut bench = bench();
    let source = bench.path("first.s");
    fs::write(&source, ".globl _start\n_start: .word 0\n").unwrap();
    let program = bench.path("first");
    let built = Command::new("cc")
        .args(["-nostdlib", "-static", "-o"])
        .args([&program, &source])
        .status()
        .unwrap();
    assert!(built.success());
    for _ in 0..20 {
        let seen = bench.run(&[program.to_str().unwrap()], LONG);
        let ending = &seen.actors[0].ending;
        assert!(matches!(ending, Ending::Signaled(..)), "{ending:?}");
        assert_eq!(functions(&analyze_core(only_core(&seen))), ["_start"]);
    }
}

#[test]
fn tracing_works_without_root() {
    let mut bench = Bench::without_root();
    bench.trace = true;
    let program = bench.compile("threaded", THREADED);
    let script = format!("{program}; true");
    let seen = bench.run(&["sh", "-c", &script], LONG);
    assert_eq!(
        functions(&analyze_core(only_core(&seen)))[..2],
        ["fall", "work"]
    );
}

#[test]
fn an_untraceable_program_runs_with_one_warning() {
    let mut bench = Bench::without_root();
    bench.trace = true;
    let program = bench.path("unreadable");
    fs::copy("/bin/sh", &program).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o111)).unwrap();
    let command = [program.to_str().unwrap(), "-c", "echo hello; exit 4"];
    for _ in 0..2 {
        let seen = bench.run(&command, LONG);
        assert_eq!(seen.actors[0].ending, Ending::Exited(4));
        assert_eq!(seen.actors[0].last_words, "hello");
    }
    assert_eq!(bench.complaints.len(), 1, "{:?}", bench.complaints);
    assert!(bench.complaints[0].contains("is not traced: "));
}

/// Returns the outcome of a trial, without parts that vary.
fn outcome(seen: &Observation) -> String {
    let actors: Vec<_> = seen
        .actors
        .iter()
        .map(|one| (&one.ending, one.written, &one.last_words))
        .collect();
    let leaked: Vec<_> = seen
        .residue
        .leaked
        .iter()
        .map(|one| (&one.command, one.state == 'T', one.core.is_some()))
        .collect();
    let hung: Vec<_> = seen
        .hang
        .iter()
        .flat_map(|hang| &hang.threads)
        .map(|one| (&one.name, one.state))
        .collect();
    let dead: Vec<_> = seen.crashed_children.iter().map(|one| one.signal).collect();
    let unkillable = &seen.residue.unkillable;
    format!("{actors:?} {leaked:?} {hung:?} {dead:?} {unkillable:?}")
}

/// Runs a trial with and without tracing, and asserts the same outcome.
fn assert_same_when_traced(run: impl Fn(&mut Bench) -> Observation) {
    let mut bench = Bench::new();
    let untraced = run(&mut bench);
    bench.trace = true;
    let traced = run(&mut bench);
    assert_eq!(outcome(&untraced), outcome(&traced));
    assert!(bench.complaints.is_empty());
}

#[test]
fn a_traced_trial_has_the_same_ending_as_an_untraced_trial() {
    needs!(process_events());
    let commands: &[&[&str]] = &[
        &["true"],
        &["/nonexistent"],
        &["sh", "-c", "echo out; echo err >&2; exit 17"],
        &["sh", "-c", "kill -TERM $$"],
        &["sh", "-c", "kill -KILL $$"],
        &["sh", "-c", "trap 'echo hup; exit 5' HUP; kill -HUP $$"],
        &["sh", "-c", "sleep 1000 & kill -9 $!; wait; true"],
        &[PROVOKE, "victim", "segv"],
    ];
    for command in commands {
        assert_same_when_traced(|bench| bench.run(command, LONG));
    }
}

#[test]
fn a_traced_thread_can_execute_another_program() {
    needs!(program("python3"));
    let script = "import os, threading, time
threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
threading.Thread(target=os.execlp, args=('sh', 'sh', '-c', 'echo here; exit 9')).start()
time.sleep(1000)";
    assert_same_when_traced(|bench| {
        let seen = bench.run(&["python3", "-c", script], LONG);
        assert_eq!(seen.actors[0].ending, Ending::Exited(9));
        seen
    });
}

#[test]
fn a_traced_parent_sees_that_its_child_stopped_and_continued() {
    needs!(program("python3"));
    let script = "import os, signal, sys
child = os.spawnlp(os.P_NOWAIT, 'sh', 'sh', '-c', 'kill -STOP $$; exit 6')
_, status = os.waitpid(child, os.WUNTRACED)
assert os.WIFSTOPPED(status) and os.WSTOPSIG(status) == signal.SIGSTOP
os.kill(child, signal.SIGCONT)
_, status = os.waitpid(child, os.WCONTINUED)
assert os.WIFCONTINUED(status) or os.WEXITSTATUS(status) == 6
if os.WIFCONTINUED(status): _, status = os.waitpid(child, 0)
sys.exit(os.WEXITSTATUS(status))";
    assert_same_when_traced(|bench| {
        let seen = bench.run(&["python3", "-c", script], LONG);
        assert_eq!(seen.actors[0].ending, Ending::Exited(6), "{seen:#?}");
        seen
    });
}

#[test]
fn leaked_processes_of_a_traced_trial_are_recorded_and_killed() {
    let left = "sh -c 'kill -STOP $$' & pid=$!
until grep -qi '^State:.t' /proc/$pid/status; do :; done
setsid sleep 1001 & pid=$!
until grep -q sleep /proc/$pid/comm; do :; done";
    assert_same_when_traced(|bench| {
        let seen = bench.run(&["sh", "-c", left], LONG);
        assert_eq!(seen.residue.leaked.len(), 2, "{seen:#?}");
        assert!(
            seen.residue
                .leaked
                .iter()
                .all(|one| { one.core.as_ref().is_some_and(|core| core.unread.is_none()) })
        );
        seen
    });
}

#[test]
fn a_hang_of_a_traced_trial_is_recorded_in_the_same_way() {
    type Condition = fn(&Observation) -> bool;
    let threads = |seen: &Observation| {
        let threads = &seen.hang.as_ref().unwrap().threads;
        threads
            .iter()
            .map(|one| (one.name.clone(), one.state))
            .collect::<Vec<_>>()
    };
    let sleeps: Condition = |seen| {
        let threads = &seen.hang.as_ref().unwrap().threads;
        threads.len() == 2 && threads[1].name == "sleep" && threads[1].state == 'S'
    };
    let is_stopped: Condition = |seen| {
        let ending = &seen.actors[0].ending;
        matches!(ending, Ending::TimedOut { state: 'T', .. })
    };
    let deaf = "trap '' TERM; sleep 1000; echo never";
    for (script, condition) in [(deaf, sleeps), ("kill -STOP $$", is_stopped)] {
        assert_same_when_traced(|bench| {
            let seen = bench.hang(&["sh", "-c", script], condition);
            let hang = seen.hang.as_ref().unwrap();
            assert_eq!(hang.cores.len(), threads(&seen).len());
            assert!(hang.cores.iter().all(|core| core.unread.is_none()));
            seen
        });
    }
}

#[test]
fn all_traced_processes_that_keep_forking_are_killed() {
    let mut bench = bench();
    let script =
        "f() { sh -c 'sleep 0.01' & if [ $1 -lt 200 ]; then f $(($1 + 1)) & fi; }; f 0; exit 0";
    let seen = bench.run(&["sh", "-c", script], LONG);
    assert_eq!(seen.actors[0].ending, Ending::Exited(0));
    assert_eq!(seen.residue.unkillable, []);
    let next = bench.run(&["true"], LONG);
    assert_eq!(next.residue.leaked, []);
}
