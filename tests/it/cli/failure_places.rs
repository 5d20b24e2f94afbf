//! Tests the source lines that failures of real programs point at.

use super::evidence::compile;
use super::support::Sandbox;
use crate::needs::{interpreters, needs, program};
use std::process::Command;

const DECODE: &str = "
import json
def load():
    return json.loads('{')
load()
";

const PANIC: &str = r#"
fn read(index: usize) -> u8 {
    [1, 2, 3][index..][0]
}
fn main() {
    let index = std::env::args().count() + 8;
    std::thread::spawn(move || println!("{}", read(index))).join().unwrap();
}
"#;

/// Two threads that take two locks in opposite order, with `with` or with `acquire`.
const TWO_LOCKS: &str = "
import sys, threading
accounts, journal, both = threading.Lock(), threading.Lock(), threading.Barrier(2)
def transfer():
    with accounts:
        both.wait()
        with journal:
            pass
def audit():
    with journal:
        both.wait()
        with accounts:
            pass
def acquire(first, second):
    first.acquire()
    both.wait()
    second.acquire()
def credit():
    acquire(accounts, journal)
def debit():
    acquire(journal, accounts)
tasks = (transfer, audit) if sys.argv[1] == 'with' else (credit, debit)
threads = [threading.Thread(target=task) for task in tasks]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
";

#[test]
fn an_exception_in_pythons_library_is_placed_at_the_call_of_the_script() {
    needs!(program("python3"));
    let sandbox = Sandbox::new();
    sandbox.write("decode.py", DECODE);
    let run = sandbox.provoke(&["run", "-n", "1", "--", "python3", "decode.py"]);
    let place = "decode.py:4 in load, called from decode.py:5";
    assert!(run.stdout.contains(place), "{run}");
}

#[test]
fn a_panic_with_a_backtrace_is_placed_at_the_line_that_panicked() {
    needs!(program("rustc"));
    let sandbox = Sandbox::new();
    let file = sandbox.write("panic.rs", PANIC);
    let mut rustc = Command::new("rustc");
    rustc.arg(file).current_dir(sandbox.path(""));
    for (debug_information, place) in [
        ("0", "panic.rs:3"),
        (
            "1",
            "panic.rs:3 in panic::read, called by panic::main::{closure} (panic.rs:7)",
        ),
    ] {
        let option = format!("debuginfo={debug_information}");
        assert!(rustc.args(["-C", &option]).status().unwrap().success());
        for variable in ["RUST_BACKTRACE=1", "RUST_BACKTRACE=full"] {
            let run = sandbox.provoke(&["run", "-n", "1", "--env", variable, "--", "./panic"]);
            assert!(run.stdout.contains(&format!("        {place}\n")), "{run}");
        }
    }
}

#[test]
fn a_deadlock_of_python_threads_is_placed_at_the_lines_of_the_script() {
    needs!(program("python3"));
    let sandbox = Sandbox::new();
    sandbox.write("locks.py", TWO_LOCKS);
    let run = |kind| {
        let command = ["python3", "locks.py", kind];
        sandbox.provoke(&[&["run", "-n", "1", "-t", "3s", "--"], &command[..]].concat())
    };
    let named_owners = run("with");
    for expected in [
        "hang: deadlock, audit <-> transfer",
        "audit waits at locks.py:12 for a lock, which transfer holds",
        "transfer waits at locks.py:7 for a lock, which audit holds",
    ] {
        assert!(
            named_owners.stdout.contains(expected),
            "{expected}: {named_owners}"
        );
    }
    // The interpreter does not record who called `acquire`.
    let unknown_owners = run("acquire");
    for expected in [
        "hang: two threads wait for locks in acquire",
        "acquire waits at locks.py:17 for a lock\n",
    ] {
        assert!(
            unknown_owners.stdout.contains(expected),
            "{expected}: {unknown_owners}"
        );
    }
}

const NATIVE_CRASHES: &str = "
import ctypes, os, sys
def crash(kind):
    if kind == 'read':
        ctypes.string_at(0)
    os.abort()
def numbers(kind):
    yield crash(kind)
list(numbers(sys.argv[1]))
";

#[test]
fn a_native_crash_of_python_is_placed_at_the_line_of_the_script() {
    needs!(program("python3"));
    let sandbox = Sandbox::new();
    sandbox.write("native.py", NATIVE_CRASHES);
    for python in interpreters(8..=13) {
        for (kind, line) in [("read", 5), ("abort", 6)] {
            let place = format!("native.py:{line} in crash, called by numbers (native.py:8)");
            let args = [
                "run",
                "-n",
                "1",
                "--capture",
                "on",
                "--",
                &python,
                "native.py",
                kind,
            ];
            // No tool can be found.
            let output = sandbox
                .command(&args)
                .env("PATH", "/nowhere")
                .output()
                .unwrap();
            let output = String::from_utf8_lossy(&output.stdout);
            assert!(output.contains(&place), "{python} {kind}: {output}");
            let story = sandbox.provoke(&["explain", "last"]).stdout;
            let calls = format!("crash (native.py:{line}) < numbers (native.py:8) < <module>");
            assert!(
                story.contains(&format!("at native.py:{line} in crash")),
                "{python} {kind}: {story}"
            );
            let story = story.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(story.contains(&calls), "{python} {kind}: {story}");
        }
    }
}

#[test]
fn a_hang_of_a_command_is_placed_at_the_line_that_waits_for_it() {
    needs!(program("python3"));
    let sandbox = Sandbox::new();
    let script = "import subprocess\ndef work():\n    subprocess.run(['sleep', '1000'])\nwork()\n";
    sandbox.write("waits.py", script);
    for python in interpreters(8..=13).into_iter().take(1) {
        let run = sandbox.provoke(&["run", "-n", "1", "-t", "3s", "--", &python, "waits.py"]);
        let place = "waits.py:3 in work, called from waits.py:4";
        assert!(run.stdout.contains(place), "{run}");
        assert!(run.stdout.contains("hang: blocked in "), "{run}");
    }
}

const RECEIVE: &str = "
fn receive(channel: &std::sync::mpsc::Receiver<u8>) -> u8 {
    channel.recv().unwrap()
}
fn main() {
    let (_sender, channel) = std::sync::mpsc::channel();
    receive(&channel);
}
";

#[test]
fn a_hang_in_the_library_of_rust_is_named_by_the_function_that_called_it() {
    needs!(program("rustc"));
    let sandbox = Sandbox::new();
    let file = sandbox.write("waits.rs", RECEIVE);
    let mut rustc = Command::new("rustc");
    rustc.args(["-g"]).arg(file).current_dir(sandbox.path(""));
    assert!(rustc.status().unwrap().success());
    let run = sandbox.provoke(&["run", "-n", "1", "-t", "2s", "--", "./waits"]);
    for expected in [
        "hang: blocked in waits::receive < waits::main",
        "waits.rs:3 in waits::receive, called by waits::main (waits.rs:7)",
    ] {
        assert!(run.stdout.contains(expected), "{expected}: {run}");
    }
}

#[test]
fn an_exit_without_a_message_is_not_attributed_to_an_exception() {
    needs!(program("python3"));
    let sandbox = Sandbox::new();
    let script = "import os, sys\nif int(os.environ['PROVOKE_TRIAL']) % 3: raise KeyError('x')\nsys.exit(1)\n";
    sandbox.write("exits.py", script);
    let run = sandbox.provoke(&["run", "-n", "6", "--", "python3", "exits.py"]);
    for expected in [
        "4x    exit 1: KeyError: 'x'",
        "2x    exit 1: the program reported failure\n",
    ] {
        assert!(run.stdout.contains(expected), "{expected}: {run}");
    }
    assert!(!run.stdout.contains("probably"), "{run}");
}

#[test]
fn reports_of_a_damaged_heap_at_one_line_are_one_failure() {
    let sandbox = Sandbox::new();
    let source = r#"
        #include <stdlib.h>
        __attribute__((noinline)) void release(char *p) { free(p); }
        int main(void) {
            char *p = malloc(4096), *wall = malloc(4096);
            int is_odd = atoi(getenv("PROVOKE_TRIAL")) % 2;
            if (!is_odd) free(p);
            release(is_odd ? p + 8 : p);
            return !wall;
        }
    "#;
    let program = compile(&sandbox, "heap", source, &["-g", "-O0"]);
    let run = sandbox.provoke(&["run", "-n", "4", "--capture", "on", "--", &program]);
    for expected in [
        "  4x    ",
        "heap.c:3 in release, called by main (heap.c:8)",
        "2 of 4 reported another damage of the heap at this line",
    ] {
        assert!(run.stdout.contains(expected), "{expected}: {run}");
    }
}
