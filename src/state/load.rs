//! Sums the results of the clients over all trials of a service.

use crate::model::{Around, Death, Ended, Latencies, LoadSeen};
use provoke_stats::{self as stats, real};
use std::collections::BTreeMap;
use std::time::Duration;

/// Deaths that are remembered one by one: no question needs more.
const DEATHS: usize = 1000;

/// What became of the requests of a variant's lives.
#[derive(Debug, Default)]
pub struct Lives {
    /// Lives that count.
    pub lives: u64,
    /// Clients of each, or connections.
    pub clients: u32,
    /// Requests that were sent, those that warmed up not among them.
    pub sent: u64,
    /// Whole answers.
    pub served: u64,
    /// What became of requests.
    pub ends: BTreeMap<Ended, u64>,
    /// Sent by kind.
    pub kinds: Vec<u64>,
    /// Bytes of answers.
    pub bytes: u64,
    /// Connections that were made.
    pub connections: u64,
    /// Time under load.
    pub loaded: Duration,
    /// Of good answers, from when they were due.
    pub latency: Latencies,
    /// The same, from when they were sent.
    pub from_send: Latencies,
    /// How late we were.
    pub late: Latencies,
    /// Requests that waited for a connection, at most.
    pub queue: u64,
    /// Connections that listeners of the machine turned away.
    pub overflows: u64,
    /// Answers that waited for a delayed acknowledgement.
    pub delayed_acks: u64,
    /// Deaths, each with the answers before it.
    pub deaths: Vec<(u64, Death)>,
    /// How what is counted of a service grew in lives that were long enough to tell: by how much a
    /// second, where it did.
    pub grown: Vec<[Option<f64>; QUANTITIES]>,
    /// What was in flight by kind at a random instant of each life that did not die.
    pub at_random: Vec<Vec<u64>>,
}

impl Lives {
    pub(super) fn add(&mut self, seen: &LoadSeen) {
        self.lives += 1;
        self.clients = self.clients.max(seen.clients);
        self.sent += seen.sent;
        self.served += seen.served;
        for (ended, count) in &seen.ends {
            *self.ends.entry(ended.clone()).or_default() += count;
        }
        self.kinds.resize(self.kinds.len().max(seen.kinds.len()), 0);
        for (all, one) in self.kinds.iter_mut().zip(&seen.kinds) {
            *all += one;
        }
        self.bytes += seen.bytes;
        self.connections += seen.connections;
        self.loaded += seen.elapsed;
        self.latency.add(&seen.latency);
        self.from_send.add(&seen.from_send);
        self.late.add(&seen.late);
        self.queue = self.queue.max(seen.queue);
        self.overflows += seen.overflows;
        self.delayed_acks += seen.delayed_acks;
        self.grown.extend(growth(&seen.sizes));
        match &seen.death {
            Some(death) if self.deaths.len() < DEATHS => {
                self.deaths
                    .push((seen.answered_until(death), death.clone()));
            }
            None if self.at_random.len() < DEATHS => self.at_random.push(seen.at_random.clone()),
            _ => {}
        }
    }
}

/// Memory in KiB, processes, threads, open files.
const QUANTITIES: usize = 4;

/// Returns by how much a second each quantity grew; nothing of a life that was too short to tell.
fn growth(sizes: &[(u64, Around)]) -> Option<[Option<f64>; QUANTITIES]> {
    let of: [fn(&Around) -> u64; QUANTITIES] = [
        |seen| seen.rss_kib,
        |seen| seen.processes,
        |seen| seen.threads,
        |seen| seen.descriptors,
    ];
    let points = |of: fn(&Around) -> u64| -> Vec<(f64, f64)> {
        let seen = sizes.iter();
        seen.map(|(ms, around)| (real(*ms) / 1e3, real(of(around))))
            .collect()
    };
    let grown = of.map(|of| stats::growth(&points(of), ALPHA));
    grown[0]?;
    Some(grown.map(|found| {
        let found = found.filter(|found| found.warns(QUANTITIES));
        found.map(|found| found.slope.middle)
    }))
}

/// Of the interval of a slope.
const ALPHA: f64 = 0.05;
