//! Tests the output on CI servers: the summary of a step, annotations, and manual pages and completions for packages.

use super::evidence::{NULL, compile};
use super::support::{CommandOutput, Sandbox};
use crate::limited;
use crate::needs::{needs, program};
use std::fs;
use std::path::Path;
use std::process::Command;

const SUMMARY: &str = "summary.md";
/// The maximum size of a summary.
const MIB: usize = 1 << 20;

/// Runs the program as a step of a job on GitHub.
fn run_on_github(sandbox: &Sandbox, args: &[&str]) -> CommandOutput {
    let mut command = sandbox.command(args);
    command
        .env("GITHUB_ACTIONS", "true")
        .env("GITHUB_WORKSPACE", sandbox.path(""))
        .env("GITHUB_STEP_SUMMARY", sandbox.path(SUMMARY));
    limited::output(&mut command).unwrap().into()
}

fn annotations(output: &CommandOutput) -> Vec<&str> {
    let lines = output.stdout.lines().chain(output.stderr.lines());
    lines.filter(|line| line.starts_with("::")).collect()
}

#[test]
fn a_crash_is_annotated_at_its_line_and_summarized() {
    let sandbox = Sandbox::new();
    let program = compile(&sandbox, "null", NULL, &["-g", "-O1"]);
    let run = ["run", "-n", "8", "--out", "out", "--", &program];
    let output = run_on_github(&sandbox, &run);
    assert_eq!(output.code, Some(1));
    let lines = annotations(&output);
    assert_eq!(lines.len(), 2, "{output}");
    assert_eq!(
        lines[0],
        "::error title=Failures seen::SIGSEGV in 2 of 8 trials: 25 %25 (95 %25 interval 3.1 to 66 %25)"
    );
    let source = "::error file=null.c,line=4,title=SIGSEGV%2C null pointer + 0x10%2C in conv < forward < main::\
                  2 of 8 trials%0Asignature ";
    assert!(lines[1].starts_with(source), "{output}");
    assert!(lines[1].ends_with("%0Aprovoke explain out#4"), "{output}");
    let summary = sandbox.read(SUMMARY);
    assert!(summary.contains("SIGSEGV at null.c:4, 2 of 8 trials\n"));
    assert!(summary.ends_with("\n\n"));
    // A later command of the step appends.
    run_on_github(&sandbox, &["run", "-q", "-n", "1", "--", "true"]);
    let both = sandbox.read(SUMMARY);
    assert!(both.starts_with(&summary) && both.contains("# `true`: No failure seen"));
}

#[test]
fn the_level_of_an_annotation_is_that_of_the_exit_code() {
    let sandbox = Sandbox::new();
    let verdict = |args: &[&str]| {
        let output = run_on_github(&sandbox, &[&["run", "-q", "-n", "4"], args].concat());
        annotations(&output)[0].to_owned()
    };
    let passed =
        "::notice title=No failure seen::0 of 4 trials failed: rate below 61 %25 (95 %25 interval)";
    assert_eq!(verdict(&["--", "true"]), passed);
    assert!(
        verdict(&["--max-rate", "1%", "--", "true"]).starts_with("::warning title=Undecided::")
    );
    assert!(
        verdict(&["--skip", "1", "--", "false"]).starts_with("::error title=Not testable so far::")
    );
    let off = run_on_github(&sandbox, &["run", "--ci=off", "-n", "1", "--", "false"]);
    assert_eq!(annotations(&off), [""; 0]);
}

#[test]
fn at_most_ten_annotations_are_written() {
    let sandbox = Sandbox::new();
    let script = "exit $PROVOKE_TRIAL";
    let output = run_on_github(&sandbox, &["run", "-n", "14", "--", "sh", "-c", script]);
    let lines = annotations(&output);
    assert_eq!(lines.len(), 10, "{output}");
    assert!(lines[0].ends_with("%0A5 more signatures without an annotation"));
}

#[test]
fn no_text_of_a_trial_becomes_a_command_of_the_runner() {
    let sandbox = Sandbox::new();
    let hostile = "::error::x%0A::add-mask::y ##[group]z ##vso[task] ##teamcity[x]";
    let script =
        format!("printf '%s\\n' 'panicked: {hostile}' '{hostile}' '```' '{hostile}' >&2; exit 1");
    let variant = format!("v={hostile}");
    let reports = ["--html", "--json", "--jsonl", "--csv", "--junit", "--md"];
    let to_stdout = reports.map(|format| format!("{format}=-"));
    let flags = to_stdout.iter().map(String::as_str);
    for flag in flags.chain(["-v", "-q", "--style=ticks", "--progress=plain"]) {
        let args = [
            "run", flag, "-n", "2", "-L", &variant, "--", "sh", "-c", &script,
        ];
        let output = run_on_github(&sandbox, &args);
        let commands = annotations(&output);
        assert_eq!(commands.len(), 2, "{flag}: {output}");
        for command in &commands {
            // A runner reads the properties until the next `::`.
            let (properties, _) = command["::error ".len()..].split_once("::").unwrap();
            assert!(properties.starts_with("title=") && !properties.contains(','));
        }
        let summary = sandbox.read(SUMMARY);
        let streams = [&output.stdout, &output.stderr, &summary];
        for line in streams.into_iter().flat_map(|stream| stream.lines()) {
            for command in ["##[", "##vso[", "##teamcity["] {
                assert!(!line.contains(command), "{flag}: {line}");
            }
            let is_command = line.trim_start().starts_with("::");
            assert!(!is_command || commands.contains(&line), "{flag}: {line}");
        }
    }
}

#[test]
fn a_secret_is_masked_in_annotations_and_in_the_summary() {
    let sandbox = Sandbox::new();
    let secret = "canary-0123456789";
    let mut command = sandbox.command(&[
        "run",
        "-q",
        "-n",
        "1",
        "-L",
        &format!("token={secret}"),
        "--ci=github",
        "--",
        "sh",
        "-c",
        "echo \"panicked: $DEPLOY_TOKEN\" >&2; exit 1",
    ]);
    let output: CommandOutput = limited::output(
        command
            .env("DEPLOY_TOKEN", secret)
            .env("GITHUB_STEP_SUMMARY", sandbox.path(SUMMARY)),
    )
    .unwrap()
    .into();
    let lines = annotations(&output);
    assert_eq!(lines.len(), 2, "{output}");
    assert!(!lines.concat().contains(secret), "{output}");
    let summary = sandbox.read(SUMMARY);
    assert!(
        !summary.is_empty() && !summary.contains(secret),
        "{summary}"
    );
}

#[test]
fn a_summary_that_would_be_too_long_is_short_or_left_out() {
    let sandbox = Sandbox::new();
    let run = ["run", "-q", "-n", "1", "--", "true"];
    let size = || fs::metadata(sandbox.path(SUMMARY)).unwrap().len();
    sandbox.write(SUMMARY, &"x".repeat(MIB - 300));
    let output = run_on_github(&sandbox, &run);
    assert_eq!(output.code, Some(0), "{output}");
    let summary = sandbox.read(SUMMARY);
    assert!(summary.len() <= MIB);
    let end = summary.trim_start_matches('x');
    assert!(
        end.starts_with("# `true`: No failure seen\n\n- 0 of 1 trial failed"),
        "{end}"
    );
    sandbox.write(SUMMARY, &"x".repeat(MIB - 10));
    let output = run_on_github(&sandbox, &run);
    assert_eq!(output.code, Some(0), "{output}");
    assert_eq!(size(), (MIB - 10) as u64);
    let warning = "warning: no summary of the step: the summary of this step has reached its maximum size of 1 MiB";
    assert!(output.stderr.contains(warning), "{output}");
}

#[test]
fn a_pipe_in_the_place_of_the_summary_does_not_block() {
    let sandbox = Sandbox::new();
    let pipe = sandbox.path(SUMMARY);
    assert!(
        Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .unwrap()
            .success()
    );
    let output = run_on_github(&sandbox, &["run", "-q", "-n", "1", "--", "true"]);
    assert_eq!(output.code, Some(0), "{output}");
    assert!(output.stderr.contains("is not a file"), "{output}");
}

#[test]
fn gitlab_gets_a_hint_unless_the_run_writes_junit() {
    let sandbox = Sandbox::new();
    let stderr = |args: &[&str]| {
        let mut command = sandbox.command(args);
        command.env("GITLAB_CI", "true");
        CommandOutput::from(limited::output(&mut command).unwrap()).stderr
    };
    let hint = "`artifacts:reports:junit`";
    let trials = ["-n", "1", "--progress=none", "--", "true"];
    assert!(stderr(&[&["run"], &trials[..]].concat()).contains(hint));
    assert!(!stderr(&[&["run", "--junit=a.xml"], &trials[..]].concat()).contains(hint));
}

/// Returns the complaints of a program about a file.
fn complaints(program: &str, args: &[&str], file: &Path) -> String {
    let output = limited::output(Command::new(program).args(args).arg(file)).unwrap();
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    if output.status.success() {
        text
    } else {
        format!("{}: {text}", output.status)
    }
}

#[test]
fn each_command_has_a_manual_page() {
    let sandbox = Sandbox::new();
    let output = sandbox.provoke(&["man", "--out", "man"]);
    assert_eq!(output.code, Some(0), "{output}");
    let commands = sandbox.provoke(&["--help"]).stdout;
    let (_, list) = commands.split_once("Commands:\n").unwrap();
    let names: Vec<&str> = list
        .lines()
        .take_while(|line| !line.is_empty())
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .collect();
    assert!(names.contains(&"run") && names.len() > 15, "{commands}");
    for name in &names {
        let page = sandbox.read(&format!("man/provoke-{name}.1"));
        assert!(page.contains(&format!("provoke\\-{name}")), "{name}");
        for heading in [".SH EXAMPLES", ".TH provoke-"] {
            assert!(page.contains(heading), "{name}: {page}");
        }
        assert_eq!(sandbox.provoke(&["man", name]).stdout, page);
    }
    // Flags that only the long help lists are described, too.
    let run_page = sandbox.read("man/provoke-run.1");
    assert!(run_page.contains("Write JSON Lines, one line per trial"));
    let page = sandbox.read("man/provoke.1");
    assert_eq!(sandbox.provoke(&["man"]).stdout, page);
    let files = fs::read_dir(sandbox.path("man")).unwrap().count();
    assert_eq!(files, names.len() + 1);
    let unknown = sandbox.provoke(&["man", "runs"]);
    insta::assert_snapshot!(unknown, @"
    ------- stderr -------
    error: there is no command `runs`

    hint: `provoke --help` lists the commands
    [exit status: Some(2)]
    ");
}

#[test]
fn mandoc_accepts_each_manual_page() {
    needs!(program("mandoc"));
    let sandbox = Sandbox::new();
    sandbox.provoke(&["man", "--out", "man"]);
    for file in fs::read_dir(sandbox.path("man")).unwrap() {
        let lint = Command::new("mandoc")
            .args(["-T", "lint", "-W", "warning"])
            .arg(file.unwrap().path())
            .output()
            .unwrap();
        // A page without a date is equal in all builds; an additional line break does no harm.
        let is_harmless = |line: &&str| {
            line.contains("missing date") || line.contains("skipping paragraph macro")
        };
        let text = String::from_utf8_lossy(&lint.stdout).into_owned();
        let warnings: Vec<&str> = text.lines().filter(|line| !is_harmless(line)).collect();
        assert_eq!(warnings, [""; 0]);
    }
}

#[test]
fn shells_accept_the_completions() {
    needs!(program("bash"), program("zsh"), program("fish"));
    let sandbox = Sandbox::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = sandbox.provoke(&["completions", shell]).stdout;
        assert!(script.contains("confirm"), "{shell}");
        let file = sandbox.write(shell, &script);
        assert_eq!(complaints(shell, &["-n"], &file), "");
    }
}

#[test]
fn a_comparison_of_two_runs_is_annotated() {
    let sandbox = Sandbox::new();
    let run = |name: &str, command: &str| {
        sandbox.provoke(&["run", "-q", "-n", "20", "--out", name, "--", command]);
    };
    run("before", "true");
    run("after", "false");
    let diff = run_on_github(&sandbox, &["diff", "--worse", "before", "after"]);
    let annotation = annotations(&diff);
    assert_eq!((diff.code, annotation.len()), (Some(1), 1), "{diff}");
    assert!(
        annotation[0].starts_with("::error title=Failure rates::"),
        "{diff}"
    );
    let summary = fs::read_to_string(sandbox.path(SUMMARY)).unwrap();
    assert!(
        summary.starts_with("**B fails significantly more often than A"),
        "{summary}"
    );
    let same = run_on_github(&sandbox, &["diff", "--worse", "after", "after"]);
    assert!(annotations(&same)[0].starts_with("::notice "), "{same}");
}

#[test]
fn a_comparison_finds_a_failure_that_replaces_another_one() {
    let sandbox = Sandbox::new();
    let run = |name: &str, often: &str, rarely: &str| {
        let script = format!(
            "[ $((PROVOKE_TRIAL % 3)) = 0 ] && exit {often}; [ $((PROVOKE_TRIAL % 7)) = 1 ] && exit {rarely}; exit 0"
        );
        let run = ["run", "-q", "-n", "70", "--out", name, "--shell", &script];
        assert_eq!(sandbox.provoke(&run).code, Some(1));
    };
    run("before", "3", "4");
    run("after", "4", "3");
    let diff = sandbox.provoke(&["diff", "--worse", "before", "after"]);
    assert_eq!(diff.code, Some(1), "{diff}");
    let sentence = "B fails significantly more often than A with exit 4 (p = ";
    assert!(diff.stdout.starts_with(sentence), "{diff}");
    assert!(
        diff.stdout.contains("All failures together do not differ"),
        "{diff}"
    );
}
