//! Tests cores of programs in C, C++ and Rust.

use super::victims::{
    AT_EXIT, BEFORE_MAIN, DOUBLE_FREE, HANDLER, Lab, NULL_CALL, OVERFLOW, RUST, THROW, TWO_THREADS,
    calls, examined, functions,
};
use crate::limited;
use crate::needs::{needs, program};
use provoke_autopsy::core_owner;
use provoke_model::{ProcessPhase, Signal};
use serde_json::Value;
use std::process::Command;

/// Returns why internal functions of the C library have no names.
fn symbols_of_libc() -> Option<String> {
    let mut provoke = Command::new(env!("CARGO_BIN_EXE_provoke"));
    let output = limited::output(provoke.args(["doctor", "--json"])).unwrap();
    let doctor: Value = serde_json::from_slice(&output.stdout).unwrap();
    let mut checks = doctor["checks"].as_array().unwrap().iter();
    let check = checks
        .find(|check| check["name"] == "libc-symbols")
        .unwrap();
    (check["state"] != "ok").then(|| check["seen"].as_str().unwrap().to_owned())
}

#[test]
fn a_null_pointer_crash_is_attributed_to_its_thread() {
    let lab = Lab::new();
    let program = lab.compile("two", "two.c", TWO_THREADS, &["-g", "-pthread"]);
    let core = lab.core(&program, &[], &[]);
    let autopsy = examined(&core);
    let crash = &autopsy.crash;
    assert_eq!(crash.signal, Some(Signal::SEGV));
    assert_eq!(crash.program, "two");
    assert_eq!(crash.fault.address, Some(16));
    assert_eq!(crash.thread, 2);
    assert_eq!(crash.phase, ProcessPhase::Run);
    assert!(calls(&crash.frames, &["helper", "work"]), "{crash:#?}");
    let (file, line) = crash.frames[0].line.clone().unwrap();
    assert!(file.ends_with("two.c") && line == 5, "{file}:{line}");
    assert_eq!(autopsy.threads.len(), 2);
    assert_eq!(autopsy.threads[0].frames, crash.frames);
    assert!(functions(&autopsy.threads[1].frames).contains(&"main".to_owned()));
    assert!(autopsy.threads.iter().all(|thread| thread.cut.is_none()));
    assert_eq!(autopsy.gaps, [""; 0]);

    let owner = core_owner(&core).unwrap();
    assert_eq!((owner.pid, owner.signal), (crash.pid, 11));
    assert_eq!(owner.program, "two");
    assert!(!owner.truncated);
}

#[test]
fn repeated_frames_of_a_recursion_are_collapsed() {
    let lab = Lab::new();
    let program = lab.compile("over", "over.c", OVERFLOW, &["-g"]);
    let autopsy = examined(&lab.core(&program, &[], &[]));
    let frames = &autopsy.crash.frames;
    let repeated: u64 = frames.iter().map(|frame| frame.repeated).sum();
    assert!(repeated > 10_000, "{frames:#?}");
    assert!(frames.len() < 10, "{frames:#?}");
    assert!(calls(frames, &["rec", "main"]), "{frames:#?}");
}

#[test]
fn the_abort_message_of_the_c_library_is_read_from_the_core() {
    let lab = Lab::new();
    let program = lab.compile("twice", "twice.c", DOUBLE_FREE, &["-g", "-w"]);
    let crash = examined(&lab.core(&program, &[], &[])).crash;
    assert_eq!(crash.signal, Some(Signal::ABRT));
    let abort_message = crash.abort.as_deref().unwrap();
    assert!(abort_message.contains("double free"), "{abort_message}");
    assert!(calls(&crash.frames, &["twice", "main"]), "{crash:#?}");
}

#[test]
fn an_uncaught_exception_shows_the_throwing_function() {
    needs!(program("g++"));
    let lab = Lab::new();
    let program = lab.compile("throw", "throw.cc", THROW, &["-g"]);
    let crash = examined(&lab.core(&program, &[], &[])).crash;
    let run = "app::Engine::run(int)";
    assert_eq!(crash.signal, Some(Signal::ABRT));
    assert!(calls(&crash.frames, &[run, run, "main"]) || calls(&crash.frames, &[run, "main"]));
    assert_eq!(crash.abort, None);
}

#[test]
fn a_rust_panic_shows_the_code_that_panicked() {
    let lab = Lab::new();
    let flags = ["-g", "-Cpanic=abort"];
    let program = lab.compile("engine", "engine.rs", RUST, &flags);
    let crash = examined(&lab.core(&program, &[], &[])).crash;
    assert_eq!(crash.signal, Some(Signal::ABRT));
    assert!(
        calls(&crash.frames, &["engine::engine::run", "engine::main"]),
        "{crash:#?}"
    );
}

#[test]
fn a_stripped_program_has_stable_offsets_as_names() {
    let lab = Lab::new();
    let program = lab.compile("two", "two.c", TWO_THREADS, &["-s", "-pthread"]);
    let places = || {
        let crash = examined(&lab.core(&program, &[], &[])).crash;
        functions(&crash.frames)
    };
    let first = places();
    assert!(first[0].starts_with("two+0x1"), "{first:?}");
    assert!(first[1].starts_with("two+0x1"), "{first:?}");
    assert_eq!(first, places());
}

#[test]
fn a_library_without_symbols_is_unwound_into_its_named_caller() {
    let lab = Lab::new();
    let library =
        "static int inner(int *p) { return *p; }\nint entry(int *p) { return inner(p) + 1; }";
    lab.compile("libx.so", "x.c", library, &["-shared", "-fPIC", "-s"]);
    let main = "int entry(int *);\nint main(void) { return entry(0); }";
    let flags = ["-g", "-L.", "-lx", "-Wl,-rpath,$ORIGIN"];
    let program = lab.compile("user", "user.c", main, &flags);
    let autopsy = examined(&lab.core(&program, &[], &[]));
    let frames = functions(&autopsy.crash.frames);
    assert!(frames[0].starts_with("libx.so+0x1"), "{frames:?}");
    assert_eq!(frames[1..3], ["entry", "main"]);
    let symbols = |name: &str| {
        let mut modules = autopsy.modules.iter();
        modules
            .find(|module| module.path.ends_with(name))
            .unwrap()
            .symbols
            .clone()
    };
    assert_eq!(symbols("/libx.so"), "exports");
    assert_eq!(symbols("/user"), "lines");
}

#[test]
fn a_handler_that_raises_the_signal_again_does_not_change_the_crash() {
    let lab = Lab::new();
    let program = lab.compile("handler", "handler.c", HANDLER, &["-g"]);
    let plain = examined(&lab.core(&program, &[], &[])).crash;
    assert!(calls(&plain.frames, &["helper", "outer", "main"]));
    assert_eq!(plain.fault.address, Some(16));
    for how in ["deferred", "nodefer", "own-stack"] {
        let caught = examined(&lab.core(&program, &[how], &[])).crash;
        assert_eq!(caught.frames, plain.frames, "{how}");
        assert_eq!(caught.fault, plain.fault, "{how}");
    }
    let aborted = examined(&lab.core(&program, &["nodefer"], &[("ABORT", "1")])).crash;
    assert_eq!(aborted.signal, Some(Signal::ABRT));
    assert_eq!(aborted.frames, plain.frames);
    assert_eq!(aborted.fault, plain.fault);
}

#[test]
fn a_crash_in_an_exit_handler_has_the_phase_shutdown() {
    needs!(symbols_of_libc());
    let lab = Lab::new();
    let program = lab.compile("late", "late.c", AT_EXIT, &["-g"]);
    let crash = examined(&lab.core(&program, &[], &[])).crash;
    assert_eq!(crash.phase, ProcessPhase::Shutdown, "{crash:#?}");
    assert!(calls(&crash.frames, &["goodbye", "__run_exit_handlers"]));
}

#[test]
fn a_crash_in_a_constructor_has_the_phase_start() {
    needs!(symbols_of_libc());
    let lab = Lab::new();
    let program = lab.compile("early", "early.c", BEFORE_MAIN, &["-g"]);
    let crash = examined(&lab.core(&program, &[], &[])).crash;
    assert_eq!(crash.phase, ProcessPhase::Start, "{crash:#?}");
    assert!(functions(&crash.frames).contains(&"early".to_owned()));
}

#[test]
fn a_call_through_a_null_pointer_shows_the_caller() {
    let lab = Lab::new();
    let program = lab.compile("nothing", "nothing.c", NULL_CALL, &["-g"]);
    let crash = examined(&lab.core(&program, &[], &[])).crash;
    assert!(
        calls(&crash.frames, &["?", "dispatch", "main"]),
        "{crash:#?}"
    );
}

#[test]
fn a_program_rebuilt_after_the_crash_is_not_used_for_names() {
    let lab = Lab::new();
    let program = lab.compile("two", "two.c", TWO_THREADS, &["-g", "-pthread"]);
    let core = lab.core(&program, &[], &[]);
    let other = TWO_THREADS.replace("long a, b, c", "long a, c, b");
    lab.compile("two", "two.c", &other, &["-g", "-pthread"]);
    let autopsy = examined(&core);
    assert_eq!(autopsy.gaps, ["`two` was replaced since the crash"]);
    assert_eq!(autopsy.crash.frames[0].function, None);
    std::fs::remove_file(&program).unwrap();
    let gap = &examined(&core).gaps[0];
    assert!(gap.starts_with("`two` is missing"), "{gap}");
}

#[test]
fn a_core_of_a_static_program_is_read() {
    let lab = Lab::new();
    let program = lab.compile("twice", "twice.c", DOUBLE_FREE, &["-g", "-w", "-static"]);
    let crash = examined(&lab.core(&program, &[], &[])).crash;
    assert!(calls(&crash.frames, &["twice", "main"]), "{crash:#?}");
    assert!(crash.abort.unwrap().contains("double free"));
}

#[test]
fn debug_information_in_a_separate_file_is_found() {
    let lab = Lab::new();
    lab.compile("two", "two.c", TWO_THREADS, &["-g", "-pthread"]);
    lab.run("objcopy", &["--only-keep-debug", "two", "two.debug"]);
    lab.run(
        "objcopy",
        &["-g", "-S", "--add-gnu-debuglink=two.debug", "two"],
    );
    let autopsy = examined(&lab.core(&lab.path("two"), &[], &[]));
    assert!(autopsy.crash.frames[0].line.is_some(), "{autopsy:#?}");
    assert!(calls(&autopsy.crash.frames, &["helper", "work"]));
}
