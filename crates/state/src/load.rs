//! Sums the results of the clients over all trials of a service.

use provoke_model::{Latencies, LoadObservation, RequestResult, RequestsAtFailure, TotalUsage};
use std::collections::BTreeMap;
use std::time::Duration;

/// Maximum number of crashes that are stored individually: no question needs more.
const DEATHS: usize = 1000;

/// Results of the requests in all trials of a variant.
#[derive(Debug, Default)]
pub struct RequestTotals {
    /// Counted trials.
    pub trials: u64,
    /// Number of clients, or of connections, per trial.
    pub clients: u32,
    /// Requests sent, without the warm-up.
    pub sent: u64,
    /// Complete responses.
    pub served: u64,
    /// Number of requests by result.
    pub ends: BTreeMap<RequestResult, u64>,
    /// Requests sent by kind.
    pub kinds: Vec<u64>,
    /// Bytes of responses.
    pub bytes: u64,
    /// Connections opened.
    pub connections: u64,
    /// Time under load.
    pub loaded: Duration,
    /// Latencies of good responses, from the due times.
    pub latency: Latencies,
    /// The same from the times at which the requests were sent.
    pub from_send: Latencies,
    /// Delays of the load generator.
    pub late: Latencies,
    /// Maximum number of requests that waited for a connection.
    pub queue: u64,
    /// Connections that overflowed listen queues of the machine.
    pub overflows: u64,
    /// Crashes, each with the number of responses before it.
    pub deaths: Vec<(u64, RequestsAtFailure)>,
    /// Sizes of the service during each trial, with the times in milliseconds.
    pub sizes: Vec<Vec<(u64, TotalUsage)>>,
    /// Requests in flight by kind at a random instant of each trial without a crash.
    pub at_random: Vec<Vec<u64>>,
}

impl RequestTotals {
    pub(super) fn add_service_run(&mut self, observation: &LoadObservation) {
        self.trials += 1;
        self.clients = self.clients.max(observation.clients);
        self.sent += observation.sent;
        self.served += observation.served;
        for (result, count) in &observation.ends {
            *self.ends.entry(result.clone()).or_default() += count;
        }
        self.kinds
            .resize(self.kinds.len().max(observation.kinds.len()), 0);
        for (sum, count) in self.kinds.iter_mut().zip(&observation.kinds) {
            *sum += count;
        }
        self.bytes += observation.bytes;
        self.connections += observation.connections;
        self.loaded += observation.elapsed;
        self.latency.merge_from(&observation.latency);
        self.from_send.merge_from(&observation.from_send);
        self.late.merge_from(&observation.late);
        self.queue = self.queue.max(observation.queue);
        self.overflows += observation.overflows;
        self.sizes.push(observation.sizes.clone());
        match &observation.death {
            Some(death) if self.deaths.len() < DEATHS => {
                self.deaths
                    .push((observation.answered_until(death), death.clone()));
            }
            None if self.at_random.len() < DEATHS => {
                self.at_random.push(observation.at_random.clone());
            }
            _ => {}
        }
    }
}
