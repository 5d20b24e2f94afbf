//! Commands that start hosts, and the queue in which the hosts wait.

use provoke_model::HostFacts;
use std::time::Duration;

/// How one host runs a script.
#[derive(Debug)]
pub struct Launch {
    /// The host, as it is called in messages.
    pub host: String,
    /// Whether the host gives its own name, because it was not known before.
    pub names_itself: bool,
    /// The command and its arguments, which runs the script on the host.
    pub command: Vec<String>,
    /// How long the host may take to start the script; `None` if it may wait in a queue.
    pub start_within: Option<Duration>,
    /// What to do if the host cannot be reached.
    pub hint: String,
}

/// How all hosts are started.
#[derive(Debug, Default)]
pub struct HostStarts {
    /// One for each host.
    pub launches: Vec<Launch>,
    /// Facts that the transport knows, by host.
    pub facts: HostFacts,
    /// The queue in which the hosts wait.
    pub queue: Option<HostQueue>,
}

/// A queue in which nodes wait until they are free.
#[derive(Clone, Debug)]
pub struct HostQueue {
    /// Whose nodes wait.
    pub scheduler: &'static str,
    /// Distinguishes the nodes of this run from others.
    pub mark: String,
    /// Returns why nodes with this mark wait.
    pub reasons: fn(&str) -> Vec<String>,
}
