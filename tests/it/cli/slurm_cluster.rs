//! Provides a real Slurm, whose nodes are namespaces of this machine.

use super::support::{PROVOKE, Sandbox, wait_until};
use crate::needs::program;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A cluster, which is removed at the end of its test.
pub(crate) struct Cluster {
    folder: PathBuf,
}

impl Cluster {
    pub(super) fn start(sandbox: &Sandbox, nodes: u32) -> Self {
        std::fs::create_dir(sandbox.path("tmp")).unwrap();
        Self::start_in(sandbox.path("cluster"), nodes)
    }

    /// Starts a cluster in a directory that does not exist.
    pub(crate) fn start_in(folder: PathBuf, nodes: u32) -> Self {
        let cluster = Self { folder };
        cluster.control("up", &nodes.to_string());
        cluster
    }

    /// Returns the path of its configuration.
    pub(crate) fn config(&self) -> PathBuf {
        self.folder.join("slurm.conf")
    }

    pub(super) fn control(&self, action: &str, argument: &str) {
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
    pub(super) fn command(&self, sandbox: &Sandbox, program: &str, args: &[&str]) -> Command {
        let mut command = sandbox.program_command(program, args);
        command
            .env("SLURM_CONF", self.config())
            .env("TMPDIR", sandbox.path("tmp"))
            // All tests share the copy of the program.
            .env(
                "XDG_CACHE_HOME",
                concat!(env!("CARGO_TARGET_TMPDIR"), "/hosts"),
            );
        command
    }

    pub(super) fn provoke(&self, sandbox: &Sandbox, args: &[&str]) -> Command {
        self.command(sandbox, PROVOKE, args)
    }

    /// Asserts that workers removed their files, and that no job is left.
    pub(super) fn assert_nothing_left(&self, sandbox: &Sandbox) {
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

pub(super) fn slurm() -> Option<String> {
    let missing = ["slurmctld", "slurmd", "munged"].iter().find(|name| {
        let folders = ["/usr/sbin", "/usr/bin"].map(Path::new);
        !folders.iter().any(|folder| folder.join(name).is_file())
    });
    missing
        .map(|name| format!("`{name}` is not installed"))
        .or_else(|| program("srun"))
}
