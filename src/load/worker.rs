//! Thread that runs some of the clients, and the state that its clients share.

use super::LoadProgress;
use super::client::Client;
use super::connect::Dialer;
use super::http2::SharedConnection;
use super::phase::LoadPhase;
use super::record::WorkerRecord;
use super::request::{RequestDraws, Requests, hash_number};
use super::target::Target;
use super::timer::{Timer, TimerQueue};
use crate::model::HttpVersion;
use std::cell::{Cell, RefCell};
use std::io;
use std::ops::Range;
use std::path::Path;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::watch;

/// Interval of the checks of all time limits; a timer for each request would cost more than the
/// request.
const TICK: Duration = Duration::from_millis(5);
/// Time in which data that the service sent before a crash arrives.
const LAST_WORDS: Duration = Duration::from_millis(5);
/// Streams per shared HTTP/2 connection.
const STREAMS: u32 = 100;
/// Client polls between two checks of their connections, because a check costs more than a poll.
const EVENTS: u32 = 256;
/// Bytes per read.
const BUFFER: usize = 64 * 1024;

/// Clock with nanoseconds since the beginning of a trial; never 0.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock(Instant);

impl Clock {
    pub(super) fn new(begin: Instant) -> Self {
        Self(begin)
    }

    pub(super) fn nanos_now(self) -> u64 {
        self.nanos_at(Instant::now())
    }

    pub(super) fn nanos_at(self, instant: Instant) -> u64 {
        duration_nanos(instant.saturating_duration_since(self.0)).saturating_add(1)
    }

    pub(super) fn instant_at(self, nanos: u64) -> Instant {
        self.0 + Duration::from_nanos(nanos)
    }
}

pub(super) fn duration_nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Reason why clients stop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum ClientStop {
    #[default]
    No,
    /// The service crashed or hangs; the requests in flight remain in flight.
    Died,
    /// The trial was stopped early.
    Halted,
}

/// Data that all workers of a phase share.
pub(super) struct PhaseShared {
    pub(super) requests: Arc<Requests>,
    pub(super) target: Arc<Target>,
    pub(super) dialer: Arc<Dialer>,
    pub(super) clock: Clock,
    pub(super) phase: LoadPhase,
    /// Number of requests that were started or are due.
    pub(super) next: AtomicU64,
    /// Number of clients that are ready to start.
    pub(super) arrived: AtomicU32,
    /// Start time of the clients.
    pub(super) go: watch::Receiver<Option<u64>>,
    pub(super) stop: watch::Receiver<ClientStop>,
    pub(super) live: Arc<LoadProgress>,
    /// Time since which each worker has waited for responses; `u64::MAX` if it waits for none.
    pub(super) quiet: Vec<AtomicU64>,
}

impl PhaseShared {
    /// Returns the number of the next request.
    pub(super) fn take_number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }
}

/// Data that the clients of one thread share.
pub(super) struct Worker {
    pub(super) shared: Arc<PhaseShared>,
    pub(super) record: RefCell<WorkerRecord>,
    pub(super) buffer: RefCell<Box<[u8]>>,
    pub(super) stop: Cell<ClientStop>,
    /// Data came from the service since the last tick.
    pub(super) alive: Cell<bool>,
    /// A request was sent since the last data came.
    pub(super) unanswered: Cell<bool>,
    /// Draws of a fixed rate, which no single client owns.
    pub(super) draws: RefCell<RequestDraws>,
    pub(super) alarm: TimerQueue,
    slots: RefCell<Vec<Rc<ClientChannel>>>,
    before: RefCell<LastTick>,
    index: usize,
}

/// Signal from the worker to a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClientSignal {
    /// The time limit has passed.
    Late,
    Stop,
}

/// Channel from a worker to a client.
#[derive(Default)]
pub(super) struct ClientChannel {
    /// Time limit of the client's current operation; 0 for none.
    deadline: Cell<u64>,
    kick: Cell<Option<ClientSignal>>,
    waker: RefCell<Option<Waker>>,
}

impl ClientChannel {
    /// Sets the time limit of the next operation; 0 for none.
    pub(super) fn set_deadline(&self, deadline: u64) {
        self.deadline.set(deadline);
        if self.kick.get() == Some(ClientSignal::Late) {
            self.kick.set(None); // the signal belongs to an earlier operation
        }
    }

    /// Returns the signal to the client, or registers its waker.
    pub(super) fn poll_kick(&self, cx: &Context<'_>) -> Option<ClientSignal> {
        let kick = self.kick.get();
        if kick == Some(ClientSignal::Late) {
            self.kick.set(None);
        }
        if kick.is_none() {
            let mut waker = self.waker.borrow_mut();
            if !waker
                .as_ref()
                .is_some_and(|waker| waker.will_wake(cx.waker()))
            {
                *waker = Some(cx.waker().clone());
            }
        }
        kick
    }

    /// Awaits a future, unless the client receives a signal first.
    pub(super) async fn unless_kicked<F: Future>(
        &self,
        future: F,
    ) -> Result<F::Output, ClientSignal> {
        let mut future = pin!(future);
        std::future::poll_fn(|cx| {
            if let Poll::Ready(done) = future.as_mut().poll(cx) {
                return Poll::Ready(Ok(done));
            }
            self.poll_kick(cx)
                .map_or(Poll::Pending, |kick| Poll::Ready(Err(kick)))
        })
        .await
    }

    fn kick_client(&self, kick: ClientSignal) {
        self.deadline.set(0);
        self.kick.set(Some(kick));
        if let Some(waker) = self.waker.borrow_mut().take() {
            waker.wake();
        }
    }
}

impl Worker {
    /// Runs some of the clients until all have finished. Returns their record.
    pub(super) fn run_clients(
        shared: Arc<PhaseShared>,
        index: usize,
        clients: Range<u32>,
        ring: &Path,
    ) -> io::Result<WorkerRecord> {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .event_interval(EVENTS)
            .build_local(LocalOptions::default())?;
        let kinds = shared.requests.kinds.len();
        let count = clients.end - clients.start;
        let mut record = WorkerRecord::new(ring, kinds, count, shared.phase.is_open())?;
        if shared.phase.log_all {
            record.log_to(&ring.with_file_name(format!("requests-{index}.csv")))?;
        }
        let draws = RequestDraws::new(&shared.requests, shared.phase.seed, 0, 1);
        let worker = Rc::new(Self {
            shared,
            record: RefCell::new(record),
            buffer: RefCell::new(vec![0; BUFFER].into_boxed_slice()),
            stop: Cell::default(),
            alive: Cell::default(),
            unanswered: Cell::default(),
            draws: RefCell::new(draws),
            alarm: TimerQueue::default(),
            slots: RefCell::default(),
            before: RefCell::default(),
            index,
        });
        runtime.block_on(worker.clone().run_all_clients(clients))?;
        drop(runtime);
        let worker = Rc::into_inner(worker).expect("every client is done");
        Ok(worker.record.into_inner())
    }

    async fn run_all_clients(self: Rc<Self>, clients: Range<u32>) -> io::Result<()> {
        let timer = self.shared.phase.is_open().then(Timer::new).transpose()?;
        let two = self.shared.phase.http != HttpVersion::One;
        let mut lane = Rc::<SharedConnection>::default();
        let clients: Vec<_> = clients
            .map(|id| {
                if id.is_multiple_of(STREAMS) {
                    lane = Rc::default();
                }
                let lane = two.then(|| lane.clone());
                let slot = Rc::<ClientChannel>::default();
                self.slots.borrow_mut().push(slot.clone());
                let client = Client::new(self.clone(), slot, id, lane);
                tokio::task::spawn_local(client.run_to_end())
            })
            .collect();
        let stopping = tokio::task::spawn_local(self.clone().forward_stop());
        let ticking = tokio::task::spawn_local(self.clone().tick_forever());
        let worker = self.clone();
        let ringing = tokio::task::spawn_local(async move {
            if let Some(timer) = timer {
                worker.alarm.ring_forever(&timer, worker.shared.clock).await;
            }
        });
        for client in clients {
            client.await.expect("a client does not panic");
        }
        for helper in [stopping, ticking, ringing] {
            helper.abort();
            let _ = helper.await; // the task was cancelled
        }
        self.tick_once();
        Ok(())
    }

    /// Waits for the signal to stop, and passes it on.
    async fn forward_stop(self: Rc<Self>) {
        let mut stop = self.shared.stop.clone();
        let Ok(why) = stop
            .wait_for(|stop| *stop != ClientStop::No)
            .await
            .map(|stop| *stop)
        else {
            return;
        };
        self.stop.set(why);
        if why == ClientStop::Died {
            // Buffers may still contain responses that the service sent, and these count.
            tokio::time::sleep(LAST_WORDS).await;
        }
        for slot in self.slots.borrow().iter() {
            slot.kick_client(ClientSignal::Stop);
        }
    }

    async fn tick_forever(self: Rc<Self>) {
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.tick_once();
        }
    }

    fn tick_once(&self) {
        let before = &mut *self.before.borrow_mut();
        let now = self.shared.clock.nanos_now();
        for slot in self.slots.borrow().iter() {
            let deadline = slot.deadline.get();
            if deadline != 0 && now >= deadline {
                slot.kick_client(ClientSignal::Late);
            }
        }
        let mut record = self.record.borrow_mut();
        let waits = record.in_flight > 0;
        if self.alive.take() {
            self.unanswered.set(waits);
            before.quiet = now;
        } else if !self.unanswered.get() {
            before.quiet = now;
        }
        let quiet = if waits { before.quiet } else { u64::MAX };
        self.shared.quiet[self.index].store(quiet, Ordering::Relaxed);
        before.ticks += 1;
        let draw = hash_number(self.shared.phase.seed ^ hash_number(before.ticks));
        record.sample_in_flight(draw);
        let live = &self.shared.live;
        let more = |counter: &AtomicU64, now: u64, before: &mut u64| {
            counter.fetch_add(now.wrapping_sub(*before), Ordering::Relaxed);
            *before = now;
        };
        if self.shared.phase.counted {
            more(&live.sent, record.sent, &mut before.sent);
            more(&live.served, record.served, &mut before.served);
            record.publish_ends(live);
        }
        more(&live.in_flight, record.in_flight, &mut before.in_flight);
        let (sum, count) = std::mem::take(&mut record.lately);
        if let Some(mean) = sum.checked_div(count) {
            live.latency_us.store(mean, Ordering::Relaxed);
        }
    }
}

/// State of a worker at its last tick.
#[derive(Default)]
struct LastTick {
    quiet: u64,
    ticks: u64,
    sent: u64,
    served: u64,
    in_flight: u64,
}
