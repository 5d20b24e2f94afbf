//! Stops all processes of a trial again and again, for a time in which its deadline moves.

use super::process_tree;
use provoke_sys::process::{self, ProcessIdentity};
use provoke_sys::signals;
use rustix::process::Signal;
use std::collections::{BTreeSet, HashSet};
use std::time::{Duration, Instant};

/// Time between two pauses without length.
const BETWEEN_EMPTY: Duration = Duration::from_millis(50);
/// Time limit for stopping all processes.
const STOP_WITHIN: Duration = Duration::from_millis(5);

/// Pauses in which no process of a trial runs.
pub(super) struct Pauses {
    length: Duration,
    /// Time of the next pause, or of the end of the present one.
    pub(super) next: Instant,
    /// The stopped processes, and since when, if there is a pause.
    stopped: Option<(BTreeSet<i32>, Instant)>,
}

impl Pauses {
    pub(super) fn new(length: Duration, began: Instant) -> Self {
        let mut pauses = Self {
            length,
            next: began,
            stopped: None,
        };
        pauses.next += pauses.time_between();
        pauses
    }

    fn time_between(&self) -> Duration {
        if self.length.is_zero() {
            BETWEEN_EMPTY
        } else {
            self.length / 2
        }
    }

    pub(super) fn is_pause(&self) -> bool {
        self.stopped.is_some()
    }

    /// Begins or ends a pause if it is time. Returns the length of a pause that has ended.
    pub(super) fn advance(
        &mut self,
        now: Instant,
        given_up: &HashSet<ProcessIdentity>,
    ) -> Duration {
        if now < self.next {
            return Duration::ZERO;
        }
        if self.stopped.is_none() {
            self.stopped = Some((stop_running(given_up), now));
            self.next = now + self.length;
            if !self.length.is_zero() {
                return Duration::ZERO;
            }
        }
        self.end_pause()
    }

    /// Continues the stopped processes. Returns how long they were stopped.
    pub(super) fn end_pause(&mut self) -> Duration {
        let Some((pids, since)) = self.stopped.take() else {
            return Duration::ZERO;
        };
        for pid in pids {
            // It may have been killed.
            let _ = signals::send_signal(pid, Signal::CONT);
        }
        let now = Instant::now();
        self.next = now + self.time_between();
        now.duration_since(since)
    }
}

/// Stops all running processes of the trial until none is left, because some may fork meanwhile. Returns their pids. A
/// process that was stopped before is left alone.
fn stop_running(given_up: &HashSet<ProcessIdentity>) -> BTreeSet<i32> {
    let until = Instant::now() + STOP_WITHIN;
    let mut stopped = BTreeSet::new();
    loop {
        let mut running = process_tree::living_processes(given_up);
        running.retain(|pid| {
            process::process_state(*pid)
                .is_some_and(|(state, _)| !matches!(state, 'T' | 't' | 'Z' | 'X'))
        });
        if running.is_empty() || Instant::now() > until {
            return stopped;
        }
        for pid in running {
            if signals::send_signal(pid, Signal::STOP).is_ok() {
                stopped.insert(pid);
            }
        }
    }
}
