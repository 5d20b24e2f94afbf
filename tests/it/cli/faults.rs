//! Tests that faults of hosts and of provoke neither lose trials nor count them twice.

use super::slurm_cluster::slurm;
use super::ssh_server::sshd;
use super::support::{PROVOKE, Sandbox};
use crate::needs::{needs, program, root};
use std::process::Command;

#[test]
fn no_trial_is_lost_or_counted_twice_after_faults() {
    needs![
        root(),
        sshd(),
        slurm(),
        program("ssh-keygen"),
        program("python3")
    ];
    let sandbox = Sandbox::new();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/faults.py");
    let mut command = Command::new("python3");
    command
        .args([script, "--provoke", PROVOKE, "--faults", "4", "--seed", "3"])
        .args(["--cache", concat!(env!("CARGO_TARGET_TMPDIR"), "/hosts")])
        .env("TMPDIR", sandbox.path(""));
    let output = crate::limited::output(&mut command).unwrap();
    assert!(output.status.success(), "{output:?}");
}
