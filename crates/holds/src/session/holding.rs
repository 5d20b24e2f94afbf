//! Holds threads at points, and releases them when the other threads are blocked or a limit is reached.

use super::{HeldThread, HoldSession, ThreadActivity, resume};
use provoke_model::{Hold, HoldEnd, HoldPlan, HoldPoint, PathPlan};
use provoke_sys::timed_wait::longest_wait;
use std::fs;
use std::time::{Duration, Instant};

/// Interval between two looks at the other threads.
pub const LOOK_INTERVAL: Duration = Duration::from_micros(100);
/// Number of looks in a row at which the other threads must be blocked.
const LOOKS: u32 = 2;
/// A thread that continues by itself within this time counts as running.
const SHORT_WAIT: Duration = Duration::from_millis(50);

impl HoldSession {
    /// Returns whether a thread is held now, so that [`Self::look`] must be called after [`LOOK_INTERVAL`].
    pub fn holds_a_thread(&self) -> bool {
        self.holds.iter().any(|hold| hold.held_thread.is_some())
    }

    /// Looks at the other threads, and releases a held thread if its hold is over.
    pub fn look(&mut self) {
        let now = Instant::now();
        let mut others_are_blocked = None;
        for index in 0..self.holds.len() {
            let Some(held_thread) = &self.holds[index].held_thread else {
                continue;
            };
            let Hold { end, limit, .. } = self.plan.holds()[index];
            let is_over = match end {
                _ if now.duration_since(held_thread.held_since) >= limit => true,
                HoldEnd::Time => false,
                HoldEnd::OthersBlocked | HoldEnd::OthersProgressed(_) => {
                    now.duration_since(held_thread.last_look) >= LOOK_INTERVAL && {
                        let blocked =
                            *others_are_blocked.get_or_insert_with(|| self.others_are_blocked());
                        self.note_look(index, now, blocked)
                    }
                }
            };
            if is_over {
                self.release(index);
                // The released thread runs: the others are looked at anew.
                for other_thread in self
                    .holds
                    .iter_mut()
                    .filter_map(|hold| hold.held_thread.as_mut())
                {
                    other_thread.blocked_looks = 0;
                }
                return;
            }
        }
    }

    /// Records a look at the other threads; returns whether they have been blocked for long enough.
    fn note_look(&mut self, index: usize, now: Instant, blocked: bool) -> bool {
        let Some(held_thread) = &mut self.holds[index].held_thread else {
            return false;
        };
        held_thread.last_look = now;
        held_thread.blocked_looks = if blocked {
            held_thread.blocked_looks + 1
        } else {
            0
        };
        held_thread.blocked_looks >= LOOKS
    }

    pub(super) fn release(&mut self, index: usize) {
        let Some(held_thread) = self.holds[index].held_thread.take() else {
            return;
        };
        self.holds[index].watched = None;
        self.held_for += held_thread.held_since.elapsed();
        if let Some(thread) = self.threads.get_mut(&held_thread.tid) {
            thread.activity = ThreadActivity::Running;
        }
        resume(held_thread.tid, 0);
    }

    /// Returns whether the time for all holds is not used up.
    pub(super) fn has_time(&self) -> bool {
        match self.plan {
            HoldPlan::Learn(_) | HoldPlan::Trace(_) => false,
            HoldPlan::Record(PathPlan { total_limit, .. }) | HoldPlan::Hold { total_limit, .. } => {
                self.held_for < total_limit
            }
        }
    }

    /// Returns whether a thread may be held at an arrival.
    pub(super) fn may_hold(&self, index: usize) -> bool {
        let progress = &self.holds[index];
        let occurrence = self.plan.holds()[index].occurrence;
        self.has_time() && progress.held_thread.is_none() && occurrence.includes(progress.arrivals)
    }

    /// Returns whether no thread that is not held can run, now or soon.
    fn others_are_blocked(&self) -> bool {
        let threads = self.threads.iter();
        let mut others = threads.filter(|(_, thread)| thread.activity != ThreadActivity::Held);
        // A stop that is not handled yet counts as running.
        others.all(|(tid, _)| match thread_state(*tid) {
            Some('R' | 't' | 'D') => false,
            Some('S') => longest_wait(*tid).is_none_or(|wait| wait > SHORT_WAIT),
            _ => true,
        })
    }

    /// Counts a system call of a process, and releases the threads of other processes that waited for it. They continue
    /// before the call is made, so that a window between two calls of this process is open.
    pub(super) fn count_progress(&mut self, pid: i32) {
        for index in 0..self.holds.len() {
            let Some(held_thread) = &mut self.holds[index].held_thread else {
                continue;
            };
            held_thread.progress += u32::from(held_thread.pid != pid);
            let has_progressed = matches!(
                self.plan.holds()[index].end,
                HoldEnd::OthersProgressed(calls) if held_thread.progress >= calls
            );
            if has_progressed {
                self.release(index);
            }
        }
    }

    /// Holds a thread at a point that is not in the code, if the plan says so.
    pub(super) fn hold_at(&mut self, tid: i32, point: &HoldPoint) -> bool {
        for index in 0..self.holds.len() {
            if self.plan.holds()[index].point != *point {
                continue;
            }
            self.holds[index].arrivals += 1;
            if self.may_hold(index) {
                self.keep_held(index, tid);
                return true;
            }
        }
        false
    }

    pub(super) fn keep_held(&mut self, index: usize, tid: i32) {
        let pid = self.pid_of(tid);
        let now = Instant::now();
        let progress = &mut self.holds[index];
        progress.times += 1;
        progress.held_thread = Some(HeldThread {
            tid,
            pid,
            held_since: now,
            last_look: now,
            blocked_looks: 0,
            progress: 0,
        });
        if let Some(thread) = self.threads.get_mut(&tid) {
            thread.activity = ThreadActivity::Held;
        }
    }
}

/// Returns the state of a thread: `R` if it can run, `S` if it waits.
fn thread_state(tid: i32) -> Option<char> {
    let stat = fs::read(format!("/proc/{tid}/stat")).ok()?;
    let name_end = stat.iter().rposition(|byte| *byte == b')')?;
    stat.get(name_end + 2).map(|byte| char::from(*byte))
}
