//! Tests `provoke explain`.

use super::victims::{Lab, TWO_THREADS};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

fn explain(args: &[&str]) -> Output {
    explain_in(tempfile::tempdir().unwrap().path(), args)
}

/// Runs `provoke explain` in a directory, in which alone it looks for runs.
fn explain_in(folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_provoke"));
    command.env_remove("PROVOKE_HOME").current_dir(folder);
    command.arg("explain").args(args).output().unwrap()
}

#[test]
fn the_text_and_the_json_name_the_crashed_function() {
    let lab = Lab::new();
    let program = lab.compile("two", "two.c", TWO_THREADS, &["-g", "-pthread"]);
    let core = lab.core(&program, &[], &[]);
    let core = core.to_str().unwrap();
    let story = explain(&[core]);
    assert!(story.status.success());
    assert!(String::from_utf8_lossy(&story.stdout).contains("helper"));
    let moved = lab.path("moved");
    std::fs::rename(&program, &moved).unwrap();
    let data = explain(&[core, "--json", "--program", moved.to_str().unwrap()]);
    let data: Value = serde_json::from_slice(&data.stdout).unwrap();
    assert_eq!(data["crash"]["frames"][0]["function"], "helper");
    assert_eq!(data["threads"].as_array().unwrap().len(), 2);
}

#[test]
fn a_file_that_cannot_be_explained_is_refused_with_a_hint() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("notes.txt"), "no core").unwrap();
    let error_of = |path: &str| {
        let output = explain_in(folder.path(), &[path]);
        let text = String::from_utf8(output.stderr).unwrap();
        (output.status.code(), text)
    };
    let (code, text) = error_of("notes.txt");
    assert_eq!(code, Some(2));
    insta::assert_snapshot!(text, @"
    error: `notes.txt` is not a core file: it is not an ELF file

    hint: to explain the last failure: provoke explain last; the kernel writes a core of a crash after `ulimit -c unlimited`
    ");
    let (code, text) = error_of("no-such-core");
    assert_eq!(code, Some(2));
    insta::assert_snapshot!(text, @"
    error: found neither a core file nor a run `no-such-core`

    hint: no run is stored here: go to the directory in which it ran, set PROVOKE_HOME, or name the directory of `--out`
    ");
}
