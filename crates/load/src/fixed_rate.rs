//! Sends requests at a fixed rate, independent of earlier responses.
//!
//! Each connection takes the next request and waits until its due time. If all connections are
//! busy, the request is late. That time is part of its latency, because a real client would wait as
//! well. Without a limit of connections, the load would measure the kernel's accept queue, and the
//! pause of one second before the kernel retries.

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_due_time_and_the_due_count_agree() {
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
