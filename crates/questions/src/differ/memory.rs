//! Learns from the paths of trials what failing ones do differently.

use super::functions::choose_functions;
use super::points::KnownPoints;
use crate::FailureCounts;
use crate::baseline::is_searched_bug;
use provoke_model::{
    CodePoint, CodeScope, DifferQuestion, Failure, FailureKind, HoldPlan, Outcome, PathDetail,
    PathPart, Signature, ThreadEnd, Trial, TrialPath,
};
use provoke_state::{Memory, State, TrialFacts};
use provoke_stats::paths::{
    Arrival, BLOCK_TRIALS, LOOKS, LOOKS_AT_FUNCTIONS, LOOKS_INSIDE_FUNCTIONS, Look, MIN_FAILING,
    MIN_PASSING, PathComparison, PathEnd, PathTrial, compare_paths, due_look,
};
use std::any::Any;
use std::sync::OnceLock;
use std::time::Duration;

/// Trials that record blocks before it is known how much slower they are.
const PROBES: u64 = 2;
/// At first, only functions are recorded if blocks make a trial this many times longer, and longer than this time.
const SLOWER: u32 = 5;
const LONG: Duration = Duration::from_millis(300);
/// Recording blocks decides how trials end if this many of them would fail at the rate of plain ones, of which as many failed,
/// but almost none does; or if as many would pass.
const EXPECTED: u64 = 10;
/// Fewer trials than this are almost none.
const ALMOST_NONE: u64 = 3;
/// The search ends before the last look with a difference of at least this score; with more trials, a clearer one may come
/// first.
const CLEAR: f64 = 0.95;

fn has_clear_lead(comparison: &PathComparison) -> bool {
    let lead = comparison.lead.and_then(|lead| comparison.groups.get(lead));
    lead.is_some_and(|lead| lead.score >= CLEAR)
}

/// What a search for differences has learned.
#[derive(Debug)]
pub(crate) struct DifferMemory {
    question: DifferQuestion,
    pub(super) points: KnownPoints,
    trials: Vec<RecordedTrial>,
    /// The failure that is looked for, if no earlier run has it: the first one of this run.
    failure: Option<(FailureKind, Signature)>,
    detail: Option<PathDetail>,
    /// The first stage, if it has ended: only the entries of functions were recorded.
    first_stage: Option<FirstStage>,
    /// The trials that recorded blocks, if nearly all of them ended alike: the next ones record only the entries of functions.
    ended_alike: Option<FailureCounts>,
    plain: MeanTime,
    plain_counts: FailureCounts,
    probed: MeanTime,
    /// Whether a path with all blocks had too many points.
    is_cut: bool,
    /// Recorded trials, by [`Recording`].
    counts: [FailureCounts; 2],
    looks: usize,
    /// The comparison of the last look, or of all trials so far.
    comparison: OnceLock<PathComparison>,
    /// Whether that was a look that found something clear, or the last one.
    is_answered: bool,
    refused: Option<String>,
}

/// The trials that recorded only the entries of functions.
#[derive(Debug)]
pub(super) struct FirstStage {
    comparison: PathComparison,
    /// The functions that may differ: the trials of the second stage also record their blocks.
    inside: Vec<CodePoint>,
    pub(super) observed: FailureCounts,
}

/// What is recorded of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recording {
    /// All points.
    Full,
    /// A random half of the points.
    Half,
}

/// A trial with its path.
#[derive(Debug)]
struct RecordedTrial {
    failed: bool,
    part: PathPart,
    arrivals: Vec<Arrival>,
    ends: Vec<PathEnd>,
    block: u32,
}

/// Mean duration of trials.
#[derive(Debug, Default)]
struct MeanTime {
    total: Duration,
    trials: u32,
}

impl MeanTime {
    fn add(&mut self, time: Duration) {
        self.total += time;
        self.trials += 1;
    }

    fn mean(&self) -> Duration {
        self.total.checked_div(self.trials).unwrap_or_default()
    }
}

impl Recording {
    /// Returns what a trial with this plan records, if it records anything.
    pub(super) fn of_plan(plan: &HoldPlan) -> Option<Self> {
        match plan {
            HoldPlan::Record(plan) if plan.part == PathPart::All => Some(Self::Full),
            HoldPlan::Record(_) => Some(Self::Half),
            _ => None,
        }
    }
}

impl DifferMemory {
    pub(crate) fn new(question: &DifferQuestion) -> Self {
        Self {
            question: question.clone(),
            points: KnownPoints::default(),
            trials: Vec::new(),
            failure: None,
            detail: None,
            first_stage: None,
            ended_alike: None,
            plain_counts: FailureCounts::default(),
            plain: MeanTime::default(),
            probed: MeanTime::default(),
            is_cut: false,
            counts: Default::default(),
            looks: 0,
            comparison: OnceLock::new(),
            is_answered: false,
            refused: None,
        }
    }

    /// Returns the files whose code is observed.
    pub(super) fn scope(&self) -> &CodeScope {
        &self.question.scope
    }

    /// Returns which points of the code the next trials record.
    pub(super) fn detail(&self) -> PathDetail {
        self.detail.unwrap_or(PathDetail::Blocks)
    }

    /// Returns the functions whose blocks the next trials record, if they do not record all.
    pub(super) fn inside(&self) -> &[CodePoint] {
        let first_stage = self.first_stage.as_ref();
        first_stage.map_or(&[], |stage| &stage.inside)
    }

    /// Returns the trials that recorded only functions, if others have followed.
    pub(super) fn first_stage(&self) -> Option<&FirstStage> {
        self.first_stage.as_ref()
    }

    /// Returns the trials that recorded blocks, if nearly all of them ended alike.
    pub(super) fn ended_alike(&self) -> Option<FailureCounts> {
        self.ended_alike
    }

    /// Returns whether the comparison is that of trials that recorded only functions.
    pub(super) fn compares_functions(&self) -> bool {
        let of_first_stage = self.first_stage.as_ref().map(|stage| &stage.comparison);
        self.detail() == PathDetail::Functions
            && of_first_stage.is_none_or(|comparison| {
                self.comparison()
                    .is_some_and(|shown| std::ptr::eq(shown, comparison))
            })
    }

    /// Returns whether the functions whose blocks are recorded later are still to be chosen.
    fn is_first_stage(&self) -> bool {
        self.detail() == PathDetail::Functions
            && self.first_stage.is_none()
            && self.ended_alike.is_none()
    }

    /// Returns the comparisons of the trials that are recorded now.
    fn planned_looks(&self) -> &'static [Look] {
        if self.is_first_stage() {
            &LOOKS_AT_FUNCTIONS
        } else if self.first_stage.is_some() {
            &LOOKS_INSIDE_FUNCTIONS
        } else {
            &LOOKS
        }
    }

    /// Returns the trials that were recorded in this way, and those that failed.
    pub(crate) fn recorded(&self, recording: Recording) -> FailureCounts {
        self.counts[recording as usize]
    }

    /// Returns whether the program has code with points, which can be recorded or not.
    pub(super) fn has_code(&self) -> bool {
        self.points.has_code()
    }

    /// Returns why trials could not be recorded.
    pub(super) fn refused(&self) -> Option<&str> {
        self.refused.as_deref()
    }

    /// Returns whether a difference was found, or was looked for in enough trials.
    pub(super) fn is_answered(&self) -> bool {
        self.is_answered
    }

    /// Returns the number of times that trials were compared.
    pub(crate) fn looks(&self) -> usize {
        self.looks
    }

    /// Returns whether more trials may show a difference; not after this number of trials that end alike.
    pub(crate) fn may_find_more(&self, alike: u64) -> bool {
        let full = self.recorded(Recording::Full);
        let end_alike = full.failures == 0 || full.failures == full.trials;
        self.refused.is_none() && !self.looked_last() && !(end_alike && full.trials >= alike)
    }

    /// Returns whether enough trials were compared to give up.
    pub(super) fn looked_last(&self) -> bool {
        self.looks == self.planned_looks().len()
    }

    /// Returns the comparison of the trials, or of those that recorded only functions, if these show more; `None` if they
    /// are too few to show anything.
    pub(super) fn comparison(&self) -> Option<&PathComparison> {
        let present = self.present_comparison();
        let first = self.first_stage.as_ref().map(|stage| &stage.comparison);
        match (present, first) {
            (Some(present), Some(first)) if present.lead.is_none() && first.lead.is_some() => {
                Some(first)
            }
            (present, first) => present.or(first),
        }
    }

    /// Returns the comparison of the trials that are recorded now.
    fn present_comparison(&self) -> Option<&PathComparison> {
        let full = self.recorded(Recording::Full);
        let is_enough = full.failures >= MIN_FAILING && full.trials - full.failures >= MIN_PASSING;
        is_enough.then(|| {
            self.comparison.get_or_init(|| {
                let looks = self.planned_looks();
                let look = looks.get(self.looks).or(looks.last());
                self.compare(look.map_or(0.0, |look| look.error))
            })
        })
    }

    fn compare(&self, error: f64) -> PathComparison {
        compare_paths(&self.points.described(), &self.path_trials(), error)
    }

    fn path_trials(&self) -> Vec<PathTrial> {
        let trials = self.trials.iter();
        trials.map(|trial| self.describe(trial)).collect()
    }

    fn describe(&self, trial: &RecordedTrial) -> PathTrial {
        PathTrial {
            failed: trial.failed,
            arrivals: trial.arrivals.clone(),
            ends: trial.ends.clone(),
            armed: (trial.part != PathPart::All).then(|| self.points.recorded_in(trial.part)),
            block: trial.block,
        }
    }

    /// Adds a path, and compares the trials if there are enough.
    fn add_path(&mut self, trial: &Trial, part: PathPart, failed: bool, path: &TrialPath) {
        let indices = self.points.add(path);
        let index_of = |index: u32| indices.get(index as usize).copied();
        let arrivals = path.events.0.iter().filter_map(|event| {
            let point = index_of(event.point)?;
            Some(Arrival {
                thread: event.thread,
                point,
            })
        });
        let ends = path
            .ends
            .iter()
            .map(|ThreadEnd { thread, active }| PathEnd {
                thread: *thread,
                active: active.iter().filter_map(|index| index_of(*index)).collect(),
            });
        self.trials.push(RecordedTrial {
            failed,
            part,
            arrivals: arrivals.collect(),
            ends: ends.collect(),
            block: u32::try_from(trial.id.0).unwrap_or(u32::MAX) / BLOCK_TRIALS,
        });
        let recording = match part {
            PathPart::All => Recording::Full,
            PathPart::Half(_) => Recording::Half,
        };
        self.counts[recording as usize].add_trial(failed);
        self.look();
    }

    fn look(&mut self) {
        self.comparison = OnceLock::new();
        let full = self.recorded(Recording::Full);
        if self.detail == Some(PathDetail::Blocks) && self.end_alike(full) {
            self.ended_alike = Some(full);
            return self.record_functions();
        }
        let passing = full.trials - full.failures;
        let Some(look) = due_look(self.planned_looks(), self.looks, full.failures, passing) else {
            return;
        };
        let comparison = self.compare(look.error);
        if self.is_first_stage() {
            return self.begin_second_stage(comparison);
        }
        self.looks += 1;
        self.is_answered = has_clear_lead(&comparison) || self.looked_last();
        self.comparison = OnceLock::from(comparison);
    }

    /// Returns whether nearly all trials end alike if blocks are recorded, and plain ones do not.
    fn end_alike(&self, recorded: FailureCounts) -> bool {
        let plain = self.plain_counts;
        let is_lost = |of_plain: u64, of_recorded: u64| {
            of_plain >= EXPECTED
                && of_plain * recorded.trials >= EXPECTED * plain.trials
                && of_recorded < ALMOST_NONE
        };
        let passes = |counts: FailureCounts| counts.trials - counts.failures;
        is_lost(plain.failures, recorded.failures) || is_lost(passes(plain), passes(recorded))
    }

    /// Ends the trials that record only functions: those that follow are compared alone, and also record the blocks of the
    /// functions that may differ.
    fn begin_second_stage(&mut self, comparison: PathComparison) {
        let inside = choose_functions(&self.points, &comparison, &self.path_trials());
        // A program without native code has nothing to look into.
        self.is_answered = inside.is_empty() && has_clear_lead(&comparison);
        self.first_stage = Some(FirstStage {
            inside,
            comparison,
            observed: self.recorded(Recording::Full),
        });
        if !self.is_answered {
            self.forget_trials();
        }
    }

    fn forget_trials(&mut self) {
        self.trials.clear();
        self.counts = Default::default();
    }

    /// Decides which points are recorded, as soon as it is known how long that takes.
    fn choose_detail(&mut self) {
        let (plain, probed) = (self.plain.mean(), self.probed.mean());
        let is_slow = probed > plain * SLOWER && probed.saturating_sub(plain) > LONG;
        if is_slow || self.is_cut {
            self.record_functions();
        } else {
            self.detail = Some(PathDetail::Blocks);
        }
    }

    fn record_functions(&mut self) {
        self.detail = Some(PathDetail::Functions);
        self.forget_trials();
    }

    fn note_failure(&mut self, outcome: &Outcome) {
        if let Outcome::Fail(failure) = outcome {
            let name = || (failure.kind.clone(), failure.signature.clone());
            self.failure.get_or_insert_with(name);
        }
    }
}

impl Memory for DifferMemory {
    fn parts(&self) -> Vec<&dyn Any> {
        vec![self]
    }

    fn is_the_bug(&self, _: &State, failure: &Failure) -> bool {
        is_searched_bug(
            self.question.known.as_deref(),
            self.failure.as_ref(),
            failure,
        )
    }

    fn add_trial(&mut self, _: &State, _: &Trial, facts: &TrialFacts) {
        self.note_failure(&facts.outcome);
        self.plain.add(facts.elapsed);
        match facts.outcome {
            Outcome::Pass => self.plain_counts.add_trial(false),
            Outcome::Fail(_) => self.plain_counts.add_trial(true),
            Outcome::Other(_) | Outcome::Inconclusive(_) => {}
        }
    }

    fn add_held_trial(&mut self, _: &State, trial: &Trial, facts: &TrialFacts) {
        let Some(HoldPlan::Record(plan)) = trial.hold.as_deref() else {
            return;
        };
        let Some(observation) = &facts.holds else {
            return;
        };
        if let Some(reason) = &observation.refused {
            self.refused.get_or_insert_with(|| reason.clone());
            return;
        }
        let failed = match &facts.outcome {
            Outcome::Pass => false,
            Outcome::Fail(_) => true,
            Outcome::Other(_) | Outcome::Inconclusive(_) => return,
        };
        self.note_failure(&facts.outcome);
        if self.is_answered || plan.detail != self.detail() || plan.inside != self.inside() {
            return;
        }
        if let Some(path) = &observation.path {
            self.is_cut |= path.is_cut;
            self.add_path(trial, plan.part, failed, path);
        }
        if plan.part == PathPart::All && self.detail.is_none() {
            self.probed.add(facts.elapsed);
            if u64::from(self.probed.trials) == PROBES {
                self.choose_detail();
            }
        }
    }
}
