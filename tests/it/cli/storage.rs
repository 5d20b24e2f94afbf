//! Tests the stored data of a run and their use.

use super::support::{CommandOutput, PROVOKE, Sandbox, wait_until, words};
use crate::needs::{mounts, needs, root};
use rustix::process::Signal;
use std::fs;

#[test]
fn a_killed_run_is_resumed_to_the_same_result() {
    let sandbox = Sandbox::new();
    let victim = [
        "--", PROVOKE, "victim", "segv", "--rate", "30%", "--delay", "20ms",
    ];
    let flags = ["-n", "40", "-j", "3", "--seed", "11", "--progress=none"];
    let whole = sandbox.provoke(&[&["run", "-o", "whole"], &flags[..], &victim].concat());

    let child = sandbox.start(&[&["run", "-o", "broken"], &flags[..], &victim].concat());
    let journal = || sandbox.read("broken/events.jsonl");
    wait_until("some trials are over", || {
        journal().matches("trial_finished").count() >= 10
    });
    child.signal(Signal::KILL);
    child.end();
    let mut torn = journal();
    torn.push_str("{\"trial_finished\":{\"trial\":");
    fs::write(sandbox.path("broken/events.jsonl"), torn).unwrap();

    let resumed = sandbox.provoke(&["resume", "broken", "--progress=none"]);
    assert_eq!(resumed.code, whole.code, "{resumed}");
    let first_lines = |output: &CommandOutput| {
        output
            .stdout
            .lines()
            .filter(|line| line.contains("failed") || line.contains("trials"))
            .take(2)
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(first_lines(&resumed), first_lines(&whole));
}

#[test]
fn a_run_that_is_still_being_written_cannot_be_resumed() {
    let sandbox = Sandbox::new();
    let child = sandbox.start(&["run", "-o", "r", "-n", "1", "--", "sleep", "600"]);
    wait_until("it runs", || {
        sandbox.read("r/events.jsonl").contains("trial_started")
    });
    let output = sandbox.provoke(&["resume", "r"]);
    child.signal(Signal::KILL);
    child.end();
    assert_eq!(output.code, Some(125), "{output}");
    assert!(
        output
            .stderr
            .contains("still being written by another provoke"),
        "{output}"
    );
}

#[test]
fn a_trial_is_replayed_with_its_input_variables_and_seed() {
    let sandbox = Sandbox::new();
    let input = sandbox.write("in.txt", "input\n");
    let line = "cat; echo $A $PROVOKE_TRIAL $PROVOKE_SEED $0; exit 3";
    let args = [
        "-n",
        "3",
        "-e",
        "A=b",
        "--stdin",
        input.to_str().unwrap(),
        "--",
        "sh",
        "-c",
        line,
        "{trial}",
    ];
    sandbox.report(&args);
    let kept = sandbox.read("provoke-out/last/trials/2/stdout");
    let output = sandbox.provoke(&["replay", "last#2"]);
    assert_eq!(output.code, Some(1));
    for line in kept.lines() {
        assert!(output.stderr.contains(line), "{line} in {output}");
    }
    assert!(
        output
            .stdout
            .starts_with("#2 was exit 3; this time it failed in the same way"),
        "{output}"
    );
}

/// Returns a program that fails in the given trials, and whenever the file `broken` exists.
fn script_failing_in(trials: &str) -> String {
    format!(
        "[ ! -e broken ] || exit 3; case $PROVOKE_TRIAL in {trials}) [ -e fixed ] || exit 3;; esac"
    )
}

#[test]
fn a_replay_reports_the_earlier_and_the_present_outcome() {
    let sandbox = Sandbox::new();
    sandbox.report(&["-n", "10", "--shell", &script_failing_in("2|5")]);
    insta::assert_snapshot!(sandbox.provoke(&["replay", "last#2"]), @"
    #2 was exit 3; this time it failed in the same way (TIME).
    It fails in about 20 % of trials.

    in a debugger   provoke replay last#2 --wrap 'gdb --args'
    ------- stderr -------
    [exit status: Some(1)]
    ");
    insta::assert_snapshot!(sandbox.provoke(&["replay", "last#1"]), @"
    #1 passed, and passed again (TIME).
    It fails in about 20 % of trials.

    until it fails   provoke replay last#1 --until-fail
    ------- stderr -------
    the last run is RUN: sh -c '[ ! -e broken ] || exit 3; case $PROVOKE_TRIAL in 2|5) [ -e fixed ] || exit 3;; esac'
    [exit status: Some(0)]
    ");
    sandbox.write("fixed", "");
    // Without a number, it is the first that failed.
    insta::assert_snapshot!(sandbox.provoke(&["replay", "last"]), @"
    #2 was exit 3; this time it passed (TIME).
    It fails in about 20 % of trials.

    until it fails   provoke replay last#2 --until-fail
    ------- stderr -------
    #2 is the first failing trial of the run RUN
    [exit status: Some(0)]
    ");
    sandbox.write("broken", "");
    insta::assert_snapshot!(sandbox.provoke(&["replay", "last#1"]), @"
    #1 passed; this time it failed: exit 3 (TIME).
    It fails in about 20 % of trials.

    in a debugger   provoke replay last#1 --wrap 'gdb --args'
    ------- stderr -------
    the last run is RUN: sh -c '[ ! -e broken ] || exit 3; case $PROVOKE_TRIAL in 2|5) [ -e fixed ] || exit 3;; esac'
    [exit status: Some(1)]
    ");
}

#[test]
fn a_debugger_is_suggested_only_for_a_binary() {
    let sandbox = Sandbox::new();
    let script = sandbox.write("script", "#!/bin/sh\nexit 3\n");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(script, mode).unwrap();
    sandbox.report(&["-n", "1", "--", "./script"]);
    insta::assert_snapshot!(sandbox.provoke(&["replay", "last"]), @"
    #1 was exit 3; this time it failed in the same way (TIME).
    In the run, it failed in 1 of 1 trial.
    ------- stderr -------
    #1 is the first failing trial of the run RUN
    [exit status: Some(1)]
    ");
}

#[test]
fn until_fail_repeats_a_trial_until_it_fails_in_the_same_way() {
    let sandbox = Sandbox::new();
    let line = "[ $PROVOKE_TRIAL = 1 ] && exit 3; true";
    sandbox.report(&["-n", "4", "--shell", line]);
    let until =
        |args: &[&str]| sandbox.provoke(&[&["replay", "last", "--until-fail"], args].concat());
    insta::assert_snapshot!(until(&[]), @"
    #1 was exit 3; it failed in the same way in replay 1 (TIME).
    It fails in about 25 % of trials.

    in a debugger   provoke replay last#1 --wrap 'gdb --args'
    ------- stderr -------
    #1 is the first failing trial of the run RUN
      repeating #1, at most 100 times or 10m 00s (-n and -d change this)
    [exit status: Some(1)]
    ");
    // It alternates between passing and exiting with 4 before it fails as in its first trial.
    let counts = "n=$(cat count 2> /dev/null || echo 0); echo $((n + 1)) > count; \
                  [ -e quiet ] && exit 0; [ $n = 0 ] && exit 3; [ $n -lt 8 ] && exit $((n % 2 * 4)); exit 3";
    sandbox.report(&["-n", "2", "--shell", counts]);
    insta::assert_snapshot!(until(&[]), @"
    #1 was exit 3; it failed in the same way in replay 7 (TIME).
      3x exit 4
    In the run, it failed in 2 of 2 trials.

    in a debugger   provoke replay last#1 --wrap 'gdb --args'
    ------- stderr -------
    #1 is the first failing trial of the run RUN
      repeating #1, at most 100 times or 10m 00s (-n and -d change this)
    [exit status: Some(1)]
    ");
    sandbox.write("quiet", "");
    insta::assert_snapshot!(until(&["-n", "3"]), @"
    #1 was exit 3; it passed in 3 of 3 replays.
    In the run, it failed in 2 of 2 trials.

    until it fails   provoke replay last#1 --until-fail -n 30
    ------- stderr -------
    #1 is the first failing trial of the run RUN
      repeating #1, at most 3 times or 10m 00s (-n and -d change this)
    [exit status: Some(0)]
    ");
    let output = sandbox.provoke(&["replay", "last", "-n", "3"]);
    assert_eq!(output.code, Some(2), "{output}");
}

#[test]
fn a_replay_of_a_run_without_failures_is_refused() {
    let sandbox = Sandbox::new();
    sandbox.report(&["-n", "2", "--", "true"]);
    insta::assert_snapshot!(sandbox.provoke(&["replay", "last"]), @"
    ------- stderr -------
    error: no trial of the run RUN failed

    hint: to repeat one that passed, give its number, such as last#1
    [exit status: Some(2)]
    ");
}

#[test]
fn an_interrupt_ends_the_repetition_of_a_trial() {
    let sandbox = Sandbox::new();
    let line = "[ -e waits ] || exit 3; echo > started; exec sleep 600";
    sandbox.report(&["-n", "1", "--shell", line]);
    sandbox.write("waits", "");
    let running = sandbox.start(&["replay", "last", "--until-fail"]);
    wait_until("it runs", || sandbox.path("started").exists());
    running.signal(Signal::INT);
    let output = running.end();
    assert_eq!(output.code, Some(130), "{output}");
    assert!(
        output.stdout.contains("stopped in the first replay"),
        "{output}"
    );
}

#[test]
fn replay_show_prints_a_command_that_works_in_a_shell() {
    let sandbox = Sandbox::new();
    let input = sandbox.write("in.txt", "input\n");
    let line = "cat\n\techo \"$A [${HOME-none}] $PROVOKE_TRIAL $PROVOKE_SEED $0\"";
    let flags = ["-n", "2", "-e", "A=b c", "-e", "HOME", "--keep", "all"];
    let stdin = ["--stdin", input.to_str().unwrap()];
    sandbox.report(&[&flags[..], &stdin, &["--", "sh", "-c", line, "{trial}"]].concat());
    let shown = sandbox.provoke(&["replay", "last#2", "--show"]);
    let pasted: CommandOutput = sandbox
        .program_command("sh", &["-c", &shown.stdout])
        .output()
        .unwrap()
        .into();
    assert_eq!(
        pasted.stdout,
        sandbox.read("provoke-out/last/trials/2/stdout"),
        "{shown}"
    );
}

#[test]
fn a_trial_is_replayed_with_a_command_prefix() {
    let sandbox = Sandbox::new();
    sandbox.report(&["-n", "2", "--", "sh", "-c", "echo $PROVOKE_TRIAL"]);
    let output = sandbox.provoke(&["replay", "last#2", "--wrap", "env WRAPPED=1"]);
    assert_eq!(
        (output.stdout.as_str(), output.code),
        ("2\n", Some(0)),
        "{output}"
    );
}

#[test]
fn conditions_that_a_command_by_hand_lacks_are_named() {
    let sandbox = Sandbox::new();
    sandbox.report(&["-n", "1", "--rlimit", "nofile=64", "--", "true"]);
    for args in [&["--show"][..], &["--wrap", "env"]] {
        let output = sandbox.provoke(&[&["replay", "last#1"], args].concat());
        let note = "without --rlimit, which `provoke replay last#1` repeats";
        assert!(output.stderr.contains(note), "{output}");
    }
    needs!(root());
    sandbox.report(&["-n", "1", "--user", "nobody", "--", "id", "-u"]);
    let output = sandbox.provoke(&["replay", "last#1", "--wrap", "env"]);
    assert_eq!(
        (output.stdout.as_str(), output.code),
        ("", Some(2)),
        "{output}"
    );
    let reason = "the trial ran under `user=nobody`, and `env` would run without it";
    assert!(output.stderr.contains(reason), "{output}");
}

#[test]
fn a_full_disk_is_an_error_at_the_start_and_one_warning_later() {
    needs!(mounts());
    let sandbox = Sandbox::new();
    let mount = |size: &str, then: &str| -> CommandOutput {
        let line = format!("mkdir -p disk && mount -t tmpfs -o size={size} tmpfs disk && {then}");
        let shell = ["-m", "sh", "-c", &line];
        sandbox
            .program_command("unshare", &[])
            .args(shell)
            .output()
            .unwrap()
            .into()
    };
    // If the disk is full at the start, nothing runs.
    let output = mount(
        "4k",
        &format!("head -c 4096 /dev/zero > disk/full; {PROVOKE} run -n 3 -o disk/run -- true"),
    );
    assert_eq!(output.code, Some(125), "{output}");
    assert!(
        output.stderr.contains("No space left on device"),
        "{output}"
    );
    // If it becomes full later, the run continues and reports that its journal is incomplete.
    let victim = format!("{PROVOKE} victim exit --rate 0.5");
    let output = mount(
        "64k",
        &format!("{PROVOKE} run -n 600 --progress=none -o disk/run -- {victim}"),
    );
    assert_eq!(output.code, Some(1), "{output}");
    assert_eq!(
        output.stderr.matches("could not be written").count(),
        1,
        "{output}"
    );
    assert!(output.stdout.contains("of 600 trials"), "{output}");
    let kept = output.stderr.matches("cannot keep the output").count();
    assert!(kept <= 2, "repeated warnings are folded: {output}");
    assert!(
        output.stdout.contains("the journal is incomplete"),
        "{output}"
    );
}

/// Makes a run of three trials and removes the end of the second from its journal.
fn damaged_run(sandbox: &Sandbox) {
    sandbox.provoke(&["run", "--progress=none", "-n", "3", "-o", "r", "--", "true"]);
    let journal = sandbox.read("r/events.jsonl");
    let is_missing = |line: &&str| !line.starts_with(r#"{"trial_finished":{"trial":2,"#);
    let kept: Vec<&str> = journal.split_inclusive('\n').filter(is_missing).collect();
    fs::write(sandbox.path("r/events.jsonl"), kept.concat()).unwrap();
}

#[test]
fn a_file_size_limit_is_handled_like_a_full_disk() {
    let sandbox = Sandbox::new();
    let trial = "[ $PROVOKE_TRIAL != 100 ] || head -c 40000 /dev/zero > big";
    let line =
        format!("ulimit -f 32; exec {PROVOKE} run --progress=none -n 100 -o r -- sh -c '{trial}'");
    let output: CommandOutput = sandbox
        .program_command("sh", &["-c", &line])
        .output()
        .unwrap()
        .into();
    assert_eq!(output.code, Some(1), "{output}");
    assert!(output.stdout.contains(" of 100 trials"), "{output}");
    assert!(
        output.stdout.contains("the journal is incomplete"),
        "{output}"
    );
    // A trial has the original disposition of the signal.
    assert!(output.stdout.contains("SIGXFSZ in 1 of 100"), "{output}");
    let output = sandbox.provoke(&["resume", "r", "--progress=none"]);
    assert!(output.stdout.contains(" of 100 trials"), "{output}");
}

#[test]
fn a_damaged_journal_is_an_error_with_its_line_and_a_hint() {
    let sandbox = Sandbox::new();
    damaged_run(&sandbox);
    let output = sandbox.provoke(&["report", "r"]);
    insta::assert_snapshot!(output, @"
    ------- stderr -------
    error: SANDBOX/r/events.jsonl:5: the journal is damaged: the checksum of this line is wrong: a line was changed, removed, repeated or moved

    hint: restore the file from a copy; to resume the run from the 4 lines before this one instead, keep a copy and run:
      truncate -s BYTES SANDBOX/r/events.jsonl
    [exit status: Some(125)]
    ");
    // The lines before the damage form a run that can be resumed.
    let (_, way_out) = output.stderr.split_once("run:\n").unwrap();
    let done = sandbox
        .program_command("sh", &["-c", way_out.trim()])
        .status();
    assert!(done.unwrap().success());
    let output = sandbox.provoke(&["resume", "r", "--progress=none"]);
    assert!(output.stdout.contains("3 trials"), "{output}");
}

#[test]
fn no_command_uses_a_damaged_journal() {
    let sandbox = Sandbox::new();
    damaged_run(&sandbox);
    sandbox.provoke(&words("run --progress=none -n 3 -o whole -- true"));
    let before = sandbox.read("r/events.jsonl");
    for args in [
        &["report", "r"][..],
        &["report", "r", "--json"],
        &["report", "r", "--jsonl"],
        &["report", "r", "--csv"],
        &["report", "r", "--junit"],
        &["report", "r", "--junit-trials"],
        &["report", "r", "--md"],
        &["explain", "r#1"],
        &["explain", "r"],
        &["diff", "r", "whole"],
        &["diff", "whole", "whole", "r"],
        &["replay", "r#1"],
        &["resume", "r"],
        &["confirm", "--baseline", "r", "--", "true"],
        &["reduce", "--requests", "r"],
    ] {
        let output = sandbox.provoke(args);
        assert!(
            output.code.is_some_and(|code| code >= 2),
            "{args:?}: {output}"
        );
        assert_eq!(output.stdout, "", "{args:?}");
        let place = "r/events.jsonl:5: the journal is damaged";
        assert!(output.stderr.contains(place), "{args:?}: {output}");
    }
    assert_eq!(sandbox.read("r/events.jsonl"), before);
    let listed = sandbox
        .command(&["list"])
        .env("PROVOKE_HOME", sandbox.path(""))
        .output();
    let listed = CommandOutput::from(listed.unwrap());
    assert!(listed.stderr.contains("journal is damaged"), "{listed}");
    let line = |run: &str| {
        listed
            .stdout
            .lines()
            .find(|line| line.starts_with(run))
            .unwrap()
            .to_owned()
    };
    assert!(line("r ").contains("cannot be read"), "{listed}");
    assert!(line("whole ").contains("run   0 of 3 failed"), "{listed}");
}

#[test]
fn last_names_a_run_in_a_chosen_directory_if_runs_are_stored_here() {
    let sandbox = Sandbox::new();
    let run = |flags: &[&str], number: &str| {
        let output =
            sandbox.provoke(&[&["run", "-q", "-n", number], flags, &["--", "true"]].concat());
        assert_eq!(output.code, Some(0), "{output}");
    };
    run(&["--out", "alone"], "2");
    assert!(!sandbox.path("provoke-out").exists());
    run(&[], "3");
    run(&["--out", "results/one"], "4");
    let report = sandbox.provoke(&["report", "last"]);
    assert!(
        report.stdout.starts_with("0 of 4 trials failed"),
        "{report}"
    );
    let listed = sandbox.provoke(&["list"]);
    assert!(listed.stderr.contains("`last` is results/one"), "{listed}");
    run(&["--out", "provoke-out/long"], "5");
    let link = std::fs::read_link(sandbox.path("provoke-out/last")).unwrap();
    assert_eq!(link, std::path::Path::new("long"));
}

#[test]
fn list_shows_the_stored_runs() {
    let sandbox = Sandbox::new();
    sandbox.provoke(&["run", "--progress=none", "-n", "2", "--", "true"]);
    sandbox.provoke(&["run", "--progress=none", "-n", "3", "--", "false"]);
    let listed = sandbox.provoke(&["list"]);
    let lines: Vec<Vec<&str>> = listed
        .stdout
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    let [head, first, second] = lines.as_slice() else {
        panic!("{listed}");
    };
    assert_eq!(head, &["RUN", "WHEN", "WHAT", "RESULT", "CRASH", "COMMAND"]);
    assert_eq!(first[4..], ["run", "0", "of", "2", "failed", "true"]);
    assert!(
        listed.stderr.contains(&format!("`last` is {}", second[0])),
        "{listed}"
    );
    assert_eq!(
        second[4..],
        ["run", "3", "of", "3", "failed", "exit", "1", "false"]
    );
    // The first column names the run.
    let report = sandbox.provoke(&["report", first[0]]);
    assert!(
        report.stdout.starts_with("0 of 2 trials failed"),
        "{report}"
    );
}

#[test]
fn list_shows_the_result_of_each_question() {
    let sandbox = Sandbox::new();
    let run = |args: &str, command: &[&str]| {
        let args: Vec<&str> = args.split(' ').chain(["--progress=none", "--"]).collect();
        sandbox.provoke(&[&args, command].concat());
    };
    run("compare -L CODE=0,1", &["sh", "-c", "exit {CODE}"]);
    run("bisect --over 0,00,01", &["sh", "-c", "exit {variant}"]);
    run("bisect --over 1,2", &["false"]);
    sandbox.write("needs-b", "case $* in *b*) exit 1;; esac");
    run("reduce --set a,b", &["sh", "needs-b", "{set}"]);
    run("confirm --baseline 10/20", &["true"]);
    run("run --max-rate 50%", &["true"]);
    let listed = sandbox.provoke(&["list"]);
    let from = listed.stdout.find("WHAT").unwrap();
    let rows: Vec<&str> = listed.stdout.lines().map(|line| &line[from..]).collect();
    insta::assert_snapshot!(rows.join("\n"), @"
    WHAT     RESULT          CRASH   COMMAND
    compare  rates differ    exit 1  sh -c 'exit 0'
    bisect   01              exit 1  sh -c 'exit 01'
    bisect   both ends fail  exit 1  false
    reduce   b               exit 1  sh needs-b a b
    confirm  FIXED 0 of 15           true
    run      PASS 0 of 6             true
    ");
}

#[test]
fn list_shows_the_shortest_unique_name_of_each_run() {
    let sandbox = Sandbox::new();
    sandbox.provoke(&words("run --progress=none -n 1 -o one -- true"));
    let names = [
        "20261122-035210-ecbc",
        "20261122-035211-0cbc",
        "20261122-035212-1cbc",
        "20261122-035213-1cbc",
        "-odd",
        "own name",
    ];
    for name in names {
        fs::create_dir_all(sandbox.path("provoke-out").join(name)).unwrap();
        let copy = sandbox.path("provoke-out").join(name).join("events.jsonl");
        fs::copy(sandbox.path("one/events.jsonl"), copy).unwrap();
    }
    let listed = sandbox.provoke(&["list"]);
    let starts: Vec<&str> = listed
        .stdout
        .lines()
        .skip(1)
        .map(|line| line.split(' ').next().unwrap())
        .collect();
    assert_eq!(
        starts,
        [
            "./-odd",
            "ecbc",
            "0cbc",
            "20261122-035212-1cbc",
            "20261122-035213-1cbc",
            "'own"
        ],
        "{listed}"
    );
}

#[test]
fn ticks_are_printed_for_all_trials_after_a_resume() {
    let sandbox = Sandbox::new();
    let line = "[ $PROVOKE_TRIAL != 1 ] || [ -e go ] || exec sleep 600";
    let child = sandbox.start(&[
        "run", "-o", "r", "-n", "6", "-j", "2", "--", "sh", "-c", line,
    ]);
    let finished = || {
        sandbox
            .read("r/events.jsonl")
            .matches("trial_finished")
            .count()
    };
    wait_until("all but the first are over", || finished() == 5);
    child.signal(Signal::KILL);
    child.end();
    sandbox.write("go", "");
    let output = sandbox.provoke(&["resume", "r", "--progress=none", "--style", "ticks"]);
    let ticks: Vec<&str> = output.stdout.lines().take(6).collect();
    assert_eq!(
        ticks,
        ["✓ 1", "✓ 2", "✓ 3", "✓ 4", "✓ 5", "✓ 6"],
        "{output}"
    );
}

#[test]
fn a_result_that_cannot_be_written_to_stdout_is_an_error() {
    let sandbox = Sandbox::new();
    let line = format!("{PROVOKE} run -q -n 1 -- true > /dev/full");
    let output: CommandOutput = sandbox
        .program_command("sh", &[])
        .args(["-c", &line])
        .output()
        .unwrap()
        .into();
    assert_eq!(output.code, Some(125), "{output}");
}

#[test]
fn evidence_is_stored_in_a_directory_with_a_non_utf8_name() {
    use std::os::unix::ffi::OsStrExt as _;
    let sandbox = Sandbox::new();
    let odd = sandbox
        .path("")
        .join(std::ffi::OsStr::from_bytes(b"b\xffd"));
    fs::create_dir(&odd).unwrap();
    let output: CommandOutput = sandbox
        .program_command(PROVOKE, &[])
        .args([
            "run",
            "--progress=none",
            "-n",
            "1",
            "--tmp-per-run",
            "--",
            "sh",
            "-c",
            "echo here; exit 3",
        ])
        .current_dir(&odd)
        .output()
        .unwrap()
        .into();
    assert_eq!(output.code, Some(1), "{output}");
    assert_eq!(
        fs::read_to_string(odd.join("provoke-out/last/trials/1/stdout")).unwrap(),
        "here\n"
    );
}

#[test]
fn a_journal_without_the_end_of_its_run_is_reported_as_incomplete() {
    let sandbox = Sandbox::new();
    let complete = |run: &str| {
        let output = sandbox.provoke(&["report", run, "--json"]);
        let report: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
        report["journal_complete"].as_bool().unwrap()
    };
    sandbox.provoke(&["run", "--progress=none", "-n", "2", "-o", "r", "--", "true"]);
    assert!(complete("r"));
    let journal = sandbox.read("r/events.jsonl");
    let lines: Vec<&str> = journal.split_inclusive('\n').collect();
    fs::write(
        sandbox.path("r/events.jsonl"),
        lines[..lines.len() - 1].concat(),
    )
    .unwrap();
    assert!(!complete("r"));
}

#[test]
fn suggested_commands_name_a_moved_run_by_its_present_path() {
    let sandbox = Sandbox::new();
    sandbox.provoke(&words("run --progress=none -n 2 -o first -- false"));
    let next = |run: &str| {
        let output = sandbox.provoke(&["report", run]).stdout;
        let lines = output.lines().filter(|line| line.contains("provoke "));
        lines.map(|line| line.trim().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(
        next("first").last().unwrap(),
        "repeat one trial   provoke replay first#1"
    );
    let mut copy = sandbox.program_command("cp", &["-r", "first", "second"]);
    assert!(copy.status().unwrap().success());
    std::fs::create_dir(sandbox.path("old runs")).unwrap();
    std::fs::rename(sandbox.path("first"), sandbox.path("old runs/first")).unwrap();
    assert_eq!(
        next("second").last().unwrap(),
        "repeat one trial   provoke replay second#1"
    );
    let moved = "repeat one trial   provoke replay 'old runs/first'#1";
    assert_eq!(next("old runs/first").last().unwrap(), moved);
}

#[test]
fn suggested_commands_work_for_any_directory_and_variant_name() {
    let sandbox = Sandbox::new();
    for folder in ["-q", "a\u{1b}[2J\n'b", "##[error]", "provoke-out/-x"] {
        let out = format!("--out=./{folder}");
        let output = sandbox.provoke(&["run", "--progress=none", "-n", "2", &out, "--", "false"]);
        assert_eq!(output.code, Some(1), "{output}");
        for (name, end) in [("replay", " --show"), ("confirm", " -q -- true")] {
            assert_suggested_command_works(&sandbox, &output, name, end);
        }
    }
    sandbox.write(
        "scenario.toml",
        "command = ['false']\nruns = 2\n[[variant]]\nname = '-q'\n[[variant]]\nname = 'a b'\n",
    );
    let output = sandbox.provoke(&["scenario", "scenario.toml", "--progress=none"]);
    assert!(output.stdout.contains(" --of=-q"), "{output}");
    assert_suggested_command_works(&sandbox, &output, "confirm", " -q -- true");
}

/// Runs a suggested command in a shell, with `end` appended.
fn assert_suggested_command_works(
    sandbox: &Sandbox,
    output: &CommandOutput,
    command: &str,
    end: &str,
) {
    let begin = format!("provoke {command} ");
    let mut rest = output
        .stdout
        .lines()
        .filter_map(|line| line.split_once(&begin));
    let (_, rest) = rest.next().unwrap_or_else(|| panic!("{command}: {output}"));
    let rest = rest.split("   # ").next().unwrap_or_default();
    let line = format!("{PROVOKE} {command} {rest}{end}");
    let suggested_output: CommandOutput = sandbox
        .program_command("bash", &["-c", &line])
        .output()
        .unwrap()
        .into();
    assert_eq!(suggested_output.code, Some(0), "{line}: {suggested_output}");
}

/// Writes the start of a run as a version would that has another question.
fn write_run_with_unknown_question(sandbox: &Sandbox, run: &str) {
    let journal = format!("{run}/events.jsonl");
    let text = sandbox.read(&journal);
    let (start, _) = text.split_once(",\"sum\"").unwrap();
    let asked = start.replacen("\"goal\":{", "\"goal\":{\"question\":\"shrink\",", 1);
    assert_ne!(asked, start);
    let sum = asked
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
    sandbox.write(&journal, &format!("{asked},\"sum\":\"{sum:016x}\"}}\n"));
}

#[test]
fn a_run_with_an_unknown_question_comes_from_another_version() {
    let sandbox = Sandbox::new();
    sandbox.report(&["-n", "1", "-o", "provoke-out/other", "--", "true"]);
    sandbox.report(&["-n", "1", "-o", "provoke-out/known", "--", "true"]);
    write_run_with_unknown_question(&sandbox, "provoke-out/other");
    let output = sandbox.provoke(&["report", "other"]);
    assert_eq!(output.code, Some(125), "{output}");
    let message = "other/events.jsonl` comes from another version of provoke";
    assert!(output.stderr.contains(message), "{output}");
    let cause = "caused by: unknown variant `shrink`";
    assert!(output.stderr.contains(cause), "{output}");
    let hint = "use the version of provoke that made the run";
    assert!(output.stderr.contains(hint), "{output}");
    let listed = sandbox.provoke(&["list"]);
    assert_eq!(listed.code, Some(0), "{listed}");
    assert!(listed.stdout.contains("known"), "{listed}");
    assert!(listed.stderr.contains(message), "{listed}");
}
