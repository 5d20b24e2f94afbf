//! Runs a client: draws requests and sends them until the load ends.

use super::client::{Client, KeptConnection};
use super::client_deadline::ClientStop;
use super::clock::duration_nanos;
use super::fixed_rate::RequestRate;
use super::request::DrawnRequest;
use provoke_model::{LoadLimit, RequestResult};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Pause after a refused connection: the kernel closes the sockets of a crashed service before the
/// crash is detected.
const WAKE: Duration = Duration::from_secs(1);
/// Pause after a repeated refusal by a living service, and after a local error.
const BACK_OFF: Duration = Duration::from_millis(100);

impl Client {
    /// Sends requests until the load ends.
    pub(super) async fn run_to_end(mut self) {
        if self.connect_first().await.is_none() {
            return;
        }
        while self.worker.stop.get() == ClientStop::No {
            let Some((choice, due)) = self.next_due().await else {
                break;
            };
            self.send_request(&choice, due).await;
            let think = self.worker.shared.phase.think;
            if !think.is_zero() && self.rest_for(think).await.is_err() {
                break;
            }
        }
    }

    /// Returns the next request and its due time, or `None` after the last request.
    async fn next_due(&mut self) -> Option<(DrawnRequest, u64)> {
        let worker = self.worker.clone();
        let shared = &worker.shared;
        let start = shared.go.borrow().unwrap_or_default();
        let number = shared.take_number();
        let Some(rate) = shared.phase.rate else {
            let enough = match shared.phase.amount {
                LoadLimit::Requests(max) => number >= max,
                LoadLimit::Time(time) => self.now >= start.saturating_add(duration_nanos(time)),
            };
            let choice = self.draws.draw_next(&shared.requests);
            if enough {
                return None;
            }
            return choice.map(|choice| (choice, self.now));
        };
        self.next_due_at_rate(start, number, rate).await
    }

    /// Connects, and waits until all clients have connected.
    async fn connect_first(&mut self) -> Option<()> {
        let worker = self.worker.clone();
        let shared = &worker.shared;
        if shared.phase.spread.is_zero() {
            // If this fails, the first request reports the error.
            if let Some(shared_connection) = self.shared_connection.clone() {
                let _ = self.open_connection(&shared_connection).await;
            } else if let Ok(stream) = self.connect_stream().await {
                self.connection = Some(KeptConnection { stream, uses: 0 });
            }
        }
        shared.arrived.fetch_add(1, Ordering::Relaxed);
        let mut go = shared.go.clone();
        self.slot
            .unless_stopped(go.wait_for(Option::is_some))
            .await
            .ok()?
            .ok()?;
        let share = shared.phase.spread * self.id / shared.phase.clients.max(1);
        if !share.is_zero() {
            self.rest_for(share).await.ok()?;
        }
        self.now = shared.clock.nanos_now();
        Some(())
    }

    /// Returns a request at its due time, or later if all clients were busy.
    async fn next_due_at_rate(
        &mut self,
        start: u64,
        mut number: u64,
        rate: RequestRate,
    ) -> Option<(DrawnRequest, u64)> {
        let worker = self.worker.clone();
        let shared = &worker.shared;
        let end = match shared.phase.amount {
            LoadLimit::Time(time) => start.saturating_add(duration_nanos(time)),
            LoadLimit::Requests(_) => u64::MAX,
        };
        loop {
            let due = start.saturating_add(rate.due_after(number));
            let enough = match shared.phase.amount {
                LoadLimit::Time(_) => due >= end,
                LoadLimit::Requests(max) => number >= max,
            };
            if enough {
                return None;
            }
            // The draws are in the order of the numbers, because there is no `await` since the number
            // was taken.
            let choice = worker.draws.borrow_mut().draw_next(&shared.requests)?;
            if self.now >= end {
                worker.record.borrow_mut().not_sent(1);
                number = shared.take_number();
                continue;
            }
            if self.now < due {
                let rang = self.slot.unless_stopped(worker.alarm.wait_until(due)).await;
                self.now = shared.clock.nanos_now();
                if rang.is_err() || worker.stop.get() != ClientStop::No {
                    return None;
                }
                worker
                    .record
                    .borrow_mut()
                    .record_lateness(self.now.saturating_sub(due));
            } else {
                let mut record = worker.record.borrow_mut();
                record.record_lateness(0);
                let queue = rate.due_within(self.now - start).saturating_sub(number);
                record.queue = record.queue.max(queue);
            }
            return Some((choice, due));
        }
    }

    /// Sends a request and records the result.
    async fn send_request(&mut self, choice: &DrawnRequest, due: u64) {
        let worker = self.worker.clone();
        let index = {
            let mut record = worker.record.borrow_mut();
            record.begin_request(self.id, choice, due, self.now)
        };
        worker.unanswered.set(true);
        let end = match self.shared_connection.clone() {
            Some(connection) => self.exchange_as_stream(&connection, choice, index).await,
            None => self.exchange_with_retry(choice, index).await,
        };
        self.now = end.done;
        let pause = match end.result {
            RequestResult::Refused if !self.refused => Some(WAKE),
            RequestResult::Refused
            | RequestResult::Local(_)
            | RequestResult::Dns(_)
            | RequestResult::Unreachable(_) => Some(BACK_OFF),
            _ => None,
        };
        self.refused = end.result == RequestResult::Refused;
        worker.record.borrow_mut().end_request(index, end);
        if let Some(pause) = pause {
            worker.alive.set(true); // a refusal is a sign of life
            let _ = self.rest_for(pause).await; // the caller notices a stop itself
        }
    }
}
