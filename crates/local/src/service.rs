//! Runs one trial of a service: its process in a slot, its clients in provoke.

use super::setup_usage::{pause_after, size_of};
use super::slot_handle::{SlotHandle, stop_order};
use provoke_exec::{StopUrgency, wait_for_raise};
use provoke_load::{LoadProgress, ServiceTrial};
use provoke_model::{
    LoadObservation, LoadPlan, LoadStage, Observation, SearchSpace, TotalUsage, Trial,
    VariantChoice, VariantPlan,
};
use provoke_slot::wire::{SlotOrder, SlotReply};
use provoke_sys::{host, process};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Divisor of the elapsed time that gives the minimum interval between measurements of a service.
const LOOKS: u32 = 100;

/// Data that all service trials of a run share.
pub(super) struct ServiceContext {
    pub(super) load: Arc<LoadPlan>,
    /// The requests that a search may leave out.
    pub(super) space: Option<SearchSpace>,
    /// Folder with a folder for each trial, for the requests in flight at a crash.
    pub(super) evidence: PathBuf,
    pub(super) live: Arc<LoadProgress>,
}

/// Clients of a trial while they run.
pub(super) struct RunningClients {
    task: JoinHandle<LoadObservation>,
    said_sender: watch::Sender<bool>,
    death: watch::Sender<Option<Instant>>,
    halt: watch::Sender<bool>,
}

impl ServiceContext {
    /// Returns the process that already listens at the target, if there is one.
    pub(super) async fn in_the_way(
        &self,
        trial: &Trial,
        variant: &VariantPlan,
    ) -> Option<Observation> {
        let trouble =
            provoke_load::describe_listener(&self.load, &fill_values(trial, variant)).await?;
        Some(Observation {
            load: Some(Box::new(LoadObservation {
                trouble: Some(trouble),
                ..LoadObservation::default()
            })),
            ..Observation::default()
        })
    }

    /// Puts the service of a slot under load; an error means that the slot is lost.
    pub(super) async fn run_under_load(
        &self,
        slot: &mut SlotHandle,
        trial: &Trial,
        variant: &VariantPlan,
        halt: &mut watch::Receiver<StopUrgency>,
    ) -> io::Result<Observation> {
        slot.send_order(&SlotOrder::Run(vec![trial.clone()]))
            .await?;
        let mut announced_urgency = StopUrgency::No;
        let mut clients: Option<RunningClients> = None;
        let mut load: Option<LoadObservation> = None;
        let mut sizes = ServiceUsage::default();
        loop {
            let under_way = load.is_none();
            tokio::select! {
                reply = slot.next_reply() => match reply? {
                    SlotReply::Started(pids) => {
                        // The size of a container engine's client is irrelevant.
                        let sized = if is_contained(variant) { Vec::new() } else { pids.clone() };
                        sizes = ServiceUsage::of_pids(sized);
                        clients = Some(self.start_clients(trial, variant, pids));
                    }
                    SlotReply::ServiceReady => tell_clients(clients.as_ref(), |one| one.said_sender.send_replace(true)),
                    SlotReply::ServiceCrashed(at) => {
                        // The message arrives later, when another process may already have replaced
                        // the crashed one.
                        let ago = host::monotonic_now().saturating_sub(at);
                        tell_clients(clients.as_ref(), |one| one.report_death(ago));
                    }
                    SlotReply::Finished(id, mut seen) if id == trial.id => {
                        tell_clients(clients.as_ref(), |one| one.report_death(Duration::ZERO));
                        if load.is_none() && let Some(clients) = &mut clients {
                            load = Some(finished_load(clients).await);
                        }
                        seen.load = Some(Box::new(LoadObservation {
                            sizes: sizes.samples,
                            ..load.unwrap_or_default()
                        }));
                        return Ok(*seen);
                    }
                    _ => {}
                },
                level = wait_for_raise(halt, announced_urgency) => {
                    announced_urgency = level;
                    tell_clients(clients.as_ref(), RunningClients::ask_to_end);
                    slot.send_order(&stop_order(level)).await?;
                }
                () = sizes.wait_for_next(), if under_way => sizes.sample_now(&self.live),
                seen = wait_for_load(clients.as_mut()), if under_way => {
                    let hung = seen.death.as_ref().is_some_and(|death| death.hung);
                    load = Some(seen);
                    slot.send_order(&SlotOrder::StopService { hung }).await?;
                }
            }
        }
    }

    pub(super) fn start_clients(
        &self,
        trial: &Trial,
        variant: &VariantPlan,
        pids: Vec<i32>,
    ) -> RunningClients {
        let (sender, has_said) = watch::channel(false);
        let (death, has_died) = watch::channel(None);
        let (halt, is_halted) = watch::channel(false);
        let load = match (&self.space, &variant.choice) {
            (Some(space), Some(VariantChoice::Set(kept_items))) => {
                Arc::new(space.reduced_load(&self.load, kept_items))
            }
            _ => Arc::clone(&self.load),
        };
        let life = ServiceTrial {
            load,
            clients: variant.clients,
            seed: trial.seed,
            fill: fill_values(trial, variant),
            contained: is_contained(variant),
            pids,
            started: Instant::now(),
            said: has_said,
            death: has_died,
            halt: is_halted,
            folder: self.evidence.join(trial.id.0.to_string()),
            live: Arc::clone(&self.live),
        };
        let task = tokio::spawn(provoke_load::drive_service(life));
        RunningClients {
            task,
            said_sender: sender,
            death,
            halt,
        }
    }
}

impl RunningClients {
    /// Asks the clients to end.
    pub(super) fn ask_to_end(&self) -> bool {
        self.halt.send_replace(true)
    }

    /// Tells the clients that the service crashed this long ago.
    pub(super) fn report_death(&self, ago: Duration) -> bool {
        let now = Instant::now();
        let ended_at = now.checked_sub(ago).unwrap_or(now);
        self.death.send_if_modified(|death| {
            let is_new = death.is_none();
            death.get_or_insert(ended_at);
            is_new
        })
    }
}

/// Sizes of a service under load over time.
pub(super) struct ServiceUsage {
    pids: Vec<i32>,
    started: Option<Instant>,
    next: Instant,
    pub(super) samples: Vec<(u64, TotalUsage)>,
}

impl Default for ServiceUsage {
    fn default() -> Self {
        Self::of_pids(Vec::new())
    }
}

impl ServiceUsage {
    pub(super) fn of_pids(pids: Vec<i32>) -> Self {
        Self {
            pids,
            started: None,
            next: Instant::now(),
            samples: Vec::new(),
        }
    }

    /// Waits for the time of the next measurement.
    pub(super) async fn wait_for_next(&self) {
        if self.pids.is_empty() {
            std::future::pending::<()>().await;
        }
        tokio::time::sleep_until(self.next.into()).await;
    }

    /// Measures the service while it is under load, at growing intervals, so that long trials do
    /// not fill the journal.
    pub(super) fn sample_now(&mut self, live: &LoadProgress) {
        let descendants = self
            .pids
            .iter()
            .flat_map(|pid| process::descendant_pids(*pid));
        let pids: Vec<i32> = self.pids.iter().copied().chain(descendants).collect();
        let pause = pause_after(pids.len() as u64);
        self.next = Instant::now() + pause;
        if live.current_stage() != LoadStage::Loading {
            return;
        }
        let after = self.started.get_or_insert_with(Instant::now).elapsed();
        self.next = Instant::now() + pause.max(after / LOOKS);
        let ms = u64::try_from(after.as_millis()).unwrap_or(u64::MAX);
        self.samples.push((ms, size_of(&pids)));
    }
}

fn tell_clients<T>(clients: Option<&RunningClients>, action: impl FnOnce(&RunningClients) -> T) {
    clients.map(action);
}

/// Waits for the end of the clients, if there are any.
async fn wait_for_load(clients: Option<&mut RunningClients>) -> LoadObservation {
    match clients {
        Some(clients) => finished_load(clients).await,
        None => std::future::pending().await,
    }
}

pub(super) async fn finished_load(clients: &mut RunningClients) -> LoadObservation {
    // Only a bug in provoke can end the task with an error; the trial is then inconclusive.
    (&mut clients.task)
        .await
        .unwrap_or_else(|error| LoadObservation {
            stage: LoadStage::Starting,
            trouble: Some(error.to_string()),
            ..LoadObservation::default()
        })
}

/// Returns whether the service of a variant runs in a container.
fn is_contained(variant: &VariantPlan) -> bool {
    variant.actors.iter().any(|actor| actor.container.is_some())
}

/// Returns the placeholders in the target of requests, and their values.
pub(super) fn fill_values(trial: &Trial, variant: &VariantPlan) -> Vec<(&'static str, String)> {
    vec![
        ("{trial}", trial.id.0.to_string()),
        ("{slot}", trial.slot.0.to_string()),
        ("{seed}", trial.seed.to_string()),
        ("{variant}", variant.name.clone()),
    ]
}
