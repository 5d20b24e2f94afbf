//! Chooses the holds whose memory is watched, so that a data race is seen.

use super::attempts::{hold_at, without_watches};
use super::held_trials::{Examination, Neighbour};
use super::memory::HuntMemory;
use provoke_model::{Hold, HoldPoint};

/// Trials that watch the memory of a point around the examined hold.
const WATCHING_TRIALS: u64 = 4;
/// Limit of these points.
const MAX_WATCHED: usize = 8;

/// Returns holds whose memory is to be watched: those around the examined hold that failed, and their neighbours.
pub(super) fn unwatched_hold(
    memory: &HuntMemory,
    examined: &Examination,
    open: &[&[Hold]],
) -> Option<Vec<Hold>> {
    let fails = |neighbour: &Neighbour| memory.held_trials.counts_of(&neighbour.holds).failures > 0;
    let mut near: Vec<&Neighbour> = Vec::new();
    for row in &examined.neighbours {
        // The last instruction after the window may be the access that closes it.
        let is_near = |index: usize| {
            fails(&row[index])
                || index
                    .checked_sub(1)
                    .is_some_and(|before| fails(&row[before]))
        };
        let indexes =
            (0..row.len()).filter(|index| is_near(*index) && accesses(memory, &row[*index].point));
        near.extend(indexes.map(|index| &row[index]));
    }
    near.sort_by_key(|neighbour| neighbour.distance);
    let mut watched = near.into_iter().take(MAX_WATCHED);
    let neighbour = watched
        .find(|neighbour| watching_trials(memory, &neighbour.holds, open) < WATCHING_TRIALS)?;
    Some(with_watches(&neighbour.holds))
}

/// Returns a hold at a point alone whose memory was not watched: a race may be seen although nothing fails.
pub(super) fn unwatched_point(memory: &HuntMemory, open: &[&[Hold]]) -> Option<Vec<Hold>> {
    let points = memory.held_trials.points.in_order().iter();
    let accessing = points.filter(|point| accesses(memory, point));
    let mut holds = accessing.map(|point| vec![hold_at(point, 0)]);
    let unwatched = holds.find(|holds| watching_trials(memory, holds, open) == 0)?;
    Some(with_watches(&unwatched))
}

/// Returns whether the instruction at a point accesses memory.
fn accesses(memory: &HuntMemory, point: &HoldPoint) -> bool {
    let reached = memory.held_trials.points.get(point);
    reached.is_some_and(|point| point.learned.accesses_memory)
}

/// Returns the number of trials that watched the memory of these holds, with the open ones.
fn watching_trials(memory: &HuntMemory, holds: &[Hold], open: &[&[Hold]]) -> u64 {
    let is_open = |open_holds: &&&[Hold]| {
        open_holds.iter().any(|hold| hold.watches) && without_watches(open_holds) == holds
    };
    let under_way = open.iter().filter(is_open).count() as u64;
    memory.watched.get(holds).copied().unwrap_or(0) + under_way
}

fn with_watches(holds: &[Hold]) -> Vec<Hold> {
    let watching = holds.iter().cloned().map(|hold| Hold {
        watches: true,
        ..hold
    });
    watching.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hunt::held_trials::samples::learned_point;
    use provoke_model::{HuntQuestion, LearnedPoint};

    #[test]
    fn each_point_that_accesses_memory_is_watched_once() {
        let learned = |address: u64, accesses_memory: bool| LearnedPoint {
            accesses_memory,
            ..learned_point(address)
        };
        let mut memory = HuntMemory::new(&HuntQuestion::default());
        let points = [learned(1, true), learned(2, false), learned(3, true)];
        memory.held_trials.points.add_reached(&points);
        let address = |holds: &[Hold]| holds[0].point.as_code().unwrap().address;

        let first = unwatched_point(&memory, &[]).unwrap();
        assert!(first[0].watches);
        // A trial of the first one is open.
        let second = unwatched_point(&memory, &[&first]).unwrap();
        let mut watched = [address(&first), address(&second)];
        watched.sort_unstable();
        assert_eq!(watched, [1, 3]);
        for holds in [&first, &second] {
            memory.watched.insert(without_watches(holds), 1);
        }
        assert_eq!(unwatched_point(&memory, &[]), None);
    }
}
