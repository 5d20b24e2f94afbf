//! Compares stacks with the stacks of the debugger.

use super::python::Extension;
use super::victims::{
    AT_EXIT, BEFORE_MAIN, DOUBLE_FREE, GENERATED, HANDLER, INLINED, Lab, NULL_CALL, QSORT, RUST,
    TEMPLATES, THROW, TWO_THREADS, examined,
};
use crate::needs::{needs, program, python_headers};
use std::path::Path;
use std::process::Command;

/// Returns the plain name: without parameters, enclosing scopes, and the prefixes of the C library, which debuggers
/// write differently.
fn plain_name(name: &str) -> String {
    let mut depth = 0;
    let mut short = String::new();
    for letter in name.chars() {
        match letter {
            '<' => depth += 1,
            '>' => depth -= 1,
            '(' if depth == 0 => break,
            _ if depth == 0 => short.push(letter),
            _ => {}
        }
    }
    let last = short.trim_end_matches("::").rsplit("::").next().unwrap();
    let last = match last {
        closure if closure.contains("closure") => "closure",
        // The same function, under its name in the symbol table.
        "rust_begin_unwind" => "panic_handler",
        other => other,
    };
    let last = last
        .trim_start_matches("__GI_")
        .trim_start_matches('_')
        .split('@')
        .next()
        .unwrap();
    last.trim().to_owned()
}

/// Prints the functions of a stack, without the calls that the debugger infers from tail calls, because these have no
/// frame on the stack.
const SCRIPT: &str = "\
python
frame = gdb.newest_frame()
while frame:
    if frame.type() == gdb.SIGTRAMP_FRAME:
        print('FRAME restore_rt')
    elif frame.type() != gdb.TAILCALL_FRAME:
        print('FRAME', frame.name() or '??')
    frame = frame.older()
end
";

fn debugger_frames(program: &Path, core: &Path) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("script");
    std::fs::write(&script, SCRIPT).unwrap();
    let mut gdb = Command::new("gdb");
    gdb.args(["-batch", "-nx", "-ex", "set debuginfod enabled off"]);
    gdb.args(["-ex", "set backtrace past-main on", "-x"]);
    gdb.arg(script).arg(program).arg(core);
    let gdb_output = gdb.output().expect("gdb is needed");
    let text = String::from_utf8_lossy(&gdb_output.stdout);
    let names = text.lines().filter_map(|line| line.strip_prefix("FRAME "));
    names.map(plain_name).collect()
}

fn assert_stack_equals_debugger(program: &Path, core: &Path) {
    let autopsy = examined(core);
    let frames = autopsy.threads[0].frames.iter();
    let ours: Vec<String> = frames
        .flat_map(|frame| {
            let name = plain_name(frame.function.as_deref().unwrap_or("??"));
            vec![name; usize::try_from(frame.repeated).unwrap() + 1]
        })
        .collect();
    let theirs = debugger_frames(program, core);
    assert!(theirs.len() > 2, "{theirs:?}");
    assert_eq!(ours, theirs, "{}", program.display());
}

#[test]
fn stacks_equal_those_of_the_debugger() {
    needs!(program("gdb"), program("g++"));
    let lab = Lab::new();
    let cases: [(&str, &str, &[&str]); 11] = [
        ("two.c", TWO_THREADS, &["-g", "-pthread"]),
        ("twice.c", DOUBLE_FREE, &["-g", "-w"]),
        ("throw.cc", THROW, &["-g"]),
        ("templates.cc", TEMPLATES, &["-g", "-O1"]),
        ("engine.rs", RUST, &["-g", "-Cpanic=abort"]),
        ("late.c", AT_EXIT, &["-g"]),
        ("early.c", BEFORE_MAIN, &["-g"]),
        ("inlined.c", INLINED, &["-g", "-O2"]),
        ("sorted.c", QSORT, &["-g"]),
        ("nothing.c", NULL_CALL, &["-g", "-O2"]),
        ("bare.c", QSORT, &["-s", "-O2"]),
    ];
    for (file, source, flags) in cases {
        let program = lab.compile(file.split('.').next().unwrap(), file, source, flags);
        assert_stack_equals_debugger(&program, &lab.core(&program, &[], &[]));
    }
    let program = lab.compile("handler", "handler.c", HANDLER, &["-g"]);
    for how in ["nodefer", "own-stack"] {
        assert_stack_equals_debugger(&program, &lab.core(&program, &[how], &[]));
    }
}

#[test]
fn the_stack_of_an_interpreter_equals_that_of_the_debugger() {
    needs!(program("gdb"), python_headers());
    let extension = Extension::new();
    let core = extension.core("boom.crash()", false);
    assert_stack_equals_debugger(&extension.interpreter, &core);
}

#[test]
fn generated_code_is_followed_by_its_frame_pointer_further_than_by_the_debugger() {
    needs!(program("gdb"));
    let lab = Lab::new();
    for (flag, outer) in [
        ("-g", &["run", "main"][..]),
        ("-DBARE", &[]),
        ("-DDATA", &[]),
    ] {
        let program = lab.compile("generated", "generated.c", GENERATED, &["-O2", "-g", flag]);
        let core = lab.core(&program, &[], &[]);
        let thread = &examined(&core).threads[0];
        let functions = thread.frames.iter().map(|frame| frame.function.as_deref());
        let functions: Vec<&str> = functions.map(|name| name.unwrap_or("?")).collect();
        let inner = ["crash", "callback", "(generated code)"];
        let expected = [&inner, outer].concat();
        assert_eq!(functions[..expected.len()], expected, "{flag}");
        let theirs = debugger_frames(&program, &core);
        assert_eq!(theirs[..3], ["crash", "callback", "??"], "{flag}");
        match outer {
            [] => {
                assert_eq!(functions, expected, "{flag}");
                let cut = thread.cut.as_deref().unwrap();
                assert!(cut.ends_with("is in no file"), "{cut}");
            }
            _ => assert_eq!(thread.cut, None),
        }
    }
}
