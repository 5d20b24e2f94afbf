//! Tests HTTP load on small servers that do exactly what a test needs.

mod answers;
mod deaths;
mod protocols;
mod rates;
mod server;
mod what_is_sent;

use provoke_load::{LoadProgress, ServiceTrial, drive_service};
use provoke_model::{
    LoadLimit, LoadObservation, LoadPlan, ReadyCondition, RequestPlan, RequestResult, ServiceOwner,
};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// Time limit that only a hang exceeds.
const PATIENCE: Duration = Duration::from_secs(120);

/// Returns a load with this number of requests and clients, of one kind.
fn load(base: &str, clients: u32, requests: u64) -> LoadPlan {
    LoadPlan {
        owner: ServiceOwner::Provoke,
        ready: ReadyCondition::After(Duration::ZERO),
        ..LoadPlan::from_url(base, clients, LoadLimit::Requests(requests))
    }
}

fn kind(name: &str, weight: u32) -> RequestPlan {
    RequestPlan {
        name: name.to_owned(),
        weight,
        method: "GET".to_owned(),
        path: "/".to_owned(),
        ..RequestPlan::default()
    }
}

/// Simulates the events that a service trial receives from outside.
struct Outside {
    said: watch::Sender<bool>,
    death: watch::Sender<Option<Instant>>,
    halt: watch::Sender<bool>,
    folder: tempfile::TempDir,
}

impl Outside {
    fn new() -> Self {
        Self {
            said: watch::Sender::new(false),
            death: watch::Sender::new(None),
            halt: watch::Sender::new(false),
            folder: tempfile::tempdir().unwrap(),
        }
    }

    fn evidence(&self) -> PathBuf {
        self.folder.path().join("7")
    }

    fn life(&self, load: &LoadPlan) -> ServiceTrial {
        ServiceTrial {
            load: Arc::new(load.clone()),
            clients: None,
            seed: 7,
            fill: Vec::new(),
            contained: false,
            pids: Vec::new(),
            started: Instant::now(),
            said: self.said.subscribe(),
            death: self.death.subscribe(),
            halt: self.halt.subscribe(),
            folder: self.evidence(),
            live: Arc::new(LoadProgress::default()),
        }
    }

    fn drive(&self, load: &LoadPlan) -> LoadObservation {
        run(drive_service(self.life(load)))
    }
}

fn run<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let ended = runtime.block_on(async { tokio::time::timeout(PATIENCE, future).await });
    ended.expect("it ends")
}

/// Runs a trial without outside events, and returns the observation after checking its sums.
fn drive_it(load: &LoadPlan) -> LoadObservation {
    let outside = Outside::new();
    let seen = outside.drive(load);
    assert_eq!(seen.trouble, None);
    adds_up(&seen);
    assert!(!outside.evidence().exists(), "nothing is left behind");
    seen
}

fn adds_up(seen: &LoadObservation) {
    let besides =
        |ended: &RequestResult| matches!(ended, RequestResult::ClosedIdle | RequestResult::NotSent);
    let ends = seen.ends.iter().filter(|(ended, _)| !besides(ended));
    assert_eq!(
        ends.map(|(_, count)| count).sum::<u64>(),
        seen.sent,
        "{seen:?}"
    );
    assert_eq!(seen.kinds.iter().sum::<u64>(), seen.sent);
    assert_eq!(seen.latency.total_count(), count(seen, &RequestResult::Ok));
}

fn count(seen: &LoadObservation, ended: &RequestResult) -> u64 {
    seen.ends.get(ended).copied().unwrap_or(0)
}
