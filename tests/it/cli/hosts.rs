//! Tests trials on other hosts over ssh.

use super::ssh_server::{SshServer, sshd};
use super::support::{
    CommandOutput, LAST_RUN, Sandbox, after_joins, processes_with, wait_until, words,
};
use crate::needs::{needs, program};
use rustix::process::Signal;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;

/// Fails in one of ten trials, by its number, and takes a little time.
const ONE_OF_TEN: &str =
    "sleep 0.02; case $PROVOKE_TRIAL in *3) echo broken >&2; kill -SEGV $$;; esac";

/// Returns for every host its counted trials.
fn trials_of_hosts(report: &Value) -> Vec<u64> {
    let hosts = report["hosts"].as_array().unwrap();
    hosts
        .iter()
        .map(|host| host["trials"].as_u64().unwrap())
        .collect()
}

#[test]
fn trials_run_on_every_host_and_their_output_is_copied() {
    needs![sshd(), program("ssh"), program("ssh-keygen")];
    let sandbox = Sandbox::new();
    let server = SshServer::start(&sandbox);
    let args = [
        "--on",
        "ssh:a,b",
        "-j",
        "2",
        "-n",
        "40",
        "--capture",
        "off",
        "--shell",
        &after_joins(2, ONE_OF_TEN),
    ];
    let (report, output) = server.report(&sandbox, &args);
    assert_eq!(report["variants"][0]["failures"], 4, "{output}");
    let trials = trials_of_hosts(&report);
    assert_eq!(trials.iter().sum::<u64>(), 40, "{output}");
    assert!(
        trials.iter().all(|trials| *trials >= 10),
        "{trials:?} {output}"
    );
    for trial in [3, 13, 23, 33] {
        let stderr = sandbox.read(&format!("provoke-out/last/trials/{trial}/stderr"));
        assert_eq!(stderr, "broken\n", "{output}");
    }
    server.assert_nothing_left();
}

#[test]
fn every_host_runs_every_variant() {
    needs![sshd(), program("ssh"), program("ssh-keygen")];
    let sandbox = Sandbox::new();
    let server = SshServer::start(&sandbox);
    let args = [
        "compare",
        "--on",
        "ssh:a,b",
        "-n",
        "20",
        "--find",
        "different",
        "-L",
        "mode=x,y",
        "--capture",
        "off",
        "--",
        "sh",
        "-c",
        &after_joins(2, "sleep 0.01; test {mode} = x"),
    ];
    let output = server.output(&sandbox, &args);
    assert_eq!(output.code, Some(1), "{output}");
    let mut launched = std::collections::BTreeMap::new();
    for event in sandbox.events() {
        if let Some(trial) = event.get("trial_started") {
            let key = (trial["variant"].as_u64(), trial["lane"].as_u64());
            *launched.entry(key).or_insert(0_u64) += 1;
        }
    }
    let (least, most) = (launched.values().min(), launched.values().max());
    assert_eq!(launched.len(), 4, "{launched:?}");
    assert!(most.unwrap() - least.unwrap() <= 3, "{launched:?}");
}

#[test]
fn trials_of_a_killed_worker_run_again_elsewhere() {
    needs![sshd(), program("ssh"), program("ssh-keygen")];
    let sandbox = Sandbox::new();
    let server = SshServer::start(&sandbox);
    let args = [
        "run",
        "--on",
        "ssh:a,b,c",
        "-j",
        "2",
        "-n",
        "200",
        "--capture",
        "off",
        "--progress=none",
        "--export-json",
        "report.json",
        "--shell",
        &after_joins(3, ONE_OF_TEN),
    ];
    let running = sandbox.started_trials(20, server.provoke(&sandbox, &args));
    super::support::send(server.workers()[0], Signal::KILL);
    assert_eq!(running.end().code, Some(1));
    let report: Value = serde_json::from_str(&sandbox.read("report.json")).unwrap();
    assert_eq!(report["variants"][0]["failures"], 20);
    assert_eq!(report["variants"][0]["trials"], 200);
    assert_eq!(trials_of_hosts(&report).iter().sum::<u64>(), 200);
    let hosts = report["hosts"].as_array().unwrap();
    let lost: Vec<_> = hosts
        .iter()
        .filter(|host| !host["lost"].is_null())
        .collect();
    assert_eq!(lost.len(), 1, "{hosts:?}");
    server.assert_workers_ended();
}

#[test]
fn nothing_is_left_on_hosts_when_provoke_is_killed_and_the_run_continues() {
    needs![sshd(), program("ssh"), program("ssh-keygen")];
    let sandbox = Sandbox::new();
    let server = SshServer::start(&sandbox);
    let args = [
        "run",
        "--on",
        "ssh:a,b",
        "-j",
        "2",
        "-n",
        "100",
        "--capture",
        "off",
        "--progress=none",
        "--shell",
        &after_joins(2, ONE_OF_TEN),
    ];
    let running = sandbox.started_trials(20, server.provoke(&sandbox, &args));
    running.kill();
    server.assert_nothing_left();
    // It continues on another host, and then on this machine.
    let resumed = ["resume", "last", "--on"];
    let on_host = [&resumed[..], &["ssh:c", "--progress=none"]].concat();
    let running = sandbox.started_trials(5, server.provoke(&sandbox, &on_host));
    running.kill();
    server.assert_nothing_left();
    let last = ["local", "--export-json", "report.json"];
    let output = server.output(&sandbox, &[&resumed[..], &last].concat());
    assert_eq!(output.code, Some(1), "{output}");
    let report: Value = serde_json::from_str(&sandbox.read("report.json")).unwrap();
    assert_eq!(report["variants"][0]["failures"], 10, "{output}");
    assert_eq!(report["variants"][0]["trials"], 100, "{output}");
    let trials = trials_of_hosts(&report);
    assert_eq!(trials.len(), 3, "{output}");
    assert!(trials.iter().sum::<u64>() < 100, "{trials:?} {output}");
}

#[test]
fn hosts_share_one_copy_of_provoke_and_replace_it_if_its_contents_are_wrong() {
    needs![sshd(), program("ssh"), program("ssh-keygen")];
    let sandbox = Sandbox::new();
    let cache = sandbox.path("cache");
    let server = SshServer::start_with_cache(&sandbox, &cache);
    // All hosts copy it at the same time.
    let command = after_joins(3, "true");
    let args = ["--on", "ssh:a,b,c", "-n", "9", "--shell", &command];
    let run = || {
        let (report, output) = server.report(&sandbox, &args);
        assert_eq!(output.code, Some(0), "{output}");
        let hosts = report["hosts"].as_array().unwrap();
        let is_up = |host: &Value| host["lost_attempts"] == 0 && host["lost"].is_null();
        assert!(hosts.len() == 3 && hosts.iter().all(is_up), "{report}");
    };
    run();
    let entries = fs::read_dir(cache.join("provoke")).unwrap().flatten();
    let copies: Vec<_> = entries.map(|entry| entry.path()).collect();
    let [copy] = &copies[..] else {
        panic!("{copies:?}");
    };
    let contents = fs::read(copy).unwrap();
    let mut wrong = contents.clone();
    wrong[100] ^= 1;
    fs::write(copy, wrong).unwrap();
    run();
    assert!(fs::read(copy).unwrap() == contents, "it is not replaced");
}

#[test]
fn hosts_of_one_machine_are_mentioned_and_too_many_slots_are_refused() {
    needs![sshd(), program("ssh"), program("ssh-keygen")];
    let sandbox = Sandbox::new();
    let server = SshServer::start(&sandbox);
    let command = after_joins(2, "true");
    let args = [
        "run", "--on", "ssh:a,b", "-j", "2000", "-n", "4", "--", "sh", "-c", &command,
    ];
    let output = server.output(&sandbox, &args);
    let shared = "warning: the hosts `";
    let same = "` are the same machine, and their trials share its processors";
    let warned = |line: &str| line.starts_with(shared) && line.ends_with(same);
    assert!(output.stderr.lines().any(warned), "{output}");
    let output = server.output(
        &sandbox,
        &["resume", "last", "--on", "ssh:a,b,c", "-n", "9"],
    );
    insta::assert_snapshot!(output, @"
    ------- stderr -------
    error: at most 4096 trials can run in parallel, and 2000 on each of 3 hosts are 6000

    hint: use fewer hosts or fewer `jobs`, which is the number on each host
    [exit status: Some(2)]
    ");
}

#[test]
fn hosts_and_their_facts_come_from_a_file() {
    needs![sshd(), program("ssh"), program("ssh-keygen")];
    let sandbox = Sandbox::new();
    let server = SshServer::start(&sandbox);
    fs::create_dir(sandbox.path("lab")).unwrap();
    sandbox.write("lab/hosts", "# the lab\na gpu=a100 # fast\n\nb\n");
    let command = after_joins(2, "true");
    sandbox.write(
        "lab/test.toml",
        &format!("shell = '''cd ..; {command}'''\nruns = 4\non = 'ssh:@hosts'\n"),
    );
    let facts_of_hosts = || -> Vec<_> {
        let joined = sandbox.events().into_iter();
        let joined = joined.filter_map(|event| event.get("host_joined").cloned());
        let facts = |joined: Value| {
            let joined = &joined["joined"];
            let name = joined["destination"].as_str().unwrap().to_owned();
            let gpu = joined["survey"]["fact.gpu"].as_str().map(str::to_owned);
            (name, gpu)
        };
        let mut facts: Vec<_> = joined.map(facts).collect();
        facts.sort();
        facts
    };
    let expected = [
        ("a".to_owned(), Some("a100".to_owned())),
        ("b".to_owned(), None),
    ];
    let on_file = [
        "run",
        "--on",
        "ssh:@lab/hosts",
        "-n",
        "4",
        "--shell",
        &command,
    ];
    let scenario = ["scenario", "lab/test.toml"];
    for args in [&on_file[..], &scenario] {
        let output = server.output(&sandbox, args);
        assert_eq!(output.code, Some(0), "{output}");
        assert_eq!(facts_of_hosts(), expected, "{output}");
    }
    let resumed = ["resume", "last", "-n", "6", "--on", "ssh:c gpu=h100"];
    let output = server.output(&sandbox, &resumed);
    assert_eq!(output.code, Some(0), "{output}");
    let third = ("c".to_owned(), Some("h100".to_owned()));
    assert_eq!(facts_of_hosts()[2], third, "{output}");

    sandbox.write("lab/hosts", "a gpu=a100\nb a100\n");
    let errors = [&on_file[..], &scenario].map(|args| server.output(&sandbox, args).stderr);
    assert_eq!(errors[0], errors[1]);
    insta::assert_snapshot!(errors[0], @r"
    error: `a100` is not a fact such as `gpu=a100`
     --> lab/hosts:2:3
      |
    2 | b a100
      |   ^^^^
      |
      = help: write one host on each line: its name, and facts such as `gpu=a100`
    ");
}

#[test]
fn a_trial_that_loses_two_hosts_is_inconclusive() {
    needs![sshd(), program("ssh"), program("ssh-keygen")];
    let sandbox = Sandbox::new();
    let server = SshServer::start(&sandbox);
    // The parent of a trial is its slot, and the parent of the slot is the worker.
    let kills = "if test $PROVOKE_TRIAL = 5; then read -r _ _ _ worker _ < /proc/$PPID/stat; kill -9 $worker; sleep 100; fi";
    let args = [
        "--on",
        "ssh:a,b,c",
        "-n",
        "20",
        "--shell",
        &after_joins(3, kills),
    ];
    let (report, output) = server.report(&sandbox, &args);
    assert_eq!(output.code, Some(0), "{output}");
    assert_eq!(report["variants"][0]["trials"], 20, "{output}");
    let lost = sandbox.events().into_iter().filter(|event| {
        let lost = event.pointer("/trial_finished/seen/lost");
        lost.is_some() && event["trial_finished"]["trial"] == 5
    });
    assert_eq!(lost.count(), 2, "{output}");
    server.assert_workers_ended();
}

/// Trials that wait for the file `end` from the 21st on.
const UNTIL_END: &str =
    "case $PROVOKE_TRIAL in ?|1?|20) ;; *) while test ! -e end; do sleep 0.01; done;; esac";

#[test]
fn a_host_joins_late_after_its_setup() {
    needs![sshd(), program("ssh"), program("ssh-keygen")];
    let sandbox = Sandbox::new();
    let mut server = SshServer::start(&sandbox);
    server.delay_host(&sandbox, "b");
    let scenario = format!(
        "shell = '{UNTIL_END}'\nruns = 60\njobs = 2\non = 'ssh:a,b'\nsetup = 'sleep 0.3; echo begun >> hooks'\n\
         cleanup = 'echo over >> hooks'\n"
    );
    sandbox.write("late.toml", &scenario);
    for quiet in [false, true] {
        let mut args = vec!["scenario", "late.toml", "--export-json", "report.json"];
        args.extend(quiet.then_some("-q"));
        let running = sandbox.started_trials(20, server.provoke(&sandbox, &args));
        assert_eq!(sandbox.joined_hosts(), ["a"]);
        sandbox.write("go", "");
        wait_until("b has joined", || sandbox.joined_hosts() == ["a", "b"]);
        assert_eq!(sandbox.read("hooks"), "begun\n".repeat(2));
        sandbox.write("end", "");
        let output = running.end();
        assert_eq!(output.code, Some(0), "{output}");
        let told = "  waiting for 1 of 2 hosts: b; the trials begin without them\n";
        assert_eq!(output.stderr.contains(told), !quiet, "{output}");
        assert_eq!(sandbox.read("hooks").matches("over").count(), 2);
        let report: Value = serde_json::from_str(&sandbox.read("report.json")).unwrap();
        let trials = trials_of_hosts(&report);
        assert_eq!(trials.iter().sum::<u64>(), 60, "{output}");
        assert!(trials.iter().all(|trials| *trials >= 2), "{trials:?}");
        server.assert_nothing_left();
        for file in ["go", "end", "hooks"] {
            fs::remove_file(sandbox.path(file)).unwrap();
        }
    }
}

#[test]
fn a_run_continues_on_a_late_host_if_the_others_are_lost_and_without_one_that_cannot_start() {
    needs![sshd(), program("ssh"), program("ssh-keygen")];
    let sandbox = Sandbox::new();
    let mut server = SshServer::start(&sandbox);
    server.delay_host(&sandbox, "b");
    let fixed = words("run --on ssh:a,b -n 40 --export-json report.json");
    let args = [&fixed[..], &["--shell", UNTIL_END]].concat();
    let hosts_of_run = |output: &CommandOutput| -> Vec<_> {
        let report: Value = serde_json::from_str(&sandbox.read("report.json")).unwrap();
        assert_eq!(report["variants"][0]["trials"], 40, "{output}");
        let hosts = report["hosts"].as_array().unwrap().iter();
        let facts = hosts.map(|host| {
            let lost = host["lost"].as_str().map(str::to_owned);
            (host["name"].as_str().unwrap().to_owned(), lost)
        });
        facts.collect()
    };
    // The only host is lost while the other one starts.
    let running = sandbox.started_trials(20, server.provoke(&sandbox, &args));
    super::support::send(server.workers()[0], Signal::KILL);
    running.wait_for_stderr("warning: the host `a` was lost");
    sandbox.write("go", "");
    sandbox.write("end", "");
    let output = running.end();
    assert_eq!(output.code, Some(0), "{output}");
    let hosts = hosts_of_run(&output);
    assert!(hosts[0].1.is_some() && hosts[1].1.is_none(), "{hosts:?}");
    fs::remove_file(sandbox.path("end")).unwrap();
    fs::remove_file(sandbox.path("go")).unwrap();

    // The other one cannot start.
    let running = sandbox.started_trials(20, server.provoke(&sandbox, &args));
    // The file appears with its text: an empty one lets the host start.
    let text = sandbox.write("go.text", "no route to host\n");
    fs::rename(text, sandbox.path("go")).unwrap();
    running.wait_for_stderr("warning: the host `b` cannot start: no route to host");
    sandbox.write("end", "");
    let output = running.end();
    assert_eq!(output.code, Some(0), "{output}");
    let reason = "no route to host".to_owned();
    let expected = [("a".to_owned(), None), ("b".to_owned(), Some(reason))];
    assert_eq!(hosts_of_run(&output), expected);
}

#[test]
fn nothing_is_left_if_the_user_stops_while_hosts_start() {
    needs![sshd(), program("ssh"), program("ssh-keygen")];
    let sandbox = Sandbox::new();
    let mut server = SshServer::start(&sandbox);
    let script = server.delay_host(&sandbox, "b");
    for hosts in ["ssh:a,b", "ssh:b"] {
        let args = ["run", "--on", hosts, "--shell", UNTIL_END];
        let mut command = server.provoke(&sandbox, &args);
        // Children of a background shell inherit that SIGINT is ignored.
        let program = command.get_program().to_owned();
        let mut with_signals = sandbox.program_command("env", &["--default-signal"]);
        with_signals.arg(program).args(command.get_args());
        with_signals.env("PROVOKE_SSH", &server.command);
        command = with_signals;
        let running = if hosts == "ssh:b" {
            let running = sandbox.started(command);
            running.wait_for_stderr("  waiting for 1 of 1 host: b\n");
            running
        } else {
            sandbox.started_trials(20, command)
        };
        running.signal(Signal::INT);
        let output = running.end();
        assert_eq!(output.code, Some(130), "{output}");
        assert_eq!(processes_with(&script), [0; 0], "{output}");
        server.assert_nothing_left();
    }
}

#[test]
fn what_is_wrong_with_a_host_is_an_error_before_the_first_trial() {
    needs![sshd(), program("ssh"), program("ssh-keygen")];
    let sandbox = Sandbox::new();
    let mut server = SshServer::start(&sandbox);
    let error_of = |server: &SshServer, args: &[&str]| {
        let output = server.output(&sandbox, args);
        assert_eq!(output.code, Some(125), "{output}");
        assert_eq!(sandbox.ended_trials(LAST_RUN), 0, "{output}");
        let mut lines = output.stderr.lines();
        let error = lines.find(|line| line.starts_with("error: "));
        error.unwrap_or(&output.stderr).to_owned()
    };
    let refused = error_of(&server, &["run", "--on", "ssh:nowhere", "--", "true"]);
    assert!(
        refused.starts_with("error: cannot run trials on `nowhere`: ssh: connect to host"),
        "{refused}"
    );
    let missing = error_of(&server, &["run", "--on", "ssh:a,b", "--", "./nothing"]);
    assert!(
        missing.ends_with("cannot run `./nothing`: there is no such file"),
        "{missing}"
    );
    let folder = error_of(
        &server,
        &["run", "--on", "ssh:a", "--cwd", "/nothing", "--", "true"],
    );
    assert!(
        folder.ends_with("the working directory `/nothing` does not exist"),
        "{folder}"
    );
    let same = error_of(&server, &["run", "--on", "ssh:a,root@a", "--", "true"]);
    assert!(
        same.starts_with("error: cannot run trials on `root@a`: it is the same machine as `a`: both are 127.0.0.1 port "),
        "{same}"
    );
    server.command = server.command.replace("user_key", "wrong_key");
    let denied = error_of(&server, &["run", "--on", "ssh:a", "--", "true"]);
    assert!(denied.contains("Permission denied"), "{denied}");
    // Another architecture, as `uname` of the host prints it.
    let script = sandbox.write(
        "uname",
        "#!/bin/sh\ncase $1 in -s) echo Linux;; -m) echo riscv64;; *) echo h;; esac\n",
    );
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let wrapper = format!(
        "#!/bin/sh\nfor last; do :; done\nPATH={}:$PATH exec sh -c \"$last\"\n",
        sandbox.path("").display()
    );
    let wrapper = sandbox.write("fake-ssh", &wrapper);
    fs::set_permissions(&wrapper, fs::Permissions::from_mode(0o755)).unwrap();
    server.command = wrapper.display().to_string();
    let foreign = error_of(&server, &["run", "--on", "ssh:a", "--", "true"]);
    assert!(
        foreign.contains("it is a Linux riscv64 machine, and this provoke is for Linux"),
        "{foreign}"
    );
    server.assert_nothing_left();
}
