//! Tests the trace of provoke's own work.

use super::ssh_server::{SshServer, sshd};
use super::support::{CommandOutput, LAST_RUN, Sandbox, words};
use crate::needs::{needs, program};

fn traced(filter: &str) -> CommandOutput {
    let sandbox = Sandbox::new();
    let words = ["run", "-n", "2", "--", "echo", "its own text"];
    let mut command = sandbox.command(&words);
    command.env("PROVOKE_LOG", filter);
    sandbox.started(command).end()
}

#[test]
fn the_trace_shows_the_work_of_slots_but_no_text_from_outside() {
    let output = traced("slot=debug,trial=debug");
    for part in [
        "DEBUG slot{pid=",
        "trial{id=2}: slot: started pids=[",
        "trial: judged id=2",
        "outcome=\"pass\"",
    ] {
        assert!(output.stderr.contains(part), "{part}: {}", output.stderr);
    }
    let trace = output.stderr.lines().filter(|line| line.contains("DEBUG"));
    assert!(trace.clone().count() > 5);
    assert!(trace.clone().all(|line| !line.contains("its own text")));
}

#[test]
fn a_filter_of_the_trace_that_is_not_valid_is_refused() {
    let output = traced("slot=debgu");
    assert_eq!(output.code, Some(2));
    insta::assert_snapshot!(output.stderr, @r#"
    error: `PROVOKE_LOG` is `slot=debgu`, which is not a filter: error parsing level filter: expected one of "off", "error", "warn", "info", "debug", "trace", or a number 0-5

    hint: the targets are run, trial, slot and host, for example PROVOKE_LOG=run=info,slot=debug
    "#);
}

#[test]
fn the_trace_of_a_worker_comes_home_with_the_evidence_of_a_trial() {
    needs![sshd(), program("ssh"), program("ssh-keygen")];
    let sandbox = Sandbox::new();
    let server = SshServer::start(&sandbox);
    let words = words("run --on ssh:a -n 1 --capture off -- false");
    let mut command = server.provoke(&sandbox, &words);
    command.env("PROVOKE_LOG", "host=debug,slot=debug");
    let output = sandbox.started(command).end();
    assert!(output.stderr.contains("host: joined the run"), "{output}");
    let trace = sandbox.read(&format!("{LAST_RUN}/trials/1/worker.log"));
    assert!(
        trace.contains("trial{id=1}: slot: started pids=["),
        "{trace}"
    );
    server.assert_nothing_left();
}
