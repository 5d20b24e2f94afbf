//! Trace of provoke's own work, for its developers: `PROVOKE_LOG=slot=debug` writes it to stderr.
//!
//! Without the variable, it costs nothing. The targets are `run`, `trial`, `slot` and `host`. It contains no commands,
//! output or variables, which may be secret. Hosts have their numbers.

use provoke_hosts::TRACE_VARIABLE;
use provoke_sys::files;
use provoke_words::untrusted::Untrusted as _;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

/// Maximum size of the part of a trace that accompanies the evidence of a trial.
const LARGEST_PART: usize = 1 << 20;

/// Begins the trace if the user wants it; returns why the filter is not valid.
pub fn begin() -> Result<(), String> {
    let Some(filter) = wanted_filter() else {
        return Ok(());
    };
    let text = filter.to_string_lossy();
    // A worker gets it in a script without quotes.
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_=,:.-".contains(c);
    if !text.chars().all(is_plain) {
        return Err(format!(
            "`{TRACE_VARIABLE}` is `{}`, which has other characters than a filter",
            text.to_safe()
        ));
    }
    let targets: Targets = text.parse().map_err(|error| {
        format!("`{TRACE_VARIABLE}` is `{text}`, which is not a filter: {error}")
    })?;
    let lines = fmt::layer().with_ansi(false).with_writer(io::stderr);
    tracing_subscriber::registry()
        .with(lines)
        .with(targets)
        .init();
    Ok(())
}

/// Returns whether the user wants a trace.
pub fn is_wanted() -> bool {
    wanted_filter().is_some()
}

fn wanted_filter() -> Option<OsString> {
    std::env::var_os(TRACE_VARIABLE).filter(|filter| !filter.is_empty())
}

/// The trace of a worker and of its slots. It is sent home with the evidence of trials.
pub struct WorkerTrace(File);

impl WorkerTrace {
    /// Redirects stderr into memory, if the user wants a trace.
    pub fn begin() -> io::Result<Option<Self>> {
        if !is_wanted() {
            return Ok(None);
        }
        let [memory, reader] = files::create_in_memory("provoke-trace")?;
        rustix::stdio::dup2_stderr(&memory)?;
        Ok(Some(Self(reader)))
    }

    /// Returns what was written since the last call; if that is long, only its end.
    pub fn take_part(&mut self) -> io::Result<Vec<u8>> {
        let mut part = Vec::new();
        self.0.read_to_end(&mut part)?;
        let excess = part.len().saturating_sub(LARGEST_PART);
        part.drain(..excess);
        Ok(part)
    }
}
