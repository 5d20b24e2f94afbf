//! What is said of bad input: the thing, the place, the way out.

use super::support::{PROVOKE, Said, Sandbox};

/// What the program says when called like this.
fn said(args: &[&str]) -> Said {
    Sandbox::new().provoke(args)
}

#[test]
fn a_missing_command() {
    insta::assert_snapshot!(said(&["run", "-n", "3"]), @"
    ------- stderr -------
    error: there is no command to run

    hint: give it after two dashes: -- ./program argument
    [exit status: Some(2)]
    ");
}

#[test]
fn an_unknown_program() {
    insta::assert_snapshot!(said(&["run", "-n", "3", "--", "no-such-program-anywhere"]), @"
    ------- stderr -------
    error: cannot run `no-such-program-anywhere`: no such program

    hint: is it installed, and is its folder in PATH?
    [exit status: Some(125)]
    ");
}

#[test]
fn a_line_instead_of_words() {
    insta::assert_snapshot!(said(&["run", "--", "echo hello"]), @"
    ------- stderr -------
    error: cannot run `echo hello`: no such program

    hint: a command is a list of words; for one line use --shell 'LINE'
    [exit status: Some(125)]
    ");
}

#[test]
fn a_flag_that_means_different_things() {
    insta::assert_snapshot!(said(&["run", "-p", "4", "--", "true"]), @"
    ------- stderr -------
    error: there is no flag `-p` here

    hint: did you mean `-j` (trials side by side) or `--prepare` (before each trial)?
    [exit status: Some(2)]
    ");
}

#[test]
fn a_bad_time() {
    insta::assert_snapshot!(said(&["run", "-t", "soon", "--", "true"]), @"
    ------- stderr -------
    error: invalid value 'soon' for '--timeout <TIME|auto>': `soon` is not a time such as `60s`, `1.5s`, `200ms`, `2m` or `1h 30m`, or `auto`

    For more information, try '--help'.
    [exit status: Some(2)]
    ");
}

#[test]
fn a_bad_limit() {
    insta::assert_snapshot!(said(&["run", "--rlimit", "memory=4G", "--", "true"]), @"
    ------- stderr -------
    error: invalid value 'memory=4G' for '--rlimit <NAME=N>': `memory` is none of the limits as, core, cpu, data, fsize, memlock, nofile, nproc, rss, stack

    For more information, try '--help'.
    [exit status: Some(2)]
    ");
}

#[test]
fn a_bad_pattern() {
    insta::assert_snapshot!(said(&["run", "--fail-if-out", "(", "--", "true"]), @"
    ------- stderr -------
    error: invalid value '(' for '--fail-if-out <REGEX>': `(` is not a regular expression: unclosed group

    For more information, try '--help'.
    [exit status: Some(2)]
    ");
}

#[test]
fn a_bad_signal() {
    insta::assert_snapshot!(said(&["run", "--only", "SIGFOO", "--", "true"]), @"
    ------- stderr -------
    error: invalid value 'SIGFOO' for '--only <KIND>': `SIGFOO` is none of a signal name, `code:N`, `sig:ID`, `hang`, `leak`, `oom`, `output`; did you mean `SIGFPE`?

    For more information, try '--help'.
    [exit status: Some(2)]
    ");
}

#[test]
fn a_run_that_is_not_there() {
    insta::assert_snapshot!(said(&["report", "nothing"]), @"
    ------- stderr -------
    error: there is no run `nothing` in `provoke-out`

    hint: `provoke list` shows the runs kept here
    [exit status: Some(2)]
    ");
}

#[test]
fn a_trial_without_a_run() {
    insta::assert_snapshot!(said(&["replay", "17"]), @"
    ------- stderr -------
    error: `17` is no trial of a run

    hint: write RUN#TRIAL, such as last#17
    [exit status: Some(2)]
    ");
}

#[test]
fn nothing_to_plan_with() {
    insta::assert_snapshot!(said(&["plan", "--baseline", "0/30"]), @"
    ------- stderr -------
    error: no failure in 30 trials: the rate is below 11.6 %, and nothing more is known

    hint: reproduce it first, or plan for an assumed rate: provoke plan --rate 1%
    [exit status: Some(2)]
    ");
}

#[test]
fn too_many_copies() {
    let sandbox = Sandbox::new();
    let line = format!("ulimit -n 256; exec {PROVOKE} run --copies 200 -- true");
    let output = sandbox.any("sh", &[]).args(["-c", &line]).output();
    insta::assert_snapshot!(Said::from(output.unwrap()), @"
    ------- stderr -------
    error: 200 processes in a trial need 432 open files, and the limit is 256

    hint: raise the limit with `ulimit -n 432`, or use fewer copies
    [exit status: Some(125)]
    ");
}

#[test]
fn a_program_in_this_folder_needs_its_dot() {
    let sandbox = Sandbox::new();
    sandbox.write("tool.sh", "#!/bin/sh\n");
    insta::assert_snapshot!(sandbox.provoke(&["run", "--", "tool.sh"]), @"
    ------- stderr -------
    error: cannot run `tool.sh`: no such program

    hint: did you mean `./tool.sh`?
    [exit status: Some(125)]
    ");
}

#[test]
fn a_plan_is_a_small_table() {
    let said = Sandbox::new().provoke(&["plan", "--baseline", "3/30", "--time", "4s", "-j", "2"]);
    insta::assert_snapshot!(said, @"
      the rate is as measured, 3/30: 10 % (it may be 2.1 .. 26.6 %)

      see it at least once                                          29 trials   1m 00s
        if the rate is 2.1 % only                                  141 trials   4m 44s
      know the rate within 10 points                               158 trials   5m 16s
      measure a baseline: until 3 failures                    about 30 trials   1m 00s
      confirm a fix: all clean                                      50 trials   1m 40s
        and exclude one that only halves the rate                  103 trials   3m 28s
        until it is known that it is none                     about 10 trials   TIME
      compare with a variant that never fails                      156 trials   5m 12s
        with one that fails a tenth as often                       306 trials   10m 12s
        with one that fails half as often                         1918 trials   1h 03m
      find which one of 4 variants does not fail             about 126 trials   4m 12s
      find the first of 64 versions that fails               about 229 trials   7m 40s
      bisect --raise-rate first looks for a setting under which it fails more often

      taken for granted: trials are independent and the rate stays as it is; 95 % confidence; each takes TIME, also with 2 side by side
    ------- stderr -------
    [exit status: Some(0)]
    ");
}
