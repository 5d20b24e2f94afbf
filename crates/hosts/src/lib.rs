//! Runs trials on other machines: provoke starts one worker on each, and the worker runs trials in its own slots.
//!
#![doc = include_str!("../README.md")]

mod awaited_replies;
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
mod limits;
mod remote_host;
mod reply_reader;
mod waiting;
pub mod wire;

pub use executor::HostsExecutor;
pub use launch::TRACE_VARIABLE;
pub use provoke_transports::HostError;

use std::time::Duration;

/// First argument of a worker process.
pub const COMMAND: &str = "worker";

/// A connection on which nothing arrives for this long is lost. Both sides send a message every second.
pub const SILENCE: Duration = Duration::from_secs(10);
