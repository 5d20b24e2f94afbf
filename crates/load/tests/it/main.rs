//! Tests HTTP load on small servers that do exactly what a test needs.

mod answers;
mod crashes;
mod protocols;
mod rates;
mod sent_requests;
mod server;

use provoke_load::{LoadProgress, ServiceTrial, drive_service};
use provoke_model::{
    LoadLimit, LoadObservation, LoadPlan, ReadyCondition, RequestPlan, RequestResult, ServiceOwner,
};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// Time limit that only a hang exceeds.
const HANG_LIMIT: Duration = Duration::from_secs(120);

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
struct TrialEvents {
    log_matched: watch::Sender<bool>,
    death: watch::Sender<Option<Instant>>,
    halt: watch::Sender<bool>,
    folder: tempfile::TempDir,
}

impl TrialEvents {
    fn new() -> Self {
        Self {
            log_matched: watch::Sender::new(false),
            death: watch::Sender::new(None),
            halt: watch::Sender::new(false),
            folder: tempfile::tempdir().unwrap(),
        }
    }

    fn evidence(&self) -> PathBuf {
        self.folder.path().join("7")
    }

    fn service_trial(&self, load: &LoadPlan) -> ServiceTrial {
        ServiceTrial {
            load: Arc::new(load.clone()),
            clients: None,
            seed: 7,
            fill: Vec::new(),
            contained: false,
            pids: Vec::new(),
            started: Instant::now(),
            said: self.log_matched.subscribe(),
            death: self.death.subscribe(),
            halt: self.halt.subscribe(),
            folder: self.evidence(),
            live: Arc::new(LoadProgress::default()),
        }
    }

    fn drive(&self, load: &LoadPlan) -> LoadObservation {
        run(drive_service(self.service_trial(load)))
    }
}

fn run<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let ended = runtime.block_on(async { tokio::time::timeout(HANG_LIMIT, future).await });
    ended.expect("it ends")
}

/// Runs a trial without outside events, and returns the observation after checking its sums.
fn drive_checked(load: &LoadPlan) -> LoadObservation {
    let events = TrialEvents::new();
    let seen = events.drive(load);
    assert_eq!(seen.trouble, None);
    assert_counts_add_up(&seen);
    assert!(!events.evidence().exists(), "nothing is left behind");
    seen
}

fn assert_counts_add_up(seen: &LoadObservation) {
    let is_not_a_request =
        |ended: &RequestResult| matches!(ended, RequestResult::ClosedIdle | RequestResult::NotSent);
    let ends = seen
        .ends
        .iter()
        .filter(|(ended, _)| !is_not_a_request(ended));
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
