//! Tests that no process or file remains after any kind of end.

use super::support::{
    CommandOutput, PROVOKE, Running, Sandbox, assert_gone, processes_with, send, unique_linger,
    wait_until,
};
use crate::limited;
use crate::needs::{mounts, needs, skip};
use rustix::process::Signal;
use serde_json::json;
use std::time::Instant;

#[test]
fn a_detached_daemon_is_found_described_and_killed() {
    let sandbox = Sandbox::new();
    let linger = unique_linger();
    let args = [
        "-n",
        "3",
        "--leak-grace",
        "100ms",
        "--",
        PROVOKE,
        "victim",
        "leak-detached",
    ];
    let args = [&args[..], &["--fail-on", "2", "--linger", &linger]].concat();
    let (report, _) = sandbox.report(&args);
    let variant = &report["variants"][0];
    assert_eq!(variant["outcomes"], json!({"pass": 2, "leak": 1}));
    assert_eq!(variant["failing_trials"], json!([2]));
    assert_gone(&linger);
    let leaked = sandbox
        .events()
        .into_iter()
        .find_map(|event| {
            event
                .pointer("/trial_finished/seen/residue/leaked/0")
                .cloned()
        })
        .unwrap();
    assert!(leaked["pid"].as_i64().unwrap() > 1);
    assert!(leaked["rss_kib"].as_u64().unwrap() > 0);
    assert!(leaked["age_us"].as_u64().unwrap() > 0);
    assert!(leaked["command"].to_string().contains(&linger), "{leaked}");
}

#[test]
fn a_pipe_held_open_does_not_delay_the_trial() {
    let sandbox = Sandbox::new();
    let linger = unique_linger();
    let started_at = Instant::now();
    let args = [
        "-n", "2", "--leaks", "off", "--", PROVOKE, "victim", "leak", "--linger", &linger,
    ];
    let (report, _) = sandbox.report(&args);
    assert_eq!(report["variants"][0]["outcomes"], json!({"pass": 2}));
    assert!(
        started_at.elapsed().as_secs() < 500,
        "it waited for the pipe"
    );
    assert_gone(&linger);
}

#[test]
fn a_process_that_ends_within_the_leak_grace_is_not_a_leak() {
    let sandbox = Sandbox::new();
    let args = [
        "-n",
        "2",
        "--leak-grace",
        "100s",
        "--",
        PROVOKE,
        "victim",
        "leak-brief",
    ];
    let (report, _) = sandbox.report(&args);
    let variant = &report["variants"][0];
    assert_eq!(
        (&variant["outcomes"], &variant["settled_trials"]),
        (&json!({"pass": 2}), &json!(2))
    );
}

#[test]
fn a_reported_leak_does_not_change_the_outcome() {
    let sandbox = Sandbox::new();
    let linger = unique_linger();
    let args = [
        "-n",
        "1",
        "--leaks",
        "report",
        "--leak-grace",
        "50ms",
        "--",
        PROVOKE,
        "victim",
    ];
    let args = [&args[..], &["leak-detached", "--linger", &linger]].concat();
    let (report, output) = sandbox.report(&args);
    assert_eq!(report["variants"][0]["leaked_processes"], 1);
    assert_eq!(output.code, Some(0));
    assert_gone(&linger);
}

#[test]
fn leaked_processes_that_keep_forking_are_killed() {
    let sandbox = Sandbox::new();
    let linger = unique_linger();
    let args = [
        "-n",
        "2",
        "--leak-grace",
        "20ms",
        "--",
        PROVOKE,
        "victim",
        "fork-storm",
    ];
    let args = [&args[..], &["--count", "20000", "--linger", &linger]].concat();
    sandbox.report(&args);
    assert_gone(&linger);
}

/// Returns a command that starts a daemon and then runs forever.
fn endless_command(linger: &str) -> String {
    format!(
        "{PROVOKE} victim leak-detached --linger {linger}; touch up.$PROVOKE_TRIAL; exec {PROVOKE} victim leftover --linger {linger}"
    )
}

/// Starts four endless trials, and waits until all of them are running.
fn start_endless(sandbox: &Sandbox, linger: &str, grace: &str) -> Running {
    let line = endless_command(linger);
    let args = [
        "run", "-n", "4", "-j", "4", "--grace", grace, "--", "sh", "-c", &line,
    ];
    let child = sandbox.start(&args);
    let up = |trial| sandbox.path(&format!("up.{trial}")).exists();
    wait_until("four trials run", || (1..=4).all(up));
    wait_until("eight processes run", || processes_with(linger).len() >= 8);
    child
}

#[test]
fn an_interrupt_ends_the_trials_and_suggests_resume() {
    for (kind, code) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129)] {
        let sandbox = Sandbox::new();
        let linger = unique_linger();
        let child = start_endless(&sandbox, &linger, "60s");
        child.signal(kind);
        let output = child.end();
        assert_eq!(output.code, Some(code), "{output}");
        assert!(
            output.to_string().contains("provoke resume RUN"),
            "{output}"
        );
        assert_gone(&linger);
    }
}

#[test]
fn a_second_interrupt_kills_the_trials() {
    let sandbox = Sandbox::new();
    // These processes ignore SIGTERM, and the grace is longer than the test waits.
    let line = format!("trap '' TERM; touch up.$PROVOKE_TRIAL; {PROVOKE} victim hang-stubborn");
    let child = sandbox.start(&[
        "run", "-n", "2", "-j", "2", "--grace", "1h", "--", "sh", "-c", &line,
    ]);
    wait_until("both run", || {
        (1..=2).all(|trial| sandbox.path(&format!("up.{trial}")).exists())
    });
    child.signal(Signal::INT);
    child.wait_for_stderr("press Ctrl-C again to kill them");
    child.signal(Signal::INT);
    let output = child.end();
    assert_eq!(output.code, Some(130), "{output}");
}

#[test]
fn a_third_interrupt_exits_immediately_and_the_slots_clean_up() {
    let sandbox = Sandbox::new();
    let linger = unique_linger();
    // This process ignores SIGTERM, and the grace is longer than the test waits.
    let cleanup = format!(
        "trap '' TERM; touch cleaning; while :; do {PROVOKE} victim leftover --linger {linger}; done"
    );
    let child = sandbox.start(&[
        "run",
        "-n",
        "1",
        "--grace",
        "1h",
        "--cleanup",
        &cleanup,
        "--",
        "sh",
        "-c",
        "touch up; exec sleep 600",
    ]);
    wait_until("the trial runs", || sandbox.path("up").exists());
    child.signal(Signal::INT);
    wait_until("it cleans up", || sandbox.path("cleaning").exists());
    child.signal(Signal::INT);
    child.wait_for_stderr("press Ctrl-C again to exit immediately");
    // One process follows the other, with a gap between them.
    wait_until("it lives", || !processes_with(&linger).is_empty());
    child.signal(Signal::INT);
    let output = child.end();
    assert_eq!(output.code, Some(130), "{output}");
    wait_until("nothing is left", || processes_with(&linger).is_empty());
}

#[test]
fn a_stopped_slot_is_continued_and_its_trial_retried() {
    let sandbox = Sandbox::new();
    let line = "mkdir first 2>/dev/null && kill -STOP $PPID; sleep 0.5";
    let (report, output) = sandbox.report(&["-n", "2", "--", "sh", "-c", line]);
    assert_eq!(
        report["variants"][0]["outcomes"],
        json!({"pass": 2}),
        "{output}"
    );
    assert_eq!(report["repeated_attempts"], 1);
}

#[test]
fn a_run_whose_trials_stop_their_slots_ends_without_processes() {
    let sandbox = Sandbox::new();
    let linger = unique_linger();
    let line = format!("kill -STOP $PPID; exec {PROVOKE} victim leftover --linger {linger}");
    let args = [
        "-n", "1", "-t", "300ms", "--grace", "100ms", "--", "sh", "-c", &line,
    ];
    let (report, output) = sandbox.report(&args);
    assert_eq!(report["variants"][0]["trials"], 0, "{output}");
    let why = "3 consecutive trials could not run: lost: its slot was stopped";
    assert!(output.stdout.contains(why), "{output}");
    assert_eq!(output.code, Some(125), "{output}");
    assert_gone(&linger);
}

#[test]
fn no_process_survives_a_killed_provoke_with_stopped_slots() {
    let sandbox = Sandbox::new();
    let linger = unique_linger();
    let child = start_endless(&sandbox, &linger, "5s");
    // provoke must not continue them itself.
    child.signal(Signal::STOP);
    for slot in child.children() {
        send(slot, Signal::STOP);
    }
    child.signal(Signal::KILL);
    child.end();
    wait_until("nothing is left", || processes_with(&linger).is_empty());
}

#[test]
fn a_slot_stopped_while_it_starts_does_not_survive_provoke() {
    for attempt in 0..5 {
        let sandbox = Sandbox::new();
        let out = format!("run{attempt}");
        let child = sandbox.start(&[
            "run",
            "--progress=none",
            "-n",
            "2",
            "-j",
            "2",
            "-o",
            &out,
            "--",
            "sleep",
            "0.2",
        ]);
        let is_slot = |pid: i32| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            line.split(|byte| *byte == 0).nth(1) == Some(b"slot")
        };
        let mut slots = Vec::new();
        let until = Instant::now() + limited::PATIENCE;
        // The second one starts after the run was created.
        while slots.len() < 2 && Instant::now() < until {
            slots = child.children();
            slots.retain(|pid| is_slot(*pid));
        }
        for slot in &slots {
            send(*slot, Signal::STOP);
        }
        child.signal(Signal::KILL);
        child.end();
        for slot in slots {
            wait_until("the slot is gone", || {
                let stat = std::fs::read_to_string(format!("/proc/{slot}/stat"));
                stat.is_err() || stat.is_ok_and(|stat| stat.contains(") Z "))
            });
        }
        let output = sandbox.provoke(&["resume", "--progress=none", &out]);
        assert_eq!(output.code, Some(0), "{output}");
    }
}

#[test]
fn the_next_run_kills_processes_in_cgroups_of_a_killed_run() {
    if provoke_sys::cgroup::SlotGroup::try_create().is_none() {
        skip!("no memory group can be made here");
    }
    let sandbox = Sandbox::new();
    let linger = unique_linger();
    let child = start_endless(&sandbox, &linger, "5s");
    child.die_with_slots();
    // The main processes die with their slots; leaked ones do not. The next run removes them, which may be that of
    // another test.
    let output = sandbox.provoke(&["run", "--progress=none", "-n", "1", "--", "true"]);
    assert_eq!(output.code, Some(0), "{output}");
    wait_until("nothing is left", || processes_with(&linger).is_empty());
}

#[test]
fn no_process_survives_a_killed_provoke() {
    let sandbox = Sandbox::new();
    let linger = unique_linger();
    let child = start_endless(&sandbox, &linger, "5s");
    child.signal(Signal::KILL);
    child.end();
    wait_until("nothing is left", || processes_with(&linger).is_empty());
}

#[test]
fn a_killed_run_whose_trials_run_in_copies_of_the_directory_can_be_resumed() {
    let sandbox = Sandbox::new();
    let up = sandbox.path("up");
    let line = format!("touch {}; test -e go || exec sleep 1000", up.display());
    let args = ["run", "-n", "2", "--under", "fresh-dir", "--out", "killed"];
    let child = sandbox.start(&[&args[..], &["--", "sh", "-c", &line]].concat());
    wait_until("a trial runs", || up.exists());
    child.signal(Signal::KILL);
    child.end();
    sandbox.write("go", "");
    let output = sandbox.provoke(&["resume", "--progress=none", "killed"]);
    assert_eq!(output.code, Some(0), "{output}");
    assert!(output.stdout.contains("0 of 2 trials failed"), "{output}");
}

#[test]
fn a_killed_slot_costs_one_attempt_and_leaves_no_process() {
    let sandbox = Sandbox::new();
    let linger = unique_linger();
    // The first attempt kills its own slot after it started a daemon.
    let line = format!(
        "{PROVOKE} victim leak-detached --linger {linger}; mkdir first 2>/dev/null && kill -9 $PPID; exit 0"
    );
    let args = ["-n", "2", "--leaks", "off", "--", "sh", "-c", &line];
    let (report, output) = sandbox.report(&args);
    assert_eq!(
        report["variants"][0]["outcomes"],
        json!({"pass": 2}),
        "{output}"
    );
    assert_eq!(report["repeated_attempts"], 1);
    assert_gone(&linger);
}

#[test]
fn slots_killed_at_one_blow_cost_one_attempt() {
    let sandbox = Sandbox::new();
    // The second trial kills its own slot, and the one that has no trial left.
    let line = "case $PROVOKE_TRIAL in \
        2) mkdir first 2>/dev/null || exit 0; until [ -e third ]; do sleep 0.01; done; sleep 0.2; \
           provoke=$(cut -d' ' -f4 /proc/$PPID/stat); kill -9 $(cat /proc/$provoke/task/*/children);; \
        3) touch third;; \
        esac";
    let (report, output) = sandbox.report(&["-n", "3", "-j", "2", "--", "sh", "-c", line]);
    let outcomes = &report["variants"][0]["outcomes"];
    assert_eq!(*outcomes, json!({"pass": 3}), "{output}");
}

#[test]
fn helpers_run_in_parallel_and_end_with_the_main_process() {
    let sandbox = Sandbox::new();
    let linger = unique_linger();
    let file = sandbox.write("s.toml", &format!(
        "runs = 3\n[[actor]]\nname = 'writer'\nrole = 'helper'\nshell = 'touch ready; exec {PROVOKE} victim leftover --linger {linger}'\n\
         [[actor]]\nname = 'reader'\nshell = 'until [ -e ready ]; do sleep 0.01; done'\n"
    ));
    let output = sandbox.provoke(&["scenario", file.to_str().unwrap(), "--progress=none"]);
    assert_eq!(output.code, Some(0), "{output}");
    assert!(output.stdout.contains("0 of 3 trials failed"), "{output}");
    assert_gone(&linger);
}

#[test]
fn an_interrupt_during_the_leak_grace_is_not_a_leak() {
    let sandbox = Sandbox::new();
    let linger = unique_linger();
    let line = format!("{PROVOKE} victim leak-detached --linger {linger}; touch up");
    let child = sandbox.start(&[
        "run",
        "-n",
        "2",
        "-x",
        "--leak-grace",
        "1h",
        "--",
        "sh",
        "-c",
        &line,
    ]);
    wait_until("the main process is over", || sandbox.path("up").exists());
    std::thread::sleep(std::time::Duration::from_millis(50));
    child.signal(Signal::INT);
    let output = child.end();
    assert_eq!(output.code, Some(130), "{output}");
    assert!(
        output.stdout.contains("no trial was conclusive"),
        "{output}"
    );
    assert_gone(&linger);
}

#[test]
fn a_signal_ignored_at_the_start_of_provoke_stays_ignored() {
    let sandbox = Sandbox::new();
    let line = format!(
        "trap '' HUP; exec {PROVOKE} run --progress=none -n 1 -- sh -c 'touch up; until [ -e go ]; do sleep 0.01; done'"
    );
    let mut child = sandbox
        .program_command("sh", &[])
        .args(["-c", &line])
        .spawn()
        .unwrap();
    wait_until("the trial runs", || sandbox.path("up").exists());
    send(child.id().cast_signed(), Signal::HUP);
    sandbox.write("go", "");
    assert_eq!(limited::wait(&mut child).code(), Some(0));
}

#[test]
fn an_interrupt_before_the_first_trial_ends_the_run() {
    let sandbox = Sandbox::new();
    let child = sandbox.start(&["run", "-n", "2", "-j", "2", "--", "sleep", "600"]);
    // The second slot starts after the run was created. It may receive the order to stop together with the order to run.
    wait_until("two slots are started", || child.children().len() == 2);
    child.signal(Signal::INT);
    assert_eq!(child.end().code, Some(130));
}

#[test]
fn no_signal_is_ignored_in_a_trial() {
    let sandbox = Sandbox::new();
    let line = "grep -q '^SigIgn:[[:blank:]]*0*$' /proc/self/status";
    let command = [
        "--default-signal",
        PROVOKE,
        "run",
        "--progress=none",
        "-n",
        "1",
        "--",
        "sh",
        "-c",
        line,
    ];
    let output: CommandOutput = sandbox
        .program_command("env", &command)
        .output()
        .unwrap()
        .into();
    assert_eq!(output.code, Some(0), "{output}");
}

#[test]
fn a_slot_that_cannot_start_ends_the_run_with_the_reason() {
    needs!(mounts());
    let sandbox = Sandbox::new();
    let run = format!("{PROVOKE} run --progress=none -n 3 -o r -- /bin/true");
    // Without its own /dev, only the journal's directory is needed.
    let line = format!("mount -t tmpfs none /dev && {run}");
    let output: CommandOutput = sandbox
        .program_command("unshare", &["-m", "sh", "-c", &line])
        .output()
        .unwrap()
        .into();
    let why =
        "3 consecutive trials could not run: lost: its slot was lost: cannot open `/dev/null`";
    assert!(output.stdout.contains(why), "{output}");
    assert_eq!(output.code, Some(125), "{output}");
    let started = sandbox.read("r/events.jsonl");
    assert_eq!(started.matches("trial_started").count(), 6, "{output}");
}

const MOVING: &str = r#"
    #define _GNU_SOURCE
    #include <fcntl.h>
    #include <unistd.h>
    int main(int count, char **words) {
        if (count > 1) { execv(words[0], words); return 1; }
        int line[2];
        if (pipe2(line, O_CLOEXEC)) return 2;
        if (fork() == 0) {
            setsid();
            char *again[] = {words[0], "moving", "target", 0};
            execv(words[0], again);
        }
        close(line[1]);
        char started;
        return read(line[0], &started, 1) != 0;
    }
"#;

#[test]
fn a_leaked_process_that_keeps_executing_programs_has_a_command_line() {
    let sandbox = Sandbox::new();
    let program = super::evidence::compile(&sandbox, "moving", MOVING, &["-O1"]);
    let args = [
        "-n",
        "20",
        "-j",
        "4",
        "--leak-grace",
        "10ms",
        "--",
        &program,
    ];
    let (report, output) = sandbox.report(&args);
    let signatures = report["variants"][0]["signatures"].as_array().unwrap();
    let titles: Vec<_> = signatures.iter().map(|seen| &seen["title"]).collect();
    assert_eq!(titles, ["leak: moving moving target"], "{output}");
}
