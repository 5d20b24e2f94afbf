//! Tests the stored data of a run and their use.

use super::support::{PROVOKE, Said, Sandbox, wait_until};
use crate::needs::{mounts, needs};
use rustix::process::Signal;
use std::fs;

#[test]
fn a_killed_run_is_resumed_to_the_same_end() {
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
    let first_lines = |said: &Said| {
        said.stdout
            .lines()
            .filter(|line| line.contains("failed") || line.contains("trials"))
            .take(2)
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(first_lines(&resumed), first_lines(&whole));
}

#[test]
fn two_writers_are_kept_apart() {
    let sandbox = Sandbox::new();
    let child = sandbox.start(&["run", "-o", "r", "-n", "1", "--", "sleep", "600"]);
    wait_until("it runs", || {
        sandbox.read("r/events.jsonl").contains("trial_started")
    });
    let said = sandbox.provoke(&["resume", "r"]);
    child.signal(Signal::KILL);
    child.end();
    assert_eq!(said.code, Some(125), "{said}");
    assert!(
        said.stderr
            .contains("still being written by another provoke"),
        "{said}"
    );
}

#[test]
fn a_trial_is_replayed_with_everything_it_had() {
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
    let said = sandbox.provoke(&["replay", "last#2"]);
    assert_eq!(said.code, Some(1));
    for line in kept.lines() {
        assert!(said.stderr.contains(line), "{line} in {said}");
    }
    assert!(
        said.stdout
            .starts_with("#2 was exit 3; this time it failed in the same way"),
        "{said}"
    );
}

/// Returns a program that fails in the given trials, and whenever the file `broken` exists.
fn fails_in(trials: &str) -> String {
    format!(
        "[ ! -e broken ] || exit 3; case $PROVOKE_TRIAL in {trials}) [ -e fixed ] || exit 3;; esac"
    )
}

#[test]
fn a_replay_says_what_the_trial_was_before_and_what_it_is_now() {
    let sandbox = Sandbox::new();
    sandbox.report(&["-n", "10", "--shell", &fails_in("2|5")]);
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
    [exit status: Some(1)]
    ");
}

#[test]
fn a_trial_is_replayed_until_it_fails_in_the_same_way() {
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
    It failed in 2 of 2 trials.

    in a debugger   provoke replay last#1 --wrap 'gdb --args'
    ------- stderr -------
    #1 is the first failing trial of the run RUN
      repeating #1, at most 100 times or 10m 00s (-n and -d change this)
    [exit status: Some(1)]
    ");
    sandbox.write("quiet", "");
    insta::assert_snapshot!(until(&["-n", "3"]), @"
    #1 was exit 3; it passed in 3 of 3 replays.
    It failed in 2 of 2 trials.

    until it fails   provoke replay last#1 --until-fail -n 30
    ------- stderr -------
    #1 is the first failing trial of the run RUN
      repeating #1, at most 3 times or 10m 00s (-n and -d change this)
    [exit status: Some(0)]
    ");
    let said = sandbox.provoke(&["replay", "last", "-n", "3"]);
    assert_eq!(said.code, Some(2), "{said}");
}

#[test]
fn a_replay_needs_a_trial_that_failed() {
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
fn a_signal_ends_the_repetition_of_a_trial() {
    let sandbox = Sandbox::new();
    let line = "[ -e waits ] || exit 3; echo > started; exec sleep 600";
    sandbox.report(&["-n", "1", "--shell", line]);
    sandbox.write("waits", "");
    let running = sandbox.start(&["replay", "last", "--until-fail"]);
    wait_until("it runs", || sandbox.path("started").exists());
    running.signal(Signal::INT);
    let said = running.end();
    assert_eq!(said.code, Some(130), "{said}");
    assert!(
        said.stdout.contains("stopped in the first replay"),
        "{said}"
    );
}

#[test]
fn what_is_shown_of_a_trial_can_be_pasted_into_a_shell() {
    let sandbox = Sandbox::new();
    let input = sandbox.write("in.txt", "input\n");
    let line = "cat\n\techo \"$A [${HOME-none}] $PROVOKE_TRIAL $PROVOKE_SEED $0\"";
    let flags = ["-n", "2", "-e", "A=b c", "-e", "HOME", "--keep", "all"];
    let stdin = ["--stdin", input.to_str().unwrap()];
    sandbox.report(&[&flags[..], &stdin, &["--", "sh", "-c", line, "{trial}"]].concat());
    let shown = sandbox.provoke(&["replay", "last#2", "--show"]);
    let pasted: Said = sandbox
        .any("sh", &["-c", &shown.stdout])
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
fn a_trial_is_replayed_under_a_wrapper_in_the_terminal() {
    let sandbox = Sandbox::new();
    sandbox.report(&["-n", "2", "--", "sh", "-c", "echo $PROVOKE_TRIAL"]);
    let said = sandbox.provoke(&["replay", "last#2", "--wrap", "env WRAPPED=1"]);
    assert_eq!(
        (said.stdout.as_str(), said.code),
        ("2\n", Some(0)),
        "{said}"
    );
}

#[test]
fn a_full_disk_is_said_before_the_start_or_once() {
    needs!(mounts());
    let sandbox = Sandbox::new();
    let mount = |size: &str, then: &str| -> Said {
        let line = format!("mkdir -p disk && mount -t tmpfs -o size={size} tmpfs disk && {then}");
        let shell = ["-m", "sh", "-c", &line];
        sandbox
            .any("unshare", &[])
            .args(shell)
            .output()
            .unwrap()
            .into()
    };
    // If the disk is full at the start, nothing runs.
    let said = mount(
        "4k",
        &format!("head -c 4096 /dev/zero > disk/full; {PROVOKE} run -n 3 -o disk/run -- true"),
    );
    assert_eq!(said.code, Some(125), "{said}");
    assert!(said.stderr.contains("No space left on device"), "{said}");
    // If it becomes full later, the run continues and reports that its journal is incomplete.
    let victim = format!("{PROVOKE} victim exit --rate 0.5");
    let said = mount(
        "64k",
        &format!("{PROVOKE} run -n 600 --progress=none -o disk/run -- {victim}"),
    );
    assert_eq!(said.code, Some(1), "{said}");
    assert_eq!(
        said.stderr.matches("could not be written").count(),
        1,
        "{said}"
    );
    assert!(said.stdout.contains("of 600 trials"), "{said}");
    let kept = said.stderr.matches("cannot keep the output").count();
    assert!(kept <= 2, "repeated warnings are folded: {said}");
    assert!(said.stdout.contains("the journal is incomplete"), "{said}");
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
fn a_limit_on_the_size_of_files_is_like_a_full_disk() {
    let sandbox = Sandbox::new();
    let trial = "[ $PROVOKE_TRIAL != 100 ] || head -c 40000 /dev/zero > big";
    let line =
        format!("ulimit -f 32; exec {PROVOKE} run --progress=none -n 100 -o r -- sh -c '{trial}'");
    let said: Said = sandbox.any("sh", &["-c", &line]).output().unwrap().into();
    assert_eq!(said.code, Some(1), "{said}");
    assert!(said.stdout.contains(" of 100 trials"), "{said}");
    assert!(said.stdout.contains("the journal is incomplete"), "{said}");
    // A trial has the original disposition of the signal.
    assert!(said.stdout.contains("SIGXFSZ in 1 of 100"), "{said}");
    let said = sandbox.provoke(&["resume", "r", "--progress=none"]);
    assert!(said.stdout.contains(" of 100 trials"), "{said}");
}

#[test]
fn a_damaged_journal_is_an_error_with_its_line_and_a_way_out() {
    let sandbox = Sandbox::new();
    damaged_run(&sandbox);
    let said = sandbox.provoke(&["report", "r"]);
    insta::assert_snapshot!(said, @"
    ------- stderr -------
    error: SANDBOX/r/events.jsonl:5: the journal is damaged: the checksum of this line is wrong: a line was changed, removed, repeated or moved

    hint: restore the file from a copy; to resume the run from the 4 lines before this one instead, keep a copy and run:
      truncate -s BYTES SANDBOX/r/events.jsonl
    [exit status: Some(125)]
    ");
    // The lines before the damage form a run that can be resumed.
    let (_, way_out) = said.stderr.split_once("run:\n").unwrap();
    let done = sandbox.any("sh", &["-c", way_out.trim()]).status();
    assert!(done.unwrap().success());
    let said = sandbox.provoke(&["resume", "r", "--progress=none"]);
    assert!(said.stdout.contains("3 trials"), "{said}");
}

#[test]
fn no_command_uses_a_damaged_journal() {
    let sandbox = Sandbox::new();
    damaged_run(&sandbox);
    sandbox.provoke(&[
        "run",
        "--progress=none",
        "-n",
        "3",
        "-o",
        "whole",
        "--",
        "true",
    ]);
    let before = sandbox.read("r/events.jsonl");
    for args in [
        &["report", "r"][..],
        &["report", "r", "--json"],
        &["report", "r", "--jsonl"],
        &["report", "r", "--csv"],
        &["report", "r", "--junit"],
        &["report", "r", "--md"],
        &["explain", "r#1"],
        &["explain", "r"],
        &["diff", "r", "whole"],
        &["diff", "whole", "whole", "r"],
        &["replay", "r#1"],
        &["resume", "r"],
        &["confirm", "--baseline", "r", "--", "true"],
        &["load", "--shrink", "r"],
    ] {
        let said = sandbox.provoke(args);
        assert!(said.code.is_some_and(|code| code >= 2), "{args:?}: {said}");
        assert_eq!(said.stdout, "", "{args:?}");
        let place = "r/events.jsonl:5: the journal is damaged";
        assert!(said.stderr.contains(place), "{args:?}: {said}");
    }
    assert_eq!(sandbox.read("r/events.jsonl"), before);
    let listed = sandbox
        .command(&["list"])
        .env("PROVOKE_HOME", sandbox.path(""))
        .output();
    let listed = Said::from(listed.unwrap());
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
fn the_runs_kept_here_are_listed() {
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
fn a_list_shows_what_each_question_found() {
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
    run      PASS 0 of 7             true
    ");
}

#[test]
fn a_run_is_listed_with_the_shortest_text_that_names_it() {
    let sandbox = Sandbox::new();
    sandbox.provoke(&[
        "run",
        "--progress=none",
        "-n",
        "1",
        "-o",
        "one",
        "--",
        "true",
    ]);
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
fn ticks_go_on_after_a_resume() {
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
    let said = sandbox.provoke(&["resume", "r", "--progress=none", "--style", "ticks"]);
    let ticks: Vec<&str> = said.stdout.lines().take(6).collect();
    assert_eq!(ticks, ["✓ 1", "✓ 2", "✓ 3", "✓ 4", "✓ 5", "✓ 6"], "{said}");
}

#[test]
fn a_result_that_cannot_be_written_is_an_error() {
    let sandbox = Sandbox::new();
    let line = format!("{PROVOKE} run -q -n 1 -- true > /dev/full");
    let said: Said = sandbox
        .any("sh", &[])
        .args(["-c", &line])
        .output()
        .unwrap()
        .into();
    assert_eq!(said.code, Some(125), "{said}");
}

#[test]
fn a_folder_with_any_name_keeps_evidence() {
    use std::os::unix::ffi::OsStrExt as _;
    let sandbox = Sandbox::new();
    let odd = sandbox
        .path("")
        .join(std::ffi::OsStr::from_bytes(b"b\xffd"));
    fs::create_dir(&odd).unwrap();
    let said: Said = sandbox
        .any(PROVOKE, &[])
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
    assert_eq!(said.code, Some(1), "{said}");
    assert_eq!(
        fs::read_to_string(odd.join("provoke-out/last/trials/1/stdout")).unwrap(),
        "here\n"
    );
}

#[test]
fn a_journal_that_does_not_say_how_its_run_ended_is_reported_as_incomplete() {
    let sandbox = Sandbox::new();
    let complete = |run: &str| {
        let said = sandbox.provoke(&["report", run, "--json"]);
        let report: serde_json::Value = serde_json::from_str(&said.stdout).unwrap();
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
fn a_run_that_was_copied_or_moved_is_named_by_where_it_lies() {
    let sandbox = Sandbox::new();
    sandbox.provoke(&[
        "run",
        "--progress=none",
        "-n",
        "2",
        "-o",
        "first",
        "--",
        "false",
    ]);
    let next = |run: &str| {
        let said = sandbox.provoke(&["report", run]).stdout;
        let lines = said.lines().filter(|line| line.contains("provoke "));
        lines.map(|line| line.trim().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(
        next("first").last().unwrap(),
        "repeat one trial   provoke replay first#1"
    );
    let mut copy = sandbox.any("cp", &["-r", "first", "second"]);
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
fn commands_that_are_suggested_can_be_typed_for_any_folder_and_variant() {
    let sandbox = Sandbox::new();
    for folder in ["-q", "a\u{1b}[2J\n'b", "##[error]", "provoke-out/-x"] {
        let out = format!("--out=./{folder}");
        let said = sandbox.provoke(&["run", "--progress=none", "-n", "2", &out, "--", "false"]);
        assert_eq!(said.code, Some(1), "{said}");
        for (name, end) in [("replay", " --show"), ("confirm", " -q -- true")] {
            assert_typed(&sandbox, &said, name, end);
        }
    }
    sandbox.write(
        "scenario.toml",
        "command = ['false']\nruns = 2\n[[variant]]\nname = '-q'\n[[variant]]\nname = 'a b'\n",
    );
    let said = sandbox.provoke(&["scenario", "scenario.toml", "--progress=none"]);
    assert!(said.stdout.contains(" --of=-q"), "{said}");
    assert_typed(&sandbox, &said, "confirm", " -q -- true");
}

/// Runs a suggested command in a shell, with `end` appended.
fn assert_typed(sandbox: &Sandbox, said: &Said, command: &str, end: &str) {
    let begin = format!("provoke {command} ");
    let mut rest = said
        .stdout
        .lines()
        .filter_map(|line| line.split_once(&begin));
    let (_, rest) = rest.next().unwrap_or_else(|| panic!("{command}: {said}"));
    let rest = rest.split("   # ").next().unwrap_or_default();
    let line = format!("{PROVOKE} {command} {rest}{end}");
    let typed: Said = sandbox.any("bash", &["-c", &line]).output().unwrap().into();
    assert_eq!(typed.code, Some(0), "{line}: {typed}");
}
