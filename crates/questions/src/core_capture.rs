//! Launches a few more trials after the measurement, to capture evidence of the failures.
//!
//! Writing cores disturbs the trials that run at the same time and later, so the measured trials write none. The extra
//! trials run until a few crashes of every variant are captured, or as many as were measured, among them the most frequent
//! crash and each other one that is not rare; or until three times as many trials have run as in the measurement: a crash
//! that did not occur in that many trials is too rare to wait for.
//! With only as many trials, a crash that was measured three times would be missed in one of twenty cases, and more
//! often if the measurement ended with its last crash.

use super::{Step, of};
use provoke_model::{CaptureMode, EvidenceDepth, ServiceOwner, VariantId};
use provoke_state::{SignatureFailures, State, Tally};
use std::cmp::Reverse;
use std::time::Duration;

/// Number of captured crashes of each variant that is enough.
const ENOUGH: u64 = 3;
/// Number of conditions of a search whose crashes are captured.
const CONDITIONS: usize = 4;
/// Number of crashes without evidence after which the capture is given up.
const INCONCLUSIVE_LIMIT: u64 = 6;
/// Minimum time for the capture, however short the measurement was.
const A_MOMENT: Duration = Duration::from_secs(10);
/// Limit of the extra trials, as a multiple of the measured ones.
const TIMES: u64 = 3;
/// Minimum limit of the extra trials, however few were measured.
const MIN_TRIALS: u64 = 10;

/// Runs trials that capture evidence.
pub struct CapturePolicy;

impl CapturePolicy {
    /// Time for the capture after the user stopped the measurement.
    pub const TIME_AFTER_STOP: Duration = Duration::from_secs(3);

    /// Returns whether the completed measurement saw crashes whose evidence can be captured.
    pub fn is_wanted(state: &State) -> bool {
        state.trials.settings.capture == CaptureMode::Auto
            && state.trials.settings.no_cores.is_none()
            // provoke must not change the limits of a service that it did not start.
            && state.trials.load.as_ref().is_none_or(|load| load.owner == ServiceOwner::Provoke)
            && (!state.stage.runs_extra_trials() || state.stage.reruns_tests())
            && Self::has_crashes(state)
            && !Self::time_limit(state).is_zero()
    }

    /// Returns whether the measurement saw a program crash.
    pub fn has_crashes(state: &State) -> bool {
        crashed_variants(state).next().is_some()
    }

    /// Returns whether a stack was captured.
    pub fn has_stack(state: &State) -> bool {
        crashed_variants(state).any(|(id, _)| {
            crashes_with_stack(state.captured_tally(id))
                .next()
                .is_some()
        })
    }

    /// Returns whether captured trials have run.
    pub fn has_run(state: &State) -> bool {
        crashed_variants(state).any(|(id, _)| state.captured_tally(id).finished_trials() > 0)
    }

    /// Returns whether a crash will probably be captured soon after the user stopped the measurement: crashes were so
    /// frequent that three are expected in that time.
    pub fn is_quick(state: &State) -> bool {
        let crash_total: u64 = crashed_variants(state)
            .map(|(_, tally)| crash_count(tally))
            .sum();
        let crashes = u32::try_from(crash_total).unwrap_or(u32::MAX);
        state.trials.load.is_none() && state.worked < Self::TIME_AFTER_STOP / 3 * crashes
    }

    /// Returns the time limit of the capture: the duration of the measurement or, if the measurement had a time limit,
    /// a tenth of its duration; but at least 10 seconds. The time limit of a hunt includes the capture.
    pub fn time_limit(state: &State) -> Duration {
        let budget = state.stop.time_budget();
        let measured = match budget {
            Some(_) => state.worked / 10,
            None => state.worked,
        };
        match budget.filter(|_| of(state).explores()) {
            Some(budget) => measured
                .max(A_MOMENT)
                .min(budget.saturating_sub(state.worked)),
            None => measured.max(A_MOMENT),
        }
    }

    /// Returns the numbers of captured and of wanted crashes.
    pub fn caught_and_wanted(state: &State) -> (u64, u64) {
        crashed_variants(state).fold((0, 0), |(caught, wanted), (id, measured)| {
            let needed = CrashesOfVariant::count(measured, state.captured_tally(id));
            (caught + needed.caught, wanted + needed.wanted)
        })
    }

    /// Returns the next step if a slot is free.
    pub fn next_step(&self, state: &State) -> Step {
        let missing = |id: &VariantId| {
            let captured = state.captured_tally(*id);
            let CrashesOfVariant { caught, wanted } =
                CrashesOfVariant::count(state.tally_of(*id), captured);
            let with_stack: u64 = crashes_with_stack(captured).map(trial_count).sum();
            caught < wanted && crash_count(captured) - with_stack < INCONCLUSIVE_LIMIT
        };
        let room =
            |id: &VariantId| state.captures_underway(*id) < most_captures(state.tally_of(*id));
        let crashed = crashed_variants(state)
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
            None if open.is_empty() || !state.has_open_trials() => Step::Done,
            None => Step::Wait,
        }
    }
}

/// Returns the variants that crashed. In a search, only the failing variant is needed; of many conditions, those under
/// which it crashed most often.
fn crashed_variants(state: &State) -> impl Iterator<Item = (VariantId, &Tally)> {
    let question = &state.goal.question;
    let searched = question.as_search().is_some();
    let crashed = state
        .all_tallies()
        .filter(|(_, tally)| crash_count(tally) > 0);
    let mut crashed: Vec<(VariantId, &Tally)> = crashed
        .filter(move |(id, _)| !searched || *id == State::FAILING)
        .collect();
    if question.as_why().is_some() {
        crashed.sort_by_key(|(id, tally)| (Reverse(crash_count(tally)), *id));
        crashed.truncate(CONDITIONS);
    }
    crashed.into_iter()
}

/// How many crashes of a variant were captured, and how many are wanted with a stack.
struct CrashesOfVariant {
    caught: u64,
    wanted: u64,
}

impl CrashesOfVariant {
    fn count(measured: &Tally, captured: &Tally) -> Self {
        let mut crashes: Vec<&SignatureFailures> = crashes(measured).collect();
        crashes.sort_by_key(|group| Reverse(trial_count(group)));
        let is_frequent = |(rank, group): &(usize, &SignatureFailures)| {
            *rank == 0 || trial_count(group) >= ENOUGH
        };
        let frequent = crashes.into_iter().enumerate().filter(is_frequent);
        let has_stack = |group: &SignatureFailures| {
            crashes_with_stack(captured).any(|other| is_same_crash(group, other))
        };
        let (explained, unexplained): (Vec<_>, Vec<_>) =
            frequent.partition(|(_, group)| has_stack(group));
        let (explained, unexplained) = (explained.len() as u64, unexplained.len() as u64);
        let wanted = crash_count(measured)
            .min(ENOUGH)
            .max(explained + unexplained);
        let with_stack: u64 = crashes_with_stack(captured).map(trial_count).sum();
        Self {
            caught: with_stack.min(wanted - unexplained),
            wanted,
        }
    }
}

/// Returns whether a captured crash with a stack is the measured one, as far as is known.
fn is_same_crash(measured: &SignatureFailures, captured: &SignatureFailures) -> bool {
    let signature = &measured.signature;
    let mut instructions = captured
        .signature
        .names_at(EvidenceDepth::Kernel)
        .peekable();
    if signature.depth == EvidenceDepth::Kernel && instructions.peek().is_some() {
        instructions.any(|instruction| instruction == signature.id)
    } else {
        measured.name().is_same(captured.name())
    }
}

fn crashes(tally: &Tally) -> impl Iterator<Item = &SignatureFailures> {
    tally.groups.values().filter(|group| group.kind.is_crash())
}

fn crashes_with_stack(tally: &Tally) -> impl Iterator<Item = &SignatureFailures> {
    crashes(tally).filter(|group| group.signature.depth == EvidenceDepth::Stack)
}

fn crash_count(tally: &Tally) -> u64 {
    crashes(tally).map(trial_count).sum()
}

fn trial_count(group: &SignatureFailures) -> u64 {
    group.trials.len() as u64
}

fn most_captures(measured: &Tally) -> u64 {
    (measured.finished_trials() * TIMES).max(MIN_TRIALS)
}
