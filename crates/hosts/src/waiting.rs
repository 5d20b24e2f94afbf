//! Describes the hosts that are not ready yet.

use provoke_transports::HostQueue;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex as Register};
use std::time::Duration;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

/// Time after which the wait is described.
const DESCRIBE_AFTER: Duration = Duration::from_secs(2);
/// Interval at which the description is renewed.
const RENEW_EVERY: Duration = Duration::from_secs(5);
/// Maximum number of hosts that are named.
const NAMES: usize = 4;

/// The hosts that are not ready yet.
pub(super) struct AwaitedHosts {
    /// Their names, by their number in the plan.
    names: Arc<Register<BTreeMap<u32, String>>>,
    total: usize,
    /// The queue in which they wait.
    queue: Option<HostQueue>,
}

impl AwaitedHosts {
    /// Waits for these hosts.
    pub(super) fn new(names: BTreeMap<u32, String>, queue: Option<HostQueue>) -> Self {
        Self {
            total: names.len(),
            names: Arc::new(Register::new(names)),
            queue,
        }
    }

    /// Notes that a host is ready, or that it cannot start.
    pub(super) fn remove(&self, index: u32) {
        self.names.lock().expect("no panic").remove(&index);
    }

    /// Passes on a description of the wait if it takes long, and whenever it changes.
    pub(super) async fn describe_changes(&self, mut describe: impl FnMut(String)) {
        let mut ticks = interval_at(Instant::now() + DESCRIBE_AFTER, RENEW_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut last = None;
        loop {
            ticks.tick().await;
            let description = self.describe().await;
            if description != last
                && let Some(text) = description.clone()
            {
                describe(text);
                last = description;
            }
        }
    }

    /// Returns a description of the wait; `None` if all hosts are ready.
    pub(super) async fn describe(&self) -> Option<String> {
        let names: Vec<String> = {
            let names = self.names.lock().expect("no panic");
            names.values().cloned().collect()
        };
        if names.is_empty() {
            return None;
        }
        let (awaited, total) = (names.len(), self.total);
        let plural = if total == 1 { "" } else { "s" };
        let Some(queue) = self.queue.clone() else {
            let shown = names.iter().take(NAMES).cloned().collect::<Vec<_>>();
            let more = match names.len() - shown.len() {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            let shown = shown.join(", ");
            return Some(format!(
                "waiting for {awaited} of {total} host{plural}: {shown}{more}"
            ));
        };
        let scheduler = queue.scheduler;
        let reasons = tokio::task::spawn_blocking(move || (queue.reasons)(&queue.mark)).await;
        let reasons = reasons.unwrap_or_default().join(", ");
        let reasons = match reasons.as_str() {
            "" => String::new(),
            reasons => format!(" ({reasons})"),
        };
        Some(format!(
            "waiting for {awaited} of {total} node{plural} of {scheduler}{reasons}"
        ))
    }
}
