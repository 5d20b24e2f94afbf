//! Reads runs that earlier versions stored, with every command that reads runs. `COMPARE_WITH=PROGRAM` compares the outputs
//! with those of another build of provoke instead of with golden files.

use super::support::{CommandOutput, PROVOKE, Sandbox};
use crate::golden::{GoldenFolder, shorten_report};
use crate::limited;
use serde_json::Value;
use std::fs;
use std::path::Path;

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let (source, target) = {
            let name = entry.unwrap().file_name();
            (from.join(&name), to.join(&name))
        };
        if source.is_dir() {
            copy_folder(&source, &target);
        } else {
            fs::copy(&source, &target).unwrap();
        }
    }
}

/// A directory with copies of the stored runs.
struct StoredRuns<'a> {
    sandbox: Sandbox,
    program: &'a str,
}

impl<'a> StoredRuns<'a> {
    fn copy(program: &'a str) -> Self {
        let sandbox = Sandbox::new();
        let runs = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/runs");
        copy_folder(&runs, &sandbox.path("provoke-out"));
        Self { sandbox, program }
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.sandbox.path("provoke-out")).unwrap();
        let folders = entries.filter_map(|entry| {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            entry.path().is_dir().then_some(name)
        });
        let mut names: Vec<String> = folders.collect();
        names.sort();
        names
    }

    fn run(&self, line: &str) -> CommandOutput {
        let arguments: Vec<&str> = line.split(' ').collect();
        let mut command = self.sandbox.program_command(self.program, &arguments);
        command.env("TZ", "UTC").env("COLUMNS", "100");
        limited::output(&mut command).unwrap().into()
    }

    /// Returns the output of a command, with its errors and its exit code.
    fn output(&self, line: &str) -> String {
        let CommandOutput {
            stdout,
            stderr,
            code,
        } = self.run(line);
        let text = format!("$ provoke {line}\n{stdout}{stderr}exit {code:?}\n\n");
        let place = self.sandbox.path("");
        let place = place.to_str().unwrap();
        text.replace(place, "/sandbox/")
            .replace(place.trim_end_matches('/'), "/sandbox")
    }

    /// Returns the outputs about a run, with the names of their files.
    fn outputs_of(&self, run: &str) -> Vec<(String, String)> {
        let mut outputs = vec![(
            "terminal".to_owned(),
            [
                format!("report {run}"),
                format!("report {run} --cases"),
                format!("explain {run}"),
                format!("replay {run} --show --trust"),
                format!("replay {run} --show"),
            ]
            .map(|line| self.output(&line))
            .concat(),
        )];
        for format in [
            "json",
            "jsonl",
            "csv",
            "csv-cases",
            "junit",
            "junit-trials",
            "md",
            "html",
        ] {
            let text = self.output(&format!("report {run} --{format}=-"));
            outputs.push((format.to_owned(), shorten_report(format, text)));
        }
        outputs
    }

    /// Returns all outputs, with the names of their files.
    fn outputs(&self) -> Vec<(String, String)> {
        let runs = self.names();
        let mut outputs: Vec<(String, String)> = Vec::new();
        for run in &runs {
            let of_run = self.outputs_of(run).into_iter();
            outputs.extend(of_run.map(|(file, text)| (format!("{run}.{file}"), text)));
        }
        let several = [
            "list",
            "diff max_rate run_clean",
            "diff suite suite_shuffled",
            "diff compare_kinds run_crash",
            "report max_rate run_clean run_crash --json=-",
        ];
        let several = several.map(|line| self.output(line)).concat();
        outputs.push(("several".to_owned(), several));
        outputs
    }
}

#[test]
fn runs_of_earlier_versions_give_the_same_outputs() {
    let outputs = StoredRuns::copy(PROVOKE).outputs();
    if let Ok(other_program) = std::env::var("COMPARE_WITH") {
        let others = StoredRuns::copy(&other_program).outputs();
        for ((file, text), (_, other)) in outputs.iter().zip(&others) {
            assert_eq!(text, other, "{file}");
        }
        return;
    }
    let mut golden = GoldenFolder::open("runs");
    for (file, text) in outputs {
        golden.compare(&file, &text);
    }
    golden.finish();
}

#[test]
fn runs_of_earlier_versions_are_continued_and_confirmed() {
    let runs = StoredRuns::copy(PROVOKE);
    let verdict = |run: &str| -> Value {
        let report = runs.run(&format!("report {run} --json=-"));
        let report: Value = serde_json::from_str(&report.stdout).unwrap();
        report["verdict"].clone()
    };
    let fixed = runs
        .run("confirm --baseline max_rate --accept-different-conditions --trust -o fixed -- true");
    let before = runs.run("report confirm_fixed -q").stdout;
    assert!(fixed.stdout.starts_with(before.trim_end()), "{fixed}");
    assert_eq!(verdict("confirm_fixed"), "fixed");
    let continued = runs.run("resume killed --trust");
    assert_eq!(continued.code, Some(1), "{continued}");
    assert!(
        continued.stdout.starts_with("exit 1 in 8 of 60 trials"),
        "{continued}"
    );
}
