//! Tests whose commands are run, and as which user.

use super::support::{CommandOutput, Sandbox, wait_until, words};
use crate::needs::{creation_times, needs, root};
use regex::Regex;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, lchown, symlink};
use std::process::Command;

/// The user without files.
const NOBODY: u32 = 65534;

/// Returns a sandbox with a run of one failing trial, which prints its user.
fn sandbox_with_run() -> Sandbox {
    let sandbox = Sandbox::new();
    let output = sandbox.provoke(&[
        "run",
        "-n",
        "2",
        "--progress=none",
        "--",
        "sh",
        "-c",
        "echo ran >> ran; exit 3",
    ]);
    assert_eq!(output.code, Some(1), "{output}");
    fs::remove_file(sandbox.path("ran")).unwrap();
    sandbox
}

/// The commands that execute a run.
const EXECUTING_COMMANDS: &[&[&str]] = &[
    &["replay", "last#1"],
    &["resume", "last"],
    &["confirm", "--baseline", "last"],
    &["confirm", "--baseline", "last", "--", "true"],
    &["compare", "--baseline", "last", "-L", "a=1,2"],
    &["reduce", "--requests", "last"],
    &["reduce", "--from", "last", "--to", "last", "--", "true"],
];
const READING_COMMANDS: &[&[&str]] = &[
    &["report", "last"],
    &["list"],
    &["explain", "last#1"],
    &["diff", "last", "last"],
    &["replay", "last#1", "--show"],
    &["plan", "--baseline", "last"],
];

fn assert_refused(sandbox: &Sandbox, why: &str) {
    for args in EXECUTING_COMMANDS {
        let output = sandbox.provoke(args);
        assert_eq!(output.code, Some(2), "{args:?}: {output}");
        assert!(output.stderr.contains(why), "{args:?}: {output}");
        assert!(output.stderr.contains("--trust"), "{args:?}: {output}");
    }
    for args in READING_COMMANDS {
        let output = sandbox.provoke(args);
        assert_eq!(output.code, Some(0), "{args:?}: {output}");
    }
    assert!(!sandbox.path("ran").exists());
    let output = sandbox.provoke(&["replay", "last#1", "--trust"]);
    assert_eq!(output.code, Some(1), "{output}");
    assert!(sandbox.path("ran").exists());
}

#[test]
fn a_run_of_another_user_can_be_read_but_not_executed() {
    needs!(root());
    for part in ["", "events.jsonl"] {
        let sandbox = sandbox_with_run();
        chown(
            sandbox.path("provoke-out/last").join(part),
            Some(NOBODY),
            None,
        )
        .unwrap();
        assert_refused(&sandbox, "it belongs to the user nobody");
    }
}

#[test]
fn no_page_is_written_through_a_link_or_to_another_user() {
    let sandbox = sandbox_with_run();
    let precious = sandbox.write("precious", "precious");
    let page = sandbox.path("provoke-out/last/report.html");
    symlink(&precious, &page).unwrap();
    let output = sandbox.provoke(&["report", "last", "--html"]);
    assert_eq!(output.code, Some(2), "{output}");
    assert!(output.stderr.contains("is a link"), "{output}");
    assert_eq!(sandbox.read("precious"), "precious");
    fs::remove_file(&page).unwrap();
    let output = sandbox.provoke(&["report", "last", "--html"]);
    assert_eq!(output.code, Some(0), "{output}");
    needs!(root());
    chown(sandbox.path("provoke-out/last/."), Some(NOBODY), None).unwrap();
    let output = sandbox.provoke(&["report", "last", "--html"]);
    assert_eq!(output.code, Some(2), "{output}");
    assert!(output.stderr.contains("the user nobody"), "{output}");
    let output = sandbox.provoke(&["report", "last", "--html=page.html"]);
    assert_eq!(output.code, Some(0), "{output}");
}

#[test]
fn no_picture_is_written_through_a_link() {
    let sandbox = sandbox_with_run();
    sandbox.provoke(&["report", "last", "--svg", "pictures"]);
    let mut pictures = fs::read_dir(sandbox.path("pictures")).unwrap();
    let picture = pictures.next().unwrap().unwrap().path();
    fs::remove_file(&picture).unwrap();
    symlink(sandbox.write("precious", "precious"), &picture).unwrap();
    let output = sandbox.provoke(&["report", "last", "--svg", "pictures"]);
    assert_eq!(output.code, Some(0), "{output}");
    assert_eq!(sandbox.read("precious"), "precious");
    assert!(fs::symlink_metadata(&picture).unwrap().is_file());
}

#[test]
fn no_run_is_stored_in_a_directory_of_another_user() {
    needs!(root());
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.path("provoke-out")).unwrap();
    chown(sandbox.path("provoke-out"), Some(NOBODY), None).unwrap();
    let run = ["run", "-n", "1", "--progress=none"];
    let output = sandbox.provoke(&[&run[..], &["--", "true"]].concat());
    assert_eq!(output.code, Some(2), "{output}");
    assert!(output.stderr.contains("PROVOKE_HOME"), "{output}");
    let output = sandbox.provoke(&[&run[..], &["--out", "run", "--", "true"]].concat());
    assert_eq!(output.code, Some(0), "{output}");
}

#[test]
fn a_run_to_which_a_link_of_another_user_leads_is_not_executed() {
    needs!(root());
    let sandbox = sandbox_with_run();
    lchown(sandbox.path("provoke-out/last"), Some(NOBODY), None).unwrap();
    assert_refused(&sandbox, "a link of the user nobody leads to it");
}

/// The first trial renames the directory of the run, and puts a link in its place.
const REPLACING_COMMAND: &str = "test -e moved || { mv run moved; ln -s other run; }; exit 3";

#[test]
fn a_run_stays_in_its_directory_although_a_link_takes_its_place() {
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.path("other")).unwrap();
    let run = words("run -n 3 --progress=none --out run -- sh -c");
    let output = sandbox.provoke(&[&run[..], &[REPLACING_COMMAND]].concat());
    assert_eq!(output.code, Some(1), "{output}");
    assert!(
        output.stdout.contains("exit 3 in 3 of 3 trials"),
        "{output}"
    );
    assert!(sandbox.path("moved/trials/2/stderr").is_file());
    assert!(
        fs::read_dir(sandbox.path("other"))
            .unwrap()
            .next()
            .is_none()
    );
}

#[test]
fn a_run_ends_if_the_directories_of_its_trials_are_elsewhere() {
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.path("other")).unwrap();
    let run = words("run -n 9 --progress=none --out run --tmp-per-run -- sh -c");
    let output = sandbox.provoke(&[&run[..], &[REPLACING_COMMAND]].concat());
    assert!(output.stdout.contains("exit 3 in 1 of 1 trial"), "{output}");
    let text = format!("{output}");
    assert!(text.contains("was renamed or replaced"), "{output}");
    assert!(
        fs::read_dir(sandbox.path("other"))
            .unwrap()
            .next()
            .is_none()
    );
}

#[test]
fn pipes_and_links_among_the_evidence_are_not_opened() {
    let sandbox = sandbox_with_run();
    let stderr = sandbox.path("provoke-out/last/trials/1/stderr");
    fs::remove_file(&stderr).unwrap();
    let secret = sandbox.write("secret", "a line of another file");
    symlink(secret, &stderr).unwrap();
    let output = sandbox.provoke(&["explain", "last#1"]);
    assert!(!output.stdout.contains("another file"), "{output}");
    fs::remove_file(&stderr).unwrap();
    let made = Command::new("mkfifo").arg(&stderr).status().unwrap();
    assert!(made.success());
    let output = sandbox.provoke(&["explain", "last#1"]);
    assert_eq!(output.code, Some(0), "{output}");
}

#[test]
fn a_run_that_others_can_change_is_not_executed() {
    let sandbox = sandbox_with_run();
    let journal = sandbox.path("provoke-out/last/events.jsonl");
    fs::set_permissions(journal, fs::Permissions::from_mode(0o666)).unwrap();
    assert_refused(&sandbox, "other users can write to it");
}

#[test]
fn a_run_from_an_archive_is_not_executed() {
    needs!(creation_times());
    let sandbox = sandbox_with_run();
    let run = fs::canonicalize(sandbox.path("provoke-out/last")).unwrap();
    let journal = run.join("events.jsonl");
    // Simulates a journal that was written an hour ago: its file is newer than its events.
    let text = fs::read_to_string(&journal).unwrap();
    let at = text
        .split(r#""at":"#)
        .nth(1)
        .unwrap()
        .split(|c: char| !c.is_ascii_digit())
        .next()
        .unwrap();
    let earlier = (at.parse::<u64>().unwrap() - 3600).to_string();
    let sums = Regex::new(r#","sum":"[0-9a-f]{16}"}"#).unwrap();
    let text = text.replacen(at, &earlier, 1);
    fs::write(&journal, &*sums.replace_all(&text, "}")).unwrap();
    let tar = |args: &[&str]| {
        let done = Command::new("tar")
            .current_dir(sandbox.path(""))
            .args(args)
            .status();
        assert!(done.unwrap().success());
    };
    tar(&["-cf", "run.tar", "provoke-out"]);
    fs::remove_dir_all(sandbox.path("provoke-out")).unwrap();
    tar(&["-xf", "run.tar"]);
    assert_refused(&sandbox, "its journal is a copy");
}

#[test]
fn a_replay_does_not_use_a_planted_temporary_directory() {
    let sandbox = sandbox_with_run();
    sandbox.provoke(&[
        "run",
        "-n",
        "1",
        "--progress=none",
        "--",
        "sh",
        "-c",
        "echo $0 > seen; exit 3",
        "{dir}",
    ]);
    let temporary = sandbox.path("temporary");
    fs::create_dir(&temporary).unwrap();
    let elsewhere = sandbox.path("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    // The PID of the next process is unknown, so all following ones are occupied.
    let next: u32 = fs::read_to_string("/proc/sys/kernel/ns_last_pid")
        .map_or(0, |pid| pid.trim().parse().unwrap());
    for pid in next..next + 2000 {
        symlink(&elsewhere, temporary.join(format!("provoke-replay-{pid}"))).unwrap();
    }
    let output: CommandOutput = sandbox
        .command(&["replay", "last#1"])
        .env("TMPDIR", &temporary)
        .output()
        .unwrap()
        .into();
    assert_eq!(output.code, Some(1), "{output}");
    assert!(
        sandbox
            .read("seen")
            .starts_with(temporary.to_str().unwrap())
    );
    assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
}

#[test]
fn trials_run_as_the_user_of_the_flag_user() {
    needs!(root());
    let sandbox = Sandbox::new();
    fs::set_permissions(sandbox.path(""), fs::Permissions::from_mode(0o755)).unwrap();
    let script = "id -un; id -u; echo $HOME $USER; touch \"$0/file\" && touch \"$TMPDIR/other\"; \
                  sleep 0.01; kill -SEGV $$";
    let output = sandbox.provoke(&[
        "run",
        "-n",
        "2",
        "-j",
        "2",
        "--progress=none",
        "--user",
        "nobody",
        "--keep",
        "all",
        "--prepare",
        "id -u >> prepared",
        "--",
        "sh",
        "-c",
        script,
        "{dir}",
    ]);
    assert_eq!(output.code, Some(1), "{output}");
    assert!(output.stdout.contains("SIGSEGV in 2 of 2"), "{output}");
    let trial = sandbox.path("provoke-out/last/trials/1");
    let out = fs::read_to_string(trial.join("stdout")).unwrap();
    assert!(
        out.starts_with("nobody\n65534\n") && out.ends_with(" nobody\n"),
        "{out}"
    );
    assert!(sandbox.read("prepared").lines().all(|uid| uid == "0"));
    // The owner of the trial's directory owns none of its parents.
    assert_eq!(fs::metadata(trial.join("dir")).unwrap().uid(), NOBODY);
    assert_eq!(fs::metadata(&trial).unwrap().uid(), 0);
    assert_eq!(
        fs::metadata(sandbox.path("provoke-out/last/events.jsonl"))
            .unwrap()
            .mode()
            & 0o777,
        0o600
    );
    let output = sandbox.provoke(&["replay", "last#1"]);
    assert!(output.stderr.contains("nobody"), "{output}");
}

#[test]
fn trials_of_another_user_end_with_provoke() {
    needs!(root());
    let sandbox = Sandbox::new();
    let linger = super::support::unique_linger();
    let program = sandbox.path("program");
    fs::set_permissions(sandbox.path(""), fs::Permissions::from_mode(0o755)).unwrap();
    fs::copy(super::support::PROVOKE, &program).unwrap();
    let running = sandbox.start(&[
        "run",
        "-n",
        "1",
        "--user",
        "nobody",
        "--",
        program.to_str().unwrap(),
        "victim",
        "leftover",
        "--linger",
        &linger,
    ]);
    wait_until("it runs", || {
        !super::support::processes_with(&linger).is_empty()
    });
    running.die_with_slots();
    wait_until("it is gone", || {
        let own = |pid: &i32| {
            fs::metadata(format!("/proc/{pid}")).is_ok_and(|about| about.uid() == NOBODY)
        };
        !super::support::processes_with(&linger).iter().any(own)
    });
}

#[test]
fn an_unknown_user_is_refused() {
    let output = Sandbox::new().provoke(&["run", "--user", "no such user", "--", "true"]);
    insta::assert_snapshot!(output, @"
    ------- stderr -------
    error: there is no user `no such user`

    hint: choose a user from `getent passwd`
    [exit status: Some(2)]
    ");
}

#[test]
fn output_is_not_written_through_a_symlink() {
    let sandbox = Sandbox::new();
    let target = sandbox.write("target", "kept");
    let script = "cd \"$0/..\" && ln -s \"$1\" stdout && mkfifo stderr; echo written; exit 3";
    let target_name = target.to_str().unwrap();
    let args = [
        "run",
        "-n",
        "1",
        "--progress=none",
        "--",
        "sh",
        "-c",
        script,
        "{dir}",
        target_name,
    ];
    let output = sandbox.provoke(&args);
    assert_eq!(output.code, Some(1), "{output}");
    assert_eq!(sandbox.read("target"), "kept");
    assert_eq!(
        sandbox.read("provoke-out/last/trials/1/stdout"),
        "written\n"
    );
    // An existing link in the root of runs is not followed either.
    let ignore = sandbox.path("provoke-out/.gitignore");
    let planted = sandbox.path("planted");
    fs::remove_file(&ignore).unwrap();
    symlink(&planted, &ignore).unwrap();
    sandbox.provoke(&["run", "-n", "1", "--progress=none", "--", "true"]);
    assert!(!planted.exists());
}

#[test]
fn a_pipe_with_the_name_of_a_core_is_not_opened() {
    let sandbox = Sandbox::new();
    let script = "mkfifo core core.$$; kill -SEGV $$";
    let args = [
        "run",
        "-n",
        "1",
        "--progress=none",
        "--capture",
        "on",
        "--",
        "sh",
        "-c",
        script,
    ];
    let output = sandbox.provoke(&args);
    assert_eq!(output.code, Some(1), "{output}");
}

#[test]
fn a_trial_of_another_user_does_not_receive_secrets_of_root() {
    needs!(root());
    let sandbox = Sandbox::new();
    fs::set_permissions(sandbox.path(""), fs::Permissions::from_mode(0o755)).unwrap();
    let line = "echo \"[$ROOT_TOKEN][$GIVEN_TOKEN]\"; ls /proc/self/fd; exit 3";
    let args = [
        "run",
        "-n",
        "1",
        "--progress=none",
        "--user",
        "nobody",
        "-e",
        "GIVEN_TOKEN=given",
        "--",
        "sh",
        "-c",
        line,
    ];
    let output: CommandOutput = sandbox
        .command(&args)
        .env("ROOT_TOKEN", "only for root")
        .output()
        .unwrap()
        .into();
    assert_eq!(output.code, Some(1), "{output}");
    let kept = sandbox.path("provoke-out/last/trials/1/stdout");
    let out = fs::read_to_string(&kept).unwrap();
    assert!(out.starts_with("[][given]\n0\n1\n2\n"), "{out}");
    assert_eq!(fs::metadata(kept).unwrap().mode() & 0o777, 0o600);
}

#[test]
fn a_run_that_a_group_can_change_is_not_executed() {
    needs!(root());
    let sandbox = sandbox_with_run();
    let journal = sandbox.path("provoke-out/last/events.jsonl");
    chown(&journal, None, Some(NOBODY)).unwrap();
    fs::set_permissions(journal, fs::Permissions::from_mode(0o660)).unwrap();
    assert_refused(&sandbox, "other users can write to it");
}
