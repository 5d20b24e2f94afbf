//! Sends requests at a fixed rate, independent of earlier responses.
//!
//! Each connection takes the next request and waits until its due time. If all connections are
//! busy, the request is late. That time is part of its latency, because a real client would wait as
//! well. Without a limit of connections, the load would measure the kernel's accept queue, and the
//! pause of one second before the kernel retries.

use super::client::Client;
use super::request::DrawnRequest;
use super::worker::{ClientStop, duration_nanos};
use crate::model::LoadLimit;

/// Request rate in thousandths of a request per second.
#[derive(Clone, Copy, Debug)]
pub(super) struct RequestRate(pub(super) u64);

impl RequestRate {
    /// Returns the due time of a request in nanoseconds after the start.
    pub(super) fn due_after(self, number: u64) -> u64 {
        let after = u128::from(number) * 1_000_000_000_000 / u128::from(self.0.max(1));
        u64::try_from(after).unwrap_or(u64::MAX)
    }

    /// Returns the number of requests that are due within this time; the first is due at 0.
    pub(super) fn due_within(self, nanos: u64) -> u64 {
        let count = u128::from(nanos) * u128::from(self.0) / 1_000_000_000_000;
        u64::try_from(count).unwrap_or(u64::MAX).saturating_add(1)
    }
}

/// Returns a request at its due time, or later if all clients were busy.
pub(super) async fn next_due(
    client: &mut Client,
    start: u64,
    mut number: u64,
    rate: RequestRate,
) -> Option<(DrawnRequest, u64)> {
    let worker = client.worker.clone();
    let shared = &worker.shared;
    let until = match shared.phase.amount {
        LoadLimit::Time(time) => start.saturating_add(duration_nanos(time)),
        LoadLimit::Requests(_) => u64::MAX,
    };
    loop {
        let due = start.saturating_add(rate.due_after(number));
        let enough = match shared.phase.amount {
            LoadLimit::Time(_) => due >= until,
            LoadLimit::Requests(most) => number >= most,
        };
        if enough {
            return None;
        }
        // The draws are in the order of the numbers, because there is no `await` since the number
        // was taken.
        let choice = worker.draws.borrow_mut().draw_next(&shared.requests)?;
        if client.now >= until {
            worker.record.borrow_mut().not_sent(1);
            number = shared.take_number();
            continue;
        }
        if client.now < due {
            let rang = client
                .slot
                .unless_kicked(worker.alarm.wait_until(due))
                .await;
            client.now = shared.clock.nanos_now();
            if rang.is_err() || worker.stop.get() != ClientStop::No {
                return None;
            }
            worker
                .record
                .borrow_mut()
                .record_lateness(client.now.saturating_sub(due));
        } else {
            let mut record = worker.record.borrow_mut();
            record.record_lateness(0);
            let queue = rate.due_within(client.now - start).saturating_sub(number);
            record.queue = record.queue.max(queue);
        }
        return Some((choice, due));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_due_within_a_time_is_due_by_then() {
        for rate in [
            RequestRate(1),
            RequestRate(1_000_000),
            RequestRate(333_333),
            RequestRate(123_456_789),
        ] {
            for number in [0, 1, 2, 999, 1_000_000] {
                let due = rate.due_after(number);
                assert!(rate.due_within(due + 1) > number, "{rate:?} {number}");
                assert!(rate.due_within(due.saturating_sub(2)) <= number + 1);
            }
        }
    }
}
