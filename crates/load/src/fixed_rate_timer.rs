//! Timer with a resolution of microseconds for clients, because tokio's timers have milliseconds.

use super::clock::Clock;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::task::{Poll, Waker};
use tokio::io::unix::AsyncFd;
use tokio::sync::Notify;

/// Queue of sleeping clients, ordered by due time.
#[derive(Default)]
pub(super) struct TimerQueue {
    waiting: RefCell<VecDeque<Rc<SleepingClient>>>,
    /// Notified when the queue is no longer empty.
    first: Notify,
}

struct SleepingClient {
    due: u64,
    rang: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

/// A timer of the kernel (`timerfd`).
pub(super) struct Timer(AsyncFd<OwnedFd>);

impl Timer {
    #[expect(
        deprecated,
        reason = "what is unsound of it is not so with a descriptor that it owns"
    )]
    pub(super) fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let descriptor = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        Ok(Self(AsyncFd::new(descriptor)?))
    }

    async fn wait_nanos(&self, nanos: u64) -> io::Result<()> {
        let zero = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let value = Timespec {
            tv_sec: i64::try_from(nanos / 1_000_000_000).unwrap_or(i64::MAX),
            // 0 would disarm the timer.
            tv_nsec: i64::try_from(nanos % 1_000_000_000).unwrap_or(0).max(1),
        };
        let times = Itimerspec {
            it_interval: zero,
            it_value: value,
        };
        timerfd_settime(&self.0, TimerfdTimerFlags::empty(), &times)?;
        loop {
            let mut ready = self.0.readable().await?;
            let read = |timer: &AsyncFd<OwnedFd>| {
                Ok(rustix::io::read(timer.get_ref(), &mut [0; 8]).map(drop)?)
            };
            if let Ok(read) = ready.try_io(read) {
                return read;
            }
        }
    }
}

impl TimerQueue {
    /// Waits until an instant. Callers must come in the order of their instants.
    pub(super) async fn wait_until(&self, due: u64) {
        let sleeper = Rc::new(SleepingClient {
            due,
            rang: Cell::new(false),
            waker: RefCell::default(),
        });
        self.waiting.borrow_mut().push_back(sleeper.clone());
        self.first.notify_one();
        std::future::poll_fn(|cx| {
            if sleeper.rang.get() {
                return Poll::Ready(());
            }
            *sleeper.waker.borrow_mut() = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// Wakes due clients; never returns.
    pub(super) async fn ring_forever(&self, timer: &Timer, clock: Clock) {
        loop {
            let Some(due) = self.waiting.borrow().front().map(|first| first.due) else {
                self.first.notified().await;
                continue;
            };
            let wait = due.saturating_sub(clock.nanos_now());
            if wait > 0 && timer.wait_nanos(wait).await.is_err() {
                // Without the kernel's timer, wake the client with the coarser timer of tokio.
                tokio::time::sleep(std::time::Duration::from_nanos(wait)).await;
            }
            let now = clock.nanos_now();
            while let Some(first) = self.pop_due(now) {
                first.rang.set(true);
                if let Some(waker) = first.waker.borrow_mut().take() {
                    waker.wake();
                }
            }
        }
    }

    /// Removes and returns the first sleeper, if it is due.
    fn pop_due(&self, now: u64) -> Option<Rc<SleepingClient>> {
        let mut waiting = self.waiting.borrow_mut();
        let due = waiting.front().is_some_and(|first| first.due <= now);
        due.then(|| waiting.pop_front()).flatten()
    }
}
