//! `hunt`: searches the hold under which the program fails most often.
//!
//! The plan of a trial follows from the memory and the open trials. Plain trials get a fifth of the time. The others
//! learn the points, then repeat holds that failed, then examine the best hold, then try new holds.

use super::attempts::{ATTEMPTS, PAIR_ATTEMPTS, after_creator, hold_at, one_by_one};
use super::held_trials::{Examination, HeldCounts};
use super::memory::{HuntMemory, LEARNING_TRIALS};
use super::neighbours::untried_neighbour;
use super::watching::{unwatched_hold, unwatched_point};
use crate::state::State;
use crate::{HeldTrial, Policy, Step, StopRule, Verdict, nothing_counts};
use provoke_model::{
    CodeScope, Hold, HoldPlan, HoldPoint, Timeout, TrialId, VariantId, trial_seed,
};
use provoke_stats::{confidence_sequence, upper_one_sided};
use std::time::Duration;

/// Plain trials get at least this share of the time: one part of this many.
const PLAIN_SHARE: u32 = 5;
/// Plain trials that show the natural rate, unless they take more than this part of the time limit.
const NATURAL_TRIALS: u64 = 300;
const NATURAL_TIME_PART: u32 = 10;
/// Plain trials before the first held one: they show how long the program takes.
const FIRST_PLAIN_TRIALS: u64 = 2;
/// Round of attempts at pairs of system calls of two processes: they are few, and a race between processes needs two holds.
const CALL_PAIRS: u64 = 1;
const MAX_CALL_PAIRS: usize = 64;
/// Round of attempts in which threads run in the order of their creation, and the second one that arrives at a point is held.
const ONE_BY_ONE: u64 = 2;
/// Round of attempts in which a new thread arrives at a point before its creator continues.
const AFTER_CREATORS: u64 = 3;
/// Number of the attempt at the second arrival.
const SECOND_ARRIVAL: u64 = 2;
/// Timeout of a held trial before the program's duration is known.
const FIRST_TIMEOUT: Duration = Duration::from_secs(5);
/// Shortest timeout of a trial that tries a hold for the first time.
const MIN_EXPLORING_TIMEOUT: Duration = Duration::from_millis(400);
/// An examined hold makes the program hang if this number of its trials do not end in the time of a plain trial.
const PROVING_TRIALS: u64 = 2;
/// A held trial hangs if it takes this many times longer than the slowest plain one that passed, and longer than this many
/// plain trials that failed without a hang.
const HANGS: u32 = 20;
const FAILURES: u32 = 2;
/// Failing trials of the examined hold whose stacks are recorded.
const TRIALS_WITH_EVIDENCE: u64 = 5;
/// Fresh trials of the examined hold, at least and at most.
const FRESH_TRIALS: (u64, u64) = (20, 60);
/// Width of the interval at which fresh trials end.
const WIDTH: f64 = 0.25;
/// Trials of a hold that failed sometimes, before other holds are tried.
const REPEATS: u64 = 12;
/// One of this many trials repeats a hold that failed sometimes.
const REPEATING: u64 = 4;
/// One of this many trials after the first round watches the memory at a point.
const WATCHING: u64 = 4;
/// One of this many pairs contains a point whose hold failed.
const PAIRS_WITH_FAILING: usize = 2;
/// Makes the choices of pairs independent of the seeds of trials.
const PAIRS: u64 = 0x7061_6972_7321_2121;

/// Searches the hold under which the program fails most often.
pub struct HuntPolicy;

impl Policy for HuntPolicy {
    fn next_step(&self, state: &State) -> Step {
        if is_examined(state) {
            return Step::Done;
        }
        let trials = state.plan.stop.trials;
        if state.budget_spent || trials.is_some_and(|trials| launched_trials(state) >= trials) {
            return Step::wait_or_done(state);
        }
        Step::Launch(VariantId(0))
    }

    fn next_held_trial(&self, state: &State) -> Option<HeldTrial> {
        let memory: &HuntMemory = state.learned()?;
        if memory.refused.is_some() || state.expected_trials(VariantId(0)) < FIRST_PLAIN_TRIALS {
            return None;
        }
        let learning = state
            .open_holds()
            .filter(|plan| matches!(plan, HoldPlan::Learn(_)));
        if memory.learning_trials + (learning.count() as u64) < LEARNING_TRIALS {
            let scope = state.plan.question.as_hunt()?.scope.clone();
            return Some(HeldTrial {
                plan: HoldPlan::Learn(scope),
                timeout: None,
            });
        }
        if memory.plain_time * (PLAIN_SHARE - 1) < memory.held_time
            || is_hold_examined(state, memory)
        {
            return None;
        }
        if let Some(holds) = memory.held_trials.holds_without_details() {
            let plan = HoldPlan::Learn(CodeScope::Around(holds.clone()));
            if state.open_holds().all(|open_plan| *open_plan != plan) {
                return Some(HeldTrial {
                    plan,
                    timeout: None,
                });
            }
        }
        let holds = next_holds(state, memory)?;
        let timeout = exploring_timeout(state, memory);
        let examined = memory
            .held_trials
            .examined
            .as_ref()
            .filter(|examination| examination.holds == holds);
        let needs_proof = examined.is_some_and(|examination| {
            examination.hung_trials < PROVING_TRIALS && examination.may_hang
        });
        let evidence = needs_evidence(memory, &holds);
        Some(HeldTrial {
            plan: HoldPlan::within_timeout(holds, timeout, evidence),
            timeout: if needs_proof { None } else { Some(timeout) },
        })
    }

    fn verdict_of(&self, state: &State) -> Verdict {
        let plain = state.tally_of(VariantId(0));
        let held: Option<&HuntMemory> = state.learned();
        let has_recipe = held.is_some_and(|memory| memory.held_trials.best_examination().is_some());
        if has_recipe || plain.failures > 0 {
            Verdict::Failing
        } else if nothing_counts(state) {
            Verdict::CouldNotTest
        } else if state.held_tally(VariantId(0)).failures > 0 {
            Verdict::Undecided
        } else {
            Verdict::Clean
        }
    }

    fn stop_rule(&self, state: &State, _: VariantId) -> StopRule {
        if is_examined(state) {
            StopRule::Decision
        } else {
            StopRule::from_outside(state)
        }
    }

    fn remaining_trials(&self, _: &State) -> Option<u64> {
        None
    }
}

/// Returns the timeout of a trial that explores. A trial without a proved deadlock may be stopped too early, so the first
/// trials of an examined hold that seems to hang have the timeout of plain trials.
fn exploring_timeout(state: &State, memory: &HuntMemory) -> Duration {
    let plain = &state.tally_of(VariantId(0)).pass_times;
    match state.plan.timeout {
        Timeout::After(time) => time,
        Timeout::Auto => plain.max_duration().map_or(FIRST_TIMEOUT, |slowest| {
            (slowest * HANGS)
                .max(MIN_EXPLORING_TIMEOUT)
                .max(memory.slowest_failure * FAILURES)
        }),
    }
}

fn launched_trials(state: &State) -> u64 {
    state.next_id().0 - 1
}

/// Returns whether enough plain trials show the natural rate.
fn knows_natural_rate(state: &State, memory: &HuntMemory) -> bool {
    let budget = state.plan.stop.time_budget();
    state.expected_trials(VariantId(0)) >= NATURAL_TRIALS
        || budget.is_some_and(|budget| memory.plain_time * NATURAL_TIME_PART > budget)
}

/// Returns whether the examination of a hold is complete, and nothing is left to do.
fn is_examined(state: &State) -> bool {
    let memory: Option<&HuntMemory> = state.learned();
    memory
        .is_some_and(|memory| is_hold_examined(state, memory) && knows_natural_rate(state, memory))
}

fn is_hold_examined(state: &State, memory: &HuntMemory) -> bool {
    memory
        .held_trials
        .examined
        .as_ref()
        .is_some_and(|examined| {
            has_fresh_trials(examined.fresh)
                && better_holds(state, memory, |_| 0).is_none()
                && untried_neighbour(memory, examined, &[]).is_none()
                && unwatched_hold(memory, examined, &[]).is_none()
        })
}

fn has_fresh_trials(fresh: HeldCounts) -> bool {
    let (min, max) = FRESH_TRIALS;
    let width = || confidence_sequence(fresh.failures, fresh.trials, 0.05).width();
    fresh.launched() >= max || (fresh.trials >= min && width() <= WIDTH)
}

/// Returns whether the stacks of a failing trial are wanted: they cost more time than the trial.
fn needs_evidence(memory: &HuntMemory, holds: &[Hold]) -> bool {
    let examined = memory.held_trials.examined.as_ref();
    examined.is_some_and(|examination| {
        examination.holds == holds && examination.fresh.failures < TRIALS_WITH_EVIDENCE
    })
}

/// Returns the holds of the next trial.
fn next_holds(state: &State, memory: &HuntMemory) -> Option<Vec<Hold>> {
    let open: Vec<&[Hold]> = state.open_holds().map(HoldPlan::holds).collect();
    let under_way = |holds: &[Hold]| {
        open.iter()
            .filter(|open_holds| **open_holds == holds)
            .count() as u64
    };
    if let Some(holds) = better_holds(state, memory, under_way) {
        return Some(holds);
    }
    if let Some(examined) = &memory.held_trials.examined {
        return examination_holds(memory, examined, &open);
    }
    let number = state.next_id().0;
    let repeated = || {
        memory
            .held_trials
            .failing
            .iter()
            .filter(|holds| memory.held_trials.counts_of(holds).launched() < REPEATS)
    };
    if number.is_multiple_of(REPEATING)
        && let Some(holds) = most_promising(memory, repeated())
    {
        return Some(holds.clone());
    }
    // Pairs find what no single hold finds, so they get half of the trials after the first rounds.
    let rounds = if number.is_multiple_of(2) {
        AFTER_CREATORS
    } else {
        AFTER_CREATORS + ATTEMPTS
    };
    let mut attempts = (0..rounds).flat_map(|round| attempts_of_round(memory, round));
    let is_new = |holds: &Vec<Hold>| memory.held_trials.is_unjudged(holds) && under_way(holds) == 0;
    if let Some(holds) = attempts.find(is_new) {
        return Some(holds);
    }
    // Watched trials do not count, so they follow the first round.
    if number.is_multiple_of(WATCHING)
        && let Some(holds) = unwatched_point(memory, &open)
    {
        return Some(holds);
    }
    next_pair(state, memory)
        .or_else(|| Some(most_promising(memory, memory.held_trials.failing.iter())?.clone()))
}

/// Returns the attempts of a round: each point alone, then pairs of calls, then each point of new threads while they run
/// one by one, then each point of a new thread that gets there before its creator continues, then each point alone at other
/// arrivals.
fn attempts_of_round(memory: &HuntMemory, round: u64) -> Box<dyn Iterator<Item = Vec<Hold>> + '_> {
    let points = &memory.held_trials.points;
    let in_order = points.in_order().iter();
    match round {
        CALL_PAIRS => Box::new(call_pairs(points.in_order()).take(MAX_CALL_PAIRS)),
        ONE_BY_ONE => Box::new(
            in_order
                .filter(|point| points.is_of_new_thread(point))
                .map(|point| one_by_one(point, SECOND_ARRIVAL)),
        ),
        AFTER_CREATORS => Box::new(
            in_order
                .filter(|point| points.is_of_new_thread(point))
                .map(after_creator),
        ),
        _ => {
            let attempt = round.saturating_sub(AFTER_CREATORS);
            Box::new(in_order.map(move |point| vec![hold_at(point, attempt)]))
        }
    }
}

/// Returns the pairs of system calls of two processes.
fn call_pairs(points: &[HoldPoint]) -> impl Iterator<Item = Vec<Hold>> {
    let calls: Vec<(u32, &HoldPoint)> = points
        .iter()
        .filter_map(|point| match point {
            HoldPoint::Call { process, .. } => Some((*process, point)),
            HoldPoint::Code(_) | HoldPoint::Start(_) | HoldPoint::Line { .. } => None,
        })
        .collect();
    let firsts = 0..calls.len();
    firsts.flat_map(move |index| {
        let (process, first) = calls[index];
        let seconds = calls[index + 1..].iter();
        let of_others = seconds.filter(|(other, _)| *other != process);
        let pairs: Vec<Vec<Hold>> = of_others
            .map(|(_, second)| [first, second].map(|point| hold_at(point, 0)).to_vec())
            .collect();
        pairs
    })
}

/// Returns holds that may make more trials fail than the best ones so far.
fn better_holds(
    state: &State,
    memory: &HuntMemory,
    under_way: impl Fn(&[Hold]) -> u64 + Copy,
) -> Option<Vec<Hold>> {
    let unverified = memory.held_trials.unverified_hold(under_way).cloned();
    unverified.or_else(|| memory.held_trials.untried_extension(state, under_way))
}

/// Returns the number of points that were not tried alone.
pub(super) fn singles_left(memory: &HuntMemory) -> u64 {
    let singles = memory.held_trials.points.in_order().iter();
    let untried = singles.filter(|point| {
        let holds = [hold_at(point, 0)];
        memory.held_trials.is_unjudged(&holds)
    });
    untried.count() as u64
}

/// Returns the set of holds with the highest plausible failure rate.
fn most_promising<'a>(
    memory: &HuntMemory,
    failing: impl Iterator<Item = &'a Vec<Hold>>,
) -> Option<&'a Vec<Hold>> {
    let upper = |holds: &Vec<Hold>| {
        let counts = memory.held_trials.counts_of(holds);
        upper_one_sided(counts.failures, counts.judged(), 0.25)
    };
    failing.max_by(|a, b| upper(a).total_cmp(&upper(b)))
}

/// Returns the holds of the next trial that examines a hold: first its rate, then the points around it, then the memory
/// that is accessed there, then its rate more exactly.
fn examination_holds(
    memory: &HuntMemory,
    examined: &Examination,
    open: &[&[Hold]],
) -> Option<Vec<Hold>> {
    if examined.fresh.launched() < FRESH_TRIALS.0 / 2 {
        return Some(examined.holds.clone());
    }
    untried_neighbour(memory, examined, open)
        .or_else(|| unwatched_hold(memory, examined, open))
        .or_else(|| Some(examined.holds.clone()))
}

/// Returns a pair of points that different threads reached, chosen by a hash of the number of the trial.
fn next_pair(state: &State, memory: &HuntMemory) -> Option<Vec<Hold>> {
    let seed = trial_seed(state.plan.seed ^ PAIRS, state.next_id());
    let draw = |number: u64, count: usize| {
        let drawn = trial_seed(seed, TrialId(number)) % (count.max(1) as u64);
        usize::try_from(drawn).unwrap_or(0)
    };
    // A pair has two points of one kind, and each kind is drawn as often.
    let kinds = memory.held_trials.points.by_kind();
    let points = kinds.get(draw(0, kinds.len()))?;
    let failing: Vec<&HoldPoint> = memory
        .held_trials
        .failing
        .iter()
        .flatten()
        .map(|hold| &hold.point)
        .filter(|point| points.contains(point))
        .collect();
    for attempt in 0..20 {
        let number = 1 + 5 * attempt;
        let first = if failing.is_empty() || draw(number, PAIRS_WITH_FAILING) == 0 {
            points[draw(number + 1, points.len())]
        } else {
            failing[draw(number + 1, failing.len())]
        };
        let second = points[draw(number + 2, points.len())];
        if first == second || !are_of_different_threads(memory, first, second) {
            continue;
        }
        let pair = if draw(number + 3, 2) == 0 {
            [first, second]
        } else {
            [second, first]
        };
        let attempt = draw(number + 4, PAIR_ATTEMPTS) as u64;
        let hold = |point: &HoldPoint| match point {
            HoldPoint::Code(_) | HoldPoint::Start(_) => hold_at(point, 0),
            HoldPoint::Call { .. } | HoldPoint::Line { .. } => hold_at(point, attempt),
        };
        return Some(pair.map(hold).to_vec());
    }
    None
}

/// Returns whether two threads may be at these points at once. A point that only the first thread was seen to reach
/// first may be reached by others as well.
fn are_of_different_threads(memory: &HuntMemory, first: &HoldPoint, second: &HoldPoint) -> bool {
    if let (
        HoldPoint::Call { process: first, .. },
        HoldPoint::Call {
            process: second, ..
        },
    ) = (first, second)
    {
        return first != second;
    }
    let has_other_thread = |point| {
        let threads = memory
            .held_trials
            .points
            .get(point)
            .map(|point| &point.threads);
        threads.is_some_and(|threads| threads.iter().any(|thread| *thread > 0))
    };
    has_other_thread(first) || has_other_thread(second)
}

#[cfg(test)]
mod tests {
    use super::*;
    use provoke_model::{CodePoint, CreationSide, HuntQuestion, LearnedPoint, Occurrence};

    #[test]
    fn after_single_holds_points_of_new_threads_are_tried_with_their_creators() {
        let point = |thread: u32| {
            HoldPoint::Code(CodePoint {
                object: "/program".into(),
                address: u64::from(thread),
            })
        };
        let learned = [0, 1].map(|thread| LearnedPoint {
            point: point(thread),
            thread,
            function: 0,
            accesses_memory: true,
            name: None,
            line: None,
            is_library: false,
        });
        let mut memory = HuntMemory::new(&HuntQuestion::default());
        memory.held_trials.points.add_reached(&learned, &[]);
        let points_of = |round| -> Vec<Vec<HoldPoint>> {
            attempts_of_round(&memory, round)
                .map(|holds| holds.into_iter().map(|hold| hold.point).collect())
                .collect()
        };
        assert_eq!(points_of(0), [[point(0)], [point(1)]]);
        let creator = HoldPoint::Start(CreationSide::Creator);
        assert_eq!(points_of(ONE_BY_ONE), [[creator.clone(), point(1)]]);
        assert_eq!(points_of(AFTER_CREATORS), [[creator, point(1)]]);
        let occurrences: Vec<Occurrence> = attempts_of_round(&memory, ONE_BY_ONE)
            .flatten()
            .map(|hold| hold.occurrence)
            .collect();
        assert_eq!(occurrences, [Occurrence::Every, Occurrence::Nth(2)]);
        let later = attempts_of_round(&memory, AFTER_CREATORS + 1);
        assert!(
            later
                .flatten()
                .all(|hold| hold.occurrence == Occurrence::Half(0))
        );
    }

    #[test]
    fn calls_of_two_processes_are_tried_in_pairs() {
        let calls =
            [(0, 1), (0, 2), (1, 1)].map(|(process, call)| HoldPoint::Call { process, call });
        let pairs: Vec<Vec<Hold>> = call_pairs(&calls).collect();
        let pair = |first: usize, second: usize| {
            [first, second]
                .map(|index| hold_at(&calls[index], 0))
                .to_vec()
        };
        assert_eq!(pairs, [pair(0, 2), pair(1, 2)]);
    }
}
