//! Detects a deadlock long before the timeout.
//!
//! The slot looks at a long trial now and then, in `/proc`. If two consecutive looks find that every
//! thread waits for another one and that none has continued, no thread of the trial can continue
//! without a signal from outside. If one reason is a cycle of locks, the trial counts as hung. A trial
//! whose threads are held is short: it is looked at early, and hangs even without a cycle. It also hangs while other
//! threads run, if the main process waits for a process that waits for a lock whose owner it does not have.

use super::Slot;
use super::capture::OutputPatterns;
use super::process::TrialProcess;
use provoke_model::{ActorRole, Hang};
use provoke_sys::waits::{self, WaitingThread};
use std::time::{Duration, Instant};

/// When a trial is looked at, and what counts as a deadlock.
#[derive(Clone, Copy)]
pub(super) struct DeadlockRule {
    /// Age of a trial at the first look.
    first_look: Duration,
    /// Minimum interval between two looks.
    least_pause: Duration,
    /// Whether one reason must be a cycle of locks.
    needs_cycle: bool,
    /// Whether it is enough that the main process waits for a process that is stuck.
    allows_active_threads: bool,
}

/// The rule of a trial that is not disturbed.
pub(super) const PLAIN: DeadlockRule = DeadlockRule {
    first_look: Duration::from_secs(2),
    least_pause: Duration::from_secs(1),
    needs_cycle: true,
    allows_active_threads: false,
};
/// The rule of a trial whose threads are held.
pub(super) const HELD: DeadlockRule = DeadlockRule {
    first_look: Duration::from_millis(80),
    least_pause: Duration::from_millis(40),
    needs_cycle: false,
    allows_active_threads: true,
};
/// The interval between two looks is this part (one in N) of the age of the trial.
const PAUSE_PART: u32 = 8;

/// Search for a deadlock in one trial.
pub(super) struct DeadlockSearch {
    began: Instant,
    rule: DeadlockRule,
    pub(super) next_look: Instant,
    /// Threads at the last look, if all of them waited for each other.
    waiting: Option<Vec<WaitingThread>>,
    /// Threads at the last look, if the main process waited for a stuck process.
    stuck: Option<Vec<WaitingThread>>,
    /// Process and id of a thread that could continue at the last look. It is looked at first, so
    /// that a look at many idle threads ends early.
    active: Option<(i32, i32)>,
    /// These threads were examined: they do not wait for a cycle of locks.
    is_examined: bool,
}

impl DeadlockSearch {
    pub(super) fn new(began: Instant, rule: DeadlockRule) -> Self {
        Self {
            began,
            next_look: began + rule.first_look,
            rule,
            waiting: None,
            stuck: None,
            active: None,
            is_examined: false,
        }
    }

    /// Looks at the threads of the trial. Returns whether they must be examined: no thread
    /// has continued since the last look.
    fn look_at_threads(&mut self) -> bool {
        self.active = self.active.filter(|thread| waits::can_continue(*thread));
        let waiting = match self.active {
            Some(_) => None,
            None => find_waiting_threads()
                .map_err(|active| self.active = Some(active))
                .ok(),
        };
        let now = Instant::now();
        let pause = (now.duration_since(self.began) / PAUSE_PART).max(self.rule.least_pause);
        self.next_look = now + pause;
        if waiting.is_none() || waiting != self.waiting {
            self.waiting = waiting;
            self.is_examined = false;
            return false;
        }
        !std::mem::replace(&mut self.is_examined, true)
    }

    /// Looks for a stuck process, and returns whether the main process has waited for it since the last look.
    fn waits_for_stuck_process(&mut self, processes: &[TrialProcess]) -> bool {
        if !self.rule.allows_active_threads {
            return false;
        }
        let earlier = std::mem::replace(&mut self.stuck, find_stuck_process(processes));
        self.stuck.is_some() && self.stuck == earlier
    }
}

impl Slot {
    /// Looks for a deadlock, and returns the state of the threads if there is one.
    pub(super) fn find_deadlock(
        &mut self,
        search: &mut DeadlockSearch,
        processes: &mut [TrialProcess],
        patterns: &OutputPatterns,
        stacks: bool,
    ) -> Option<Hang> {
        let is_stuck = search.waits_for_stuck_process(processes);
        if !search.look_at_threads() && !is_stuck {
            return None;
        }
        if !stacks && !search.rule.needs_cycle {
            return Some(Hang::default());
        }
        let (mut hang, _) = self.watch_threads(processes, patterns);
        if stacks && hang.cycle.is_empty() {
            self.add_python_stacks(&mut hang, processes);
        }
        // The cycle was found after the second look.
        let has_reason = !hang.cycle.is_empty() || !search.rule.needs_cycle;
        let is_proven = if is_stuck {
            find_stuck_process(processes) == search.stuck
        } else {
            has_reason && find_waiting_threads().ok() == search.waiting
        };
        is_proven.then_some(hang)
    }
}

/// Returns the threads of the trial, if each of them waits for another one; otherwise the thread that
/// does not.
fn find_waiting_threads() -> Result<Vec<WaitingThread>, (i32, i32)> {
    waits::waiting_descendants(std::process::id().cast_signed())
}

/// Returns the threads of a stuck process for which a main process waits, and the threads that wait.
fn find_stuck_process(processes: &[TrialProcess]) -> Option<Vec<WaitingThread>> {
    processes
        .iter()
        .filter(|process| process.role == ActorRole::Main)
        .filter_map(|process| process.pid)
        .find_map(waits::wait_for_stuck_process)
}
