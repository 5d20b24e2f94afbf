//! Clock of a trial, in nanoseconds.

use std::time::{Duration, Instant};

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
