//! Chooses the points around the examined hold that are tried.

use super::held_trials::{Examination, HeldCounts, HeldTrials, Neighbour};
use super::memory::HuntMemory;
use provoke_model::{Hold, HoldPoint};

/// Trials of each of these points.
const NEIGHBOUR_TRIALS: u64 = 3;
/// The points up to this one after and before each point of the window are tried. The window ends where this number of points in
/// a row are outside.
const POINTS_OUTSIDE: usize = 4;
/// Limit of the points that are tried.
const MAX_NEIGHBOURS: usize = 150;

/// Returns holds that are moved to points in the order of their addresses or lines, as rows in which near points may belong to
/// the same window.
pub(super) fn rows_of_points(
    moved: Vec<(HoldPoint, Vec<Hold>)>,
    examined: &HoldPoint,
) -> Vec<Vec<Neighbour>> {
    let here = moved.iter().position(|(point, _)| point == examined);
    let is_ordered = !matches!(examined, HoldPoint::Call { .. });
    let neighbours = moved.into_iter().enumerate();
    let neighbours = neighbours.map(|(index, (point, holds))| Neighbour {
        point,
        holds,
        distance: here
            .filter(|_| is_ordered)
            .map_or(0, |here| here.abs_diff(index)),
    });
    if is_ordered {
        let near = neighbours.filter(|neighbour| neighbour.distance <= MAX_NEIGHBOURS);
        let row: Vec<Neighbour> = near.collect();
        if row.is_empty() {
            Vec::new()
        } else {
            vec![row]
        }
    } else {
        neighbours.map(|neighbour| vec![neighbour]).collect()
    }
}

/// Returns a hold at a point around the examined one that has too few trials, the nearest first.
pub(super) fn untried_neighbour(
    memory: &HuntMemory,
    examined: &Examination,
    open: &[&[Hold]],
) -> Option<Vec<Hold>> {
    let held_trials = &memory.held_trials;
    let launched = |holds: &Vec<Hold>| {
        let open_trials = open.iter().filter(|open_holds| **open_holds == &holds[..]);
        held_trials.counts_of(holds).launched() + open_trials.count() as u64
    };
    let mut untried: Option<&Neighbour> = None;
    let mut tried = 0;
    for row in &examined.neighbours {
        let in_window: Vec<bool> = row
            .iter()
            .map(|neighbour| is_in_window(held_trials, examined, neighbour))
            .collect();
        for (index, neighbour) in row.iter().enumerate() {
            if launched(&neighbour.holds) >= NEIGHBOUR_TRIALS {
                tried += 1;
                continue;
            }
            let near =
                index.saturating_sub(POINTS_OUTSIDE)..row.len().min(index + POINTS_OUTSIDE + 1);
            let is_wanted = neighbour.distance == 0 || in_window[near].contains(&true);
            if is_wanted && untried.is_none_or(|nearest| neighbour.distance < nearest.distance) {
                untried = Some(neighbour);
            }
        }
    }
    let nearest = untried.filter(|_| tried < MAX_NEIGHBOURS)?;
    Some(nearest.holds.clone())
}

/// Returns whether a hold at a point makes the program fail at least half as often as the examined one. Until it is tried
/// together with the others, a hold there alone shows that.
fn is_in_window(held_trials: &HeldTrials, examined: &Examination, neighbour: &Neighbour) -> bool {
    let mut counts = held_trials.counts_of(&neighbour.holds);
    if counts.launched() == 0 {
        let mut holds = neighbour.holds.iter();
        let alone = holds.find(|hold| hold.point == neighbour.point);
        counts = alone.map_or_else(HeldCounts::default, |hold| {
            held_trials.counts_of(std::slice::from_ref(hold))
        });
    }
    let examined_counts = held_trials.counts_of(&examined.holds);
    counts.failures > 0 && 2.0 * counts.observed_rate() >= examined_counts.observed_rate()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hunt::attempts::hold_at;
    use crate::hunt::held_trials::samples;
    use provoke_model::HuntQuestion;

    fn call_point(call: u64) -> HoldPoint {
        HoldPoint::Call { process: 0, call }
    }

    /// Examines a hold at the point with the number `examined` of all points: `fails` tells at which ones it fails. Returns the
    /// numbers of the points that were tried, in the order of their first trials.
    fn tried_points(
        point: fn(u64) -> HoldPoint,
        examined: u64,
        tried_before: &[u64],
        fails: impl Fn(u64) -> bool,
    ) -> Vec<u64> {
        let holds_at = |number: u64| vec![hold_at(&point(number), 0)];
        let mut memory = HuntMemory::new(&HuntQuestion::default());
        let mut tried = Vec::new();
        let add_trial = |memory: &mut HuntMemory, number: u64| {
            let counts = memory.held_trials.tried_holds.entry(holds_at(number));
            let counts = counts.or_default();
            counts.trials += 1;
            counts.failures += u64::from(fails(number));
        };
        for number in tried_before.iter().chain(&[examined; 10]) {
            add_trial(&mut memory, *number);
        }
        let moved = (0..1000).map(|number| (point(number), holds_at(number)));
        let examination = Examination {
            neighbours: rows_of_points(moved.collect(), &point(examined)),
            holds: holds_at(examined),
            ..samples::examination(&[], 0)
        };
        while let Some(holds) = untried_neighbour(&memory, &examination, &[]) {
            let number = match &holds[0].point {
                HoldPoint::Call { call, .. } => *call,
                point => point.as_code().unwrap().address,
            };
            add_trial(&mut memory, number);
            if !tried.contains(&number) {
                tried.push(number);
            }
        }
        tried
    }

    #[test]
    fn points_are_tried_outward_until_both_ends_of_the_window_are_known() {
        let mut tried = tried_points(samples::point, 500, &[], |number| {
            (498..=503).contains(&number)
        });
        assert!(matches!(tried[..2], [499, 501] | [501, 499]), "{tried:?}");
        tried.sort_unstable();
        let near: Vec<u64> = (494..=507).filter(|number| *number != 500).collect();
        assert_eq!(tried, near);
    }

    #[test]
    fn points_around_an_earlier_failure_elsewhere_are_tried() {
        let fails = |number: u64| number == 500 || (600..=602).contains(&number);
        let mut tried = tried_points(samples::point, 500, &[300, 601], fails);
        tried.sort_unstable();
        let near: Vec<u64> = (496..=504).chain(596..=606).collect();
        let near: Vec<u64> = near.into_iter().filter(|number| *number != 500).collect();
        assert_eq!(tried, near);
    }

    #[test]
    fn the_number_of_tried_points_is_limited() {
        let tried = tried_points(samples::point, 500, &[], |_| true);
        assert_eq!(tried.len(), MAX_NEIGHBOURS - 1);
        let farthest = tried.iter().map(|number| number.abs_diff(500)).max();
        assert_eq!(farthest, Some(75));
    }

    #[test]
    fn all_calls_are_tried_because_they_have_no_order() {
        let tried = tried_points(call_point, 500, &[], |number| number == 500);
        assert_eq!(tried.len(), MAX_NEIGHBOURS - 1);
    }
}
