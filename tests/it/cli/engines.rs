//! Tests that outcomes do not depend on the engine: this machine, ssh, Slurm.

use super::slurm_cluster::{Cluster, slurm};
use super::ssh_server::{SshServer, sshd};
use super::support::{Sandbox, assert_gone, unique_linger};
use crate::needs::{needs, program, root};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

/// Ends in another way in each trial.
const ENDINGS: &str = "#!/bin/sh
case $PROVOKE_TRIAL in
1) exit 0;; 2) exit 7;; 3) exit 132;; 4) exit 139;; 5) exit 255;;
6) kill -ILL $$;; 7) kill -SEGV $$;; 8) kill -ABRT $$;; 9) kill -KILL $$;; 10) kill -TERM $$;; 11) kill -34 $$;;
12) exec sleep 1000;;
esac
";
/// Removes the program before trial 13.
const REMOVES: &str = "if test $PROVOKE_TRIAL = 13; then rm endings; fi";

/// Returns the ending and the outcome of each trial of the last run.
fn outcomes(sandbox: &Sandbox) -> Vec<(u64, Value, Value)> {
    let events = sandbox.events().into_iter();
    let finished = events.filter_map(|event| event.get("trial_finished").cloned());
    let outcomes = finished.map(|finished| {
        let outcome = &finished["outcome"];
        let kind = outcome.pointer("/fail/kind").unwrap_or(outcome);
        let trial = finished["trial"].as_u64().unwrap();
        let ending = finished["seen"]["actors"][0]["ending"].clone();
        (trial, ending, kind.clone())
    });
    outcomes.collect()
}

#[test]
fn outcomes_are_the_same_on_this_machine_over_ssh_and_on_slurm() {
    needs![
        root(),
        sshd(),
        slurm(),
        program("ssh"),
        program("ssh-keygen")
    ];
    let sandbox = Sandbox::new();
    let cluster = Cluster::start(&sandbox, 1);
    let ssh_sandbox = Sandbox::new();
    let server = SshServer::start(&ssh_sandbox);
    let args = [
        "run",
        "-n",
        "13",
        "-t",
        "2s",
        "--capture",
        "off",
        "--progress=none",
        "--prepare",
        REMOVES,
    ];
    let command = ["--", "./endings"];
    let outcomes_of = |sandbox: &Sandbox, mut command: Command| {
        let program = sandbox.write("endings", ENDINGS);
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        crate::limited::output(&mut command).unwrap();
        outcomes(sandbox)
    };
    let on = |hosts: &[&'static str]| [&args[..], hosts, &command].concat();
    let local = outcomes_of(&sandbox, sandbox.command(&on(&[])));
    let over_ssh = on(&["--on", "ssh:a"]);
    let over_ssh = outcomes_of(&ssh_sandbox, server.provoke(&ssh_sandbox, &over_ssh));
    let on_slurm = on(&["--on", "slurm", "--nodes", "1"]);
    let on_slurm = outcomes_of(&sandbox, cluster.provoke(&sandbox, &on_slurm));
    assert_eq!(local, over_ssh);
    assert_eq!(local, on_slurm);
    let lines = local
        .iter()
        .map(|(trial, ending, kind)| format!("{trial}: {ending} {kind}"));
    insta::assert_snapshot!(lines.collect::<Vec<_>>().join("\n"), @r#"
    1: {"exited":0} "pass"
    2: {"exited":7} {"exit":{"code":7}}
    3: {"exited":132} {"signal":{"signal":4,"witness":{"shell":{"code":132}}}}
    4: {"exited":139} {"signal":{"signal":11,"witness":{"shell":{"code":139}}}}
    5: {"exited":255} {"exit":{"code":255}}
    6: {"signaled":[4,false]} {"signal":{"signal":4,"witness":{"seen":{"core":false}}}}
    7: {"signaled":[11,false]} {"signal":{"signal":11,"witness":{"seen":{"core":false}}}}
    8: {"signaled":[6,false]} {"signal":{"signal":6,"witness":{"seen":{"core":false}}}}
    9: {"signaled":[9,false]} {"signal":{"signal":9,"witness":{"seen":{"core":false}}}}
    10: {"signaled":[15,false]} {"signal":{"signal":15,"witness":{"seen":{"core":false}}}}
    11: {"signaled":[34,false]} {"signal":{"signal":34,"witness":{"seen":{"core":false}}}}
    12: {"timed_out":{"state":"S","killed":false}} {"hang":{"stopped":false}}
    13: {"not_started":"cannot execute `./endings`: No such file or directory"} {"void":"not_started"}
    "#);
    server.assert_nothing_left();
    cluster.assert_nothing_left(&sandbox);
}

#[test]
fn an_early_decision_leaves_no_process_and_no_job() {
    needs![root(), slurm()];
    let sandbox = Sandbox::new();
    let cluster = Cluster::start(&sandbox, 2);
    let linger = unique_linger();
    let seconds = linger.trim_end_matches("ms");
    // The first trials decide while the others would take days.
    let command = format!(
        "case $PROVOKE_TRIAL in 1|2|3) sleep 0.2; exit $PROVOKE_TRIAL;; *) sleep {seconds} & exec sleep {seconds};; esac"
    );
    let args = [
        "run",
        "--on",
        "slurm",
        "--nodes",
        "2",
        "-j",
        "2",
        "--max-rate",
        "1%",
        "--capture",
        "off",
        "-t",
        "100h",
        "--shell",
        &command,
    ];
    let output = cluster.provoke(&sandbox, &args).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    cluster.assert_nothing_left(&sandbox);
    assert_gone(seconds);
}

#[test]
fn a_daemon_that_a_trial_leaves_on_a_node_of_slurm_is_reported_and_killed() {
    needs![root(), slurm()];
    let sandbox = Sandbox::new();
    let cluster = Cluster::start(&sandbox, 1);
    let linger = unique_linger();
    let seconds = linger.trim_end_matches("ms");
    let command =
        format!("setsid sh -c 'sleep {seconds} & exit' >/dev/null 2>&1 </dev/null; exit 0");
    let args = [
        "run",
        "--on",
        "slurm",
        "--nodes",
        "1",
        "-n",
        "2",
        "--leak-grace",
        "100ms",
        "--capture",
        "off",
        "--export-json",
        "report.json",
        "--shell",
        &command,
    ];
    let output = cluster.provoke(&sandbox, &args).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let report: Value = serde_json::from_str(&sandbox.read("report.json")).unwrap();
    assert_eq!(report["variants"][0]["leaked_processes"], 2, "{report}");
    assert_gone(seconds);
    cluster.assert_nothing_left(&sandbox);
}
