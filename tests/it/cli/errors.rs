//! Tests error messages about invalid input: the error, its position, and the hint.

use super::support::{CommandOutput, PROVOKE, Sandbox};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;

/// Returns the output of the program with these arguments.
fn output_of(args: &[&str]) -> CommandOutput {
    Sandbox::new().provoke(args)
}

#[test]
fn a_run_without_a_command_is_refused() {
    insta::assert_snapshot!(output_of(&["run", "-n", "3"]), @"
    ------- stderr -------
    error: there is no command to run

    hint: add the program and its arguments: -- ./program argument
    [exit status: Some(2)]
    ");
}

#[test]
fn a_program_that_does_not_exist_is_refused() {
    insta::assert_snapshot!(output_of(&["run", "-n", "3", "--", "no-such-program-anywhere"]), @"
    ------- stderr -------
    error: cannot run `no-such-program-anywhere`: there is no such program

    hint: is it installed, and is its directory in PATH?
    [exit status: Some(125)]
    ");
}

#[test]
fn a_report_in_a_directory_that_does_not_exist_is_refused_with_the_command_that_creates_it() {
    let sandbox = Sandbox::new();
    sandbox.provoke(&["run", "-n", "1", "--", "true"]);
    let output = sandbox.provoke(&["report", "last", "--md=no/dir/x.md"]);
    assert!(
        output
            .stderr
            .contains("create the directory: mkdir -p no/dir"),
        "{output}"
    );
}

#[test]
fn a_fixed_program_that_does_not_exist_has_no_baseline() {
    let sandbox = Sandbox::new();
    sandbox.provoke(&["run", "-n", "1", "--", "false"]);
    let output = sandbox.provoke(&["confirm", "--", "./other"]);
    assert!(output.stderr.contains("there is no such file"), "{output}");
    assert!(!output.stderr.contains("baseline"), "{output}");
}

#[test]
fn a_variant_without_its_program_is_reported_once() {
    let sandbox = Sandbox::new();
    let args = [
        "compare",
        "-L",
        "V=true,no-such-program",
        "-n",
        "2",
        "--",
        "{V}",
    ];
    let output = sandbox.provoke(&args);
    let text = format!("{}{}", output.stdout, output.stderr);
    let named = text.matches("cannot test the variant").count();
    assert_eq!(named, 1, "{output}");
}

#[test]
fn a_shell_line_as_a_program_is_refused_with_the_flag_shell() {
    insta::assert_snapshot!(output_of(&["run", "--", "echo hello"]), @"
    ------- stderr -------
    error: cannot run `echo hello`: there is no such program

    hint: to run a line of shell: provoke run --shell 'echo hello'
    [exit status: Some(125)]
    ");
}

#[test]
fn an_ambiguous_flag_is_refused_with_its_meanings() {
    insta::assert_snapshot!(output_of(&["run", "-p", "4", "--", "true"]), @"
    ------- stderr -------
    error: there is no flag `-p` here

    hint: did you mean `-j 4` (parallel trials) or `--prepare CMD` (before each trial)?
    [exit status: Some(2)]
    ");
}

#[test]
fn a_time_without_a_number_is_refused() {
    insta::assert_snapshot!(output_of(&["run", "-t", "soon", "--", "true"]), @"
    ------- stderr -------
    error: invalid value 'soon' for '--timeout <TIME>': `soon` is not a time such as `60s`, `1.5s`, `200ms`, `2m` or `1h 30m`, or `auto`

    hint: `provoke run --help` describes the arguments
    [exit status: Some(2)]
    ");
}

#[test]
fn an_unknown_resource_limit_is_refused() {
    insta::assert_snapshot!(output_of(&["run", "--rlimit", "memory=4G", "--", "true"]), @"
    ------- stderr -------
    error: invalid value 'memory=4G' for '--rlimit <NAME=N>': `memory` is not one of the limits as, core, cpu, data, fsize, memlock, nofile, nproc, rss, stack

    hint: `provoke run --help` describes the arguments
    [exit status: Some(2)]
    ");
}

#[test]
fn an_invalid_regular_expression_is_refused() {
    insta::assert_snapshot!(output_of(&["run", "--fail-if-out", "(", "--", "true"]), @"
    ------- stderr -------
    error: invalid value '(' for '--fail-if-out <REGEX>': `(` is not a regular expression: unclosed group

    hint: `provoke run --help` describes the arguments
    [exit status: Some(2)]
    ");
}

#[test]
fn an_unknown_kind_of_failure_is_refused() {
    insta::assert_snapshot!(output_of(&["run", "--only", "SIGFOO", "--", "true"]), @"
    ------- stderr -------
    error: invalid value 'SIGFOO' for '--only <KIND>': `SIGFOO` is not a kind of failure: a signal name, `code:N`, `sig:ID`, `test:NAME`, `hang`, `timeout`, `leak`, `oom` or `output`; did you mean `SIGFPE`?

    hint: `provoke run --help` describes the arguments
    [exit status: Some(2)]
    ");
}

#[test]
fn a_missing_run_is_refused() {
    insta::assert_snapshot!(output_of(&["report", "nothing"]), @"
    ------- stderr -------
    error: there is no run `nothing` in `provoke-out`

    hint: no run is stored here: go to the directory in which it ran, set PROVOKE_HOME, or name the directory of `--out`
    [exit status: Some(2)]
    ");
}

#[test]
fn a_directory_without_a_journal_is_not_a_run() {
    insta::assert_snapshot!(output_of(&["report", "."]), @"
    ------- stderr -------
    error: there is no run `.` in `provoke-out`

    hint: the directory `.` has no journal `events.jsonl`, so it is not a run
    [exit status: Some(2)]
    ");
}

#[test]
fn a_place_of_runs_that_cannot_be_read_is_named() {
    let sandbox = Sandbox::new();
    sandbox.write("provoke-out", "");
    insta::assert_snapshot!(sandbox.provoke(&["list"]), @"
    ------- stderr -------
    error: cannot read the directory `provoke-out`
      caused by: Not a directory (os error 20)

    hint: choose another place with `--out DIR` or PROVOKE_HOME
    [exit status: Some(125)]
    ");
}

#[test]
fn a_trial_number_without_a_run_is_refused() {
    insta::assert_snapshot!(output_of(&["replay", "17"]), @"
    ------- stderr -------
    error: there is no run `17` in `provoke-out`

    hint: a trial of the last run is written last#17
    [exit status: Some(2)]
    ");
}

#[test]
fn a_plan_from_a_baseline_without_failures_is_refused() {
    insta::assert_snapshot!(output_of(&["plan", "--baseline", "0/30"]), @"
    ------- stderr -------
    error: none of 30 trials failed: the rate is below 12 %, which is not enough to plan with

    hint: reproduce the failure first, or plan with an assumed rate: provoke plan --rate 1%
    [exit status: Some(2)]
    ");
}

#[test]
fn more_copies_than_open_files_allow_are_refused() {
    let sandbox = Sandbox::new();
    let line = format!("ulimit -n 256; exec {PROVOKE} run --copies 200 -- true");
    let output = sandbox
        .program_command("sh", &[])
        .args(["-c", &line])
        .output();
    insta::assert_snapshot!(CommandOutput::from(output.unwrap()), @"
    ------- stderr -------
    error: 200 processes in a trial need 432 open files, and the limit is 256

    hint: raise the limit with `ulimit -n 432`, or use fewer copies
    [exit status: Some(125)]
    ");
}

#[test]
fn a_program_of_the_working_directory_needs_a_dot_slash() {
    let sandbox = Sandbox::new();
    let tool = sandbox.write("tool.sh", "#!/bin/sh\n");
    fs::set_permissions(tool, fs::Permissions::from_mode(0o755)).unwrap();
    insta::assert_snapshot!(sandbox.provoke(&["run", "--", "tool.sh"]), @"
    ------- stderr -------
    error: cannot run `tool.sh`: it is not in PATH

    hint: did you mean `./tool.sh`?
    [exit status: Some(125)]
    ");
}

#[test]
fn plan_prints_a_table_of_trials_and_time() {
    let output = Sandbox::new().provoke(&["plan", "--baseline", "3/30", "--time", "4s", "-j", "2"]);
    insta::assert_snapshot!(output, @"
    It fails in 10 % of trials (3 of 30, 95 % interval 2.1 to 27 %).
      a trial takes TIME, also with 2 parallel trials

                                                         trials     time
      see it once                                            29   1m 00s
        if the true rate is the lower limit, 2.1 %          141   4m 44s
      get a baseline: 3 failures                       about 30   1m 00s
      confirm a fix: PROBABLY FIXED after                    50   1m 40s
        FIXED (also excludes half the rate) after           103   3m 28s
        FIXED, if `hunt` makes half of trials fail           12   TIME
      compare with a variant that never fails               180   6m 00s
        that fails a tenth as often                         302  10m 04s
        that fails half as often                           1354  45m 08s
      find the good one of 4 variants (--variants)    about 126   4m 12s
      find the first bad of 64 versions (--versions)  about 229   7m 40s
        `bisect --raise-rate` first looks for a setting with more failures

      assumes: independent trials and a constant failure rate; 95 % confidence
    ------- stderr -------
    [exit status: Some(0)]
    ");
}

#[test]
fn plan_without_arguments_uses_the_newest_run_with_failures() {
    let sandbox = Sandbox::new();
    let none = sandbox.provoke(&["plan"]);
    insta::assert_snapshot!(none, @"
    ------- stderr -------
    error: no failure rate is given, and no run stored here has failures

    hint: give counts or a rate: provoke plan --baseline 3/30, or provoke plan --rate 5%
    [exit status: Some(2)]
    ");
    let fails = "case $PROVOKE_TRIAL in 5|15|25) exit 1;; esac";
    sandbox.provoke(&["run", "-n", "30", "--progress=none", "--shell", fails]);
    sandbox.provoke(&["run", "-n", "5", "--progress=none", "--", "true"]);
    let newest = sandbox.provoke(&["plan", "--width", "5%", "--time", "1s"]);
    insta::assert_snapshot!(newest, @"
    It fails in 10 % of trials (3 of 30, 95 % interval 2.1 to 27 %).
      measured by the newest `provoke run` with failures, RUN: sh -c 'case $PROVOKE_TRIAL in 5|15|25) exit 1;; esac'
      a trial takes TIME

                                                         trials     time
      see it once                                            29   TIME
        if the true rate is the lower limit, 2.1 %          141   2m 21s
      measure the rate: interval 5 points wide              593   9m 53s
      get a baseline: 3 failures                       about 30   TIME
      confirm a fix: PROBABLY FIXED after                    50   TIME
        FIXED (also excludes half the rate) after           103   1m 43s
        FIXED, if `hunt` makes half of trials fail           12   TIME
      compare with a variant that never fails               180   3m 00s
        that fails a tenth as often                         302   5m 02s
        that fails half as often                           1354  22m 34s
      find the good one of 4 variants (--variants)    about 126   2m 06s
      find the first bad of 64 versions (--versions)  about 229   3m 49s
        `bisect --raise-rate` first looks for a setting with more failures

      assumes: independent trials and a constant failure rate; 95 % confidence
    ------- stderr -------
    [exit status: Some(0)]
    ");
}
