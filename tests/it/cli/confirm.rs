//! Tests `confirm`, from a baseline to the answer and its exit code.

use super::support::{CommandOutput, PROVOKE, Sandbox, wait_until, words};
use crate::needs::{needs, program};
use regex::Regex;
use rustix::fs::inotify;
use rustix::process::Signal;
use serde_json::{Value, json};
use std::fs;
use std::mem::MaybeUninit;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Command;

impl Sandbox {
    /// Confirms a fix; returns the report.
    fn confirm(&self, args: &[&str]) -> (Value, CommandOutput) {
        self.run_with_report("confirm", args)
    }
}

/// Returns the verdict, exit code, clean trials, and required clean trials of a confirmation.
fn summarize((report, output): &(Value, CommandOutput)) -> (&str, i32, u64, u64) {
    let answer = &report["answer"]["confirm"];
    (
        report["verdict"].as_str().unwrap(),
        output.code.unwrap(),
        answer["clean"].as_u64().unwrap(),
        answer["clean_needed"].as_u64().unwrap(),
    )
}

fn confirm_true(args: &[&str]) -> (Value, CommandOutput) {
    Sandbox::new().confirm(&[args, &["--", "true"]].concat())
}

/// Returns a command that fails in every trial whose number is divisible by `number`.
fn fail_every(number: u32) -> String {
    format!("[ $((PROVOKE_TRIAL % {number})) != 0 ]")
}

#[test]
fn a_fix_takes_the_clean_trials_that_its_baseline_requires() {
    for (args, clean) in [
        (&["--baseline", "3/30", "--exclude-half=false"][..], 50),
        (
            &["--baseline", "3/30", "--exclude-half=false", "-j", "4"],
            50,
        ),
        (&["--baseline", "3/30", "--exclude-half"], 103),
        // It takes less than a minute.
        (&["--baseline", "3/30"], 103),
        (&["--baseline", "3/30", "--conf", "99"], 218),
        (&["--assume-rate", "10%", "--exclude-half=false"], 29),
        (&["--assume-rate", "10%"], 59),
        (&["--baseline", "1/1", "--exclude-half=false"], 19),
    ] {
        let result = confirm_true(args);
        assert_eq!(summarize(&result), ("fixed", 0, clean, clean), "{args:?}");
        let variant = &result.0["variants"][0];
        assert_eq!(variant["trials"], clean, "{args:?}");
        assert!(result.1.stdout.contains("FIXED (9"), "{}", result.1);
    }
    let (report, output) = confirm_true(&["--assume-rate", "10%"]);
    assert_eq!(report["answer"]["confirm"]["assumed_rate"], 0.1);
    assert!(
        output
            .stdout
            .contains("assumes: the failure rate before the fix"),
        "{output}"
    );
}

#[test]
fn confirm_with_too_few_clean_trials_reports_the_missing_trials() {
    let result = confirm_true(&["--baseline", "3/30", "-n", "30"]);
    assert_eq!(summarize(&result), ("undecided", 3, 30, 50));
    assert_eq!(result.0["answer"]["confirm"]["clean_missing"], 20);
    let wanted = "NOT YET: 30 passing trials, 20 more needed";
    assert!(result.1.stdout.contains(wanted), "{}", result.1);
    let output =
        Sandbox::new().provoke(&["confirm", "--baseline", "3/30", "-n", "30", "--", "true"]);
    assert!(
        output
            .stderr
            .contains("-n allows at most 30 trials: too few for FIXED"),
        "{output}"
    );
}

#[test]
fn run_without_failures_reports_an_upper_bound_of_the_rate() {
    let output = Sandbox::new().provoke(&["run", "--progress=none", "-n", "427", "--", "true"]);
    assert!(
        output
            .stdout
            .contains("0 of 427 trials failed: rate below 0.87 % (95 % interval)"),
        "{output}"
    );
}

#[test]
fn confirm_ends_at_the_first_failure() {
    let sandbox = Sandbox::new();
    let victim = ["--", PROVOKE, "victim", "exit", "--fail-on", "7-99"];
    for jobs in ["1", "3"] {
        let result = sandbox.confirm(&[&["--baseline", "3/30", "-j", jobs], &victim[..]].concat());
        assert_eq!(summarize(&result), ("not_fixed", 1, 6, 50));
        assert_eq!(result.0["variants"][0]["failing_trials"], json!([7]));
        assert_eq!(result.0["answer"]["confirm"]["rate_below"], Value::Null);
        let wanted = "NOT FIXED: trial #7 failed after 6 passing trials";
        assert!(result.1.stdout.contains(wanted), "{}", result.1);
    }
}

#[test]
fn confirm_prints_the_answer_and_the_assumptions_of_a_fix() {
    let output = Sandbox::new().provoke(&["confirm", "--baseline", "1/10", "--", "true"]);
    insta::assert_snapshot!(output, @"
    FIXED (95 %): 390 passing trials; before, 1 of 10 failed. Even at half that rate, this many passes would occur by chance in at most 1 of 20 cases

      assumes: the trials of the baseline were independent (requests to one server are not) and ran under the same conditions
      assumes: the bug does not come and go by itself, for example from hour to hour

    saved in   provoke-out/RUN
    ------- stderr -------
      1 of 10 failed; PROBABLY FIXED needs 190 passing trials, FIXED 390; the first failure means NOT FIXED
      cheaper: first run about 20 more trials of the unfixed program, until it has 3 failures; this check then needs about 140 trials less
    [exit status: Some(0)]
    ");
}

#[test]
fn confirm_names_the_failing_variant_of_a_comparison() {
    let sandbox = Sandbox::new();
    let compare = ["compare", "-L", "code=0,1", "-n", "12", "--progress=none"];
    sandbox.provoke(&[&compare[..], &["--", "sh", "-c", "exit {code}"]].concat());
    let output = sandbox.provoke(&["confirm", "--", "true"]);
    assert_eq!(output.code, Some(2), "{output}");
    let asked = "error: only runs of several variants have failures; which variant shows the bug?";
    assert!(output.stderr.contains(asked), "{output}");
    let flags = output
        .stderr
        .lines()
        .find(|line| line.contains(" --of "))
        .unwrap();
    assert!(flags.ends_with("trials failed: sh -c 'exit 1'"), "{output}");
    let (flags, _) = flags.split_once('#').unwrap();
    let words = flags.split_whitespace();
    let flags: Vec<&str> = words.map(|word| word.trim_matches('\'')).collect();
    let confirmed = sandbox.provoke(&[&["confirm"], &*flags, &["--", "true"]].concat());
    assert_eq!(confirmed.code, Some(0), "{confirmed}");
}

#[test]
fn confirm_refuses_missing_and_invalid_baselines() {
    let output_of = |args: &[&str]| {
        let all = [&["confirm"], args, &["--", "true"]].concat();
        Sandbox::new().provoke(&all)
    };
    insta::assert_snapshot!(output_of(&["--baseline", "0/30"]), @"
    ------- stderr -------
    error: none of the 30 trials of the baseline failed

    hint: name a run with failures (`provoke list` shows them); without --baseline, the newest one counts
    [exit status: Some(2)]
    ");
    insta::assert_snapshot!(output_of(&[]), @"
    ------- stderr -------
    error: there is no baseline: no stored run has failures

    hint: measure it first: provoke run --max-fail 3 -- CMD; or give counts: --baseline 3/30 (3 failures in 30 trials)
    [exit status: Some(2)]
    ");
    insta::assert_snapshot!(output_of(&["--baseline", "30/3"]), @"
    ------- stderr -------
    error: `30/3` is not FAILURES/TRIALS

    hint: write it as 3/30: 3 failures in 30 trials
    [exit status: Some(2)]
    ");
    insta::assert_snapshot!(output_of(&["--baseline", "nowhere"]), @"
    ------- stderr -------
    error: cannot read the baseline: there is no run `nowhere` in `provoke-out`

    hint: measure it first: provoke run --max-fail 3 -- CMD; or give counts: --baseline 3/30 (3 failures in 30 trials)
    [exit status: Some(2)]
    ");
    insta::assert_snapshot!(output_of(&["--baseline", "3/30", "--assume-rate", "1%"]), @"
    ------- stderr -------
    error: `baseline` and `assume-rate` are both given

    hint: give one of the two; a measured baseline is better
    [exit status: Some(2)]
    ");
    insta::assert_snapshot!(output_of(&["--baseline", "3/30", "--max-fail", "3"]), @"
    ------- stderr -------
    error: `confirm` decides itself when to stop, so `max-fail` has no effect

    hint: leave `max-fail` out; limit the run with `runs` or `duration`
    [exit status: Some(2)]
    ");
    insta::assert_snapshot!(output_of(&["--baseline", "3/30", "-L", "A=1,2"]), @"
    ------- stderr -------
    error: `confirm` checks one variant, and there are 2

    hint: leave the variants out (`A=2`, ...), or use `provoke compare`
    [exit status: Some(2)]
    ");
}

#[test]
fn confirm_replaces_inconclusive_trials() {
    let line = "case $PROVOKE_TRIAL in *5) exit 125;; esac";
    let result = Sandbox::new().confirm(&["--baseline", "3/30", "--shell", line]);
    assert_eq!(summarize(&result), ("fixed", 0, 103, 103));
    let variant = &result.0["variants"][0];
    assert_eq!([&variant["trials"], &variant["void"]], [103, 11]);
}

#[test]
fn confirm_reports_could_not_test_if_all_trials_are_inconclusive() {
    let (report, output) = Sandbox::new().confirm(&["--baseline", "3/30", "--shell", "exit 125"]);
    assert_eq!(
        (report["verdict"].as_str(), output.code),
        (Some("could_not_test"), Some(125)),
        "{output}"
    );
}

/// Logs its directory and variables; fails unless `MODE` is `fixed`.
const WHERE: &str = "echo $PWD $FOO ${GONE-unset} >> $LOG; [ \"$MODE\" = fixed ] || [ $((PROVOKE_TRIAL % 3)) != 0 ]";

/// Measures a baseline of 3/9 in its own directory, with many settings that are not the default.
fn baseline(sandbox: &Sandbox) -> Value {
    std::fs::create_dir(sandbox.path("in")).unwrap();
    let log = format!("LOG={}", sandbox.path("log").display());
    let (report, _) = sandbox.report(&[
        "--max-fail",
        "3",
        "-t",
        "77s",
        "-j",
        "2",
        "--cwd",
        "in",
        "-e",
        "FOO=bar",
        "-e",
        "GONE",
        "-e",
        &log,
        "--prepare",
        "echo prepared >> ../prepared",
        "--",
        "sh",
        "-c",
        WHERE,
    ]);
    assert_eq!(report["variants"][0]["failing_trials"], json!([3, 6, 9]));
    std::fs::remove_file(sandbox.path("log")).unwrap();
    std::fs::remove_file(sandbox.path("prepared")).unwrap();
    report
}

#[test]
fn confirm_takes_command_and_settings_from_the_baseline_run() {
    let sandbox = Sandbox::new();
    let before = baseline(&sandbox);
    let result = sandbox.confirm(&["--baseline", "last"]);
    assert_eq!(summarize(&result), ("not_fixed", 1, 2, 14), "{}", result.1);
    let (report, _) = &result;
    assert_eq!(
        report["variants"][0]["command"],
        before["variants"][0]["command"]
    );
    assert_eq!(
        report["answer"]["confirm"]["baseline"]["run"],
        before["run"]
    );
    let trials = &sandbox.events()[0]["run_started"]["plan"]["trials"];
    assert_eq!(trials["jobs"], 2);
    assert!(
        trials["settings"]["timeout"]
            .to_string()
            .contains("77000000"),
        "{trials}"
    );
    let inside = format!("{} bar unset", sandbox.path("in").display());
    assert!(sandbox.read("log").lines().all(|line| line == inside));
    assert!(sandbox.read("prepared").lines().count() >= 3);
}

#[test]
fn flags_override_the_settings_of_the_baseline() {
    let sandbox = Sandbox::new();
    let name = baseline(&sandbox)["run"].as_str().unwrap().to_owned();
    let accept = "--accept-different-conditions";
    let fixed = ["--baseline", &name, "-e", "MODE=fixed", "-j", "1", accept];
    let result = sandbox.confirm(&fixed);
    assert_eq!(summarize(&result), ("fixed", 0, 31, 31), "{}", result.1);
    let inside = format!("{} bar unset", sandbox.path("in").display());
    assert_eq!(sandbox.read("log"), format!("{inside}\n").repeat(31));
    assert_eq!(
        sandbox.events()[0]["run_started"]["plan"]["trials"]["jobs"],
        1
    );
    let load = "the failure rate does not depend on parallel trials: 2 in the baseline, 1 here";
    assert!(result.1.stdout.contains(load), "{}", result.1);
    let differences = &result.0["answer"]["confirm"]["differences"];
    assert_eq!(
        differences,
        &json!([{
            "what": "parallel trials",
            "baseline": "2",
            "here": "1",
            "can_change_rate": true,
        }])
    );
}

#[test]
fn a_command_line_replaces_the_command_of_the_baseline_and_runs_here() {
    let sandbox = Sandbox::new();
    baseline(&sandbox);
    let typed = ["--baseline", "last", "--", "sh", "-c", "pwd >> here"];
    let result = sandbox.confirm(&typed);
    assert_eq!(summarize(&result), ("fixed", 0, 31, 31), "{}", result.1);
    let here = sandbox.path("").canonicalize().unwrap();
    let line = format!("{}\n", here.display());
    assert_eq!(sandbox.read("here"), line.repeat(31));
    let trials = &sandbox.events()[0]["run_started"]["plan"]["trials"];
    assert_eq!(trials["jobs"], 2, "the rest is as it was");
}

#[test]
fn confirm_needs_a_variant_name_if_the_baseline_has_variants() {
    let sandbox = Sandbox::new();
    let line = format!("[ $M = a ] || {}", fail_every(3));
    // The order of the variants decides which of them fail.
    sandbox.report(&["--seed", "1", "-n", "12", "-L", "M=a,b", "--shell", &line]);
    let output = sandbox.provoke(&["confirm", "--baseline", "last"]);
    insta::assert_snapshot!(output, @"
    ------- stderr -------
    error: the run RUN has 2 variants

    hint: choose the variant with --of: `M=a`, `M=b`
    [exit status: Some(2)]
    ");
    let output = sandbox.provoke(&["confirm", "--baseline", "last", "--of", "M=c"]);
    insta::assert_snapshot!(output, @"
    ------- stderr -------
    error: the run RUN has no variant `M=c`

    hint: its variants: `M=a`, `M=b`
    [exit status: Some(2)]
    ");
    let result = sandbox.confirm(&["--baseline", "last", "--of", "M=b"]);
    assert_eq!(result.0["verdict"], "not_fixed", "{}", result.1);
    let base = &result.0["answer"]["confirm"]["baseline"];
    assert_eq!(base["trials"], 12);
    assert!(base["failures"].as_u64() > Some(0));
}

const CRASHES: &str = r#"
    #include <stdlib.h>
    __attribute__((noinline)) void convert(volatile int *p) { *p = 1; }
    __attribute__((noinline)) void forward(volatile int *p) { *p = 2; }
    int main(int count, char **words) {
        int n = atoi(getenv("PROVOKE_TRIAL"));
        if (BUG == 1 && n % 3 == 0) convert(0);
        if (BUG == 2 && n % 5 == 0) forward(0);
        return 0;
    }
"#;

fn compile(sandbox: &Sandbox, name: &str, flags: &[&str]) -> String {
    let file = sandbox.write(&format!("{name}.c"), CRASHES);
    let program = sandbox.path(name);
    let mut cc = Command::new("cc");
    cc.args(flags).args(["-g", "-w"]).arg(file);
    assert!(cc.arg("-o").arg(&program).status().unwrap().success());
    program.to_str().unwrap().to_owned()
}

#[test]
fn another_command_runs_here_and_hooks_run_in_the_directory_of_the_scenario() {
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.path("there")).unwrap();
    sandbox.write(
        "there/scene.toml",
        "command = ['false']\nsetup = 'pwd > setup.txt'\nruns = 3\n",
    );
    assert_eq!(
        sandbox
            .provoke(&["scenario", "there/scene.toml", "--progress=none"])
            .code,
        Some(1)
    );
    let confirm = [
        "confirm",
        "--progress=none",
        "--baseline",
        "last",
        "--",
        "sh",
        "-c",
        "pwd > trial.txt",
    ];
    std::fs::remove_file(sandbox.path("there/setup.txt")).unwrap();
    assert_eq!(sandbox.provoke(&confirm).code, Some(0));
    let whole = |name: &str| sandbox.path(name).canonicalize().unwrap();
    assert_eq!(
        sandbox.read("there/setup.txt").trim(),
        whole("there").to_str().unwrap()
    );
    assert_eq!(
        sandbox.read("trial.txt").trim(),
        whole("").to_str().unwrap()
    );
}

#[test]
fn failures_of_another_bug_do_not_count_for_or_against_a_fix() {
    let sandbox = Sandbox::new();
    for build in ["old", "new", "again"] {
        std::fs::create_dir(sandbox.path(build)).unwrap();
    }
    let before = compile(&sandbox, "old/tool", &["-O1", "-DBUG=1"]);
    let after = compile(&sandbox, "new/tool", &["-O1", "-DBUG=2"]);
    let (report, output) = sandbox.report(&["--max-fail", "3", "--capture", "on", "--", &before]);
    assert_eq!(
        report["variants"][0]["signatures"][0]["depth"], "stack",
        "{output}"
    );
    let name = report["run"].as_str().unwrap();

    // It has the same exit status, and no signature shows that it is another bug.
    let result = sandbox.confirm(&["--baseline", name, "--", &after]);
    assert_eq!(summarize(&result), ("undecided", 3, 4, 14), "{}", result.1);
    let id = report["variants"][0]["signatures"][0]["id"].as_str();
    let only = format!("sig:{}", id.unwrap());
    let wanted = format!("if that is another bug, exclude it with --only {only}");
    assert!(result.1.stdout.contains(&wanted), "{}", result.1);

    // The user says that it is another bug.
    let result = sandbox.confirm(&["--baseline", name, "--only", &only, "--", &after]);
    assert_eq!(summarize(&result), ("fixed", 0, 31, 31), "{}", result.1);
    assert_eq!(result.0["answer"]["confirm"]["other_failures"], 7);
    assert_eq!(result.0["variants"][0]["other"], 7);
    let wanted = "; it failed in another way in 7 of 38 trials: SIGSEGV";
    assert!(result.1.stdout.contains(wanted), "{}", result.1);

    // The user counts every failure, or names the kind of failure that is the bug.
    for any in [["--any-failure"].as_slice(), &["--only", "SIGSEGV"]] {
        let result = sandbox.confirm(&[&["--baseline", name], any, &["--", &after]].concat());
        assert_eq!(summarize(&result), ("not_fixed", 1, 4, 14), "{}", result.1);
    }

    // The bug keeps its signature in another build, also with another file name.
    let renamed = compile(&sandbox, "again/renamed", &["-O1", "-DBUG=1"]);
    let result = sandbox.confirm(&["--baseline", name, "--", &renamed]);
    assert_eq!(summarize(&result), ("not_fixed", 1, 2, 14), "{}", result.1);
    let rebuilt = compile(&sandbox, "again/tool", &["-O0", "-DBUG=1", "-static"]);
    let result = sandbox.confirm(&["--baseline", name, "--", &rebuilt]);
    assert_eq!(summarize(&result), ("not_fixed", 1, 2, 14), "{}", result.1);
}

#[test]
fn a_hang_elsewhere_in_the_program_counts_as_the_same_bug() {
    let sandbox = Sandbox::new();
    let looping = |place: &str| format!("[ $((PROVOKE_TRIAL % 2)) = 0 ] || {place}");
    let before = looping("while :; do sleep 0.01; done");
    let after = looping("read line < /dev/zero");
    let (report, _) = sandbox.report(&["--max-fail", "2", "-t", "200ms", "--shell", &before]);
    let name = report["run"].as_str().unwrap();
    let result = sandbox.confirm(&["--baseline", name, "--shell", &after]);
    assert_eq!(result.0["verdict"], "not_fixed", "{}", result.1);
}

#[test]
fn a_command_line_replaces_only_the_main_command() {
    let sandbox = Sandbox::new();
    // The prefix is kept.
    let chaos = r#"[ -z "$CHAOS" ] || [ $((PROVOKE_TRIAL % 3)) != 0 ]"#;
    let line = ["--", "sh", "-c", chaos];
    let wrapped = ["--wrap", "env CHAOS=1", "--max-fail", "3"];
    sandbox.report(&[&wrapped[..], &line].concat());
    let result = sandbox.confirm(&[&["--baseline", "last"], &line[..]].concat());
    assert_eq!(summarize(&result), ("not_fixed", 1, 2, 14), "{}", result.1);
    // Helpers keep theirs, too.
    sandbox.write(
        "two.toml",
        r#"
        tmp-per-run = true
        max-fail = 3
        [[actor]]
        name = "reader"
        command = ["sh", "-c", "until [ -e $PROVOKE_DIR/x ]; do :; done; exit 1"]
        [[actor]]
        name = "writer"
        role = "helper"
        command = ["sh", "-c", "touch $PROVOKE_DIR/x; exec sleep 100"]
        "#,
    );
    sandbox.provoke(&["scenario", "two.toml", "--progress=none"]);
    let waits = "until [ -e $PROVOKE_DIR/x ]; do :; done; exit 1";
    let result = sandbox.confirm(&["--baseline", "last", "--", "sh", "-c", waits]);
    assert_eq!(summarize(&result).0, "not_fixed", "{}", result.1);
}

#[test]
fn any_failure_overrides_the_filter_of_the_baseline() {
    let sandbox = Sandbox::new();
    let fails = |code: u32| format!("[ $((PROVOKE_TRIAL % 3)) != 0 ] || exit {code}");
    sandbox.report(&["-n", "9", "--only", "code:3", "--shell", &fails(3)]);
    let shell = fails(4);
    let asked = ["--baseline", "last", "--shell", &shell];
    let result = sandbox.confirm(&asked);
    assert_eq!(summarize(&result).0, "fixed", "{}", result.1);
    sandbox.report(&["-n", "9", "--only", "code:3", "--shell", &fails(3)]);
    let result = sandbox.confirm(&[&asked[..], &["--any-failure"]].concat());
    assert_eq!(summarize(&result).0, "not_fixed", "{}", result.1);
}

#[test]
fn a_stripped_build_with_other_offsets_is_not_called_fixed() {
    let sandbox = Sandbox::new();
    for build in ["old", "new"] {
        std::fs::create_dir(sandbox.path(build)).unwrap();
    }
    let before = compile(&sandbox, "old/tool", &["-O1", "-DBUG=1", "-s"]);
    let after = compile(&sandbox, "new/tool", &["-O0", "-DBUG=1", "-s"]);
    let (report, _) = sandbox.report(&["--max-fail", "3", "--capture", "on", "--", &before]);
    let seen = &report["variants"][0]["signatures"][0];
    assert_eq!(seen["depth"], "stack");
    assert!(
        seen["title"].as_str().unwrap().contains("tool+0x"),
        "{seen}"
    );
    let name = report["run"].as_str().unwrap();
    let result = sandbox.confirm(&["--baseline", name, "--", &after]);
    assert_eq!(summarize(&result), ("not_fixed", 1, 2, 14), "{}", result.1);
}

#[test]
fn a_failure_with_the_same_signal_counts_if_the_baseline_has_no_stacks() {
    let sandbox = Sandbox::new();
    let before = compile(&sandbox, "before", &["-O1", "-DBUG=1"]);
    let after = compile(&sandbox, "after", &["-O1", "-DBUG=2"]);
    let args = ["--max-fail", "3", "--capture", "off", "--", &before];
    let (report, _) = sandbox.report(&args);
    let name = report["run"].as_str().unwrap();
    for capture in ["on", "off"] {
        let args = ["--baseline", name, "--capture", capture, "--", &after];
        let result = sandbox.confirm(&args);
        assert_eq!(summarize(&result), ("not_fixed", 1, 4, 14), "{}", result.1);
    }
    // With another signal it is another bug.
    let line = fail_every(5) + " || kill -ABRT $$";
    let result = sandbox.confirm(&["--baseline", name, "--", "sh", "-c", &line]);
    assert_eq!(summarize(&result), ("fixed", 0, 31, 31), "{}", result.1);
    assert_eq!(result.0["answer"]["confirm"]["other_failures"], 7);
}

#[test]
fn an_interrupted_confirmation_is_resumed_to_the_same_answer() {
    for (fails, verdict) in [("40", "not_fixed"), ("400", "fixed")] {
        let sandbox = Sandbox::new();
        let line = format!(
            "echo $PROVOKE_TRIAL >> ran; [ $PROVOKE_TRIAL != 20 ] || while [ ! -e go ]; do sleep 0.01; done; [ $PROVOKE_TRIAL != {fails} ]"
        );
        let args = ["--baseline", "3/30", "--seed", "7", "--shell", &line];
        let running = sandbox.start(&[&["confirm", "-o", "cut"], &args[..]].concat());
        wait_until("#20 runs", || sandbox.read("ran").contains("20\n"));
        running.signal(Signal::INT);
        let output = running.end();
        assert_eq!(output.code, Some(130), "{output}");
        assert!(
            output.stdout.contains("NOT YET: 19 passing trials"),
            "{output}"
        );
        sandbox.write("go", "");
        let resumed = sandbox.provoke(&words(
            "resume cut --progress=none --export-json resumed.json",
        ));
        let resumed_report: Value = serde_json::from_str(&sandbox.read("resumed.json")).unwrap();
        let whole = sandbox.confirm(&args);
        assert_eq!(whole.0["verdict"], verdict);
        assert_eq!(resumed_report["answer"], whole.0["answer"]);
        assert_eq!(resumed_report["verdict"], whole.0["verdict"]);
        assert_eq!(resumed.code, whole.1.code);
        assert_eq!(
            resumed_report["variants"][0]["failing_trials"],
            whole.0["variants"][0]["failing_trials"]
        );
    }
}

#[test]
fn every_report_format_contains_the_answer_of_confirm() {
    let sandbox = Sandbox::new();
    let victim = ["--", PROVOKE, "victim", "exit", "--fail-on", "3"];
    for (args, verdict, word) in [
        (
            &["--", "true"][..],
            "fixed",
            "FIXED (95 %): 27 passing trials; before, 3 of 8 failed",
        ),
        (
            &victim[..],
            "not_fixed",
            "NOT FIXED: trial #3 failed after 2 passing trials",
        ),
    ] {
        sandbox.confirm(&[&["--baseline", "3/8"], args].concat());
        let report = |format: &str| sandbox.provoke(&["report", "last", format]).stdout;
        let json: Value = serde_json::from_str(&report("--json")).unwrap();
        assert_eq!(json["verdict"], verdict);
        for format in ["--json", "--junit", "--md"] {
            // In Markdown, `#3` would be a link.
            let output = report(format).replace("&#8203;", "");
            assert!(output.contains(word), "{format}: {output}");
        }
        assert_eq!(
            report("--csv").lines().count(),
            if verdict == "fixed" { 28 } else { 4 }
        );
        let reported = sandbox.provoke(&["report", "last"]);
        assert!(reported.stdout.contains(word), "{reported}");
    }
}

#[test]
fn a_scenario_file_can_ask_confirm() {
    let sandbox = Sandbox::new();
    sandbox.write(
        "fix.toml",
        "ask = 'confirm'\nbaseline = '3/8'\nexclude-half = true\ncommand = ['true']\n",
    );
    let output = sandbox.provoke(&["scenario", "fix.toml", "--progress=none"]);
    assert_eq!(output.code, Some(0), "{output}");
    assert!(
        output
            .stdout
            .contains("passing trials; before, 3 of 8 failed. Even at half that rate"),
        "{output}"
    );
    let result = sandbox.confirm(&["--file", "fix.toml", "--baseline", "3/30", "--", "false"]);
    assert_eq!(summarize(&result), ("not_fixed", 1, 0, 103), "{}", result.1);

    sandbox.write(
        "wrong.toml",
        "ask = 'confirm'\nbaseline = '3/8'\nmax-fail = 3\ncommand = ['true']\n",
    );
    insta::assert_snapshot!(sandbox.provoke(&["scenario", "wrong.toml"]), @"
    ------- stderr -------
    error: `confirm` decides itself when to stop, so `max-fail` has no effect
     --> wrong.toml:3:12
      |
    3 | max-fail = 3
      |            ^
      |
      = help: leave `max-fail` out; limit the run with `runs` or `duration`
    [exit status: Some(2)]
    ");
    sandbox.write("wrong.toml", "ask = 'confirm'\ncommand = ['true']\n");
    insta::assert_snapshot!(sandbox.provoke(&["scenario", "wrong.toml"]), @"
    ------- stderr -------
    error: there is no baseline: no stored run has failures
     --> wrong.toml:1:1
      |
    1 | ask = 'confirm'
      | ^
      |
      = help: measure it first: provoke run --max-fail 3 -- CMD; or give counts: --baseline 3/30 (3 failures in 30 trials)
    [exit status: Some(2)]
    ");
    sandbox.write("wrong.toml", "baseline = '3/8'\ncommand = ['true']\n");
    insta::assert_snapshot!(sandbox.provoke(&["scenario", "wrong.toml"]), @"
    ------- stderr -------
    error: `run` does not use a baseline
     --> wrong.toml:1:12
      |
    1 | baseline = '3/8'
      |            ^^^^^
      |
      = help: use `provoke confirm` to check a fix, or `provoke compare`
    [exit status: Some(2)]
    ");
}

/// Runs git in the repository of a sandbox.
fn git(sandbox: &Sandbox, args: &[&str]) -> CommandOutput {
    let author = words("-c user.name=a -c user.email=a@b -c init.defaultBranch=main");
    let mut git = sandbox.program_command("git", &[&author, args].concat());
    git.current_dir(sandbox.path("repo"));
    git.env("GIT_CONFIG_GLOBAL", "/dev/null");
    git.env("PROVOKE_HOME", sandbox.path("home"));
    let output: CommandOutput = git.output().unwrap().into();
    assert_eq!(output.code, Some(0), "git {args:?}: {output}");
    output
}

#[test]
fn git_bisect_run_works_with_confirm() {
    const CULPRIT: u32 = 11;
    needs!(program("git"));
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.path("repo")).unwrap();
    git(&sandbox, &["init", "-q"]);
    let mut commits = vec![String::new()];
    for number in 1..=16 {
        // The middle commit cannot be built.
        let does = match number {
            8 => "exit 125".to_owned(),
            CULPRIT.. => fail_every(3),
            _ => "exit 0".to_owned(),
        };
        sandbox.write("repo/test.sh", &format!("# {number}\n{does}\n"));
        git(&sandbox, &["add", "test.sh"]);
        git(
            &sandbox,
            &["commit", "-q", "-m", &format!("commit {number}")],
        );
        let output = git(&sandbox, &["rev-parse", "HEAD"]);
        commits.push(output.stdout.trim().to_owned());
    }
    git(&sandbox, &["bisect", "start", "HEAD", &commits[1]]);
    let output = git(
        &sandbox,
        &[
            "bisect",
            "run",
            PROVOKE,
            "confirm",
            "--progress=none",
            "--baseline",
            "3/9",
            "--",
            "sh",
            "test.sh",
        ],
    );
    let found = format!("{} is the first bad commit", commits[CULPRIT as usize]);
    assert!(output.stdout.contains(&found), "{output}");
    let log = git(&sandbox, &["bisect", "log"]);
    let skipped = format!("git bisect skip {}", commits[8]);
    assert!(log.stdout.contains(&skipped), "{log}");
}

#[test]
fn confirm_refuses_conditions_that_differ_from_the_baseline() {
    let sandbox = Sandbox::new();
    let before = words("run --progress=none -n 20 -o before --capture off");
    let rest = [
        "--rlimit",
        "nofile=512",
        "--",
        PROVOKE,
        "victim",
        "exit",
        "--fail-on",
        "1,4,5,8,11,13,16,18",
    ];
    sandbox.provoke(&[&before[..], &rest].concat());
    let confirm = ["confirm", "--baseline", "before", "--progress=none"];
    let others = ["--rlimit", "nofile=256", "--wrap", "env", "--", "true"];
    let output = sandbox.provoke(&[&confirm[..], &others].concat());
    insta::assert_snapshot!(output, @"
    ------- stderr -------
      baseline: run before
        provoke victim exit --fail-on '1,4,5,8,11,13,16,18'
    error: cannot compare with the baseline: its conditions differ, which may change the failure rate
      caused by: resource limits: nofile=512 in the baseline, nofile=256 here
        command prefix: none in the baseline, `env` here

    hint: confirm under the conditions of the baseline, or measure a baseline under these conditions; if the differences cannot change the failure rate, add --accept-different-conditions
    [exit status: Some(3)]
    ");
    let kept = sandbox.provoke(&["list"]).stdout;
    assert!(!kept.contains("true"), "nothing was run: {kept}");
    let accept = ["--accept-different-conditions"];
    let output = sandbox.provoke(&[&confirm[..], &accept, &others].concat());
    assert_eq!(output.code, Some(0), "{output}");
    for line in [
        "the failure rate does not depend on resource limits: nofile=512 in the baseline, nofile=256 here",
        "the failure rate does not depend on command prefix: none in the baseline, `env` here",
    ] {
        assert!(output.stdout.contains(line), "{output}");
    }
    let output = sandbox.provoke(&[&confirm[..], &["--", "true"]].concat());
    assert!(!output.stdout.contains("does not depend on"), "{output}");
    let traced = sandbox.provoke(&[&confirm[..], &["--capture", "trace", "--", "true"]].concat());
    assert_eq!(traced.code, Some(3), "{traced}");
    assert!(
        traced
            .stderr
            .contains("tracer: none in the baseline, attached here"),
        "{traced}"
    );
}

#[test]
fn confirm_uses_the_tracer_of_the_baseline() {
    let sandbox = Sandbox::new();
    let before = words("run --progress=none -n 3 -o before --capture trace");
    sandbox.provoke(&[&before[..], &["--", "false"]].concat());
    let confirm = words("--progress=none --export-json report.json --baseline before");
    let output = sandbox.provoke(&[&["confirm"], &confirm[..], &["--", "true"]].concat());
    assert_eq!(output.code, Some(0), "{output}");
    let report: Value = serde_json::from_str(&sandbox.read("report.json")).unwrap();
    assert_eq!(report["capture"], "trace");
    let off = ["--capture", "off", "--", "true"];
    let output = sandbox.provoke(&[&["confirm"], &confirm[..], &off].concat());
    assert!(
        output
            .stderr
            .contains("tracer: attached in the baseline, none here"),
        "{output}"
    );
}

/// Runs a victim that fails in these trials, for a baseline called `before`.
fn failing_in(sandbox: &Sandbox, trials: &str, stop: &[&str]) -> CommandOutput {
    let begin = ["run", "--progress=none", "-o", "before"];
    let victim = ["--", PROVOKE, "victim", "exit", "--fail-on", trials];
    sandbox.provoke(&[&begin[..], stop, &victim].concat())
}

/// Removes a line that depends on the speed of the machine: whether thousands of trials take little time.
fn without_cost(output: &CommandOutput) -> String {
    let cost = Regex::new(r"# \d+ passing trials.*").unwrap();
    cost.replace(&output.to_string(), "# N passing trials")
        .into_owned()
}

#[test]
fn failures_in_one_clump_count_as_one_failure() {
    let sandbox = Sandbox::new();
    let output = failing_in(&sandbox, "121-130", &["-n", "200"]);
    insta::assert_snapshot!(without_cost(&output), @"
    exit 1 in 10 of 200 trials: 5 % (95 % interval 0.1 to 25 %)

      10x   exit 1: the program reported failure
            trials 121-130
            last line of stderr: victim: about to exit with code 1
      median time: pass TIME, failure TIME

      note: 10 failures came in 1 clump (p < 0.001), so one cause may have hit several trials: the interval and `confirm` count each clump as one failure; if a second run has none, use `confirm --independent`

    is it fixed?       provoke confirm --baseline before   # N passing trials
    repeat one trial   provoke replay before#121
    saved in           before
    ------- stderr -------
      #121   exit 1   TIME  victim: about to exit with code 1
      #122   exit 1   TIME  victim: about to exit with code 1
      #123   exit 1   TIME  victim: about to exit with code 1
      ...    exit 1: further trials are counted, but not listed
    [exit status: Some(1)]
    ");
    let output = sandbox.provoke(&["confirm", "--baseline", "before", "-n", "3", "--", "true"]);
    assert_eq!(output.code, Some(3), "{output}");
    let clump = "10 failures of the baseline came in 1 clump: each clump counts as one failure";
    assert!(output.stderr.contains(clump), "{output}");
    assert!(!output.stdout.contains(clump), "{output}");
    for line in [
        "NOT YET: 3 passing trials, 3797 more needed",
        "an interleaved comparison excludes that: provoke compare --find different -L 'PROGRAM=OLD,true' -- '{PROGRAM}'",
        "clumps of failures are as large and as frequent as in the baseline, with 10 failures in 1 clump",
        "if failures do not come in clumps, ",
    ] {
        assert!(output.stdout.contains(line), "{line}: {output}");
    }
    let (report, output) =
        sandbox.confirm(&["--baseline", "before", "--independent", "--", "true"]);
    assert_eq!(output.code, Some(0), "{output}");
    let answer = &report["answer"]["confirm"];
    assert_eq!(answer["clean_if_independent"], Value::Null);
    let assumed = "failures are independent, and came in clumps by chance in the baseline, with 10 failures in 1 clump";
    assert!(
        answer["assumptions"]
            .as_array()
            .unwrap()
            .contains(&json!(assumed)),
        "{answer}"
    );
}

#[test]
fn confirm_says_that_the_program_was_not_rebuilt() {
    let sandbox = Sandbox::new();
    std::fs::copy(PROVOKE, sandbox.path("program")).unwrap();
    std::fs::write(sandbox.path("source.c"), "bug").unwrap();
    let program = ["--", "./program", "victim", "exit", "--fail-on", "3"];
    sandbox.provoke(&[&["run", "-q", "-n", "10", "-o", "before"], &program[..]].concat());
    std::fs::write(sandbox.path("source.c"), "fix").unwrap();
    let line = "the program is the same as in the baseline, although `source.c` changed: was it rebuilt after the fix?";
    let output = sandbox.provoke(&["confirm", "--baseline", "before", "-n", "4"]);
    assert!(output.stderr.contains(line), "{output}");
    assert!(output.stdout.contains(line), "{output}");
    std::fs::write(sandbox.path("program"), "#!/bin/sh\n").unwrap();
    let output = sandbox.provoke(&["confirm", "--baseline", "before", "-n", "4"]);
    assert!(
        !output.stderr.contains("the program is the same"),
        "{output}"
    );
}

#[test]
fn three_failures_just_before_the_end_count_as_one_failure() {
    let sandbox = Sandbox::new();
    let output = failing_in(&sandbox, "178-180", &["--max-fail", "3"]);
    insta::assert_snapshot!(without_cost(&output), @"
    exit 1 in 3 of 180 trials: 1.7 % (95 % interval 0.04 to 9 %)

      3x    exit 1: the program reported failure
            trials 178-180
            last line of stderr: victim: about to exit with code 1
      median time: pass TIME, failure TIME

      note: 3 failures came in 1 clump (p < 0.001), so one cause may have hit several trials: the interval and `confirm` count each clump as one failure; if a second run has none, use `confirm --independent`

    is it fixed?       provoke confirm --baseline before   # N passing trials
    repeat one trial   provoke replay before#178
    saved in           before
    ------- stderr -------
      at most 10 minutes (-n and -d change this)
      #178   exit 1   TIME  victim: about to exit with code 1
      #179   exit 1   TIME  victim: about to exit with code 1
      #180   exit 1   TIME  victim: about to exit with code 1
    [exit status: Some(1)]
    ");
}

#[test]
fn confirm_uses_the_half_with_fewer_failures_if_the_rate_changed() {
    let sandbox = Sandbox::new();
    let output = failing_in(
        &sandbox,
        "1,7,12,20,26,33,40,47,55,61,70,150,190",
        &["-n", "200"],
    );
    insta::assert_snapshot!(output, @"
    exit 1 in 13 of 200 trials: 6.5 % (95 % interval 3.5 to 10.9 %)

      13x   exit 1: the program reported failure
            trials 1, 7, 12, 20, 26, 33, 40, 47, 55, 61, 70, 150, 190
            last line of stderr: victim: about to exit with code 1
      median time: pass TIME, failure TIME

      note: the failure rate fell during the run (Laplace's trend test, p = 0.0043; possibly a warm-up): the rate above is an average, and `confirm` uses the half with fewer failures

    is it fixed?       provoke confirm --baseline before   # 696 passing trials, about TIME
    repeat one trial   provoke replay before#1
    saved in           before
    ------- stderr -------
      #1     exit 1   TIME  victim: about to exit with code 1
      #7     exit 1   TIME  victim: about to exit with code 1
      #12    exit 1   TIME  victim: about to exit with code 1
      ...    exit 1: further trials are counted, but not listed
    [exit status: Some(1)]
    ");
    let output = sandbox.provoke(&["confirm", "--baseline", "before", "-n", "3", "--", "true"]);
    assert_eq!(output.code, Some(3), "{output}");
    let drift = "the failure rate fell during the baseline (p = 0.0043): the fix is compared with its second half, 2 of 100";
    assert!(output.stderr.contains(drift), "{output}");
    assert!(!output.stdout.contains(drift), "{output}");
    for line in [
        "NOT YET: 3 passing trials, 343 more needed",
        "the failure rate is still at least that of the second half of the baseline, 2 of 100",
    ] {
        assert!(output.stdout.contains(line), "{line}: {output}");
    }
}

#[test]
fn a_baseline_with_a_changed_rate_and_a_clean_half_is_refused() {
    let sandbox = Sandbox::new();
    failing_in(&sandbox, "1,7,12,20,26,33,40,47,55,61,70", &["-n", "200"]);
    let output = sandbox.provoke(&["confirm", "--baseline", "before", "--", "true"]);
    insta::assert_snapshot!(output, @"
    ------- stderr -------
      baseline: run before
        provoke victim exit --fail-on '1,7,12,20,26,33,40,47,55,61,70'
    error: cannot use the baseline: its failure rate changed while it ran, and none of the 100 trials of its second half failed, so no number of passing trials shows a fix

    hint: measure the baseline again; or run the old and the new program in turns, so that a changing rate affects both: provoke compare --find different
    [exit status: Some(3)]
    ");
}

#[test]
fn confirm_counts_the_attempts_against_one_baseline() {
    let sandbox = Sandbox::new();
    failing_in(&sandbox, "3,9,14", &["--max-fail", "3"]);
    for attempt in 0..2 {
        let result = sandbox.confirm(&["--baseline", "before", "--", "false"]);
        assert_eq!(result.0["answer"]["confirm"]["earlier_attempts"], attempt);
        assert!(!result.1.stdout.contains("attempt"), "{}", result.1);
    }
    let output = sandbox.provoke(&["confirm", "--baseline", "before", "--", "true"]);
    insta::assert_snapshot!(output, @"
    FIXED (95 %): 49 passing trials; before, 3 of 14 failed. Even at half that rate, this many passes would occur by chance in at most 1 of 20 cases. This is check 3 against this baseline: the chance that one of them is a wrong FIXED is up to 15 %
      with --conf 98.34, that chance stays at 5 % for all 3 checks

      assumes: true is the fixed version of provoke
      assumes: the bug does not come and go by itself, for example from hour to hour
      assumes: the 3 failures of the baseline were independent of each other (too few to test this). If one event, such as a full disk, caused all of them, FIXED needs 564 passing trials

    saved in   provoke-out/RUN
    ------- stderr -------
      baseline: run before
        provoke victim exit --fail-on '3,9,14'
      3 of 14 failed; FIXED needs 49 passing trials, about TIME; the first failure means NOT FIXED
      the bug: exit 1, or another failure with the same exit status
    [exit status: Some(0)]
    ");
}

#[test]
fn confirm_without_a_baseline_uses_a_stored_run_with_failures() {
    let sandbox = Sandbox::new();
    let victim = [PROVOKE, "victim", "segv", "--fail-on"];
    let run = |name: &str, trials: &str, fail_on: &str| {
        let out = format!("provoke-out/{name}");
        let args = [
            &["run", "-o", &out, "-n", trials, "--"],
            &victim[..],
            &[fail_on],
        ]
        .concat();
        sandbox.provoke(&args)
    };
    run("20260101-000000-aaaa", "10", "2");
    run("20260102-000000-bbbb", "12", "1,2,3");
    run("20260103-000000-cccc", "3", "99");
    // Runs of several commands have failures, and none is a run of `true`.
    let refused = sandbox.provoke(&["confirm", "--", "true"]);
    assert_eq!(refused.code, Some(2), "{refused}");
    let list = "name the run before the fix:\n      --baseline bbbb   # 3 of 12 trials failed: ";
    assert!(refused.stderr.contains(list), "{refused}");
    assert!(refused.stderr.contains("--baseline aaaa"), "{refused}");
    assert!(!refused.stderr.contains("cccc"), "{refused}");
    sandbox.write("s.toml", "ask = 'confirm'\ncommand = ['true']\n");
    let refused = sandbox.provoke(&["scenario", "s.toml"]);
    let mut lines = refused.stderr.lines().map(str::trim_start);
    assert!(
        lines.any(|line| line.starts_with("--baseline bbbb")),
        "{refused}"
    );

    // The run of the same command is the baseline, although a newer run has failures.
    let confirm = [&["confirm", "-n", "2", "--"], &victim[..], &["2"]].concat();
    let output = sandbox.provoke(&confirm);
    let oldest = "  baseline: run 20260101-000000-aaaa";
    assert!(output.stderr.starts_with(oldest), "{output}");

    // If only one command failed, the fix may have another name.
    fs::remove_dir_all(sandbox.path("provoke-out/20260101-000000-aaaa")).unwrap();
    let confirm = sandbox.provoke(&["confirm", "--", "true"]);
    assert_eq!(confirm.code, Some(0), "{confirm}");
    let chosen = "  baseline: run 20260102-000000-bbbb (--baseline changes it)\n";
    assert!(
        confirm.stderr.starts_with(chosen),
        "{confirm:?}",
        confirm = confirm.stderr
    );
    let command = confirm.stderr.lines().nth(1).unwrap();
    assert!(
        command.ends_with("victim segv --fail-on '1,2,3'"),
        "{command}"
    );

    // Without a command, that of the baseline is used; a run of `confirm` is never the baseline.
    let output = sandbox.provoke(&["confirm", "-n", "3"]);
    assert!(output.stderr.starts_with(chosen), "{output}");
    assert_eq!(output.code, Some(1), "{output}");
    let output = sandbox.provoke(&["confirm", "-q", "--", "true"]);
    assert!(!output.stderr.contains("baseline: run"), "{output}");
    assert_eq!(output.code, Some(0), "{output}");
}

#[test]
fn runs_of_similar_commands_are_the_first_suggested_baselines() {
    let sandbox = Sandbox::new();
    for name in ["crash", "other"] {
        let program = sandbox.write(name, "#!/bin/sh\nexit 1\n");
        fs::set_permissions(program, fs::Permissions::from_mode(0o755)).unwrap();
        sandbox.provoke(&["run", "-n", "4", "--", &format!("./{name}")]);
    }
    let refused = sandbox.provoke(&["confirm", "--", "./crash_fixed"]);
    let wanted =
        "error: no `provoke run` of `./crash_fixed` has failures; which run shows the bug?";
    assert!(refused.stderr.contains(wanted), "{refused}");
    let mut listed = refused
        .stderr
        .lines()
        .filter(|line| line.contains("--baseline "));
    assert!(
        listed
            .next()
            .is_some_and(|line| line.ends_with(": ./crash")),
        "{refused}"
    );
    assert!(
        listed
            .next()
            .is_some_and(|line| line.ends_with(": ./other")),
        "{refused}"
    );
}

/// Returns how often each of these files is opened while a function runs.
fn count_openings(files: &[PathBuf], run: impl FnOnce()) -> Vec<usize> {
    let inotify = inotify::init(inotify::CreateFlags::NONBLOCK).unwrap();
    let watches = files
        .iter()
        .map(|file| inotify::add_watch(&inotify, file, inotify::WatchFlags::OPEN).unwrap());
    let watches: Vec<i32> = watches.collect();
    run();
    let mut counts = vec![0; files.len()];
    let mut buffer = [MaybeUninit::uninit(); 4096];
    let mut events = inotify::Reader::new(&inotify, &mut buffer);
    while let Ok(event) = events.next() {
        let file = watches.iter().position(|watch| *watch == event.wd());
        counts[file.unwrap()] += 1;
    }
    counts
}

#[test]
fn each_journal_is_read_as_often_however_many_runs_may_be_the_baseline() {
    let sandbox = Sandbox::new();
    let openings = |trials: &[&str]| {
        let mut journals = Vec::new();
        for name in trials {
            let out = format!("provoke-out/{name}");
            if !sandbox.path(&out).exists() {
                let command = ["sh", "-c", "exit 1", name];
                sandbox.provoke(&[&["run", "-o", &out, "-n", "1", "--"], &command[..]].concat());
            }
            journals.push(sandbox.path(&out).join("events.jsonl"));
        }
        let counts = count_openings(&journals, || {
            let refused = sandbox.provoke(&["confirm", "--", "true"]);
            assert_eq!(refused.code, Some(2), "{refused}");
        });
        counts.into_iter().max().unwrap()
    };
    let names: Vec<String> = ('a'..='l').map(|name| name.to_string()).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let of_six = openings(&names[..6]);
    assert!(of_six > 0);
    assert_eq!(openings(&names), of_six);
}

#[test]
fn an_insufficient_fix_is_compared_with_the_old_program() {
    let sandbox = Sandbox::new();
    sandbox.write("fail.sh", "exit 1\n");
    sandbox.provoke(&["run", "-n", "4", "--", "sh", "fail.sh"]);
    let output = sandbox.provoke(&["confirm", "--", "sh", "fail.sh"]);
    let command = "did it help?       provoke compare --find different -n 17 -L 'FILE=OLD,fail.sh' -- sh '{FILE}'";
    assert!(output.stdout.contains(command), "{output}");
}
