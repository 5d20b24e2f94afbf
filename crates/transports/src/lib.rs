//! The ways in which hosts are reached, one file each.
//!
//! To add one: a file with a [`Transport`], and a line in [`TRANSPORTS`]. What `--on` accepts, its help, the schema and
//! the plan in a journal follow from it.
//!
#![doc = include_str!("../README.md")]

mod error;
mod exec;
mod launch;
mod slurm;
mod ssh;

pub use error::HostError;
pub use launch::{HostQueue, HostStarts, Launch};

use provoke_model::RequestedHosts;
use provoke_words::diagnostic::Diagnostic;

/// All transports, in the order of the help.
pub static TRANSPORTS: &[&Transport] = &[&ssh::SSH, &slurm::SLURM, &exec::EXEC];

/// A way in which hosts are reached.
pub struct Transport {
    /// Its name in `--on` and in a plan.
    pub name: &'static str,
    /// How its hosts are given.
    pub shape: HostsShape,
    /// How the help of `--on` shows it.
    pub help: TransportHelp,
    /// Checks hosts that a user requests.
    pub check: fn(&RequestedHosts) -> Result<(), Diagnostic>,
    /// Returns how each host runs a script, which contains no single quote. The number is that of parallel trials there.
    pub plan_starts: fn(&RequestedHosts, u32, &str) -> Result<HostStarts, HostError>,
}

/// How the hosts of a transport are given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostsShape {
    /// By their names: `NAME:HOST,...`, or `NAME` with `--hosts`.
    Listed,
    /// By their number and their features. The transport chooses them.
    Counted,
    /// By a command, `NAME:COMMAND`, and by their names in `--hosts`.
    ByCommand,
}

impl HostsShape {
    /// Returns whether the hosts have names before they start.
    pub fn is_named(self) -> bool {
        self != Self::Counted
    }
}

/// A transport in the help of `--on`.
#[derive(Clone, Copy, Debug)]
pub struct TransportHelp {
    /// What is written, such as `ssh:HOST,...`.
    pub value: &'static str,
    /// An example.
    pub example: &'static str,
    /// Sentences about it.
    pub text: &'static str,
}

/// Returns the transport with a name.
pub fn find_transport(name: &str) -> Option<&'static Transport> {
    let mut transports = TRANSPORTS.iter().copied();
    transports.find(|transport| transport.name == name)
}
