//! Launches a few more trials after the measurement, to capture evidence of the failures.
//!
//! Dumping cores disturbs what runs beside and after a crash, so the trials that are
//! measured do not. These do, until a handful of crashes of every variant has been caught, or
//! as many as were measured; or until three times as many trials have been run as the measurement took:
//! what it did not show in so many is not worth waiting for. As many would miss a crash that was measured three
//! times in one of twenty cases, or more often where the measurement ended with its last.

use super::Step;
use crate::model::{Capture, Depth, Owner, VariantId};
use crate::state::{State, Tally};
use std::time::Duration;

/// Crashes that are caught of each variant.
const ENOUGH: u64 = 3;
/// Crashes that left nothing, after which nothing more is expected of the next.
const IN_VAIN: u64 = 6;
/// Time that may be spent on it, however short the measurement was.
const A_MOMENT: Duration = Duration::from_secs(10);
/// How many times as many trials may be run for it as were measured.
const TIMES: u64 = 3;
/// Trials that may be run for it, however few were measured.
const AT_LEAST: u64 = 10;

/// Runs trials that catch evidence.
pub struct Collect;

impl Collect {
    /// Time that is spent on it after the user stopped the measurement.
    pub const TIME_AFTER_STOP: Duration = Duration::from_secs(3);

    /// True when the measurement, which is over, saw crashes of which there is more to learn.
    pub fn is_wanted(state: &State) -> bool {
        state.plan.capture == Capture::Auto
            && state.plan.no_cores.is_none()
            // The limits of somebody else's service are not ours to raise.
            && state.plan.load.as_ref().is_none_or(|load| load.owner == Owner::Provoke)
            && !state.capturing
            && Self::has_crashes(state)
    }

    /// True when the measurement saw a program crash.
    pub fn has_crashes(state: &State) -> bool {
        crashed(state).next().is_some()
    }

    /// True when trials have run to catch crashes.
    pub fn has_run(state: &State) -> bool {
        crashed(state).any(|(id, _)| state.captured(id).ran() > 0)
    }

    /// True if a crash is likely to be caught soon after the user stopped the measurement: one came
    /// more often than every third of that time.
    pub fn is_quick(state: &State) -> bool {
        let crashes: u64 = crashed(state).map(|(_, tally)| crashes(tally)).sum();
        let crashes = u32::try_from(crashes).unwrap_or(u32::MAX);
        state.plan.load.is_none() && state.worked < Self::TIME_AFTER_STOP / 3 * crashes
    }

    /// Returns how long that may take: as long as the measurement did, or, where the time of
    /// that was set, a tenth of it; but a moment in any case.
    pub fn time(state: &State) -> Duration {
        let measured = match state.plan.stop.duration() {
            Some(_) => state.worked / 10,
            None => state.worked,
        };
        measured.max(A_MOMENT)
    }

    /// Returns how many crashes were caught so far, and how many are wanted.
    pub fn caught(state: &State) -> (u64, u64) {
        crashed(state).fold((0, 0), |(caught, wanted), (id, measured)| {
            let enough = enough(measured);
            let here = self::caught(state.captured(id)).min(enough);
            (caught + here, wanted + enough)
        })
    }

    /// Says what to do when a lane is free.
    pub fn next(&self, state: &State) -> Step {
        let missing = |id: &VariantId| {
            let tally = state.captured(*id);
            caught(tally) < enough(state.tally(*id)) && crashes(tally) - caught(tally) < IN_VAIN
        };
        let room = |id: &VariantId| state.captures_underway(*id) < most(state.tally(*id));
        let crashed = crashed(state)
            .filter(|(id, _)| state.is_testable(*id))
            .map(|(id, _)| id)
            .filter(missing);
        let open: Vec<VariantId> = crashed.collect();
        let next = open
            .iter()
            .filter(|id| room(id))
            .min_by_key(|id| state.captures_underway(**id));
        match next {
            Some(variant) => Step::Launch(*variant),
            None if open.is_empty() || !state.unsettled() => Step::Done,
            None => Step::Wait,
        }
    }
}

/// Returns the variants that crashed. Of a search, the one that is known to fail will do.
fn crashed(state: &State) -> impl Iterator<Item = (VariantId, &Tally)> {
    let searched = state.plan.question.search().is_some();
    let all = state.tallies().filter(|(_, tally)| crashes(tally) > 0);
    all.filter(move |(id, _)| !searched || *id == State::FAILING)
}

fn crashes(tally: &Tally) -> u64 {
    let crash = tally.groups.values().filter(|group| group.kind.is_crash());
    crash.map(|group| group.trials.len() as u64).sum()
}

/// Returns how many crashes are caught of a variant of which so many were measured.
fn enough(measured: &Tally) -> u64 {
    crashes(measured).min(ENOUGH)
}

/// Returns how many of the crashes left their stack.
fn caught(tally: &Tally) -> u64 {
    let deep = tally
        .groups
        .values()
        .filter(|group| group.signature.depth == Depth::Stack);
    deep.map(|group| group.trials.len() as u64).sum()
}

fn most(measured: &Tally) -> u64 {
    (measured.ran() * TIMES).max(AT_LEAST)
}
