//! Runs trials on other machines: provoke starts one worker on each, and the worker runs trials in its own slots.
//!
#![doc = include_str!("../README.md")]

mod binary;
mod builds;
mod connection;
mod executor;
mod files;
#[cfg(fuzzing)]
pub mod fuzzing;
mod host_pool;
mod host_start;
mod launch;
mod remote_host;
mod slurm;
mod ssh;
mod waiting;
pub mod wire;

pub use executor::HostsExecutor;
pub use launch::TRACE_VARIABLE;

use provoke_words::untrusted::Untrusted as _;
use std::time::Duration;

/// First argument of a worker process.
pub const COMMAND: &str = "worker";

/// A connection without a message for this long is lost. Both sides send a message every second.
pub const SILENCE: Duration = Duration::from_secs(10);

/// Why trials cannot run on a host.
#[derive(Debug, thiserror::Error)]
#[error("cannot run trials on `{}`: {}", host.to_safe(), reason.to_safe())]
pub struct HostError {
    /// The host.
    pub host: String,
    /// The reason.
    pub reason: String,
    /// What to do about it.
    pub hint: Option<String>,
}

impl HostError {
    fn new(host: &str, reason: impl Into<String>) -> Self {
        Self {
            host: host.to_owned(),
            reason: reason.into(),
            hint: None,
        }
    }

    fn with_hint(self, hint: impl Into<String>) -> Self {
        Self {
            hint: Some(hint.into()),
            ..self
        }
    }
}
