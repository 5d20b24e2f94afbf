//! Makes the holds that are tried at a point.

use provoke_model::{CreationSide, Hold, HoldEnd, HoldPoint, Occurrence, TrialId, trial_seed};
use std::time::Duration;

/// Number of attempts at each single point: at its first arrival, at about every second one, at its second and its fourth
/// one.
pub(super) const ATTEMPTS: u64 = 4;
/// Number of attempts at a pair of calls or lines.
pub(super) const PAIR_ATTEMPTS: usize = 8;
/// A thread that is held before a call continues after at most this many calls of other processes.
const MAX_PROGRESS: u64 = 6;
/// Makes the number of these calls independent of the seeds of trials.
const CALLS: u64 = 0x6361_6c6c_7321_2121;
/// Longest time of one hold, by the kind of its point.
const CODE_LIMIT: Duration = Duration::from_millis(50);
const CALL_LIMIT: Duration = Duration::from_millis(5);
const LINE_LIMIT: Duration = Duration::from_millis(3);

/// Returns the attempt with this number, from 0, to hold a thread at a point. A program passes calls and lines often and in
/// varying numbers, so each arrival there is held with probability one half.
pub(super) fn hold_at(point: &HoldPoint, attempt: u64) -> Hold {
    let (end, limit) = match point {
        HoldPoint::Code(_) | HoldPoint::Start(_) => (HoldEnd::OthersBlocked, CODE_LIMIT),
        HoldPoint::Call { .. } => {
            let drawn = trial_seed(CALLS, TrialId(attempt)) % MAX_PROGRESS;
            let calls = u32::try_from(drawn).unwrap_or(0) + 1;
            (HoldEnd::OthersProgressed(calls), CALL_LIMIT)
        }
        HoldPoint::Line { .. } => (HoldEnd::Time, LINE_LIMIT),
    };
    let occurrence = match point {
        HoldPoint::Code(_) | HoldPoint::Start(_) => match attempt {
            0 => Occurrence::Nth(1),
            1 => Occurrence::Half(0),
            later => Occurrence::Nth(1 << (later - 1).min(10)),
        },
        HoldPoint::Call { .. } | HoldPoint::Line { .. } => Occurrence::Half(attempt),
    };
    Hold {
        point: point.clone(),
        occurrence,
        end,
        limit,
        watches: false,
        anchor: None,
    }
}

/// Returns holds that let a new thread arrive at a point before the thread that created it continues.
pub(super) fn after_creator(point: &HoldPoint) -> Vec<Hold> {
    let creator = HoldPoint::Start(CreationSide::Creator);
    vec![hold_at(&creator, 0), hold_at(point, 0)]
}

/// Returns an attempt at a point while threads run in the order of their creation: each creator waits until the new thread
/// and all others wait.
pub(super) fn one_by_one(point: &HoldPoint, attempt: u64) -> Vec<Hold> {
    let creator = HoldPoint::Start(CreationSide::Creator);
    let each_creation = Hold {
        occurrence: Occurrence::Every,
        ..hold_at(&creator, 0)
    };
    vec![each_creation, hold_at(point, attempt)]
}

/// Returns an attempt at the points of several holds. Holds at the creation of threads stay as they are.
pub(super) fn at_attempt(holds: &[Hold], attempt: u64) -> Vec<Hold> {
    let holds = holds.iter();
    let changed = holds.map(|hold| match hold.point {
        HoldPoint::Start(_) => hold.clone(),
        HoldPoint::Code(_) | HoldPoint::Call { .. } | HoldPoint::Line { .. } => {
            hold_at(&hold.point, attempt)
        }
    });
    changed.collect()
}

/// Returns holds without watches.
pub(super) fn without_watches(holds: &[Hold]) -> Vec<Hold> {
    let holds = holds.iter().cloned();
    let unwatched = holds.map(|hold| Hold {
        watches: false,
        ..hold
    });
    unwatched.collect()
}
