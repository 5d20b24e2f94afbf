//! The same stacks as the debugger shows.

use super::python::Extension;
use super::victims::{
    AT_EXIT, BEFORE_MAIN, DOUBLE_FREE, HANDLER, INLINED, Lab, NULL_CALL, QSORT, RUST, TEMPLATES,
    THROW, TWO_THREADS, examined,
};
use regex::Regex;
use std::path::Path;
use std::process::Command;

/// The name proper: without parameters, what it is a part of, and the C library's marks.
/// Debuggers write those in ways of their own.
fn plain(name: &str) -> String {
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
    let last = if last.contains("closure") {
        "closure"
    } else {
        last
    };
    let last = last.trim_start_matches("__GI_").trim_start_matches('_');
    let last = last.split('@').next().unwrap();
    last.trim().to_owned()
}

fn of_debugger(program: &Path, core: &Path) -> Vec<String> {
    let mut gdb = Command::new("gdb");
    gdb.args(["-batch", "-nx", "-ex", "set debuginfod enabled off"]);
    gdb.args(["-ex", "set backtrace past-main on", "-ex", "bt"]);
    let said = gdb.arg(program).arg(core).output().expect("gdb is needed");
    let text = String::from_utf8_lossy(&said.stdout).replace("\n    ", " ");
    // The innermost frame is also shown as a greeting.
    let text = &text[text.rfind("\n#0 ").unwrap()..];
    let line =
        Regex::new(r"(?m)^#\d+ +(?:0x[0-9a-f]+ in )?(<signal handler called>|.+?) ?(?:\(.*)?$");
    let names = line.unwrap();
    let names = names.captures_iter(text).map(|found| found[1].to_owned());
    names
        .map(|name| match name.as_str() {
            "<signal handler called>" => "restore_rt".to_owned(),
            name => plain(name),
        })
        .collect()
}

fn compare(program: &Path, core: &Path) {
    let autopsy = examined(core);
    let frames = autopsy.threads[0].frames.iter();
    let ours: Vec<String> = frames
        .flat_map(|frame| {
            let name = plain(frame.function.as_deref().unwrap_or("??"));
            vec![name; usize::try_from(frame.repeated).unwrap() + 1]
        })
        .collect();
    let theirs = of_debugger(program, core);
    assert!(theirs.len() > 2, "{theirs:?}");
    assert_eq!(ours, theirs, "{}", program.display());
}

#[test]
fn stacks_are_those_that_the_debugger_shows() {
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
        compare(&program, &lab.core(&program, &[], &[]));
    }
    let program = lab.compile("handler", "handler.c", HANDLER, &["-g"]);
    for how in ["nodefer", "own-stack"] {
        compare(&program, &lab.core(&program, &[how], &[]));
    }
}

#[test]
fn the_stack_of_an_interpreter_is_the_one_that_the_debugger_shows() {
    let extension = Extension::new();
    let core = extension.core("boom.crash()", false);
    compare(&extension.interpreter, &core);
}
