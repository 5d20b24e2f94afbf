//! Sends requests at a fixed rate, independent of earlier responses.
//!
//! Each connection takes the next request and waits until that is due. If all connections are busy, the
//! request is late: that time is part of its latency, because a real client would wait as well. Without
//! a limit of connections, the kernel's queue would be measured, and its pause of a second before it
//! tries again.

use super::client::Client;
use super::request::Choice;
use super::worker::{Stop, nanos};
use crate::model::Amount;

/// Requests per second, in thousandths.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rate(pub(super) u64);

impl Rate {
    /// Returns after how many nanoseconds a request is due.
    pub(super) fn due(self, number: u64) -> u64 {
        let after = u128::from(number) * 1_000_000_000_000 / u128::from(self.0.max(1));
        u64::try_from(after).unwrap_or(u64::MAX)
    }

    /// Returns how many requests are due within so many nanoseconds, the first at once.
    pub(super) fn within(self, nanos: u64) -> u64 {
        let count = u128::from(nanos) * u128::from(self.0) / 1_000_000_000_000;
        u64::try_from(count).unwrap_or(u64::MAX).saturating_add(1)
    }
}

/// Returns a request when it is due, or when we come to it later than that.
pub(super) async fn next_due(
    client: &mut Client,
    start: u64,
    mut number: u64,
    rate: Rate,
) -> Option<(Choice, u64)> {
    let worker = client.worker.clone();
    let shared = &worker.shared;
    let until = match shared.phase.amount {
        Amount::Time(time) => start.saturating_add(nanos(time)),
        Amount::Requests(_) => u64::MAX,
    };
    loop {
        let due = start.saturating_add(rate.due(number));
        let enough = match shared.phase.amount {
            Amount::Time(_) => due >= until,
            Amount::Requests(most) => number >= most,
        };
        if enough {
            return None;
        }
        // In the order of their numbers: nothing is awaited since the number was taken.
        let choice = worker.draws.borrow_mut().next(&shared.requests)?;
        if client.now >= until {
            worker.record.borrow_mut().not_sent(1);
            number = shared.take();
            continue;
        }
        if client.now < due {
            let rang = client.slot.unless(worker.alarm.at(due)).await;
            client.now = shared.clock.now();
            if rang.is_err() || worker.stop.get() != Stop::No {
                return None;
            }
            worker
                .record
                .borrow_mut()
                .late(client.now.saturating_sub(due));
        } else {
            let mut record = worker.record.borrow_mut();
            record.late(0);
            let queue = rate.within(client.now - start).saturating_sub(number);
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
        for rate in [Rate(1), Rate(1_000_000), Rate(333_333), Rate(123_456_789)] {
            for number in [0, 1, 2, 999, 1_000_000] {
                let due = rate.due(number);
                assert!(rate.within(due + 1) > number, "{rate:?} {number}");
                assert!(rate.within(due.saturating_sub(2)) <= number + 1);
            }
        }
    }
}
