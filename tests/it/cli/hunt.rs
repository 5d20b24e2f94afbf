//! Tests `hunt` with real programs: it provokes races, says where they are, and leaves correct programs alone.

use super::support::{Said, Sandbox};
use crate::needs::{needs, program};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

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

fn hunt(sandbox: &Sandbox, args: &[&str]) -> (Value, Said) {
    let (report, said) = sandbox.ask("hunt", &[args, &["--", "./program"]].concat());
    (report["answer"]["hunt"].clone(), said)
}

#[test]
fn a_race_is_provoked_located_and_repeated() {
    needs!(program("cc"));
    let sandbox = Sandbox::new();
    compile(&sandbox, "racy/refcount.c");
    let (answer, said) = hunt(&sandbox, &["--seed", "1"]);
    assert_eq!(said.code, Some(1), "{said}");
    let held = &answer["held"];
    let [failures, trials] = ["failures", "trials"].map(|name| held[name].as_u64().unwrap());
    assert!(trials >= 20 && 2 * failures > trials, "{said}");
    let places = answer["places"].as_array().unwrap();
    assert_eq!(places.last().unwrap()["function"], "drop", "{said}");
    // The window is between the load and the store of the count, and contains nothing else.
    let window = answer["window"].as_array().unwrap();
    let failing: Vec<u64> = window
        .iter()
        .filter(|line| line["failures"].as_u64() > Some(0))
        .map(|line| line["line"].as_u64().unwrap())
        .collect();
    assert!(failing.contains(&8), "{said}");
    assert!(failing.iter().all(|line| (7..=9).contains(line)), "{said}");
    // Trials without holds are counted separately.
    let natural = answer["natural"]["trials"].as_u64().unwrap();
    assert!(natural > 5, "{said}");

    let replay = format!("provoke-out/last#{}", answer["example"]);
    let again = sandbox.provoke(&["replay", &replay]);
    assert_eq!(again.code, Some(1), "{again}");
    assert!(again.stdout.contains("this time it failed"), "{again}");
}

#[test]
fn a_race_that_needs_two_holds_is_provoked_nearly_always() {
    needs!(program("cc"));
    let sandbox = Sandbox::new();
    compile(&sandbox, "racy/balance.c");
    let (answer, said) = hunt(&sandbox, &["--seed", "1"]);
    assert_eq!(said.code, Some(1), "{said}");
    assert_eq!(answer["places"].as_array().unwrap().len(), 2, "{said}");
    let held = &answer["held"];
    let [failures, trials] = ["failures", "trials"].map(|name| held[name].as_u64().unwrap());
    assert!(10 * failures >= 8 * trials, "{said}");
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
fn the_programs_of_a_scenario_are_held_although_each_has_one_thread() {
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
    let (report, said) = sandbox.ask("scenario", &["scenario.toml", "--seed", "1"]);
    let points = report["answer"]["hunt"]["points"].as_u64();
    // The calls alone are fewer.
    assert!(points > Some(20), "{said}");
}

#[test]
fn a_hunt_for_the_crash_of_a_run_begins_where_it_crashed() {
    let sandbox = Sandbox::new();
    let run = ["run", "-n", "5", "-o", "crashes", "--progress=none", "--"];
    let victim = ["provoke", "victim", "segv"];
    sandbox.provoke(&[&run[..], &victim].concat());
    sandbox.provoke(&["hunt", "--baseline", "crashes", "-n", "8", "-o", "hunt"]);
    let journal = sandbox.read("hunt/events.jsonl");
    let started: Value = serde_json::from_str(journal.lines().next().unwrap()).unwrap();
    let question = &started["run_started"]["plan"]["question"]["hunt"];
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
    let (report, said) = sandbox.ask(
        "hunt",
        &["-d", "20s", "--seed", "1", "--", "python3", "cache.py"],
    );
    let answer = &report["answer"]["hunt"];
    assert_eq!(said.code, Some(1), "{said}");
    assert_eq!(answer["natural"]["failures"], 0, "{said}");
    // Between the test in line 7 and the removal in line 9.
    let line = answer["places"][0]["line"].as_u64().unwrap();
    assert!((8..=9).contains(&line), "{said}");
}

#[test]
fn a_fix_is_confirmed_under_the_hold_in_a_few_trials() {
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
    let (report, said) = sandbox.ask("confirm", &["--held", "hunt", "--exclude-half=false"]);
    assert_eq!(said.code, Some(0), "{said}");
    let trials = report["variants"][0]["trials"].as_u64().unwrap();
    assert!(trials <= 10, "{said}");
    // The points around the hold were tried in the new build.
    let sweep = &report["answer"]["confirm"]["sweep"];
    assert!(sweep["points"].as_u64() > Some(5), "{said}");
    assert!(sweep["trials"].as_u64() > Some(10), "{said}");
    assert_eq!(sweep["failures"], 0, "{said}");
}

#[test]
fn a_point_that_is_not_reached_confirms_nothing() {
    needs!(program("cc"));
    let sandbox = Sandbox::new();
    compile(&sandbox, "racy/refcount.c");
    let hunted = sandbox.provoke(&["hunt", "-o", "hunt", "--seed", "1", "--", "./program"]);
    assert_eq!(hunted.code, Some(1), "{hunted}");
    let said = sandbox.provoke(&["confirm", "--held", "hunt", "--progress=none", "--", "true"]);
    assert_eq!(said.code, Some(125), "{said}");
    assert!(
        said.stdout
            .starts_with("NOT KNOWN: no trial reached the hold"),
        "{said}"
    );
}

#[test]
fn a_killed_hunt_leaves_nothing_and_is_resumed() {
    needs!(program("cc"));
    let sandbox = Sandbox::new();
    compile(&sandbox, "racy/refcount.c");
    let args = [
        "hunt",
        "-o",
        "cut",
        "--seed",
        "1",
        "--progress=none",
        "--",
        "./program",
    ];
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
    let (answer, said) = hunt(&sandbox, &["-n", "400", "--seed", "1"]);
    assert_eq!(said.code, Some(0), "{said}");
    assert_eq!(answer["tried"]["failures"], 0, "{said}");
    assert!(answer["tried"]["trials"].as_u64() > Some(100), "{said}");
    assert!(
        said.stdout.starts_with("No failure: it passed in all"),
        "{said}"
    );
}

#[test]
fn only_one_variant_is_examined() {
    let sandbox = Sandbox::new();
    let said = sandbox.provoke(&["hunt", "-L", "mode=a,b", "--", "true", "{mode}"]);
    assert_eq!(said.code, Some(2), "{said}");
    assert!(
        said.stderr.contains("`hunt` examines one variant"),
        "{said}"
    );
}

#[test]
fn a_program_with_one_thread_has_nothing_to_hold() {
    let sandbox = Sandbox::new();
    let said = sandbox.provoke(&["hunt", "-n", "10", "--progress=none", "--", "true"]);
    assert!(
        said.stdout
            .contains("its threads cannot be held (it has a single thread)"),
        "{said}"
    );
    assert!(
        said.stdout
            .contains("without a hold it failed in 0 of 7 trials"),
        "{said}"
    );
}
