//! Runs one phase of a load: the warm-up, or the measured load.

use super::LoadProgress;
use super::client_deadline::ClientStop;
use super::clock::{Clock, duration_nanos};
use super::connect::Dialer;
use super::phase::LoadPhase;
use super::probe::Probe;
use super::record::WorkerRecord;
use super::request::Requests;
use super::target::Target;
use super::thread::spawn_worker;
use super::worker::PhaseShared;
use provoke_model::LoadLimit;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::{oneshot, watch};

/// Clients per thread, until there is a thread for each CPU.
const CLIENTS_A_THREAD: u32 = 512;
/// Interval between checks of the clients.
const LOOK: Duration = Duration::from_millis(20);
/// Interval between checks until all clients have connected.
const QUICK_LOOK: Duration = Duration::from_millis(1);

/// Data of the trial that a phase needs.
pub(super) struct PhaseContext {
    pub(super) requests: Arc<Requests>,
    pub(super) target: Arc<Target>,
    pub(super) dialer: Arc<Dialer>,
    pub(super) probe: Probe,
    pub(super) clock: Clock,
    pub(super) live: Arc<LoadProgress>,
    pub(super) death: watch::Receiver<Option<Instant>>,
    pub(super) halt: watch::Receiver<bool>,
    /// Folder of the rings.
    pub(super) folder: PathBuf,
}

/// Result of a phase.
pub(super) struct PhaseResult {
    pub(super) records: Vec<WorkerRecord>,
    pub(super) rings: Vec<PathBuf>,
    pub(super) began: u64,
    pub(super) ended: u64,
    pub(super) stop: ClientStop,
    /// The service stopped responding, also to a probe.
    pub(super) hung: bool,
}

/// Waits for the crash of the service; never returns if the service does not crash.
pub(super) async fn wait_for_death(death: &mut watch::Receiver<Option<Instant>>) -> Instant {
    if let Ok(died) = death.wait_for(Option::is_some).await
        && let Some(died) = *died
    {
        return died;
    }
    std::future::pending().await // the sender is gone, so the service can no longer crash
}

/// Waits until provoke shuts down; never returns otherwise.
pub(super) async fn wait_for_halt(halt: &mut watch::Receiver<bool>) {
    if halt.wait_for(|halt| *halt).await.is_err() {
        std::future::pending::<()>().await;
    }
}

impl PhaseContext {
    /// Runs a phase to its end or until it is stopped.
    pub(super) async fn run_phase(&mut self, phase: LoadPhase) -> io::Result<PhaseResult> {
        let (mut running, records) = self.start_workers(phase)?;
        let workers_done = async {
            let mut gathered = Vec::new();
            for record in records {
                gathered.push(record.await);
            }
            gathered
        };
        tokio::pin!(workers_done);
        let gathered = loop {
            let pause = tokio::time::sleep(if running.has_started {
                LOOK
            } else {
                QUICK_LOOK
            });
            let is_running = running.ran.stop == ClientStop::No;
            tokio::select! {
                gathered = &mut workers_done => break gathered,
                died = wait_for_death(&mut self.death), if is_running => {
                    running.ran.ended = self.clock.nanos_at(died);
                    running.stop_clients(ClientStop::Died);
                }
                () = wait_for_halt(&mut self.halt), if is_running => {
                    running.stop_clients(ClientStop::Halted);
                }
                () = pause => {}
            }
            let now = self.clock.nanos_now();
            running.begin_if_connected(now);
            if running.ran.stop == ClientStop::No && running.is_silent(now) {
                self.probe_silent_service(&mut running).await;
            }
        };
        if running.ran.stop != ClientStop::Died {
            running.ran.ended = self.clock.nanos_now();
        }
        for record in gathered {
            let lost_error = || io::Error::other("a client thread ended unexpectedly");
            let record = record.map_err(|_| lost_error())??;
            running.ran.records.push(record);
        }
        running.count_unsent();
        Ok(running.ran)
    }

    /// Starts the threads of the clients. Returns the receivers of their records.
    fn start_workers(&self, phase: LoadPhase) -> io::Result<(RunningPhase, Vec<RecordReceiver>)> {
        let clients = phase.clients.max(1);
        // At a fixed rate, one worker draws all requests, so that they are in order.
        let workers = if phase.is_open() {
            1
        } else {
            thread_count(clients)
        };
        let connect_limit = duration_nanos(phase.connect_limit);
        let (go, went) = watch::channel(None);
        let (stop, stopped) = watch::channel(ClientStop::No);
        let shared = Arc::new(PhaseShared {
            requests: self.requests.clone(),
            target: self.target.clone(),
            dialer: self.dialer.clone(),
            clock: self.clock,
            next: AtomicU64::new(0),
            arrived: AtomicU32::new(0),
            go: went,
            stop: stopped,
            live: self.live.clone(),
            quiet: (0..workers).map(|_| AtomicU64::new(u64::MAX)).collect(),
            phase,
        });
        let mut rings = Vec::new();
        let mut records = Vec::new();
        for index in 0..workers {
            let share = |index: u32| {
                let end = u64::from(clients) * u64::from(index) / u64::from(workers);
                u32::try_from(end).unwrap_or(clients)
            };
            let range = share(index)..share(index + 1);
            let ring = self.folder.join(format!("ring-{index}"));
            rings.push(ring.clone());
            records.push(spawn_worker(&shared, index as usize, range, &ring)?);
        }
        let ran = PhaseResult {
            records: Vec::new(),
            rings,
            began: self.clock.nanos_now(),
            ended: 0,
            stop: ClientStop::No,
            hung: false,
        };
        let running = RunningPhase {
            shared,
            go,
            stop,
            latest_begin: self.clock.nanos_now()
                + connect_limit
                + duration_nanos(Duration::from_secs(1)),
            has_started: false,
            last_probed: 0,
            ran,
        };
        Ok((running, records))
    }

    /// Tests whether a service that has not responded for long hangs, and stops the clients if it does.
    async fn probe_silent_service(&mut self, running: &mut RunningPhase) {
        let answer = tokio::select! {
            answer = self.probe.ask_status() => answer,
            // The next check sees the crash or the halt, too.
            died = wait_for_death(&mut self.death) => {
                running.ran.ended = self.clock.nanos_at(died);
                return;
            }
            () = wait_for_halt(&mut self.halt) => return,
        };
        match answer {
            Ok(_) => running.last_probed = self.clock.nanos_now(),
            Err(_) => {
                running.ran.hung = true;
                running.ran.ended = self.clock.nanos_now();
                running.stop_clients(ClientStop::Died);
            }
        }
    }
}

/// Receiver of the record of a worker.
type RecordReceiver = oneshot::Receiver<io::Result<WorkerRecord>>;

/// A phase whose clients run.
struct RunningPhase {
    shared: Arc<PhaseShared>,
    /// Starts the requests.
    go: watch::Sender<Option<u64>>,
    stop: watch::Sender<ClientStop>,
    /// Time at which the requests start even if some clients have not connected.
    latest_begin: u64,
    has_started: bool,
    /// Time of the last response to a probe.
    last_probed: u64,
    ran: PhaseResult,
}

impl RunningPhase {
    fn stop_clients(&mut self, reason: ClientStop) {
        self.ran.stop = reason;
        self.stop.send_replace(reason);
    }

    /// Starts the requests once all clients have connected, or after too long a wait.
    fn begin_if_connected(&mut self, now: u64) {
        let connected = self.shared.arrived.load(Ordering::Relaxed);
        if !self.has_started
            && (connected >= self.shared.phase.clients.max(1) || now > self.latest_begin)
        {
            self.has_started = true;
            self.ran.began = now;
            self.go.send_replace(Some(now));
        }
    }

    /// Returns whether a worker has waited so long for responses that the service may hang.
    fn is_silent(&self, now: u64) -> bool {
        let quiet = self.shared.quiet.iter();
        let quiet = quiet.map(|quiet| quiet.load(Ordering::Relaxed)).min();
        let silent_since = quiet.unwrap_or(u64::MAX).max(self.last_probed);
        now.saturating_sub(silent_since) >= duration_nanos(self.shared.phase.hang_after)
    }

    /// Counts the requests of a fixed rate that were due but not started when the clients were stopped.
    fn count_unsent(&mut self) {
        let LoadPhase { rate, amount, .. } = &self.shared.phase;
        if let (Some(rate), Some(record)) = (rate, self.ran.records.first_mut())
            && self.ran.stop != ClientStop::No
        {
            let due = rate.due_within(self.ran.ended.saturating_sub(self.ran.began));
            let due = match amount {
                LoadLimit::Requests(max) => due.min(*max),
                LoadLimit::Time(time) => due.min(rate.due_within(duration_nanos(*time))),
            };
            record.not_sent(due.saturating_sub(self.shared.next.load(Ordering::Relaxed)));
        }
    }
}

/// Returns the number of threads for this number of clients.
fn thread_count(clients: u32) -> u32 {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let max = u32::try_from(processors / 2).unwrap_or(1).max(1);
    clients.div_ceil(CLIENTS_A_THREAD).clamp(1, max)
}
