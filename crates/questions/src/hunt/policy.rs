//! `hunt`: searches the hold under which the program fails most often.
//!
//! The plan of a trial follows from the memory and the open trials. Plain trials get a fifth of the time. The others
//! learn the points, then repeat holds that failed, then examine the best hold, then try new holds. The claim about a hold
//! compares all its fresh trials with control trials, which are traced in the same way and hold no thread.

use super::attempts::{ATTEMPTS, PAIR_ATTEMPTS, after_creator, hold_at, one_by_one};
use super::held_trials::{Examination, MAX_FRESH_TRIALS};
use super::memory::{HuntMemory, LEARNING_TRIALS};
use super::neighbours::untried_neighbour;
use super::recording::recorded_trial;
use super::watching::{unwatched_hold, unwatched_point};
use crate::{HeldTrial, Policy, Step, StopRule, Verdict, nothing_counts};
use provoke_model::{
    CodeScope, Hold, HoldPlan, HoldPoint, Timeout, TrialId, VariantId, trial_seed,
};
use provoke_state::State;
use std::time::Duration;

/// Plain trials get at least this share of the time: one part of this many.
const PLAIN_SHARE: u32 = 5;
/// Plain trials that show the natural rate, unless they take more than this part of the time limit.
const NATURAL_TRIALS: u64 = 300;
const NATURAL_TIME_PART: u32 = 10;
/// Plain trials before the first held one: they show how long the program takes.
const FIRST_PLAIN_TRIALS: u64 = 2;
/// Limit of these trials while most of them fail: then no hold may be needed.
const MAX_FIRST_PLAIN_TRIALS: u64 = 30;
/// Control trials of the best hold, unless they take more than this part of the time limit.
const CONTROL_TRIALS: u64 = 100;
const CONTROL_TIME_PART: u32 = 20;
/// A trial that learns may take this part of the time limit: breakpoints make the program slow.
const LEARNING_TIME_PART: u32 = 4;
/// Part of the time limit for the races of a program that fails without a hold.
const RACES_TIME_PART: u32 = 10;
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
/// Minimum number of fresh trials of the examined hold.
const MIN_FRESH_TRIALS: u64 = 20;
/// Width of the interval at which fresh trials end.
const WIDTH: f64 = 0.25;
/// Trials of a hold that failed sometimes, before other holds are tried.
const REPEATS: u64 = 12;
/// One of this many trials repeats a hold that failed sometimes.
const REPEATING: u64 = 4;
/// One of this many trials after the first round watches the memory at a point.
const WATCHING: u64 = 4;
/// One of this many pairs contains one of the first points where failing trials differ, or else a point whose hold failed.
const PAIRS_WITH_PROMISING: usize = 2;
const PAIRED_LEADING: usize = 4;
/// Makes the choices of pairs independent of the seeds of trials.
const PAIRS: u64 = 0x7061_6972_7321_2121;

/// Searches the hold under which the program fails most often.
pub struct HuntPolicy;

/// What the next trial that is not plain does.
enum Attempt {
    /// It holds threads.
    Hold(Vec<Hold>),
    /// It is traced as for these holds, and holds no thread.
    Control(Vec<Hold>),
}

impl Policy for HuntPolicy {
    fn next_step(&self, state: &State) -> Step {
        if is_answered(state) {
            return Step::Done;
        }
        Step::launch_only_variant(state)
    }

    fn next_held_trial(&self, state: &State) -> Option<HeldTrial> {
        let memory: &HuntMemory = state.learned()?;
        if memory.refused.is_some() || needs_first_plain_trials(state) {
            return None;
        }
        let learning = state
            .open_holds()
            .filter(|plan| matches!(plan, HoldPlan::Learn(_)));
        if memory.learning_trials + (learning.count() as u64) < LEARNING_TRIALS {
            let scope = state.goal.question.as_hunt()?.scope.clone();
            return Some(learning_trial(state, scope));
        }
        if memory.plain_time * (PLAIN_SHARE - 1) < memory.held_time {
            return None;
        }
        let timeout = exploring_timeout(state, memory);
        if let Some(holds) = needs_no_hold(state, memory).then(|| unwatched_open(state, memory)) {
            return Some(HeldTrial {
                plan: HoldPlan::within_timeout(holds?, timeout, false),
                timeout: Some(timeout),
            });
        }
        let examined = memory.held_trials.examined.as_ref();
        if is_hold_examined(state, memory) {
            let holds = examined.filter(|examined| needs_control(state, memory, examined))?;
            return Some(control_trial(holds.holds.clone(), timeout));
        }
        if let Some(holds) = memory.held_trials.holds_without_details() {
            let scope = CodeScope::Around(holds);
            let plan = HoldPlan::Learn(scope.clone());
            if state.open_holds().all(|open_plan| *open_plan != plan) {
                return Some(learning_trial(state, scope));
            }
        }
        let open = |holds: &[Hold]| open_trials(state, holds);
        if let Some(recorded) = recorded_trial(state, memory, timeout, open) {
            return Some(recorded);
        }
        let holds = match next_attempt(state, memory)? {
            Attempt::Hold(holds) => holds,
            Attempt::Control(holds) => return Some(control_trial(holds, timeout)),
        };
        let examined = examined.filter(|examination| examination.holds == holds);
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
        let Some(memory): Option<&HuntMemory> = state.learned() else {
            return Verdict::Undecided;
        };
        let alpha = state.goal.alpha.to_probability();
        let has_claim = memory.held_trials.claimed_examination(alpha).is_some();
        let held_none = memory.refused.is_some() || memory.tried.trials == 0;
        if has_claim || plain.failures > 0 || fails_if_traced(state, memory) {
            Verdict::Failing
        } else if nothing_counts(state) {
            Verdict::CouldNotTest
        } else if held_none || memory.tried.failures + memory.observed().failures > 0 {
            Verdict::Undecided
        } else {
            Verdict::Clean
        }
    }

    fn stop_rule(&self, state: &State, _: VariantId) -> StopRule {
        if is_answered(state) {
            StopRule::Decision
        } else {
            StopRule::from_outside(state)
        }
    }
}

/// Returns whether plain trials run before any other: until they show how long the program takes, and while most of them
/// fail.
fn needs_first_plain_trials(state: &State) -> bool {
    let plain = state.tally_of(VariantId(0));
    let trials = state.expected_trials(VariantId(0));
    let mostly_fails = 2 * plain.failures > plain.counted_trials();
    trials < FIRST_PLAIN_TRIALS
        || mostly_fails && trials < MAX_FIRST_PLAIN_TRIALS && !fails_if_plain(state)
}

/// Returns whether more than half of plain trials fail, so that no hold is needed.
pub(super) fn fails_if_plain(state: &State) -> bool {
    let plain = state.tally_of(VariantId(0));
    mostly_fails(state, plain.failures, plain.counted_trials())
}

/// Returns whether more than half of the trials that are only traced fail, so that no hold is needed.
pub(super) fn fails_if_traced(state: &State, memory: &HuntMemory) -> bool {
    let control = memory.held_trials.control_total();
    mostly_fails(state, control.failures, control.trials)
}

/// The number of trials depends on how they end, so the interval is one that may be looked at after each trial.
fn mostly_fails(state: &State, failures: u64, trials: u64) -> bool {
    2 * failures > trials
        && StopRule::Decision
            .interval(failures, trials, state.goal.alpha.to_probability())
            .lo
            > 0.5
}

fn needs_no_hold(state: &State, memory: &HuntMemory) -> bool {
    fails_if_plain(state) || fails_if_traced(state, memory)
}

/// Returns a hold at a point whose memory was not watched, besides the open trials.
fn unwatched_open(state: &State, memory: &HuntMemory) -> Option<Vec<Hold>> {
    let open: Vec<&[Hold]> = state.open_holds().map(HoldPlan::holds).collect();
    unwatched_point(memory, &open)
}

fn learning_trial(state: &State, scope: CodeScope) -> HeldTrial {
    let budget = match state.trials.settings.timeout {
        Timeout::After(_) => None,
        Timeout::Auto => state.stop.time_budget(),
    };
    HeldTrial {
        plan: HoldPlan::Learn(scope),
        timeout: budget.map(|budget| budget / LEARNING_TIME_PART),
    }
}

fn control_trial(holds: Vec<Hold>, timeout: Duration) -> HeldTrial {
    HeldTrial {
        plan: HoldPlan::Trace(holds),
        timeout: Some(timeout),
    }
}

/// Returns the timeout of a trial that explores. A trial without a proved deadlock may be stopped too early, so the first
/// trials of an examined hold that seems to hang have the timeout of plain trials.
fn exploring_timeout(state: &State, memory: &HuntMemory) -> Duration {
    let plain = &state.tally_of(VariantId(0)).pass_times;
    match state.trials.settings.timeout {
        Timeout::After(time) => time,
        Timeout::Auto => plain.max_duration().map_or(FIRST_TIMEOUT, |slowest| {
            (slowest * HANGS)
                .max(MIN_EXPLORING_TIMEOUT)
                .max(memory.slowest_failure * FAILURES)
        }),
    }
}

/// Returns whether enough plain trials show the natural rate.
fn knows_natural_rate(state: &State, memory: &HuntMemory) -> bool {
    let budget = state.stop.time_budget();
    state.expected_trials(VariantId(0)) >= NATURAL_TRIALS
        || budget.is_some_and(|budget| memory.plain_time * NATURAL_TIME_PART > budget)
}

/// Returns whether more control trials of an examined hold are wanted.
fn needs_control(state: &State, memory: &HuntMemory, examined: &Examination) -> bool {
    let budget = state.stop.time_budget();
    control_trials(state, examined) < CONTROL_TRIALS
        && budget.is_none_or(|budget| memory.control_time * CONTROL_TIME_PART <= budget)
}

/// Returns the number of control trials of an examined hold, with the open ones.
fn control_trials(state: &State, examined: &Examination) -> u64 {
    let is_control =
        |plan: &&HoldPlan| matches!(plan, HoldPlan::Trace(holds) if *holds == examined.holds);
    examined.control.trials + state.open_holds().filter(is_control).count() as u64
}

/// Returns whether nothing is left to do: a hold is examined, the program fails without one and its races are known, or it
/// cannot be held.
fn is_answered(state: &State) -> bool {
    let memory: Option<&HuntMemory> = state.learned();
    memory.is_some_and(|memory| {
        if needs_no_hold(state, memory) {
            return has_sought_races(state, memory);
        }
        if memory.refused.is_some() {
            return knows_natural_rate(state, memory);
        }
        is_hold_examined(state, memory)
            && knows_natural_rate(state, memory)
            && memory
                .held_trials
                .examined
                .as_ref()
                .is_none_or(|examined| !needs_control(state, memory, examined))
    })
}

/// Returns whether the memory at each point was watched, or the time for that is over.
fn has_sought_races(state: &State, memory: &HuntMemory) -> bool {
    let budget = state.stop.time_budget();
    memory.refused.is_some()
        || budget.is_some_and(|budget| memory.held_time * RACES_TIME_PART > budget)
        || memory.learning_trials >= LEARNING_TRIALS && unwatched_point(memory, &[]).is_none()
}

fn is_hold_examined(state: &State, memory: &HuntMemory) -> bool {
    memory
        .held_trials
        .examined
        .as_ref()
        .is_some_and(|examined| {
            has_fresh_trials(state, examined)
                && better_holds(state, memory, |_| 0).is_none()
                && untried_neighbour(memory, examined, &[]).is_none()
                && unwatched_hold(memory, examined, &[]).is_none()
        })
}

/// Returns whether the fresh trials show that the program fails more often under the hold, and how often.
fn has_fresh_trials(state: &State, examined: &Examination) -> bool {
    let alpha = state.goal.alpha.to_probability();
    let held = examined.failure.held;
    let width = || {
        StopRule::Decision
            .interval(held.failures, held.trials, 0.05)
            .width()
    };
    held.trials >= MIN_FRESH_TRIALS
        && (held.trials >= MAX_FRESH_TRIALS || width() <= WIDTH)
        && examined.is_claimed(alpha)
        && !examined.is_worthless(alpha)
}

/// Returns whether the stacks of a failing trial are wanted: they cost more time than the trial.
fn needs_evidence(memory: &HuntMemory, holds: &[Hold]) -> bool {
    let examined = memory.held_trials.examined.as_ref();
    examined.is_some_and(|examination| {
        examination.holds == holds && examination.fresh.failures < TRIALS_WITH_EVIDENCE
    })
}

/// Returns what the next trial does.
fn next_attempt(state: &State, memory: &HuntMemory) -> Option<Attempt> {
    if let Some(examined) = &memory.held_trials.examined
        && better_holds(state, memory, |holds| open_trials(state, holds)).is_none()
    {
        return examination_attempt(state, memory, examined);
    }
    next_holds(state, memory).map(Attempt::Hold)
}

/// Returns the number of open trials under these holds.
fn open_trials(state: &State, holds: &[Hold]) -> u64 {
    let is_open = |plan: &&HoldPlan| plan.holds() == holds;
    state.open_holds().filter(is_open).count() as u64
}

/// Returns the holds of the next trial, if no hold is examined.
fn next_holds(state: &State, memory: &HuntMemory) -> Option<Vec<Hold>> {
    let open: Vec<&[Hold]> = state.open_holds().map(HoldPlan::holds).collect();
    let under_way = |holds: &[Hold]| open_trials(state, holds);
    if let Some(holds) = better_holds(state, memory, under_way) {
        return Some(holds);
    }
    let number = state.next_id().0;
    let repeated = || {
        memory
            .held_trials
            .failing
            .keys()
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
        .or_else(|| Some(most_promising(memory, memory.held_trials.failing.keys())?.clone()))
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
    let alpha = state.goal.alpha.to_probability();
    let unverified = memory
        .held_trials
        .unverified_hold(alpha, under_way)
        .cloned();
    unverified.or_else(|| memory.held_trials.untried_extension(state, under_way))
}

/// Returns the set of holds with the highest plausible failure rate.
fn most_promising<'a>(
    memory: &HuntMemory,
    failing: impl Iterator<Item = &'a Vec<Hold>>,
) -> Option<&'a Vec<Hold>> {
    let upper = |holds: &Vec<Hold>| {
        let counts = memory.held_trials.counts_of(holds);
        StopRule::planned_upper_bound(counts.failures, counts.judged(), 0.25)
    };
    failing.max_by(|a, b| upper(a).total_cmp(&upper(b)))
}

/// Returns the next trial that examines a hold: first its rate, then the points around it, then the memory that is
/// accessed there, then its rate more exactly. Fresh trials and control trials take turns, so that both see the same
/// machine.
fn examination_attempt(
    state: &State,
    memory: &HuntMemory,
    examined: &Examination,
) -> Option<Attempt> {
    let open: Vec<&[Hold]> = state.open_holds().map(HoldPlan::holds).collect();
    let next_of_rate = || {
        let fresh = examined.fresh.launched() + open_trials(state, &examined.holds);
        if control_trials(state, examined) < fresh {
            Attempt::Control(examined.holds.clone())
        } else {
            Attempt::Hold(examined.holds.clone())
        }
    };
    if examined.fresh.launched() < MIN_FRESH_TRIALS / 2 {
        return Some(next_of_rate());
    }
    untried_neighbour(memory, examined, &open)
        .or_else(|| unwatched_hold(memory, examined, &open))
        .map(Attempt::Hold)
        .or_else(|| Some(next_of_rate()))
}

/// Returns a pair of points that different threads reached, chosen by a hash of the number of the trial.
fn next_pair(state: &State, memory: &HuntMemory) -> Option<Vec<Hold>> {
    let seed = trial_seed(state.trials.seed ^ PAIRS, state.next_id());
    let draw = |number: u64, count: usize| {
        let drawn = trial_seed(seed, TrialId(number)) % (count.max(1) as u64);
        usize::try_from(drawn).unwrap_or(0)
    };
    // A pair has two points of one kind, and each kind is drawn as often.
    let known = &memory.held_trials.points;
    let kinds = known.by_kind();
    let points = kinds.get(draw(0, kinds.len()))?;
    let failing = memory.held_trials.failing.keys().flatten();
    let leading: Vec<&HoldPoint> = known.leading().take(PAIRED_LEADING).collect();
    let promising: Vec<&HoldPoint> = if leading.is_empty() {
        failing.map(|hold| &hold.point).collect()
    } else {
        leading
    };
    let promising: Vec<&HoldPoint> = promising
        .into_iter()
        .filter(|point| points.contains(point))
        .collect();
    for attempt in 0..20 {
        let number = 1 + 5 * attempt;
        let first = if promising.is_empty() || draw(number, PAIRS_WITH_PROMISING) == 0 {
            points[draw(number + 1, points.len())]
        } else {
            promising[draw(number + 1, promising.len())]
        };
        let second = points[draw(number + 2, points.len())];
        if first == second || !known.are_of_different_threads(first, second) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hunt::held_trials::samples::{learned_point, point};
    use provoke_model::{CreationSide, HuntQuestion, LearnedPoint, Occurrence};

    #[test]
    fn after_single_holds_points_of_new_threads_are_tried_with_their_creators() {
        let learned = [0, 1].map(|thread| LearnedPoint {
            thread,
            ..learned_point(thread.into())
        });
        let mut memory = HuntMemory::new(&HuntQuestion::default());
        memory.held_trials.points.add_reached(&learned);
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
