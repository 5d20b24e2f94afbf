//! Drives one trial of a service from its first response to its end, as its clients see it.

use super::body::RequestTail;
use super::client_deadline::ClientStop;
use super::clock::Clock;
use super::connect::Dialer;
use super::crash_effect::{self, CrashEffect};
use super::fixed_rate::RequestRate;
use super::phase::LoadPhase;
use super::phase_run::{PhaseContext, PhaseResult, wait_for_death, wait_for_halt};
use super::probe::Probe;
use super::ready::ReadyWait;
use super::record::WorkerRecord;
use super::request::{DrawnRequest, Requests, hash_number};
use super::target::{self, Target};
use super::tls::Tls;
use super::{http2_connection, request_evidence};

use super::{LoadError, LoadPlaceholders, ServiceTrial, ready};
use provoke_model::{
    ConnectionReuse, HttpVersion, LoadLimit, LoadObservation, LoadPlan, LoadStage, ReadyCondition,
    RequestPace, RequestsAtFailure,
};
use provoke_sys::{files, limits, process, sockets};
use provoke_words::untrusted::Untrusted as _;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

/// File descriptors that are not connections.
const OTHER_FILES: u64 = 256;
/// Maximum time between broken connections and the detection of the crash.
const WAKE: Duration = Duration::from_secs(1);
/// Minimum timeout of a probe.
const PATIENCE: Duration = Duration::from_secs(2);
/// Modifier of the seed, so that the warm-up draws other requests than the load.
const WARM: u64 = 0x7761_726d;

/// Data that all trials of a load share, and that can be checked before the first.
pub(super) struct PreparedLoad {
    pub(super) target: Target,
    pub(super) requests: Arc<Requests>,
}

impl PreparedLoad {
    pub(super) fn new(load: &LoadPlan, fill: &LoadPlaceholders) -> Result<Self, LoadError> {
        let target = Target::new(&load.target, fill)?;
        if load.target.http == HttpVersion::Two && !target.secure {
            return Err(LoadError::Base {
                base: load.target.base.clone(),
                why: "HTTP/2 needs TLS; without TLS, use `2-prior-knowledge`",
            });
        }
        if let ReadyCondition::Http { path, .. } = &load.ready {
            // The path is sent without escaping.
            let path = target::fill_marks(path, fill);
            if path.contains(target::breaks_lines) {
                return Err(LoadError::Ready(path));
            }
        }
        let requests = Arc::new(Requests::new(load, &target, fill)?);
        Ok(Self { target, requests })
    }

    /// Returns the TLS configuration, if the target needs one.
    pub(super) fn make_tls(
        &self,
        load: &LoadPlan,
        fill: &LoadPlaceholders,
    ) -> Result<Option<Tls>, LoadError> {
        let secure = self.target.secure;
        let tls = secure.then(|| Tls::new(&load.target, &self.target.host, fill));
        tls.transpose()
    }

    pub(super) fn make_dialer(
        &self,
        load: &LoadPlan,
        fill: &LoadPlaceholders,
    ) -> Result<Arc<Dialer>, LoadError> {
        let tls = self.make_tls(load, fill)?;
        let dialer = Dialer::new(&self.target, load.target.resolve_each, tls).map_err(|error| {
            LoadError::Resolve {
                host: self.target.host.clone(),
                said: error,
            }
        })?;
        Ok(Arc::new(dialer))
    }

    /// Returns the probe that tests whether a service responds.
    pub(super) fn make_probe(
        &self,
        load: &LoadPlan,
        fill: &LoadPlaceholders,
        dialer: Arc<Dialer>,
    ) -> Probe {
        let Target {
            prefix, authority, ..
        } = &self.target;
        let two = (load.target.http != HttpVersion::One).then(|| match &load.ready {
            ReadyCondition::Http { path, .. } => {
                let path = format!("{prefix}{}", target::fill_marks(path, fill));
                http2_connection::plain_request(&self.target, &path)
            }
            _ => self
                .requests
                .http2_request(&self.target, &DrawnRequest::default()),
        });
        let (bytes, long, head) = match &load.ready {
            ReadyCondition::Http { path, .. } => {
                let path = target::fill_marks(path, fill);
                let text = format!(
                    "GET {prefix}{path} HTTP/1.1\r\nHost: {authority}\r\nConnection: close\r\n\r\n"
                );
                (text.into_bytes(), None, false)
            }
            _ => {
                let first = self.requests.first_choice();
                let mut buffer = Vec::new();
                let (head, body) = self.requests.write_wire(&first, true, &mut buffer);
                let (held_bytes, long) = match body {
                    RequestTail::Held(body) => (body, None),
                    RequestTail::Long(long) => (&[][..], Some(long.clone())),
                };
                let has_no_body = self.requests.kinds[first.kind].head;
                ([head, held_bytes].concat(), long, has_no_body)
            }
        };
        Probe {
            dialer,
            bytes,
            long,
            head,
            limit: load.target.request_limit.min(load.hang_after.max(PATIENCE)),
            two,
        }
    }
}

/// Drives a trial, and returns the observations.
pub(super) async fn run_service(life: &mut ServiceTrial) -> LoadObservation {
    let mut observation = LoadObservation {
        seed: life.seed,
        ..LoadObservation::default()
    };
    if let Err(trouble) = run_stages(life, &mut observation).await {
        observation.trouble = Some(trouble);
    }
    observation
}

async fn run_stages(
    life: &mut ServiceTrial,
    observation: &mut LoadObservation,
) -> Result<(), String> {
    let load = life.load.clone();
    let phase = plan_phase(&load, life.clients, life.seed);
    observation.clients = match phase.amount {
        LoadLimit::Requests(0) => 0,
        _ => phase.clients,
    };
    set_stage(life, observation, LoadStage::Starting);
    limits::allow_open_files(u64::from(phase.clients) + OTHER_FILES);
    let (prepared, dialer) = prepare_load(life).await?;
    let probe = prepared.make_probe(&load, &life.fill, dialer.clone());
    if !becomes_ready(life, &prepared.target, &probe).await? {
        return Ok(());
    }
    refuse_stranger(life, &prepared.target).await?;
    observation.ready = life.started.elapsed();
    let overflows = sockets::listen_overflows();
    files::create_folders(&life.folder)
        .map_err(|error| format!("cannot create `{}`: {error}", life.folder.to_safe()))?;
    let mut context = PhaseContext {
        requests: prepared.requests.clone(),
        target: Arc::new(prepared.target.clone()),
        dialer,
        probe,
        clock: Clock::new(life.started),
        live: life.live.clone(),
        death: life.death.clone(),
        halt: life.halt.clone(),
        folder: life.folder.clone(),
    };
    let send_error = |error: std::io::Error| format!("cannot send the load: {error}");
    if load.warm_up.requests > 0 {
        set_stage(life, observation, LoadStage::WarmUp);
        let warm_up = plan_warm_up(&load, &phase);
        let ran = context
            .run_phase(warm_up.clone())
            .await
            .map_err(send_error)?;
        observation.warmed = ran.records.iter().map(|record| record.served).sum();
        if ran.stop != ClientStop::No {
            return finish_phase(life, observation, ran, &warm_up, &prepared.requests);
        }
        // The rings and logs of the load go to the same folder.
        remove_rings(&ran);
    }
    set_stage(life, observation, LoadStage::Loading);
    let mut ran = context.run_phase(phase.clone()).await.map_err(send_error)?;
    if ran.stop == ClientStop::No {
        set_stage(life, observation, LoadStage::Settling);
        if survives_load(&mut context, &load, &mut ran, observation.warmed > 0).await {
            set_stage(life, observation, LoadStage::Over);
        }
    }
    let after = sockets::listen_overflows();
    observation.overflows = after.zip(overflows).map_or(0, |(after, overflows_before)| {
        after.saturating_sub(overflows_before)
    });
    finish_phase(life, observation, ran, &phase, &prepared.requests)
}

/// Reads the files of the load and resolves the name of its target, which may block.
async fn prepare_load(life: &ServiceTrial) -> Result<(PreparedLoad, Arc<Dialer>), String> {
    let (load, fill) = (life.load.clone(), life.fill.clone());
    let prepared = tokio::task::spawn_blocking(move || {
        let made = PreparedLoad::new(&load, &fill)?;
        let dialer = made.make_dialer(&load, &fill)?;
        Ok::<_, LoadError>((made, dialer))
    })
    .await
    .map_err(|error| error.to_string())?;
    prepared.map_err(|error| error.to_string())
}

/// Waits until the service is ready; returns false if it died before. Fails if it is not ready in time, or if the run
/// ends before.
async fn becomes_ready(
    life: &mut ServiceTrial,
    target: &Target,
    probe: &Probe,
) -> Result<bool, String> {
    let load = &life.load;
    let wait = ReadyWait::new(&load.ready, target, life.started, load.ready_limit);
    let readiness = life.live.readiness.lock();
    *readiness.unwrap_or_else(PoisonError::into_inner) = Some(wait.clone());
    let waiting = ready::wait_until_ready(&load.ready, &wait, probe, &mut life.said);
    tokio::select! {
        ready = waiting => ready.map(|()| true),
        _ = wait_for_death(&mut life.death) => Ok(false),
        () = wait_for_halt(&mut life.halt) => Err(wait.describe_progress()),
    }
}

/// Fails if a process that does not belong to the service listens at its target.
async fn refuse_stranger(life: &ServiceTrial, target: &Target) -> Result<(), String> {
    if life.pids.is_empty() {
        return Ok(());
    }
    let (target, pids, contained) = (target.clone(), life.pids.clone(), life.contained);
    let stranger =
        tokio::task::spawn_blocking(move || ready::name_stranger(&target, &pids, contained));
    match stranger.await {
        Ok(Some(stranger)) => Err(stranger),
        _ => Ok(()),
    }
}

/// Watches the service for a while after its load. Returns whether it still responds then; otherwise, the result of the
/// load says how it ended.
async fn survives_load(
    context: &mut PhaseContext,
    load: &LoadPlan,
    ran: &mut PhaseResult,
    warmed: bool,
) -> bool {
    let (probe, clock) = (&context.probe, context.clock);
    let last_broken = ran.records.iter().filter_map(WorkerRecord::last_broken);
    let broken = last_broken
        .max()
        .map(|nanos| clock.instant_at(nanos) + WAKE);
    let deadline = clock.instant_at(ran.ended) + load.quiet_time;
    let until = broken.map_or(deadline, |broken| deadline.max(broken));
    let silent = silent_since(ran, warmed);
    let liveness_check = async {
        match silent {
            Some(since) => answers_in_time(probe, clock.instant_at(since) + load.hang_after).await,
            None => true,
        }
    };
    let service_ended = async {
        let ((), alive) = tokio::join!(tokio::time::sleep_until(until.into()), liveness_check);
        alive
    };
    tokio::select! {
        alive = service_ended => {
            if alive {
                return true;
            }
            ran.stop = ClientStop::Died;
            ran.hung = true;
            ran.ended = clock.nanos_now();
            for record in &mut ran.records {
                record.reopen_timed_out(silent.unwrap_or(ran.ended));
            }
        }
        _ = wait_for_death(&mut context.death) => ran.stop = ClientStop::Died,
        () = wait_for_halt(&mut context.halt) => ran.stop = ClientStop::Halted,
    }
    false
}

/// Returns the time of the last response, if a request ended after it without a response.
///
/// While the load runs, the silence after clients that gave up or finished is not noticed. A
/// refused connection counts as such an end only if the service has responded before.
fn silent_since(ran: &PhaseResult, warmed: bool) -> Option<u64> {
    let last = |nanos_of: fn(&WorkerRecord) -> u64| ran.records.iter().map(nanos_of).max();
    let answered = last(|record| record.last.answered)?;
    let mut last_activity = last(|record| record.last.timed_out)?;
    if answered > 0 || warmed {
        last_activity = last_activity.max(last(|record| record.last.turned_away)?);
    }
    (last_activity > answered).then_some(answered.max(ran.began))
}

/// Sends probes until the service responds or the time is over; sends at least one.
async fn answers_in_time(probe: &Probe, deadline: Instant) -> bool {
    loop {
        if probe.ask_status().await.is_ok() {
            return true;
        }
        // Wait, because the crash may be detected soon, which is a more precise result than a hang.
        tokio::time::sleep(WAKE).await;
        if Instant::now() >= deadline {
            return false;
        }
    }
}

fn set_stage(life: &ServiceTrial, observation: &mut LoadObservation, stage: LoadStage) {
    observation.stage = stage;
    life.live.stage.store(stage as u8, Ordering::Relaxed);
}

/// Returns the parameters of the measured load.
fn plan_phase(load: &LoadPlan, clients: Option<u32>, seed: u64) -> LoadPhase {
    let (pace, rate) = match load.pace {
        RequestPace::Closed { clients } => (clients, None),
        RequestPace::Open {
            millihertz,
            connections,
        } => (connections, Some(RequestRate(millihertz))),
    };
    let connections = match load.target.connections {
        ConnectionReuse::For(0) => ConnectionReuse::For(1),
        reuse => reuse,
    };
    LoadPhase {
        clients: clients.unwrap_or(pace).max(1),
        seed,
        amount: load.amount,
        rate,
        think: load.think,
        spread: load.spread,
        connections,
        connect_limit: load.target.connect_limit,
        request_limit: load.target.request_limit,
        http: load.target.http,
        log_all: load.log_all,
        hang_after: load.hang_after,
        counted: true,
    }
}

/// Returns the parameters of the warm-up before the measured load.
fn plan_warm_up(load: &LoadPlan, phase: &LoadPhase) -> LoadPhase {
    LoadPhase {
        clients: load.warm_up.clients.max(1),
        seed: hash_number(phase.seed ^ WARM),
        amount: LoadLimit::Requests(load.warm_up.requests),
        rate: None,
        spread: Duration::ZERO,
        counted: false,
        log_all: false,
        ..phase.clone()
    }
}

/// Adds up the results of a phase, and writes the requests in flight at a crash.
fn finish_phase(
    life: &mut ServiceTrial,
    observation: &mut LoadObservation,
    mut ran: PhaseResult,
    phase: &LoadPhase,
    requests: &Requests,
) -> Result<(), String> {
    let died = if ran.stop == ClientStop::Died {
        (*life.death.borrow())
            .map(|died| Clock::new(life.started).nanos_at(died))
            .or(ran.hung.then_some(ran.ended))
    } else {
        None
    };
    let kinds = requests.kinds.len();
    let mut at_random = vec![0; kinds];
    let mut events: Vec<_> = ran
        .records
        .iter()
        .flat_map(WorkerRecord::kept_events)
        .collect();
    events.sort_by_key(|event| event.sent);
    let blow = died.map(|died| {
        let agains: Vec<_> = ran
            .records
            .iter()
            .flat_map(WorkerRecord::resent_requests)
            .collect();
        crash_effect::find_in_flight(&events, &agains, died)
    });
    if let (Some(died), Some(blow)) = (died, &blow) {
        for record in &mut ran.records {
            record.account_for_death(died, blow);
        }
    }
    let mut log_failed = None;
    for record in &mut ran.records {
        record.flush_log();
        log_failed = log_failed.or(record.log.error.take());
        add_counts(&mut at_random, &record.at_random);
    }
    if phase.counted {
        for record in &mut ran.records {
            record.publish_ends(&life.live);
        }
        add_up_records(observation, &ran, kinds);
        if ran.stop == ClientStop::Halted {
            let answered = ran.records.iter().map(|record| record.last.answered).max();
            let since = answered.unwrap_or(0).max(ran.began);
            observation.silent = Duration::from_nanos(ran.ended.saturating_sub(since));
        }
    }
    if let Some(died) = died
        && let Some(CrashEffect {
            at,
            in_flight,
            answered_after,
        }) = blow
    {
        let mut by_kind = vec![0; kinds];
        for event in &in_flight {
            by_kind[usize::from(event.kind)] += 1;
        }
        let request_ages = in_flight
            .iter()
            .map(|event| died.saturating_sub(event.sent) / 1000);
        let ages = request_ages.clone().min().zip(request_ages.max());
        observation.death = Some(RequestsAtFailure {
            hung: ran.hung,
            stopped: ran.hung && life.pids.iter().any(|pid| is_stopped(*pid)),
            in_flight: in_flight.len() as u64,
            answering: in_flight.iter().filter(|event| event.bytes > 0).count() as u64,
            kinds: by_kind,
            ages_us: ages.map(|(latest, first)| [latest, first]),
            answered_after,
        });
        let bundle = request_evidence::RequestEvidence {
            load: &life.load,
            requests,
            phase,
            began: ran.began,
            died,
            struck: at,
            in_flight: &in_flight,
            events: &events,
        };
        let written = bundle.write_to(&life.folder);
        remove_leftovers(&ran, &life.folder);
        return written.map_err(|error| {
            let folder = life.folder.to_safe();
            format!("cannot write the requests in flight to `{folder}`: {error}")
        });
    }
    observation.at_random = at_random;
    remove_leftovers(&ran, &life.folder);
    match log_failed {
        None => Ok(()),
        Some(error) => Err(format!("cannot write every request: {error}")),
    }
}

fn is_stopped(pid: i32) -> bool {
    process::process_state(pid).is_some_and(|(state, _)| state == 'T')
}

fn add_up_records(observation: &mut LoadObservation, ran: &PhaseResult, kinds: usize) {
    observation.elapsed = Duration::from_nanos(ran.ended.saturating_sub(ran.began));
    observation.kinds = vec![0; kinds];
    for record in &ran.records {
        observation.sent += record.sent;
        observation.served += record.served;
        observation.bytes += record.bytes;
        observation.connections += record.connections;
        observation.queue = observation.queue.max(record.queue);
        add_counts(&mut observation.kinds, &record.kinds);
        for (result, count) in record.end_counts() {
            *observation.ends.entry(result).or_default() += count;
        }
        let [latency, from_send, late] = record.latency_times();
        observation.latency.merge_from(&latency);
        observation.from_send.merge_from(&from_send);
        observation.late.merge_from(&late);
    }
}

fn add_counts(sum: &mut [u64], added: &[u64]) {
    for (sum, count) in sum.iter_mut().zip(added) {
        *sum += count;
    }
}

/// Removes the rings, and the folder if it is then empty.
fn remove_leftovers(ran: &PhaseResult, folder: &std::path::Path) {
    remove_rings(ran);
    let _ = files::remove_empty_folder(folder);
}

fn remove_rings(ran: &PhaseResult) {
    for ring in &ran.rings {
        let _ = files::remove_file(ring); // the ring may not exist
    }
}
