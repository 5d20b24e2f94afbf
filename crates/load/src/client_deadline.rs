//! Signals that end the wait of a client: its time limit has passed, or all clients stop.

use std::cell::{Cell, RefCell};
use std::pin::pin;
use std::task::{Context, Poll, Waker};

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
    client_stop: Cell<Option<ClientSignal>>,
    waker: RefCell<Option<Waker>>,
}

impl ClientChannel {
    /// Sets the time limit of the next operation; 0 for none.
    pub(super) fn set_deadline(&self, deadline: u64) {
        self.deadline.set(deadline);
        if self.client_stop.get() == Some(ClientSignal::Late) {
            self.client_stop.set(None); // the signal belongs to an earlier operation
        }
    }

    /// Returns the signal to the client, or registers its waker.
    pub(super) fn poll_stop(&self, cx: &Context<'_>) -> Option<ClientSignal> {
        let client_stop = self.client_stop.get();
        if client_stop == Some(ClientSignal::Late) {
            self.client_stop.set(None);
        }
        if client_stop.is_none() {
            let mut waker = self.waker.borrow_mut();
            if !waker
                .as_ref()
                .is_some_and(|waker| waker.will_wake(cx.waker()))
            {
                *waker = Some(cx.waker().clone());
            }
        }
        client_stop
    }

    /// Awaits a future, unless the client receives a signal first.
    pub(super) async fn unless_stopped<F: Future>(
        &self,
        future: F,
    ) -> Result<F::Output, ClientSignal> {
        let mut future = pin!(future);
        std::future::poll_fn(|cx| {
            if let Poll::Ready(output) = future.as_mut().poll(cx) {
                return Poll::Ready(Ok(output));
            }
            self.poll_stop(cx)
                .map_or(Poll::Pending, |client_stop| Poll::Ready(Err(client_stop)))
        })
        .await
    }

    /// Signals that the time limit of the current operation has passed, if it has.
    pub(super) fn stop_if_late(&self, now: u64) {
        let deadline = self.deadline.get();
        if deadline != 0 && now >= deadline {
            self.stop_client(ClientSignal::Late);
        }
    }

    /// Sends a signal to the client.
    pub(super) fn stop_client(&self, client_stop: ClientSignal) {
        self.deadline.set(0);
        self.client_stop.set(Some(client_stop));
        if let Some(waker) = self.waker.borrow_mut().take() {
            waker.wake();
        }
    }
}
