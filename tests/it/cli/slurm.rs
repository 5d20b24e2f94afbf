//! Tests trials on nodes of Slurm.

use super::slurm_cluster::{Cluster, slurm};
use super::support::{LAST_RUN, PROVOKE, Sandbox, after_joins, wait_until};
use crate::needs::{needs, root};
use rustix::process::Signal;
use serde_json::Value;
use std::process::Child;

/// Fails in one of ten trials, by its number, and takes a little time.
const ONE_OF_TEN: &str =
    "sleep 0.02; case $PROVOKE_TRIAL in *3) echo broken >&2; kill -SEGV $$;; esac";

fn report(sandbox: &Sandbox) -> Value {
    serde_json::from_str(&sandbox.read("report.json")).unwrap()
}

/// Returns the names of the hosts, and asserts the counts of the run and of the hosts.
fn hosts_of(report: &Value, trials: u64) -> Vec<&str> {
    assert_eq!(report["variants"][0]["trials"], trials);
    assert_eq!(report["variants"][0]["failures"], trials / 10);
    let hosts = report["hosts"].as_array().unwrap();
    let counted: u64 = hosts
        .iter()
        .map(|host| host["trials"].as_u64().unwrap())
        .sum();
    assert_eq!(counted, trials, "{hosts:?}");
    hosts
        .iter()
        .map(|host| host["name"].as_str().unwrap())
        .collect()
}

#[test]
fn trials_run_on_nodes_of_slurm() {
    needs![root(), slurm()];
    let sandbox = Sandbox::new();
    let cluster = Cluster::start(&sandbox, 4);
    let args = [
        "run",
        "--on",
        "slurm",
        "--nodes",
        "2",
        "-j",
        "2",
        "-n",
        "40",
        "--capture",
        "off",
        "--progress=none",
        "--export-json",
        "report.json",
        "--shell",
        &after_joins(2, ONE_OF_TEN),
    ];
    // Each node is a job.
    let jobs = [&args[..3], &["--where", "slow"], &args[3..]].concat();
    let status = cluster.provoke(&sandbox, &jobs).status();
    assert_eq!(status.unwrap().code(), Some(1));
    let by_jobs = report(&sandbox);
    let mut nodes = hosts_of(&by_jobs, 40);
    nodes.sort_unstable();
    assert_eq!(nodes, ["n2", "n4"]);
    let stderr = sandbox.read("provoke-out/last/trials/13/stderr");
    assert_eq!(stderr, "broken\n");
    cluster.assert_nothing_left(&sandbox);

    let by_jobs_run = std::fs::read_link(sandbox.path(LAST_RUN)).unwrap();
    let by_jobs_run = by_jobs_run.display().to_string();

    // The nodes of an allocation.
    let allocation = ["-N3", "--exclusive", PROVOKE];
    let mut salloc = cluster.command(&sandbox, "salloc", &[&allocation[..], &args].concat());
    salloc.status().unwrap();
    // Their environments are compared, not that of this machine.
    let diff = sandbox.provoke(&["diff", &by_jobs_run, "last", "--json"]);
    let diff: Value = serde_json::from_str(&diff.stdout).unwrap();
    let hosts = [&diff["left"]["host"], &diff["right"]["host"]];
    assert_eq!(hosts, ["n2 or n4", "n1 or n2"], "{diff}");
    let differs = |difference: &&Value| difference["name"] == "fast";
    let fast = diff["differences"].as_array().unwrap().iter().find(differs);
    assert_eq!(fast.unwrap()["right"], "absent or there", "{diff}");
    assert_eq!(hosts_of(&report(&sandbox), 40).len(), 2);
    cluster.assert_nothing_left(&sandbox);
}

#[test]
fn trials_of_a_node_without_power_run_again_elsewhere() {
    needs![root(), slurm()];
    let sandbox = Sandbox::new();
    let cluster = Cluster::start(&sandbox, 3);
    let args = [
        "run",
        "--on",
        "slurm",
        "--nodes",
        "3",
        "-j",
        "2",
        "-n",
        "300",
        "--capture",
        "off",
        "--progress=none",
        "--export-json",
        "report.json",
        "--shell",
        &after_joins(3, ONE_OF_TEN),
    ];
    let running = sandbox.started_trials(20, cluster.provoke(&sandbox, &args));
    cluster.control("kill-node", "n2");
    assert_eq!(running.end().code, Some(1));
    let report = report(&sandbox);
    assert_eq!(hosts_of(&report, 300).len(), 3);
    let hosts = report["hosts"].as_array().unwrap();
    let lost: Vec<&str> = hosts
        .iter()
        .filter(|host| !host["lost"].is_null())
        .map(|host| host["name"].as_str().unwrap())
        .collect();
    assert_eq!(lost, ["n2"], "{hosts:?}");
}

#[test]
fn features_of_nodes_are_facts_that_distinguish_failing_hosts() {
    needs![root(), slurm()];
    let sandbox = Sandbox::new();
    let cluster = Cluster::start(&sandbox, 4);
    let args = [
        "run",
        "--on",
        "slurm",
        "--nodes",
        "4",
        "-n",
        "40",
        "--capture",
        "off",
        "--progress=none",
        "--export-json",
        "report.json",
        "--shell",
        &after_joins(4, "test $(uname -n) = n1 -o $(uname -n) = n3"),
    ];
    let status = cluster.provoke(&sandbox, &args).status();
    assert_eq!(status.unwrap().code(), Some(1));
    let report = report(&sandbox);
    let facts = report["host_difference"]["facts"].as_array().unwrap();
    let names: Vec<_> = facts.iter().map(|fact| &fact["name"]).collect();
    assert_eq!(names, ["avx2", "fast", "slow"], "{report}");
    assert_eq!(facts[0]["group"], "given", "{report}");
    assert_eq!(facts[0]["failing"], Value::from(vec![Value::Null]));
    assert_eq!(report["host"]["name"], "n1 or n2 or n3 or n4", "{report}");
    cluster.assert_nothing_left(&sandbox);
}

#[test]
fn what_slurm_cannot_do_is_an_error_before_the_first_trial() {
    needs![root(), slurm()];
    let sandbox = Sandbox::new();
    let cluster = Cluster::start(&sandbox, 2);
    let mut errors = String::new();
    for flags in [
        &["--nodes", "3"][..],
        &["--nodes", "2", "--where", "fast"],
        &["--nodes", "1", "--where", "fast&slow"],
        &["--nodes", "1", "--where", "fast", "--cwd", "/nothing"],
        &[],
    ] {
        let args = [&["run", "--on", "slurm"], flags, &["-n", "1", "--", "true"]].concat();
        let output = cluster.provoke(&sandbox, &args).output();
        let stderr = String::from_utf8(output.unwrap().stderr).unwrap();
        let error = stderr.lines().find(|line| line.starts_with("error: "));
        errors.push_str(error.unwrap_or(&stderr));
        errors.push('\n');
    }
    insta::assert_snapshot!(errors, @"
    error: cannot run trials on `slurm`: the cluster has only 2 of 3 nodes
    error: cannot run trials on `slurm`: the cluster has only 1 of 2 nodes with `fast`
    error: cannot run trials on `slurm node 1`: srun: error: Unable to allocate resources: Requested node configuration is not available
    error: cannot run trials on `n1`: the working directory `/nothing` does not exist
    error: the number of nodes is missing
    ");
    cluster.assert_nothing_left(&sandbox);
}

/// Occupies nodes until it is killed.
fn occupy(sandbox: &Sandbox, cluster: &Cluster, nodes: &str) -> Child {
    let args = ["--exclusive", "--nodelist", nodes, "sleep", "1000"];
    let child = cluster.command(sandbox, "srun", &args).spawn().unwrap();
    let mut queue = cluster.command(sandbox, "squeue", &["--noheader", "--states", "RUNNING"]);
    wait_until("the nodes are busy", || {
        !queue.output().unwrap().stdout.is_empty()
    });
    child
}

fn release(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn nodes_of_slurm_join_when_they_are_free_and_provoke_says_why_they_are_not() {
    needs![root(), slurm()];
    let sandbox = Sandbox::new();
    let cluster = Cluster::start(&sandbox, 2);
    let args = [
        "run",
        "--on",
        "slurm",
        "--nodes",
        "2",
        "-n",
        "40",
        "--capture",
        "off",
        "--export-json",
        "report.json",
        "--shell",
        "case $PROVOKE_TRIAL in *3) exit 1;; ?|1?|20) ;; *) while test ! -e end; do sleep 0.01; done;; esac",
    ];
    let second = occupy(&sandbox, &cluster, "n2");
    let first = occupy(&sandbox, &cluster, "n1");
    let running = sandbox.started(cluster.provoke(&sandbox, &args));
    running.wait_for_stderr("  waiting for 2 of 2 nodes of Slurm (Priority, Resources)\n");
    release(first);
    running.wait_for_stderr(
        "  waiting for 1 of 2 nodes of Slurm (Resources); the trials begin without them\n",
    );
    wait_until("trials have ended", || sandbox.ended_trials(LAST_RUN) >= 20);
    assert_eq!(sandbox.joined_hosts(), ["n1"]);
    release(second);
    wait_until("n2 has joined", || sandbox.joined_hosts() == ["n1", "n2"]);
    sandbox.write("end", "");
    assert_eq!(running.end().code, Some(1));
    assert_eq!(hosts_of(&report(&sandbox), 40), ["n1", "n2"]);
    cluster.assert_nothing_left(&sandbox);
}

#[test]
fn no_job_is_left_if_the_user_stops_while_nodes_of_slurm_are_not_free() {
    needs![root(), slurm()];
    let sandbox = Sandbox::new();
    let cluster = Cluster::start(&sandbox, 2);
    let flags = [
        "--default-signal",
        PROVOKE,
        "run",
        "--on",
        "slurm",
        "--nodes",
        "2",
    ];
    let args = [&flags[..], &["--", "sleep", "0.01"]].concat();
    let busy = occupy(&sandbox, &cluster, "n1");
    // The first run has no node, and the second one has one of two.
    for busy in [Some(occupy(&sandbox, &cluster, "n2")), None] {
        let running = sandbox.started(cluster.command(&sandbox, "env", &args));
        running.wait_for_stderr("  waiting for ");
        running.signal(Signal::INT);
        assert_eq!(running.end().code, Some(130));
        let pending = ["--noheader", "--name", "provoke"];
        let mut queue = cluster.command(&sandbox, "squeue", &pending);
        wait_until("no job of provoke is left", || {
            queue.output().unwrap().stdout.is_empty()
        });
        busy.into_iter().for_each(release);
    }
    release(busy);
    cluster.assert_nothing_left(&sandbox);
}
