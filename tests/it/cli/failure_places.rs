//! Tests the source lines that failures of real programs point at.

use super::support::Sandbox;
use crate::needs::{needs, program};
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
    println!("{}", read(std::env::args().count() + 8));
}
"#;

const TWO_LOCKS: &str = "
import threading
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
threads = [threading.Thread(target=task, name=task.__name__) for task in (transfer, audit)]
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
            "panic.rs:3 in panic::read, called by panic::main (panic.rs:6)",
        ),
    ] {
        let option = format!("debuginfo={debug_information}");
        assert!(rustc.args(["-C", &option]).status().unwrap().success());
        let args = [
            "run",
            "-n",
            "1",
            "--env",
            "RUST_BACKTRACE=1",
            "--",
            "./panic",
        ];
        let run = sandbox.provoke(&args);
        assert!(run.stdout.contains(&format!("        {place}\n")), "{run}");
    }
}

#[test]
fn python_threads_that_wait_for_locks_are_placed_at_the_lines_of_the_script() {
    needs!(program("python3"), program("py-spy"));
    let sandbox = Sandbox::new();
    sandbox.write("locks.py", TWO_LOCKS);
    let run = sandbox.provoke(&["run", "-n", "1", "-t", "3s", "--", "python3", "locks.py"]);
    for expected in [
        "hang: two threads wait for locks in audit, transfer",
        "audit waits at locks.py:12 for a lock",
        "transfer waits at locks.py:7 for a lock",
    ] {
        assert!(run.stdout.contains(expected), "{expected}: {run}");
    }
    let story = sandbox.provoke(&["explain", "last#1"]).stdout;
    assert!(story.contains("(transfer)"), "{story}");
}
