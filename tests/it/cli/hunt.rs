//! Tests `hunt` with real programs: it provokes races, says where they are, and leaves correct programs alone.

use super::support::{CommandOutput, Sandbox, wait_until, words};
use crate::needs::{needs, program};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Compiles a program of the crate `provoke-holds` as `./program`.
fn compile(sandbox: &Sandbox, source: &str) {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/holds/tests");
    let name = Path::new(source).file_name().unwrap();
    let name = name.to_str().unwrap();
    std::fs::copy(tests.join(source), sandbox.path(name)).unwrap();
    compile_here(sandbox, name);
}

fn compile_here(sandbox: &Sandbox, name: &str) {
    let compiled = Command::new("cc")
        .args(["-g", "-O1", "-pthread", "-o", "program"])
        .arg(name)
        .current_dir(sandbox.path(""))
        .status();
    assert!(compiled.unwrap().success());
}

fn hunt(sandbox: &Sandbox, args: &[&str]) -> (Value, CommandOutput) {
    let (report, output) = sandbox.run_with_report("hunt", &[args, &["--", "./program"]].concat());
    (report["answer"]["hunt"].clone(), output)
}

/// Returns the failures and the trials under the examined hold.
fn held_counts(answer: &Value) -> [u64; 2] {
    ["failures", "trials"].map(|name| answer["held"][name].as_u64().unwrap())
}

#[test]
fn a_race_is_provoked_located_and_repeated() {
    needs!(program("cc"));
    let sandbox = Sandbox::new();
    compile(&sandbox, "racy/refcount.c");
    let (answer, output) = hunt(&sandbox, &["--seed", "1"]);
    assert_eq!(output.code, Some(1), "{output}");
    let [failures, trials] = held_counts(&answer);
    assert!(trials >= 20 && 2 * failures > trials, "{output}");
    let places = answer["places"].as_array().unwrap();
    assert_eq!(places.last().unwrap()["function"], "drop", "{output}");
    // The window is between the load and the store of the count, and contains nothing else.
    let window = answer["window"].as_array().unwrap();
    let failing: Vec<u64> = window
        .iter()
        .filter(|line| line["failures"].as_u64() > Some(0))
        .map(|line| line["line"].as_u64().unwrap())
        .collect();
    assert!(failing.contains(&8), "{output}");
    assert!(
        failing.iter().all(|line| (7..=9).contains(line)),
        "{output}"
    );
    // Trials without holds are counted separately.
    let natural = answer["natural"]["trials"].as_u64().unwrap();
    assert!(natural > 5, "{output}");

    let replay = format!("provoke-out/last#{}", answer["example"]);
    let replayed = sandbox.provoke(&["replay", &replay]);
    assert_eq!(replayed.code, Some(1), "{replayed}");
    assert!(
        replayed.stdout.contains("this time it failed"),
        "{replayed}"
    );
    // gdb cannot trace a process that provoke traces.
    assert!(!replayed.stdout.contains("gdb"), "{replayed}");
    let shown = sandbox.provoke(&["replay", &replay, "--show"]);
    let note = format!("without the hold of a thread, which `provoke replay {replay}` repeats");
    assert!(shown.stderr.contains(&note), "{shown}");
}

#[test]
fn a_race_in_which_no_thread_can_be_held_is_seen() {
    needs!(program("cc"));
    let sandbox = Sandbox::new();
    sandbox.write("count.c", ADDS_WITH_ONE_INSTRUCTION);
    let flags = ["-g", "-O1", "-pthread", "-o", "count", "count.c"];
    let compiled = sandbox.program_command("cc", &flags).status();
    assert!(compiled.unwrap().success());
    // Each hunt watches the memory of a point once, and on a busy machine the other thread may come too late.
    let hunt = |seed: u32| {
        let seed = seed.to_string();
        let hunt = ["--seed", &seed, "-n", "600", "-d", "5m", "--", "./count"];
        sandbox.run_with_report("hunt", &hunt)
    };
    let sees_race = |(report, _): &(Value, _)| !report["answer"]["hunt"]["races"][0].is_null();
    let (report, output) = (1..=5).map(hunt).find(sees_race).expect("a race is seen");
    assert_eq!(output.code, Some(0), "{output}");
    let race = &report["answer"]["hunt"]["races"][0];
    for side in ["held", "other"] {
        assert_eq!(race[side]["line"], 6, "{output}");
    }
    let line = "data race, unless both accesses are atomic operations: thread ";
    assert!(output.stdout.contains(line), "{output}");
    assert!(
        output
            .stdout
            .contains("No failure, but two threads access the same memory at once: "),
        "{output}"
    );
    let trial = format!("last#{}", race["trial"]);
    let explained = sandbox.provoke(&["explain", &trial]);
    assert!(
        explained.stdout.contains("data race on 4 bytes"),
        "{explained}"
    );
}

/// Two threads add to a counter, each with one instruction: a hold cannot make an update be lost.
const ADDS_WITH_ONE_INSTRUCTION: &str = r#"#include <pthread.h>

static int count;

static void *add(void *unused) {
    __asm__ volatile("addl $1, %0" : "+m"(count));
    return unused;
}

int main(void) {
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], 0, add, 0);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
    return count != 2;
}
"#;

#[test]
fn a_race_that_needs_two_holds_is_provoked_in_most_trials() {
    needs!(program("cc"));
    let sandbox = Sandbox::new();
    compile(&sandbox, "racy/balance.c");
    let (answer, output) = hunt(&sandbox, &["--seed", "1"]);
    assert_eq!(output.code, Some(1), "{output}");
    // A third hold is added if two of them fail in less than 90 % of the trials.
    assert!(answer["places"].as_array().unwrap().len() >= 2, "{output}");
    let [failures, trials] = held_counts(&answer);
    assert!(10 * failures >= 8 * trials, "{output}");
}

/// Two threads call functions that load and store a count without a lock. The program has much code that never runs.
const LARGE: &str = r#"
#include <pthread.h>
__asm__(".text\n.type unused, @function\nunused:\n.cfi_startproc\n"
        ".skip 9 << 20, 0xc3\n.cfi_endproc\n.size unused, . - unused");
static volatile int count;
static __attribute__((noinline)) int load(void) { return count; }
static __attribute__((noinline)) void store(int value) { count = value; }
static void *add(void *argument) {
#ifdef WITHOUT_CALLS
    int old = count;
    count = old + 1;
#else
    int old = load();
    store(old + 1);
#endif
    return argument;
}
int main(void) {
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], 0, add, 0);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
    return count != 2;
}
"#;

#[test]
fn a_race_in_large_code_is_located_by_its_function() {
    needs!(program("cc"));
    let sandbox = Sandbox::new();
    sandbox.write("large.c", LARGE);
    compile_here(&sandbox, "large.c");
    let (answer, output) = hunt(&sandbox, &["--seed", "1"]);
    assert_eq!(output.code, Some(1), "{output}");
    let [failures, trials] = held_counts(&answer);
    assert!(10 * failures >= 9 * trials, "{output}");
    let window = answer["window"].as_array().unwrap();
    let tried: Vec<u64> = window
        .iter()
        .filter(|line| line["function"] == "store")
        .map(|line| line["instructions"].as_u64().unwrap())
        .collect();
    assert!(tried.iter().sum::<u64>() > 1, "{output}");
}

#[test]
fn a_race_in_large_code_is_located_inside_a_function() {
    needs!(program("cc"));
    let sandbox = Sandbox::new();
    sandbox.write("large.c", &format!("#define WITHOUT_CALLS\n{LARGE}"));
    compile_here(&sandbox, "large.c");
    let (answer, output) = hunt(&sandbox, &["--seed", "1"]);
    assert_eq!(output.code, Some(1), "{output}");
    let [failures, trials] = held_counts(&answer);
    assert!(10 * failures >= 9 * trials, "{output}");
    assert!(output.stdout.contains("in add()"), "{output}");
}

/// Returns the numbers of the trials that learned points: of the whole program, and around holds.
fn learning_trials(events: &[Value]) -> [BTreeSet<u64>; 2] {
    let mut trials = [BTreeSet::new(), BTreeSet::new()];
    for event in events {
        let trial = &event["trial_started"];
        if let Some(scope) = trial["hold"].get("learn") {
            let is_around = scope.get("around").is_some();
            trials[usize::from(is_around)].insert(trial["id"].as_u64().unwrap());
        }
    }
    trials
}

#[test]
fn a_hunt_in_large_code_that_is_killed_twice_learns_nothing_again() {
    needs!(program("cc"));
    let sandbox = Sandbox::new();
    sandbox.write("large.c", LARGE);
    compile_here(&sandbox, "large.c");
    // Kills the hunt when a trial of this kind has ended.
    let kill_after = |args: &[&str], is_of_kind: fn(&Value) -> bool| {
        let running = sandbox.started(sandbox.command(args));
        wait_until("such a trial has ended", || {
            let events = sandbox.events();
            let of_kind: BTreeSet<u64> = events
                .iter()
                .map(|event| &event["trial_started"])
                .filter(|trial| is_of_kind(&trial["hold"]))
                .map(|trial| trial["id"].as_u64().unwrap())
                .collect();
            events.iter().any(|event| {
                let trial = event["trial_finished"]["trial"].as_u64();
                trial.is_some_and(|trial| of_kind.contains(&trial))
            })
        });
        running.kill();
    };
    kill_after(
        &["hunt", "--seed", "1", "--progress=none", "--", "./program"],
        |hold| hold.get("hold").is_some(),
    );
    let resume = ["resume", "last", "--progress=none"];
    kill_after(&resume, |hold| {
        let scope = hold.get("learn");
        scope.is_some_and(|scope| scope.get("around").is_some())
    });
    let [own, around] = learning_trials(&sandbox.events());
    let last = sandbox.provoke(&resume);
    assert_eq!(last.code, Some(1), "{last}");
    assert!(last.stdout.contains("held at large.c:"), "{last}");
    let events = sandbox.events();
    let all = learning_trials(&events);
    assert_eq!(own.len(), 3);
    assert_eq!(all[0], own);
    // The instructions of each function are learned once.
    let functions = |trials: &BTreeSet<u64>| -> Vec<Value> {
        let started = events.iter().map(|event| &event["trial_started"]);
        let of_trials = started.filter(|trial| {
            let id = trial["id"].as_u64();
            id.is_some_and(|id| trials.contains(&id))
        });
        of_trials
            .map(|trial| trial["hold"]["learn"]["around"].clone())
            .collect()
    };
    let learned = functions(&all[1]);
    for (index, holds) in learned.iter().enumerate() {
        assert!(!learned[..index].contains(holds), "{last}");
    }
    assert!(all[1].is_superset(&around));
}

/// Writes a file in place: it is empty for a moment.
const WRITER: &str = r#"
#include <fcntl.h>
#include <unistd.h>
int main(void) {
    for (int i = 0; i < 3; i++) {
        int file = open("config", O_WRONLY | O_CREAT | O_TRUNC, 0600);
        if (write(file, "ready\n", 6) != 6) return 1;
        close(file);
        usleep(300);
    }
    return 0;
}
"#;

#[test]
fn single_threaded_programs_of_a_scenario_are_held() {
    needs!(program("cc"));
    let sandbox = Sandbox::new();
    sandbox.write("writer.c", WRITER);
    compile_here(&sandbox, "writer.c");
    sandbox.write(
        "scenario.toml",
        r#"
        ask = "hunt"
        runs = 60
        [[actor]]
        name = "writer"
        command = ["./program"]
        role = "helper"
        [[actor]]
        name = "reader"
        command = ["sh", "-c", "sleep 0.002; test ! -e config || test -s config"]
        "#,
    );
    let (report, output) = sandbox.run_with_report("scenario", &["scenario.toml", "--seed", "1"]);
    let points = report["answer"]["hunt"]["points"].as_u64();
    // The calls alone are fewer.
    assert!(points > Some(20), "{output}");
}

#[test]
fn hunt_with_a_baseline_begins_at_the_functions_of_its_crash() {
    let sandbox = Sandbox::new();
    let run = ["run", "-n", "5", "-o", "crashes", "--progress=none", "--"];
    let victim = ["provoke", "victim", "segv"];
    sandbox.provoke(&[&run[..], &victim].concat());
    sandbox.provoke(&["hunt", "--baseline", "crashes", "-n", "8", "-o", "hunt"]);
    let journal = sandbox.read("hunt/events.jsonl");
    let started: Value = serde_json::from_str(journal.lines().next().unwrap()).unwrap();
    let question = &started["run_started"]["plan"]["goal"]["question"]["hunt"];
    let functions = question["first"].as_array().unwrap();
    assert!(
        functions
            .iter()
            .any(|name| name.as_str().unwrap().contains("segv")),
        "{question}"
    );
    assert_eq!(
        question["known"]["bugs"].as_array().unwrap().len(),
        1,
        "{question}"
    );

    let counts = sandbox.provoke(&["hunt", "--baseline", "3/30", "--", "true"]);
    assert_eq!(counts.code, Some(2), "{counts}");
    assert!(counts.stderr.contains("have no stacks"), "{counts}");
}

/// Two threads remove the last entry: each has seen that there is one.
const RACY_CACHE: &str = "\
import sys, threading

entries = {'key': 1}
failed = []

def take():
    if 'key' in entries:
        try:
            entries.pop('key')
        except KeyError:
            failed.append(1)

threads = [threading.Thread(target=take) for _ in range(2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
sys.exit(3 if failed else 0)
";

#[test]
fn a_race_of_python_threads_is_provoked_at_its_line() {
    needs!(program("python3"));
    let sandbox = Sandbox::new();
    sandbox.write("cache.py", RACY_CACHE);
    let (report, output) = sandbox.run_with_report(
        "hunt",
        &["-d", "60s", "--seed", "1", "--", "python3", "cache.py"],
    );
    let answer = &report["answer"]["hunt"];
    assert_eq!(output.code, Some(1), "{output}");
    assert_eq!(answer["natural"]["failures"], 0, "{output}");
    // Between the test in line 7 and the removal in line 9. A second hold may be that of the creation of a thread.
    let mut places = answer["places"].as_array().unwrap().iter();
    let is_in_window = |place: &Value| matches!(place["line"].as_u64(), Some(8 | 9));
    assert!(places.any(is_in_window), "{output}");
}

#[test]
fn confirm_with_a_hold_needs_few_trials() {
    needs!(program("cc"));
    let sandbox = Sandbox::new();
    compile(&sandbox, "racy/refcount.c");
    let hunted = sandbox.provoke(&["hunt", "-o", "hunt", "--seed", "1", "--", "./program"]);
    assert_eq!(hunted.code, Some(1), "{hunted}");

    let confirm = ["confirm", "--held", "hunt", "--progress=none"];
    let not_fixed = sandbox.provoke(&confirm);
    assert_eq!(not_fixed.code, Some(1), "{not_fixed}");
    assert!(not_fixed.stdout.starts_with("NOT FIXED"), "{not_fixed}");

    // The address of the instruction differs in the new build, and the program has the same name.
    let racy = sandbox.read("refcount.c");
    let fixed = racy
        .replace("static void *drop", "static int unused(void) { return 7; }\nint (*used)(void) = unused;\nstatic void *drop")
        .replace("int references = object->references;", "static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;\n    pthread_mutex_lock(&lock);\n    int references = object->references;")
        .replace("if (references == 1) free(object);", "pthread_mutex_unlock(&lock);\n    if (references == 1) { volatile int *count = &object->references; *count = 1; }")
        .replace("return object->references == 1;", "return object->references != 1;");
    sandbox.write("refcount.c", &fixed);
    compile_here(&sandbox, "refcount.c");
    let (report, output) =
        sandbox.run_with_report("confirm", &["--held", "hunt", "--exclude-half=false"]);
    assert_eq!(output.code, Some(0), "{output}");
    let trials = report["variants"][0]["trials"].as_u64().unwrap();
    assert!(trials <= 10, "{output}");
    // The points around the hold were tried in the new build.
    let sweep = &report["answer"]["confirm"]["sweep"];
    assert!(sweep["points"].as_u64() > Some(5), "{output}");
    assert!(sweep["trials"].as_u64() > Some(10), "{output}");
    assert_eq!(sweep["failures"], 0, "{output}");
}

#[test]
fn confirm_with_a_hold_that_is_never_reached_is_inconclusive() {
    needs!(program("cc"));
    let sandbox = Sandbox::new();
    compile(&sandbox, "racy/refcount.c");
    let hunted = sandbox.provoke(&["hunt", "-o", "hunt", "--seed", "1", "--", "./program"]);
    assert_eq!(hunted.code, Some(1), "{hunted}");
    let output = sandbox.provoke(&["confirm", "--held", "hunt", "--progress=none", "--", "true"]);
    assert_eq!(output.code, Some(3), "{output}");
    assert!(
        output
            .stdout
            .starts_with("NOT KNOWN: no trial reached the hold"),
        "{output}"
    );
}

#[test]
fn a_killed_hunt_leaves_no_process_and_is_resumed() {
    needs!(program("cc"));
    let sandbox = Sandbox::new();
    compile(&sandbox, "racy/refcount.c");
    let args = words("hunt -o cut --seed 1 --progress=none -- ./program");
    sandbox.kill_soon_after(40, "cut", sandbox.command(&args));
    let resumed = sandbox.provoke(&["resume", "cut", "--progress=none"]);
    assert_eq!(resumed.code, Some(1), "{resumed}");
    assert!(
        resumed.stdout.contains("if a thread is held at"),
        "{resumed}"
    );
}

#[test]
fn a_correct_program_does_not_fail() {
    needs!(program("cc"));
    let sandbox = Sandbox::new();
    compile(&sandbox, "correct/queue.c");
    let (answer, output) = hunt(&sandbox, &["-n", "400", "--seed", "1"]);
    assert_eq!(output.code, Some(0), "{output}");
    assert_eq!(answer["tried"]["failures"], 0, "{output}");
    assert!(answer["tried"]["trials"].as_u64() > Some(100), "{output}");
    assert!(
        output.stdout.starts_with("No failure: it passed in all"),
        "{output}"
    );
}

/// Programs whose failure is decided before anything shows it, with the number of trials of a quick test. In the directory
/// `decided` of `provoke-holds`.
const DECIDED: [(&str, Option<u32>); 12] = [
    ("message.c", Some(150)),
    ("message.py", Some(16)),
    ("message.sh", Some(40)),
    ("abort_deep.c", None),
    ("null_pointer.c", None),
    ("waits.c", None),
    ("child.c", None),
    ("pipe.c", None),
    ("pool.c", None),
    ("exception.py", None),
    ("children.py", None),
    ("files.sh", None),
];

/// Hunts a program whose failure no hold can cause, and asserts that no hold is reported.
fn assert_no_claim(program_file: &str, limit: [&str; 2]) {
    let sandbox = Sandbox::new();
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/holds/tests/decided");
    for file in [program_file, "decided.h"] {
        std::fs::copy(sources.join(file), sandbox.path(file)).unwrap();
    }
    let command = match program_file.rsplit_once('.').unwrap().1 {
        "c" => {
            compile_here(&sandbox, program_file);
            vec!["./program"]
        }
        "py" => vec!["python3", program_file],
        _ => vec!["bash", program_file],
    };
    let options = [&limit[..], &["--seed", "1", "--"]].concat();
    let (report, output) = sandbox.run_with_report("hunt", &[&options[..], &command].concat());
    let answer = &report["answer"]["hunt"];
    assert_eq!(answer["held"], Value::Null, "{program_file}: {output}");
    assert_eq!(answer["places"], Value::Array(Vec::new()), "{output}");
    assert!(!output.stdout.contains("new trials (95 %"), "{output}");
}

#[test]
fn no_hold_is_reported_if_the_failure_was_decided_before() {
    needs!(program("cc"), program("python3"), program("bash"));
    let quick = DECIDED.iter();
    let quick = quick.filter_map(|(file, trials)| Some((file, (*trials)?.to_string())));
    for (file, trials) in quick {
        assert_no_claim(file, ["-n", &trials]);
    }
}

#[test]
#[ignore = "takes four minutes"]
fn no_hold_of_twelve_programs_is_reported_if_the_failure_was_decided_before() {
    for (file, _) in DECIDED {
        assert_no_claim(file, ["-d", "20s"]);
    }
}

#[test]
fn a_program_that_fails_anyway_needs_no_hold_and_its_races_are_shown() {
    needs!(program("cc"));
    let sandbox = Sandbox::new();
    sandbox.write(
        "fails.c",
        &ADDS_WITH_ONE_INSTRUCTION.replace("count != 2", "1"),
    );
    compile_here(&sandbox, "fails.c");
    // The other thread may come too late for a watch.
    let hunt = |seed: u32| hunt(&sandbox, &["--seed", &seed.to_string()]);
    let sees_race = |(answer, _): &(Value, _)| !answer["races"][0].is_null();
    let (answer, output) = (1..=5).map(hunt).find(sees_race).expect("a race is seen");
    assert_eq!(output.code, Some(1), "{output}");
    assert_eq!(answer["needs_no_hold"], true, "{output}");
    let sentence = "It fails in most plain trials, so no hold is needed: ";
    assert!(output.stdout.starts_with(sentence), "{output}");
    assert_eq!(answer["races"][0]["held"]["line"], 6, "{output}");
    assert_eq!(answer["held"], Value::Null, "{output}");
    assert_eq!(answer["tried"]["trials"], 0, "{output}");
}

#[test]
fn the_time_limit_of_a_hunt_also_ends_trials_that_hang_at_first() {
    let sandbox = Sandbox::new();
    let started_at = Instant::now();
    let (report, output) = sandbox.run_with_report("hunt", &["-d", "2s", "--", "sleep", "1000"]);
    assert!(started_at.elapsed() < Duration::from_secs(60), "{output}");
    assert!(
        output
            .stdout
            .starts_with("NOT KNOWN: no trial ended, the longest one was stopped after "),
        "{output}"
    );
    assert!(
        report["answer"]["hunt"]["unended"].as_u64() > Some(0),
        "{output}"
    );
}

#[test]
fn hunt_refuses_several_variants() {
    let sandbox = Sandbox::new();
    let output = sandbox.provoke(&["hunt", "-L", "mode=a,b", "--", "true", "{mode}"]);
    assert_eq!(output.code, Some(2), "{output}");
    assert!(
        output.stderr.contains("`hunt` examines one variant"),
        "{output}"
    );
}

#[test]
fn a_program_with_one_thread_has_nothing_to_hold() {
    let sandbox = Sandbox::new();
    // It ends as soon as the natural rate is known.
    let fails_sometimes = "exit $((PROVOKE_TRIAL % 3 == 0))";
    let output = sandbox.provoke(&["hunt", "-d", "1000s", "--", "sh", "-c", fails_sometimes]);
    assert_eq!(output.code, Some(1), "{output}");
    for text in [
        "its threads cannot be held (it has a single thread)",
        "; without a hold it failed in ",
        "provoke differ --baseline ",
    ] {
        assert!(output.stdout.contains(text), "{output}");
    }
}

/// Two threads lose an update if one is held, which the program reports with exit code 3. In one of five runs, it exits with
/// code 4 whatever the threads do.
const TWO_FAILURES: &str = r#"#include <pthread.h>
#include <stdio.h>
#include <sys/random.h>

static volatile int count;

static void *add(void *unused) {
    int loaded = count;
    count = loaded + 1;
    return unused;
}

int main(void) {
    unsigned char drawn;
    if (getrandom(&drawn, 1, 0) != 1) return 5;
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], 0, add, 0);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
    if (drawn < 51) {
        fprintf(stderr, "Error: no space\n");
        return 4;
    }
    if (count != 2) {
        fprintf(stderr, "Error: an update is lost\n");
        return 3;
    }
    return 0;
}
"#;

#[test]
fn an_answer_is_about_one_of_two_failures() {
    needs!(program("cc"));
    let sandbox = Sandbox::new();
    sandbox.write("two.c", TWO_FAILURES);
    compile_here(&sandbox, "two.c");
    let (answer, output) = hunt(&sandbox, &["--seed", "1"]);
    let crash = answer["crash"].as_str().unwrap();
    assert_eq!(crash, "exit 3: Error: an update is lost", "{output}");
    let [failures, trials] = held_counts(&answer);
    let others = answer["failed_otherwise"].as_u64().unwrap();
    assert!(others > 0 && failures + others <= trials, "{output}");
    let sentence = answer["sentence"].as_str().unwrap();
    assert!(
        sentence.starts_with("It fails (exit 3: Error: an update is lost) in "),
        "{output}"
    );
    let other = format!(
        "with the thread held, it failed in another way in {others} of {trials}: exit 4: Error: no space"
    );
    assert!(sentence.contains(&other), "{output}");
}

#[test]
fn a_hunt_with_a_baseline_looks_for_its_failures_only() {
    needs!(program("cc"));
    let sandbox = Sandbox::new();
    sandbox.write("two.c", TWO_FAILURES);
    compile_here(&sandbox, "two.c");
    let baseline = [
        "run", "--only", "code:4", "-n", "30", "--seed", "1", "-o", "four",
    ];
    sandbox.provoke(&[&baseline[..], &["--", "./program"]].concat());
    let (answer, output) = hunt(
        &sandbox,
        &["--baseline", "four", "--seed", "1", "-n", "300"],
    );
    assert!(answer["held"].is_null(), "{output}");
    assert_eq!(
        answer["other_crash"], "exit 3: Error: an update is lost",
        "{output}"
    );
    let sentence = answer["sentence"].as_str().unwrap();
    assert!(sentence.contains("in another way"), "{output}");
}
