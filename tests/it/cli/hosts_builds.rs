//! Tests variants on hosts that have directories of their own: they are built once, in a directory that all hosts see.

use super::ssh_server::{SshServer, sshd};
use super::support::{Sandbox, words};
use crate::needs::{needs, program};
use serde_json::Value;

fn sh(sandbox: &Sandbox, script: &str) {
    let done = sandbox.program_command("sh", &["-ec", script]).output();
    let done = done.unwrap();
    let output = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{output}");
}

#[test]
fn a_commit_is_built_once_and_tried_on_every_host() {
    needs![
        sshd(),
        program("ssh"),
        program("ssh-keygen"),
        program("git")
    ];
    let sandbox = Sandbox::new();
    let server = SshServer::start(&sandbox);
    sh(
        &sandbox,
        r#"
        git init -q -b main repo; cd repo
        git config user.email a@example.org; git config user.name a
        echo 0 > number; git add -A; git commit -qm begin; git tag v1
        for i in 1 2 3 4 5 6; do echo $i > number; git commit -qam "change $i"; done
        "#,
    );
    let builds = sandbox.path("builds").display().to_string();
    let build = format!("cp number built; cat number >> {builds}");
    let test = "sleep 0.01; test $(cat built) -lt 4 || test $((PROVOKE_TRIAL % 2)) = 0";
    let args = [
        "bisect",
        "--on",
        "ssh:a,b",
        "--seed",
        "1",
        "--capture",
        "off",
        "--progress=none",
        "--export-json",
        "report.json",
        "--cwd",
        "repo",
        "--git",
        "v1..main",
        "--build",
        &build,
        "--",
        "sh",
        "-c",
        test,
    ];
    let output = server.output(&sandbox, &args);
    let report: Value = serde_json::from_str(&sandbox.read("report.json")).unwrap();
    assert!(
        output
            .stdout
            .contains("\"change 4\" is the first bad commit"),
        "{output}"
    );
    let hosts = report["hosts"].as_array().unwrap();
    assert!(
        hosts.iter().all(|host| host["trials"].as_u64() > Some(0)),
        "{hosts:?}"
    );
    let log = sandbox.read("builds");
    let mut built: Vec<&str> = log.lines().collect();
    built.sort_unstable();
    let all = built.len();
    built.dedup();
    assert_eq!(built.len(), all, "{log}");
}

#[test]
fn lines_are_left_out_on_hosts() {
    needs![sshd(), program("ssh"), program("ssh-keygen")];
    let sandbox = Sandbox::new();
    let server = SshServer::start(&sandbox);
    sandbox.write("job.sh", "a=1\nb=2\nc=3\ntest \"$b\" != 2\n");
    let args = words(
        "reduce --on ssh:a,b --seed 1 --capture off --progress=none --export-json report.json --lines job.sh -- sh job.sh",
    );
    let output = server.output(&sandbox, &args);
    let report: Value = serde_json::from_str(&sandbox.read("report.json")).unwrap();
    let needed = report["answer"]["reduce"]["needed"].to_string();
    assert!(
        needed.contains("b=2") && !needed.contains("a=1"),
        "{output}"
    );
}

#[test]
fn a_host_that_does_not_see_the_directory_of_the_run_is_refused() {
    needs![
        sshd(),
        program("ssh"),
        program("ssh-keygen"),
        program("unshare")
    ];
    let sandbox = Sandbox::new();
    let mut server = SshServer::start(&sandbox);
    server.hide(&sandbox, "provoke-out");
    sandbox.write("job.sh", "a=1\nfalse\n");
    let args = [
        "reduce", "--on", "ssh:a", "--lines", "job.sh", "--", "sh", "job.sh",
    ];
    let output = server.output(&sandbox, &args);
    assert_eq!(output.code, Some(125), "{output}");
    assert!(output.stderr.contains("it does not see `"), "{output}");
    assert!(output.stderr.contains("all hosts share"), "{output}");
    server.assert_nothing_left();
}
