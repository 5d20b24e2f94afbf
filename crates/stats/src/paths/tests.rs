//! Tests comparisons of hand-made paths.

use super::index::TrialIndex;
use super::truth::{Neighbours, PathNeighbours, true_since};
use super::*;

const ERROR: f64 = 0.05;

/// Returns points of this kind.
fn points(count: usize, kind: PointKind) -> Vec<PathPoint> {
    let point = PathPoint {
        kind,
        function: 0,
        is_ignored: false,
    };
    vec![point; count]
}

/// Returns a trial with these threads and points.
fn trial(failed: bool, arrivals: &[(u32, u32)]) -> PathTrial {
    let arrivals = arrivals
        .iter()
        .map(|&(thread, point)| Arrival { thread, point });
    PathTrial {
        failed,
        arrivals: arrivals.collect(),
        ends: Vec::new(),
        armed: None,
        block: 0,
    }
}

/// Returns five failing and twenty passing trials.
fn trials(failing: &[(u32, u32)], passing: &[(u32, u32)]) -> Vec<PathTrial> {
    let trials = (0..25).map(|number| number % 5 == 0);
    trials
        .map(|failed| trial(failed, if failed { failing } else { passing }))
        .collect()
}

/// Returns the statements of the lead.
fn lead_of(points: &[PathPoint], trials: &[PathTrial]) -> Vec<PathStatement> {
    let comparison = compare_paths(points, trials, ERROR);
    let lead = comparison
        .lead
        .map(|lead| comparison.groups[lead].statements.clone());
    lead.unwrap_or_default()
}

/// Returns when a statement becomes true in a trial in which thread 0 and others reach these points.
fn since(statement: PathStatement, arrivals: &[(u32, u32)]) -> Option<u32> {
    let index = TrialIndex::new(&points(8, PointKind::Block), &trial(false, arrivals));
    // Point 1 is between points 0 and 3.
    let of_point = Neighbours {
        before: vec![0],
        behind: vec![3],
    };
    let neighbours = PathNeighbours::from_iter([(1, of_point)]);
    true_since(statement, &index, &neighbours)
}

#[test]
fn a_point_is_reached_at_its_nth_arrival() {
    let reached = |times| PathStatement::Reached { point: 1, times };
    let arrivals = [(0, 1), (0, 2), (1, 1), (0, 1)];
    let moments = [1, 2, 3, 4].map(|times| since(reached(times), &arrivals));
    assert_eq!(moments, [Some(0), Some(2), Some(3), None]);
}

#[test]
fn a_point_counts_as_absent_once_a_point_that_follows_is_reached() {
    let absent = PathStatement::NotReached { point: 1 };
    assert_eq!(since(absent, &[(0, 0), (0, 3)]), Some(1));
    // The trial ended before.
    assert_eq!(since(absent, &[(0, 0)]), None);
    assert_eq!(since(absent, &[(0, 0), (0, 3), (0, 1)]), None);
    // The thread that is behind the point was not before it.
    assert_eq!(since(absent, &[(0, 0), (1, 3)]), None);
}

#[test]
fn an_order_is_that_of_first_arrivals() {
    let before = PathStatement::Before {
        thread: 0,
        point: 1,
        other_thread: 1,
        other_point: 2,
    };
    assert_eq!(since(before, &[(0, 1), (0, 2), (1, 2)]), Some(2));
    assert_eq!(since(before, &[(1, 2), (0, 1), (1, 2)]), None);
    assert_eq!(since(before, &[(0, 1)]), None);
}

#[test]
fn an_arrival_of_another_thread_is_between_consecutive_ones() {
    let between = PathStatement::Between {
        from: 1,
        to: 2,
        other: 3,
    };
    assert_eq!(since(between, &[(0, 1), (1, 0), (1, 3), (0, 2)]), Some(3));
    assert_eq!(since(between, &[(0, 1), (0, 3), (0, 2)]), None);
    assert_eq!(since(between, &[(0, 1), (1, 3), (0, 4), (0, 2)]), None);
    assert_eq!(since(between, &[(0, 1), (1, 3)]), None);
}

#[test]
fn two_threads_are_together_between_two_points_if_the_times_overlap() {
    let together = PathStatement::Together {
        from: 1,
        to: 2,
        other_from: 1,
        other_to: 2,
    };
    assert_eq!(since(together, &[(0, 1), (1, 1), (0, 2), (1, 2)]), Some(3));
    assert_eq!(since(together, &[(0, 1), (0, 2), (1, 1), (1, 2)]), None);
    // The second thread never comes to the end.
    assert_eq!(since(together, &[(0, 1), (1, 1), (0, 2)]), None);
}

#[test]
fn a_result_of_a_system_call_is_a_lead() {
    let mut points = points(4, PointKind::Block);
    points[2].kind = PointKind::SystemCall;
    let trials = trials(&[(0, 0), (0, 2), (0, 3)], &[(0, 0), (0, 1), (0, 3)]);
    let lead = lead_of(&points, &trials);
    assert_eq!(lead[0], PathStatement::Reached { point: 2, times: 1 });
    // The same trials, so the same test.
    assert_eq!(lead[1], PathStatement::NotReached { point: 1 });
    let comparison = compare_paths(&points, &trials, ERROR);
    // No outcome could show that the failing trials more often reach the point of the passing ones.
    assert_eq!((comparison.tests, comparison.groups[0].size), (1, 2));
}

#[test]
fn an_order_of_two_threads_is_a_lead_and_the_tightest_one_is_shown() {
    let points = points(6, PointKind::Block);
    let failing = [(0, 0), (0, 1), (1, 3), (1, 4), (0, 2)];
    let passing = [(1, 3), (1, 4), (0, 0), (0, 1), (0, 2)];
    let tightest = PathStatement::Before {
        thread: 0,
        point: 1,
        other_thread: 1,
        other_point: 3,
    };
    assert!(lead_of(&points, &trials(&failing, &passing)).contains(&tightest));
    // Among five threads, the numbers mean nothing.
    let pool = [(2, 5), (3, 5), (4, 5)];
    let [failing, passing] = [failing, passing].map(|arrivals| [&arrivals[..], &pool].concat());
    let lead = lead_of(&points, &trials(&failing, &passing));
    assert!(!lead.is_empty() && !lead.contains(&tightest), "{lead:?}");
}

#[test]
fn an_order_of_two_functions_of_one_thread_is_a_lead() {
    let trials = trials(&[(0, 0), (0, 2), (0, 1)], &[(0, 0), (0, 1), (0, 2)]);
    let swapped = PathStatement::Before {
        thread: 0,
        point: 2,
        other_thread: 0,
        other_point: 1,
    };
    assert_eq!(lead_of(&points(3, PointKind::Entry), &trials), [swapped]);
    assert_eq!(lead_of(&points(3, PointKind::Block), &trials), []);
}

#[test]
fn a_lost_update_is_a_lead() {
    let points = points(4, PointKind::Block);
    let failing = [(1, 0), (2, 0), (1, 1), (2, 1), (1, 2), (2, 2), (0, 3)];
    let passing = [(1, 0), (1, 1), (2, 0), (2, 1), (1, 2), (2, 2), (0, 3)];
    let lead = lead_of(&points, &trials(&failing, &passing));
    assert_eq!(
        lead[0],
        PathStatement::Together {
            from: 0,
            to: 1,
            other_from: 0,
            other_to: 1
        }
    );
}

#[test]
fn the_earliest_good_difference_is_the_lead() {
    let points = points(5, PointKind::Block);
    let mut trials = trials(&[(0, 0), (0, 1), (0, 2), (0, 4)], &[(0, 0), (0, 3), (0, 4)]);
    // Once, the cause has no effect.
    trials[1] = trial(false, &[(0, 0), (0, 1), (0, 3), (0, 4)]);
    let comparison = compare_paths(&points, &trials, ERROR);
    let lead = &comparison.groups[0];
    assert_eq!(
        lead.statements[0],
        PathStatement::Reached { point: 1, times: 1 }
    );
    assert_eq!((lead.failing, lead.passing), (5, 1));
    let next = &comparison.groups[1];
    assert_eq!(
        next.statements[0],
        PathStatement::Reached { point: 2, times: 1 }
    );
    assert!(next.score > lead.score && next.time > lead.time);
}

#[test]
fn the_way_of_the_failure_itself_is_not_a_lead() {
    let mut points = points(5, PointKind::Block);
    points[3].kind = PointKind::Entry;
    let mut trials = trials(&[(0, 0), (0, 2), (0, 3)], &[(0, 0), (0, 1), (0, 4)]);
    for trial in trials.iter_mut().filter(|trial| trial.failed) {
        trial.ends.push(PathEnd {
            thread: 0,
            active: vec![3, 2, 0],
        });
    }
    let comparison = compare_paths(&points, &trials, ERROR);
    assert_eq!(comparison.lead, None);
    assert!(comparison.groups.iter().all(|group| group.is_after_failure));
    let path = FailurePath {
        point: 2,
        trials: 5,
        callee: Some(3),
    };
    assert_eq!(comparison.failure_path, Some(path));
    // A call that returned before the end is a lead.
    for trial in &mut trials {
        trial.ends.clear();
    }
    let lead = lead_of(&points, &trials);
    assert_eq!(lead[0], PathStatement::Reached { point: 2, times: 1 });
}

/// Ends the failing trials in a call behind a point.
fn end_in_call(trials: &mut [PathTrial], point: u32) {
    for trial in trials.iter_mut().filter(|trial| trial.failed) {
        let active = vec![point];
        trial.ends.push(PathEnd { thread: 0, active });
    }
}

#[test]
fn a_message_before_the_last_call_belongs_to_the_failure() {
    // Point 2 writes the message, and the program is aborted behind point 3. Passing trials may also reach point 1.
    let mut trials = trials(&[(0, 0), (0, 1), (0, 2), (0, 3)], &[(0, 0), (0, 4), (0, 5)]);
    for trial in trials.iter_mut().skip(1).step_by(6) {
        *trial = self::trial(false, &[(0, 0), (0, 1), (0, 4), (0, 5)]);
    }
    for number in [0, 5, 10, 15, 20] {
        trials[number] = trial(true, &[(0, 0), (0, 1), (0, 2), (0, 3)]);
    }
    end_in_call(&mut trials, 3);
    let comparison = compare_paths(&points(6, PointKind::Block), &trials, ERROR);
    let lead = &comparison.groups[comparison.lead.expect("a lead")];
    assert_eq!(
        lead.statements[0],
        PathStatement::Reached { point: 1, times: 1 }
    );
    assert!(lead.passing > 0);
    let path = FailurePath {
        point: 2,
        trials: 5,
        callee: None,
    };
    assert_eq!(comparison.failure_path, Some(path));
}

#[test]
fn only_the_failure_itself_is_not_a_lead_but_an_error_before_it_is() {
    let mut points = points(5, PointKind::Block);
    let mut trials = trials(&[(0, 0), (0, 1), (0, 2), (0, 3)], &[(0, 0), (0, 4)]);
    end_in_call(&mut trials, 3);
    assert_eq!(lead_of(&points, &trials), []);
    // The system reports an error, which the program takes for the reason to end.
    points[1].kind = PointKind::SystemCall;
    let lead = lead_of(&points, &trials);
    assert_eq!(lead[0], PathStatement::Reached { point: 1, times: 1 });
}

#[test]
fn an_arrival_that_may_only_report_is_not_the_lead_if_an_earlier_difference_exists() {
    // The last point is perfect, but half of the passing trials show that what precedes it is not.
    let mut trials = trials(
        &[(0, 0), (0, 1), (0, 2), (0, 5), (0, 6), (0, 7), (0, 3)],
        &[(0, 0), (0, 2), (0, 5), (0, 6), (0, 7), (0, 4)],
    );
    for trial in trials.iter_mut().skip(1).step_by(5) {
        *trial = self::trial(
            false,
            &[(0, 0), (0, 1), (0, 2), (0, 5), (0, 6), (0, 7), (0, 4)],
        );
    }
    let lead = lead_of(&points(8, PointKind::Block), &trials);
    assert_eq!(lead[0], PathStatement::Reached { point: 1, times: 1 });
}

#[test]
fn an_order_of_two_arrivals_is_not_the_lead_if_one_of_them_separates_as_well() {
    // Half of the trials fail. In one of them, the point that only they reach is not the last one.
    let last: [(u32, u32); 4] = [(0, 0), (0, 1), (0, 3), (0, 2)];
    let early = [(0, 0), (0, 2), (0, 1), (0, 3)];
    let trials: Vec<PathTrial> = (0..40)
        .map(|number| match number {
            0 => trial(true, &early),
            _ if number % 2 == 0 => trial(true, &last),
            _ => trial(false, &last[..3]),
        })
        .collect();
    let lead = lead_of(&points(4, PointKind::Entry), &trials);
    assert_eq!(lead[0], PathStatement::Reached { point: 2, times: 1 });
}

#[test]
fn ignored_points_are_not_evidence() {
    let mut points = points(3, PointKind::Signal);
    points[1].is_ignored = true;
    let trials = trials(&[(0, 0), (0, 1), (0, 2)], &[(0, 0), (0, 2)]);
    assert_eq!(compare_paths(&points, &trials, ERROR).tests, 0);
    points[1].is_ignored = false;
    assert_eq!(compare_paths(&points, &trials, ERROR).lead, Some(0));
}

#[test]
fn trials_that_the_lead_does_not_explain_have_a_second_cause() {
    let points = points(5, PointKind::Block);
    let paths: [&[(u32, u32)]; 3] = [
        &[(0, 0), (0, 1), (0, 3), (0, 4)],
        &[(0, 0), (0, 2), (0, 3), (0, 4)],
        &[(0, 0), (0, 3), (0, 4)],
    ];
    // Ten trials fail for the first reason and six for the second one.
    let cause = |number: usize| match number {
        number if number % 8 == 0 => 0,
        number if number % 13 == 1 => 1,
        _ => 2,
    };
    let causes = (0..80).map(cause);
    let trials: Vec<PathTrial> = causes.map(|cause| trial(cause < 2, paths[cause])).collect();
    let comparison = compare_paths(&points, &trials, ERROR);
    let second = comparison.second.expect("a second cause");
    let first_of = |group: &PathGroup| group.statements[0];
    let leads = [first_of(&comparison.groups[0]), first_of(&second.group)];
    assert_eq!(
        leads,
        [1, 2].map(|point| PathStatement::Reached { point, times: 1 })
    );
    assert_eq!(
        (second.failing, second.group.failing, second.group.passing),
        (6, 6, 0)
    );
}

#[test]
fn a_difference_that_only_comes_with_time_is_not_a_lead() {
    let points = points(4, PointKind::Block);
    let paths = [[(0, 0), (0, 1), (0, 3)], [(0, 0), (0, 2), (0, 3)]];
    // Later trials fail more often, and take the other way.
    let mut trials: Vec<PathTrial> = (0..64)
        .map(|number| {
            let is_late = number >= 32;
            let failed = if is_late {
                number % 8 != 0
            } else {
                number % 8 == 0
            };
            trial(failed, &paths[usize::from(is_late)])
        })
        .collect();
    assert_ne!(compare_paths(&points, &trials, ERROR).lead, None);
    for (number, trial) in (0..).zip(&mut trials) {
        trial.block = number / BLOCK_TRIALS;
    }
    assert_eq!(compare_paths(&points, &trials, ERROR).lead, None);
}

#[test]
fn arming_that_changes_the_rate_is_found_and_both_directions_are_shown() {
    let points = points(3, PointKind::Block);
    let half = |number: usize| {
        let armed = [number.is_multiple_of(2), number % 4 < 2, number % 8 < 4];
        PathTrial {
            armed: Some(armed.to_vec()),
            ..trial(
                armed[0] && !number.is_multiple_of(16),
                &[(0, 0), (0, 1), (0, 2)],
            )
        }
    };
    let trials: Vec<PathTrial> = (0..64).map(half).collect();
    let comparison = compare_paths(&points, &trials, ERROR);
    assert_eq!((comparison.failing, comparison.passing), (0, 0));
    assert_eq!((comparison.half_failing, comparison.half_passing), (28, 36));
    let [effect] = &comparison.arming[..] else {
        panic!("{:?}", comparison.arming);
    };
    assert_eq!((&effect.points[..], effect.raises), (&[0][..], true));
    assert_eq!((effect.armed, effect.unarmed), ((28, 32), (0, 32)));
    let mut inverted = trials;
    for trial in &mut inverted {
        trial.failed = !trial.failed;
    }
    let comparison = compare_paths(&points, &inverted, ERROR);
    assert!(!comparison.arming[0].raises);
}

#[test]
fn without_trials_there_is_no_difference() {
    for trials in [vec![], trials(&[], &[]), vec![trial(true, &[(0, 0)])]] {
        let comparison = compare_paths(&points(1, PointKind::Block), &trials, ERROR);
        assert_eq!((comparison.tests, comparison.lead), (0, None));
    }
}
