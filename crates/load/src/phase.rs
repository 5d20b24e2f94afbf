//! Parameters of one phase of a load: the warm-up, or the measured load.

use super::fixed_rate::RequestRate;
use provoke_model::{ConnectionReuse, HttpVersion, LoadLimit};
use std::time::Duration;

/// Parameters of a phase.
#[derive(Clone, Debug)]
pub(super) struct LoadPhase {
    pub(super) clients: u32,
    pub(super) seed: u64,
    pub(super) amount: LoadLimit,
    /// `None` if clients wait for responses.
    pub(super) rate: Option<RequestRate>,
    pub(super) think: Duration,
    pub(super) spread: Duration,
    pub(super) connections: ConnectionReuse,
    pub(super) connect_limit: Duration,
    pub(super) request_limit: Duration,
    pub(super) http: HttpVersion,
    /// Every request is written to a log.
    pub(super) log_all: bool,
    pub(super) hang_after: Duration,
    /// The phase is the measured load, not the warm-up.
    pub(super) counted: bool,
}

impl LoadPhase {
    pub(super) fn is_open(&self) -> bool {
        self.rate.is_some()
    }
}
