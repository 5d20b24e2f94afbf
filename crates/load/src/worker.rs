//! State that the clients of one thread share: limits, stop signal, counts.

use super::LoadProgress;
use super::client_deadline::{ClientChannel, ClientSignal, ClientStop};
use super::clock::Clock;
use super::connect::Dialer;
use super::fixed_rate_timer::TimerQueue;
use super::phase::LoadPhase;
use super::record::WorkerRecord;
use super::request::{RequestDraws, Requests, hash_number};
use super::target::Target;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::watch;

/// Interval of the checks of all time limits; a timer for each request would cost more than the
/// request.
const TICK: Duration = Duration::from_millis(5);
/// Time in which data that the service sent before a crash arrives.
const LAST_WORDS: Duration = Duration::from_millis(5);
/// Bytes per read.
const BUFFER: usize = 64 * 1024;

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
    last_tick: RefCell<LastTick>,
    index: usize,
}

impl Worker {
    /// Creates the state of the worker with this index.
    pub(super) fn new(shared: Arc<PhaseShared>, index: usize, record: WorkerRecord) -> Self {
        let draws = RequestDraws::new(&shared.requests, shared.phase.seed, 0, 1);
        Self {
            shared,
            record: RefCell::new(record),
            buffer: RefCell::new(vec![0; BUFFER].into_boxed_slice()),
            stop: Cell::default(),
            alive: Cell::default(),
            unanswered: Cell::default(),
            draws: RefCell::new(draws),
            alarm: TimerQueue::default(),
            slots: RefCell::default(),
            last_tick: RefCell::default(),
            index,
        }
    }

    /// Adds a client. Returns the channel on which it receives signals.
    pub(super) fn add_client(&self) -> Rc<ClientChannel> {
        let slot = Rc::<ClientChannel>::default();
        self.slots.borrow_mut().push(slot.clone());
        slot
    }

    /// Waits for the signal to stop, and passes it on.
    pub(super) async fn forward_stop(self: Rc<Self>) {
        let mut stop = self.shared.stop.clone();
        let Ok(cause) = stop
            .wait_for(|stop| *stop != ClientStop::No)
            .await
            .map(|stop| *stop)
        else {
            return;
        };
        self.stop.set(cause);
        if cause == ClientStop::Died {
            // Buffers may still contain responses that the service sent, and these count.
            tokio::time::sleep(LAST_WORDS).await;
        }
        for slot in self.slots.borrow().iter() {
            slot.stop_client(ClientSignal::Stop);
        }
    }

    /// Checks time limits and publishes counts in short intervals.
    pub(super) async fn tick_forever(self: Rc<Self>) {
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.tick_once();
        }
    }

    /// Checks time limits and publishes counts.
    pub(super) fn tick_once(&self) {
        let last_tick = &mut *self.last_tick.borrow_mut();
        let now = self.shared.clock.nanos_now();
        for slot in self.slots.borrow().iter() {
            slot.stop_if_late(now);
        }
        let mut record = self.record.borrow_mut();
        let waits = record.in_flight > 0;
        if self.alive.take() {
            self.unanswered.set(waits);
            last_tick.quiet = now;
        } else if !self.unanswered.get() {
            last_tick.quiet = now;
        }
        let quiet = if waits { last_tick.quiet } else { u64::MAX };
        self.shared.quiet[self.index].store(quiet, Ordering::Relaxed);
        last_tick.ticks += 1;
        let draw = hash_number(self.shared.phase.seed ^ hash_number(last_tick.ticks));
        record.sample_in_flight(draw);
        let live = &self.shared.live;
        let increase = |counter: &AtomicU64, now: u64, last_value: &mut u64| {
            counter.fetch_add(now.wrapping_sub(*last_value), Ordering::Relaxed);
            *last_value = now;
        };
        if self.shared.phase.counted {
            increase(&live.sent, record.sent, &mut last_tick.sent);
            increase(&live.served, record.served, &mut last_tick.served);
            record.publish_ends(live);
        }
        increase(&live.in_flight, record.in_flight, &mut last_tick.in_flight);
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
