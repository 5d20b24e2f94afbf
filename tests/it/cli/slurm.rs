//! Tests trials on nodes of a real Slurm, whose nodes are namespaces of this machine.

use super::support::{Sandbox, wait_until};
use crate::needs::{needs, program, root};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Fails in one of ten trials, by its number, and takes a little time.
const ONE_OF_TEN: &str =
    "sleep 0.02; case $PROVOKE_TRIAL in *3) echo broken >&2; kill -SEGV $$;; esac";

/// A cluster, which is removed at the end of its test.
struct Cluster {
    folder: PathBuf,
}

impl Cluster {
    fn start(sandbox: &Sandbox, nodes: u32) -> Self {
        let cluster = Self {
            folder: sandbox.path("cluster"),
        };
        std::fs::create_dir(sandbox.path("tmp")).unwrap();
        cluster.control("up", &nodes.to_string());
        cluster
    }

    fn control(&self, action: &str, argument: &str) {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tools/slurm-cluster.sh");
        let output = Command::new("bash")
            .args([script, action])
            .arg(&self.folder)
            .args(Some(argument).filter(|argument| !argument.is_empty()))
            .output()
            .unwrap();
        assert!(output.status.success(), "{action}: {output:?}");
    }

    /// Returns the command of a program that uses this cluster.
    fn command(&self, sandbox: &Sandbox, program: &str, args: &[&str]) -> Command {
        let mut command = sandbox.program_command(program, args);
        command
            .env("SLURM_CONF", self.folder.join("slurm.conf"))
            .env("TMPDIR", sandbox.path("tmp"))
            // All tests share the copy of the program.
            .env(
                "XDG_CACHE_HOME",
                concat!(env!("CARGO_TARGET_TMPDIR"), "/hosts"),
            );
        command
    }

    /// Asserts that workers removed their files, and that no job is left.
    fn assert_nothing_left(&self, sandbox: &Sandbox) {
        let mut queue = self.command(sandbox, "squeue", &["--noheader"]);
        wait_until("no job is left", || {
            queue.output().unwrap().stdout.is_empty()
        });
        let left: Vec<_> = std::fs::read_dir(sandbox.path("tmp"))
            .unwrap()
            .flatten()
            .collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if self.folder.exists() {
            self.control("down", "");
        }
    }
}

fn slurm() -> Option<String> {
    let missing = ["slurmctld", "slurmd", "munged"].iter().find(|name| {
        let folders = ["/usr/sbin", "/usr/bin"].map(Path::new);
        !folders.iter().any(|folder| folder.join(name).is_file())
    });
    missing
        .map(|name| format!("`{name}` is not installed"))
        .or_else(|| program("srun"))
}

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
        ONE_OF_TEN,
    ];
    // Each node is a job.
    let jobs = [&args[..3], &["--where", "slow"], &args[3..]].concat();
    let status = cluster
        .command(&sandbox, super::support::PROVOKE, &jobs)
        .status();
    assert_eq!(status.unwrap().code(), Some(1));
    let by_jobs = report(&sandbox);
    let mut nodes = hosts_of(&by_jobs, 40);
    nodes.sort_unstable();
    assert_eq!(nodes, ["n2", "n4"]);
    let stderr = sandbox.read("provoke-out/last/trials/13/stderr");
    assert_eq!(stderr, "broken\n");
    cluster.assert_nothing_left(&sandbox);

    // The nodes of an allocation.
    let allocation = ["-N3", "--exclusive", super::support::PROVOKE];
    let mut salloc = cluster.command(&sandbox, "salloc", &[&allocation[..], &args].concat());
    salloc.status().unwrap();
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
        ONE_OF_TEN,
    ];
    let mut running = cluster
        .command(&sandbox, super::support::PROVOKE, &args)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_until("trials have ended", || {
        let journal = sandbox.read("provoke-out/last/events.jsonl");
        journal.matches(r#"{"trial_finished":"#).count() >= 20
    });
    cluster.control("kill-node", "n2");
    assert_eq!(crate::limited::wait(&mut running).code(), Some(1));
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
fn what_slurm_cannot_do_is_an_error_before_the_first_trial() {
    needs![root(), slurm()];
    let sandbox = Sandbox::new();
    let cluster = Cluster::start(&sandbox, 2);
    let mut errors = String::new();
    for flags in [
        &["--nodes", "3"][..],
        &["--nodes", "2", "--where", "fast"],
        &["--nodes", "1", "--where", "fast&slow"],
        &[],
    ] {
        let args = [&["run", "--on", "slurm"], flags, &["-n", "1", "--", "true"]].concat();
        let output = cluster
            .command(&sandbox, super::support::PROVOKE, &args)
            .output();
        let stderr = String::from_utf8(output.unwrap().stderr).unwrap();
        errors.push_str(stderr.lines().next().unwrap_or_default());
        errors.push('\n');
    }
    insta::assert_snapshot!(errors, @"
    error: cannot run trials on `slurm`: the cluster has only 2 of 3 nodes
    error: cannot run trials on `slurm`: the cluster has only 1 of 2 nodes with `fast`
    error: cannot run trials on `slurm node 1`: srun: error: Unable to allocate resources: Requested node configuration is not available
    error: the number of nodes is missing
    ");
    cluster.assert_nothing_left(&sandbox);
}
