//! Detects responses that wait for a delayed acknowledgement, and acknowledges at once.
//!
//! A service that writes head and body of a response in two pieces, with Nagle's algorithm on,
//! sends the second piece when the first is acknowledged, and the client's kernel may delay that by
//! 40 ms. After a few such responses the client acknowledges the first piece at once, as long as
//! that helps.

use std::sync::atomic::{AtomicU64, Ordering};

/// Time between the pieces of such a response, in nanoseconds: Linux delays an acknowledgement by
/// 40 ms.
const DELAYED: std::ops::Range<u64> = 37_000_000..60_000_000;
/// Number of such responses after which acknowledgements are sent at once.
const ENOUGH: u64 = 3;

/// Acknowledgement delays that one service run shows.
#[derive(Debug, Default)]
pub(super) struct AckDelays {
    /// Responses whose second piece came after such a delay.
    delayed: AtomicU64,
    /// Responses that were acknowledged at once, and whose second piece came without the delay.
    sooner: AtomicU64,
    /// Responses that were acknowledged at once, and whose second piece was delayed nevertheless.
    no_sooner: AtomicU64,
}

impl AckDelays {
    /// Returns whether the first piece of a response should be acknowledged at once.
    pub(super) fn at_once(&self) -> bool {
        let [delayed, sooner, no_sooner] = self.load_counts();
        delayed >= ENOUGH && no_sooner < sooner + ENOUGH
    }

    /// Records how long the second piece of a response took, in nanoseconds.
    pub(super) fn record_wait(&self, nanos: u64, acknowledged_at_once: bool) {
        let delayed = DELAYED.contains(&nanos);
        let count = match (acknowledged_at_once, delayed) {
            (false, false) => return,
            (false, true) => &self.delayed,
            (true, false) => &self.sooner,
            (true, true) => &self.no_sooner,
        };
        count.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of delayed responses, if immediate acknowledgement removed the delay.
    pub(super) fn delayed_answers(&self) -> u64 {
        let [delayed, sooner, no_sooner] = self.load_counts();
        if sooner > no_sooner { delayed } else { 0 }
    }

    fn load_counts(&self) -> [u64; 3] {
        [&self.delayed, &self.sooner, &self.no_sooner].map(|count| count.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LATE: u64 = 41_000_000;

    #[test]
    fn delayed_acks_are_confirmed_if_immediate_acks_end_the_delays() {
        let acks = AckDelays::default();
        for _ in 0..ENOUGH {
            assert!(!acks.at_once());
            acks.record_wait(LATE, false);
        }
        assert!(acks.at_once());
        assert_eq!(acks.delayed_answers(), 0, "not known yet");
        acks.record_wait(50_000, true);
        assert_eq!((acks.delayed_answers(), acks.at_once()), (ENOUGH, true));
    }

    #[test]
    fn a_service_that_stays_slow_with_immediate_acks_has_no_delayed_acks() {
        let acks = AckDelays::default();
        (0..ENOUGH).for_each(|_| acks.record_wait(LATE, false));
        for _ in 0..ENOUGH {
            assert!(acks.at_once());
            acks.record_wait(LATE, true);
        }
        assert_eq!((acks.delayed_answers(), acks.at_once()), (0, false));
    }

    #[test]
    fn pauses_of_other_lengths_are_not_delayed_acks() {
        let acks = AckDelays::default();
        for nanos in [0, 1_000_000, 30_000_000, 70_000_000, u64::MAX] {
            (0..10).for_each(|_| acks.record_wait(nanos, false));
        }
        assert!(!acks.at_once());
    }
}
