//! State of a run, which is the fold of its events.
//!
//! Live runs, resumed runs and reports compute the same fold from different sources of events.
//!
//! **Outcomes count in launch order.** A finished trial waits here until every trial launched before it has finished
//! too, and only then enters the [`Tally`]. Policies and statistics see that gap-free prefix. Failures often last
//! longer (a hang) or shorter (a crash at the start) than passes, so the trials that happen to *finish* first are a
//! biased sample: with 5 % of hangs that take 100 times longer and eight slots, "stop at the 100th completion" reports
//! 0.7 % on average. `docs/design/launch-order.md` has the measurements.

mod choices;
mod load;
mod memory;
mod overhead;
mod pause;
mod raise;
mod series;
mod tally;

pub use load::RequestTotals;
pub use memory::Memory;
pub use raise::{TriedOutcome, TriedSetting, TriedSettings};
pub use series::UsageSeries;
pub use tally::{DurationHistogram, SignatureFailures, Tally};

use crate::model::{
    Event, FailureKind, HoldObservation, HoldPlan, Host, InconclusiveReason, LoadObservation,
    NoteLevel, Observation, Outcome, Plan, ResumeLimits, SignatureId, StopCause, Survey,
    TotalUsage, Trial, TrialId, VariantChoice, VariantId, VariantPlan,
};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Number of attempts of a trial whose slot is lost, under the same number.
const ATTEMPTS: u32 = 2;
/// Number of trials of a candidate that may show other failures in any case before it is given up.
const OTHERS: u64 = 20;
/// The same if no trial ended in another way.
const ONLY_OTHERS: u64 = 5;
/// Maximum number of stored notes; the journal has all of them.
const NOTES: usize = 20;

/// Returns whether a trial is retried under its number after this outcome of this attempt.
pub(crate) fn is_repeated(outcome: &Outcome, attempts: u32) -> bool {
    match outcome {
        Outcome::Void(InconclusiveReason::Interrupted) => true,
        Outcome::Void(InconclusiveReason::Lost) => attempts < ATTEMPTS,
        _ => false,
    }
}

/// Receives every event, after the state.
pub trait EventSink {
    /// Receives an event.
    fn on_event(&mut self, event: &Event, state: &State);

    /// Is called before the loop waits, to write buffered data and to redraw.
    fn before_wait(&mut self, _state: &State) {}

    /// Is called at regular intervals.
    fn on_tick(&mut self, _state: &State) {}
}

/// The counts at the moment of the first failure of any variant.
#[derive(Debug)]
pub struct FirstFailure {
    /// The variant that failed.
    pub variant: VariantId,
    /// Number of passes of each variant before it.
    pub passes: Vec<u64>,
}

/// State of a run.
#[derive(Debug)]
pub struct State {
    /// The plan.
    pub plan: Plan,
    /// The version of provoke that made the run.
    pub version: String,
    /// Name of the run.
    pub run: String,
    /// The machine.
    pub host: Host,
    /// Further facts of the environment.
    pub survey: Survey,
    /// Start of the run, in seconds since 1970.
    pub begun: i64,
    /// Working time so far.
    pub worked: Duration,
    /// Whether the time budget is spent.
    pub budget_spent: bool,
    /// Cause of an interruption, until the run is resumed.
    pub stopped: Option<StopCause>,
    /// Whether the run is over.
    pub finished: bool,
    /// Whether the policy knows its answer: trials that end from now on are not counted.
    pub decided: bool,
    /// Whether the measurement is over or paused, and extra trials capture evidence.
    pub capturing: bool,
    /// Trials that ended after the decision; they are not counted.
    pub after_decision: u64,
    /// The last trial that entered the tally: all before it did, and none after it.
    pub last_counted: TrialId,
    /// Warnings, with the number of occurrences.
    pub notes: Vec<(String, u64)>,
    /// Consecutive inconclusive trials, in launch order.
    pub void_streak: u64,
    /// Consecutive trials whose slot was lost, in launch order.
    pub lost_streak: u64,
    /// Why the last trial of a service was inconclusive.
    pub last_void: Option<String>,
    /// Number of attempts that were interrupted or lost, and retried.
    pub repeated: u64,
    /// Trials that ran unusually long when the run was stopped. They do not count.
    pub late: Vec<(Trial, Box<Observation>)>,
    /// Size of the processes that `setup` left running, since `setup` last ran: a resumption runs it again.
    pub around: UsageSeries,
    /// Variants that are not testable, with the reasons.
    pub untestable: BTreeMap<VariantId, String>,
    /// In a search, the variant of each choice.
    pub chosen: BTreeMap<VariantChoice, VariantId>,
    /// Variants in preparation.
    pub making: BTreeSet<VariantId>,
    /// Number of prepared variants, and the total duration.
    pub made: (u64, Duration),
    /// The variant that was launched last.
    pub last_launched: Option<VariantId>,
    overhead: overhead::Overhead,
    /// The open trials of the measurement, while it is paused.
    paused: Option<pause::PausedTrials>,
    /// What the question has learned.
    memory: Box<dyn Memory>,
    /// The settings that are tried before a search, with their trials.
    pub raise: Option<TriedSettings>,
    /// The first failure of any variant, in launch order.
    pub first_failure: Option<FirstFailure>,
    variants: Vec<VariantState>,
    /// All trials from the first uncounted one on.
    open: BTreeMap<TrialId, OpenTrial>,
    /// Open trials that must be retried: a hanging trial can make `open` long, so they have their own set.
    again: BTreeSet<TrialId>,
    launched: u64,
    /// Failures in the order in which they ended, for the live display and for evidence.
    arrived: BTreeMap<(VariantId, SignatureId), SignatureCounts>,
}

#[derive(Debug, Default)]
struct VariantState {
    measured: CountedTrials,
    /// Extra trials that capture evidence: they run under another setting, so their rate may differ.
    captured: CountedTrials,
    /// Trials with held threads, unless all trials of the run hold them: their rate is another one.
    held: CountedTrials,
    /// Whether its preparation is complete, or not needed.
    made: bool,
}

#[derive(Debug, Default)]
struct CountedTrials {
    tally: Tally,
    /// Launched trials that are neither counted nor known to be inconclusive.
    pending: u64,
    /// All launched trials, with any outcome.
    launched: u64,
    /// Consecutive inconclusive trials of the variant, in launch order.
    in_vain: u64,
}

impl VariantState {
    fn new(lanes: u32) -> Self {
        let counted = || CountedTrials {
            tally: Tally::new(lanes),
            ..CountedTrials::default()
        };
        Self {
            measured: counted(),
            captured: counted(),
            held: counted(),
            made: false,
        }
    }

    fn counted_for(&mut self, trial: &Trial) -> &mut CountedTrials {
        if trial.capture {
            &mut self.captured
        } else if trial.explores {
            &mut self.held
        } else {
            &mut self.measured
        }
    }
}

#[derive(Debug)]
enum OpenTrial {
    Running(Trial, u32),
    /// To be retried under the same number, with the number of attempts so far.
    Again(Trial, u32),
    Finished(Trial, TrialFacts),
}

/// Failures of one signature in the order in which they came.
#[derive(Debug)]
struct SignatureCounts {
    kind: FailureKind,
    /// Failures of all trials.
    all: u64,
    /// Failures of the measurement.
    measured: u64,
}

impl SignatureCounts {
    fn new(kind: FailureKind) -> Self {
        Self {
            kind,
            all: 0,
            measured: 0,
        }
    }
}

/// The facts of an observation that the tally needs.
#[derive(Debug)]
pub struct TrialFacts {
    /// The judgement.
    pub outcome: Outcome,
    /// Duration of its main processes.
    pub elapsed: Duration,
    /// Points that it reached, and threads that were held in it.
    pub holds: Option<Box<HoldObservation>>,
    /// Leaked processes, and leaked objects of an engine.
    pub(crate) leaked: (u64, u64),
    pub(crate) unkillable: u64,
    pub(crate) settled: bool,
    pub(crate) helper_ended_early: bool,
    pub(crate) around: Option<TotalUsage>,
    pub(crate) load: Option<Box<LoadObservation>>,
}

impl State {
    /// Starts the fold with the first event of a journal, and the memory of the plan's question; returns `None` for any
    /// other event.
    pub fn begin_fold(event: Event, memory: impl FnOnce(&Plan) -> Box<dyn Memory>) -> Option<Self> {
        let Event::RunStarted {
            plan,
            version,
            run,
            host,
            survey,
            at,
            ..
        } = event
        else {
            return None;
        };
        if !plan.is_sound() {
            return None;
        }
        let new = |variant: &VariantPlan| VariantState::new(plan.jobs_of(variant));
        let choices = plan.variants.iter().map(|variant| variant.choice.clone());
        let chosen = choices.zip((0..).map(VariantId));
        Some(Self {
            variants: plan.variants.iter().map(new).collect(),
            memory: memory(&plan),
            chosen: chosen
                .filter_map(|(choice, id)| Some((choice?, id)))
                .collect(),
            making: BTreeSet::new(),
            raise: TriedSettings::new(&plan),
            first_failure: None,
            made: (0, Duration::ZERO),
            last_launched: None,
            overhead: overhead::Overhead::default(),
            paused: None,
            plan: *plan,
            version,
            run,
            host,
            survey,
            begun: at,
            worked: Duration::ZERO,
            budget_spent: false,
            stopped: None,
            finished: false,
            decided: false,
            capturing: false,
            after_decision: 0,
            last_counted: TrialId(0),
            notes: Vec::new(),
            void_streak: 0,
            lost_streak: 0,
            last_void: None,
            repeated: 0,
            late: Vec::new(),
            around: UsageSeries::default(),
            untestable: BTreeMap::new(),
            open: BTreeMap::new(),
            again: BTreeSet::new(),
            launched: 0,
            arrived: BTreeMap::new(),
        })
    }

    /// Adds the next event. `decided` is evaluated after every single trial that enters the tally, so that no trial is
    /// counted after the decision.
    pub fn apply_event(&mut self, event: &Event, decided: impl Fn(&Self) -> bool) {
        match event {
            Event::TrialStarted(trial) => self.trial_started(trial.clone()),
            Event::TrialFinished {
                trial,
                at,
                seen,
                outcome,
            } => {
                let took = at.saturating_sub(self.worked);
                self.worked = *at;
                self.add_setting_time(*trial, took);
                if !self.capturing {
                    self.overhead.add_trial(took, seen.elapsed);
                }
                self.trial_ended(*trial, seen, outcome.clone());
                self.advance_tally(decided);
            }
            Event::CaptureBegun { at } => {
                self.worked = *at;
                if self.decided || self.budget_spent {
                    let finished = |open: &&OpenTrial| matches!(open, OpenTrial::Finished(..));
                    self.after_decision += self.open.values().filter(finished).count() as u64;
                    self.open.clear();
                    self.again.clear();
                } else {
                    self.pause_measurement();
                }
                (self.capturing, self.decided) = (true, false);
            }
            Event::VariantChosen(choice) => self.add_chosen(choice),
            Event::SettingChosen(variant) => {
                self.use_setting(*variant);
                self.decided = self.any_testable() && decided(self);
            }
            Event::MakingBegun(variant) => {
                self.making.insert(*variant);
            }
            Event::VariantMade {
                variant,
                took,
                gone,
                build,
                at,
            } => {
                self.worked = *at;
                self.made.0 += 1;
                self.made.1 += *took;
                self.is_made(&[*variant], true);
                self.is_made(gone, false);
                if let Some(build) = build {
                    self.update_memory(|memory, state| memory.add_build(state, *variant, build));
                }
            }
            Event::VariantUntestable { variant, why, at } => {
                self.worked = *at;
                self.making.remove(variant);
                self.give_up(*variant, why.clone());
                self.decided = self.decided || self.any_testable() && decided(self);
                self.advance_tally(decided);
            }
            Event::BudgetSpent { at } => {
                self.worked = *at;
                self.budget_spent = true;
            }
            Event::Note {
                level: NoteLevel::Warning,
                text,
            } => self.add_note(text),
            // The first began the fold; the second has no effect on the state.
            Event::RunStarted { .. }
            | Event::Note {
                level: NoteLevel::Info,
                ..
            } => {}
            Event::RunStopped { why, at } => {
                self.worked = *at;
                self.stopped = Some(*why);
                self.end_pause();
            }
            Event::LimitsChanged(limits) => self.change_limits(limits),
            Event::RunResumed { .. } => {
                self.end_pause();
                self.stopped = None;
                self.late.clear();
                self.void_streak = 0;
                self.lost_streak = 0;
                self.making.clear();
                for variant in &mut self.variants {
                    variant.measured.in_vain = 0;
                    // Processes that its `setup` started no longer run.
                    variant.made = false;
                }
                // The reason why no variant was testable may no longer apply.
                if !self.any_testable() {
                    self.untestable.clear();
                    self.update_memory(|memory, state| memory.restart(state));
                }
                self.around = UsageSeries::default();
                for (id, open) in &mut self.open {
                    match open {
                        OpenTrial::Running(trial, attempts) => {
                            self.repeated += 1;
                            self.again.insert(*id);
                            *open = OpenTrial::Again(trial.clone(), *attempts);
                        }
                        OpenTrial::Finished(_, ended) => ended.around = None,
                        OpenTrial::Again(..) => {}
                    }
                }
                self.abandon_retries();
            }
            Event::RunFinished { at } => {
                self.worked = *at;
                self.finished = true;
            }
        }
    }

    /// Reopens the question under other limits.
    fn change_limits(&mut self, limits: &ResumeLimits) {
        self.plan.stop.change_limits(limits);
        if let Some(asked) = self.plan.question.as_confirm_mut()
            && limits.exclude_half
        {
            asked.exclude_half = Some(true);
        }
        self.finished = false;
        self.budget_spent = false;
        self.decided = false;
        self.capturing = false;
    }

    /// Adds a variant of the plan's space. A choice that is not in the space, or was added before, comes from a damaged
    /// file.
    fn add_chosen(&mut self, choice: &VariantChoice) {
        let space = self.plan.space.as_ref();
        let space =
            space.filter(|space| space.has_choice(choice) && !self.chosen.contains_key(choice));
        let Some(variant) = space.map(|space| space.variant_of_choice(choice)) else {
            return;
        };
        let id = VariantId(u32::try_from(self.variants.len()).unwrap_or(u32::MAX));
        self.plan.variants.push(variant);
        self.variants.push(VariantState::new(self.plan.jobs));
        self.chosen.insert(choice.clone(), id);
    }

    /// Adds time to the setting of a trial, while settings are tried one after another.
    fn add_setting_time(&mut self, trial: TrialId, time: Duration) {
        if let Some(OpenTrial::Running(trial, _)) = self.open.get(&trial)
            && let Some(raise) = &mut self.raise
        {
            raise.add_time(trial.variant, time);
        }
    }

    /// Begins the search under the setting of a variant. Trials under the conditions of the plan count in a search
    /// under these conditions. Trials under a setting never count, because it was chosen for its failures.
    fn use_setting(&mut self, variant: VariantId) {
        let Some(raise) = self.raise.as_mut().filter(|raise| raise.chosen.is_none()) else {
            return;
        };
        let Some(setting) = self.plan.variant_settings().find(|(id, _)| *id == variant) else {
            return;
        };
        raise.chosen = Some(variant);
        let natural = raise.natural_trials().variant;
        self.plan.use_setting(setting.1);
        let made = self.variants[Self::FAILING.index()].made;
        let begun = if variant == natural {
            std::mem::take(&mut self.variants[natural.index()])
        } else {
            VariantState::new(self.plan.jobs)
        };
        self.variants[Self::FAILING.index()] = VariantState { made, ..begun };
        if variant == natural {
            if let Some(why) = self.untestable.remove(&natural) {
                self.give_up(Self::FAILING, why);
            }
            self.update_memory(|memory, state| memory.add_natural_trials(state));
        }
    }

    fn is_made(&mut self, variants: &[VariantId], made: bool) {
        for id in variants {
            self.making.remove(id);
            if let Some(variant) = self.variants.get_mut(id.index()) {
                variant.made = made;
            }
        }
    }

    fn trial_started(&mut self, trial: Trial) {
        // A trial that no plan contains comes from a damaged file.
        if trial.id.0 == 0 || trial.variant.index() >= self.variants.len() {
            return;
        }
        if trial.id.0 > self.launched {
            self.launched = trial.id.0;
            self.last_launched = Some(trial.variant);
        }
        let attempts = match self.open.get(&trial.id) {
            Some(OpenTrial::Again(_, attempts) | OpenTrial::Running(_, attempts)) => *attempts,
            Some(OpenTrial::Finished(..)) => return,
            None => {
                let counted = self.variants[trial.variant.index()].counted_for(&trial);
                counted.pending += 1;
                counted.launched += 1;
                0
            }
        };
        self.again.remove(&trial.id);
        self.open
            .insert(trial.id, OpenTrial::Running(trial, attempts + 1));
    }

    fn trial_ended(&mut self, id: TrialId, seen: &Observation, outcome: Outcome) {
        if let Outcome::Void(InconclusiveReason::NotReady) = outcome {
            self.last_void = seen.not_ready();
        }
        let Some(OpenTrial::Running(trial, attempts)) = self.open.get(&id) else {
            return;
        };
        let (trial, attempts) = (trial.clone(), *attempts);
        if outcome == Outcome::Void(InconclusiveReason::Interrupted) && seen.hang.is_some() {
            self.late.push((trial.clone(), Box::new(seen.clone())));
        }
        if self.decided {
            self.after_decision += 1;
            self.open.remove(&id);
            return;
        }
        if is_repeated(&outcome, attempts) && self.is_testable(trial.variant) {
            self.repeated += 1;
            self.again.insert(id);
            self.open.insert(id, OpenTrial::Again(trial, attempts));
            return;
        }
        match &outcome {
            Outcome::Void(_) => {
                self.variants[trial.variant.index()]
                    .counted_for(&trial)
                    .pending -= 1;
            }
            Outcome::Fail(failure) | Outcome::Other(failure) => {
                let group = (trial.variant, failure.signature.id);
                let known = self.arrived.entry(group);
                let arrived = known.or_insert_with(|| SignatureCounts::new(failure.kind.clone()));
                arrived.all += 1;
                arrived.measured += u64::from(trial.is_measured());
            }
            Outcome::Pass => {}
        }
        let ended = TrialFacts::new(&self.plan, &trial, seen, outcome);
        self.open.insert(id, OpenTrial::Finished(trial, ended));
    }

    /// Marks a variant as not testable. A variant that is not in the plan comes from a damaged file.
    fn give_up(&mut self, variant: VariantId, why: String) {
        if variant.index() < self.variants.len() {
            self.untestable.entry(variant).or_insert(why);
            self.update_memory(|memory, state| memory.give_up(state, variant));
            self.abandon_retries();
        }
    }

    /// Drops retries of variants that are no longer launched: later trials would wait for them forever.
    fn abandon_retries(&mut self) {
        let untestable = &self.untestable;
        for (id, open) in &mut self.open {
            if let OpenTrial::Again(trial, _) = open
                && untestable.contains_key(&trial.variant)
            {
                self.variants[trial.variant.index()]
                    .counted_for(trial)
                    .pending -= 1;
                let nothing = Observation::default();
                let outcome = Outcome::Void(InconclusiveReason::Interrupted);
                let ended = TrialFacts::new(&self.plan, trial, &nothing, outcome);
                self.again.remove(id);
                *open = OpenTrial::Finished(trial.clone(), ended);
            }
        }
    }

    /// Moves finished trials into the tally, in launch order, until the decision.
    fn advance_tally(&mut self, decided: impl Fn(&Self) -> bool) {
        // If no variant is testable, the run is interrupted instead of decided.
        let decided = |state: &Self| state.any_testable() && decided(state);
        while !self.decided
            && let Some(first) = self.open.first_entry()
            && matches!(first.get(), OpenTrial::Finished(..))
            && let OpenTrial::Finished(trial, ended) = first.remove()
        {
            self.lost_streak = match ended.outcome {
                Outcome::Void(InconclusiveReason::Lost) => self.lost_streak + 1,
                _ => 0,
            };
            let counted = self.variants[trial.variant.index()].counted_for(&trial);
            match ended.outcome {
                Outcome::Void(InconclusiveReason::Warmup) => {}
                Outcome::Void(_) => {
                    counted.in_vain += 1;
                    self.void_streak += 1;
                }
                _ => {
                    counted.pending -= 1;
                    counted.in_vain = 0;
                    self.void_streak = 0;
                }
            }
            counted.tally.add_trial(trial.id, &ended);
            if let Some(raise) = self.raise.as_mut().filter(|_| trial.is_measured()) {
                raise.add_trial(trial.variant, &ended);
            }
            if trial.explores {
                self.update_memory(|memory, state| memory.add_held_trial(state, &trial, &ended));
            }
            if trial.is_measured() {
                self.update_memory(|memory, state| {
                    memory.add_trial(state, &trial, &ended.outcome, ended.elapsed);
                });
                if matches!(ended.outcome, Outcome::Fail(_)) && self.first_failure.is_none() {
                    let tallies = self.variants.iter().map(|one| &one.measured.tally);
                    self.first_failure = Some(FirstFailure {
                        variant: trial.variant,
                        passes: tallies.map(|tally| tally.passes).collect(),
                    });
                }
            }
            if let Some(around) = ended.around.filter(|_| trial.is_measured()) {
                self.around.add_point(trial.id, around);
            }
            self.last_counted = trial.id;
            self.decided = decided(self);
        }
        if self.decided {
            let finished = |open: &OpenTrial| matches!(open, OpenTrial::Finished(..));
            let late = self.open.values().filter(|open| finished(open)).count() as u64;
            self.after_decision += late;
            self.open.retain(|_, open| !finished(open));
        }
    }

    fn add_note(&mut self, text: &str) {
        if let Some((_, count)) = self.notes.iter_mut().find(|(known, _)| known == text) {
            *count += 1;
        } else if self.notes.len() < NOTES {
            self.notes.push((text.to_owned(), 1));
        }
    }

    /// Returns the tally of a variant: all its trials before the first open trial.
    pub fn tally_of(&self, variant: VariantId) -> &Tally {
        &self.variants[variant.index()].measured.tally
    }

    /// Returns the tally of the captured trials of a variant.
    pub fn captured_tally(&self, variant: VariantId) -> &Tally {
        &self.variants[variant.index()].captured.tally
    }

    /// Returns the tally of the trials of a variant in which threads were held to find a schedule.
    pub fn held_tally(&self, variant: VariantId) -> &Tally {
        &self.variants[variant.index()].held.tally
    }

    /// Returns every variant with its tally.
    pub fn all_tallies(&self) -> impl Iterator<Item = (VariantId, &Tally)> {
        (0..)
            .map(VariantId)
            .zip(self.variants.iter().map(|variant| &variant.measured.tally))
    }

    /// Returns whether a variant is testable.
    pub fn is_testable(&self, variant: VariantId) -> bool {
        !self.untestable.contains_key(&variant)
    }

    /// Returns whether a variant can be tried without preparation.
    pub fn is_ready(&self, variant: VariantId) -> bool {
        let variant = self.runs_as(variant);
        !self.plan.variant_plan(variant).is_made() || self.variants[variant.index()].made
    }

    /// Returns the variant in whose directory this one runs: for a setting, the failing variant.
    pub fn runs_as(&self, variant: VariantId) -> VariantId {
        match self.plan.variant_plan(variant).setting {
            Some(_) => Self::FAILING,
            None => variant,
        }
    }

    /// Returns the number of trials of a variant that run, or have ended and are not counted yet.
    pub fn in_flight(&self, variant: VariantId) -> u64 {
        self.variants[variant.index()].measured.pending
    }

    /// Returns the variants that show nothing but other failures: a search learns nothing from such a variant and would
    /// choose it forever.
    pub fn failing_otherwise(&self) -> impl Iterator<Item = VariantId> {
        let searched = self.plan.space.is_some() || self.plan.question.as_ramp().is_some();
        let useless = |tally: &Tally| match tally.counted_trials() {
            0 => tally.other >= ONLY_OTHERS,
            some => tally.other >= OTHERS.max(2 * some),
        };
        let all = self
            .all_tallies()
            .filter(move |_| searched && !self.capturing);
        let those = all.filter(move |(id, tally)| useless(tally) && self.is_testable(*id));
        those.map(|(id, _)| id)
    }

    /// Returns whether any variant is testable.
    pub fn any_testable(&self) -> bool {
        self.untestable.len() < self.variants.len()
    }

    /// Returns for every variant the number of its consecutive inconclusive trials, in launch order, and whether any of
    /// them requested to be skipped. Trials that wait for a trial of another variant, which may take long, are
    /// included.
    pub fn in_vain(&self) -> Vec<(u64, bool)> {
        let counted = self.variants.iter().map(|variant| {
            let CountedTrials { tally, in_vain, .. } = &variant.measured;
            (
                *in_vain,
                tally.void.contains_key(&InconclusiveReason::Skipped),
            )
        });
        let mut all: Vec<(u64, bool)> = counted.collect();
        let mut known = vec![true; all.len()];
        for open in self.open.values() {
            let (OpenTrial::Running(trial, _)
            | OpenTrial::Again(trial, _)
            | OpenTrial::Finished(trial, _)) = open;
            let known = &mut known[trial.variant.index()];
            let (streak, skipped) = &mut all[trial.variant.index()];
            match open {
                OpenTrial::Finished(_, ended) if *known => match ended.outcome {
                    Outcome::Void(InconclusiveReason::Warmup) => {}
                    Outcome::Void(void) => {
                        *streak += 1;
                        *skipped |= void == InconclusiveReason::Skipped;
                    }
                    _ => *streak = 0,
                },
                _ => *known = false,
            }
        }
        all
    }

    /// Returns whether trials may influence each other, because processes that `setup` started were still running after
    /// the last trial.
    pub fn shares_a_life(&self) -> bool {
        let ends = self.around.first_and_last();
        ends.is_some_and(|(_, last)| last.processes > 0)
    }

    /// Returns the number of trials of a variant that are counted or may still be counted.
    pub fn expected_trials(&self, variant: VariantId) -> u64 {
        let CountedTrials { tally, pending, .. } = &self.variants[variant.index()].measured;
        tally.finished_trials() + pending
    }

    /// Returns the number of trials of a variant that were ever launched.
    pub fn launched_trials(&self, variant: VariantId) -> u64 {
        self.variants[variant.index()].measured.launched
    }

    /// Returns the number of captured trials of a variant that are counted or may still be counted.
    pub fn captures_underway(&self, variant: VariantId) -> u64 {
        let CountedTrials { tally, pending, .. } = &self.variants[variant.index()].captured;
        tally.finished_trials() + pending
    }

    /// Returns what is done with the threads of the exploring trials that are not counted yet.
    pub fn open_holds(&self) -> impl Iterator<Item = &HoldPlan> {
        let open = self.open.values().map(|open| match open {
            OpenTrial::Running(trial, _)
            | OpenTrial::Again(trial, _)
            | OpenTrial::Finished(trial, _) => trial,
        });
        open.filter(|trial| trial.explores)
            .filter_map(|trial| trial.hold.as_deref())
    }

    /// Returns the trials that run now.
    pub fn running_trials(&self) -> impl Iterator<Item = &Trial> {
        self.open.values().filter_map(|open| match open {
            OpenTrial::Running(trial, _) => Some(trial),
            _ => None,
        })
    }

    /// Returns the mean time per trial in which the program does not run.
    pub fn mean_overhead(&self) -> Duration {
        self.overhead.per_trial(self.plan.jobs)
    }

    /// Returns whether any launched trial is not counted yet.
    pub fn has_open_trials(&self) -> bool {
        !self.open.is_empty()
    }

    /// Returns the finished trials that wait for one launched before them.
    pub fn waiting_trials(&self) -> impl Iterator<Item = (TrialId, &Outcome)> {
        self.open.iter().filter_map(|(id, open)| match open {
            OpenTrial::Finished(_, ended) => Some((*id, &ended.outcome)),
            _ => None,
        })
    }

    /// Returns the first trial that must be retried under its old number.
    pub fn to_repeat(&self) -> Option<&Trial> {
        match self.open.get(self.again.first()?) {
            Some(OpenTrial::Again(trial, _)) => Some(trial),
            _ => None,
        }
    }

    /// Returns the number of the next new trial.
    pub fn next_id(&self) -> TrialId {
        TrialId(self.launched.saturating_add(1))
    }

    /// Returns the number of failures with this signature so far, whether counted or not.
    pub fn arrived_failures(&self, variant: VariantId, signature: SignatureId) -> u64 {
        let known = self.arrived.get(&(variant, signature));
        known.map_or(0, |arrived| arrived.all)
    }

    /// Returns every kind of failure that measured trials have shown so far, in any order, with its number.
    pub fn arrivals_by_kind(&self) -> impl Iterator<Item = (&FailureKind, u64)> {
        let measured = self
            .arrived
            .values()
            .map(|arrived| (&arrived.kind, arrived.measured));
        measured.filter(|(_, count)| *count > 0)
    }

    /// Returns how many trials of the measurement have finished conclusively so far, in any order.
    pub fn completed_trials(&self) -> u64 {
        let waiting = self.open.values().filter(|open| match open {
            OpenTrial::Finished(trial, ended) => {
                trial.is_measured() && !matches!(ended.outcome, Outcome::Void(_))
            }
            _ => false,
        });
        self.variants
            .iter()
            .map(|variant| variant.measured.tally.finished_trials())
            .sum::<u64>()
            + waiting.count() as u64
    }

    /// Returns the number of inconclusive trials.
    pub fn inconclusive_trials(&self) -> u64 {
        self.variants
            .iter()
            .map(|variant| variant.measured.tally.void_total())
            .sum()
    }
}

impl TrialFacts {
    fn new(plan: &Plan, trial: &Trial, seen: &Observation, outcome: Outcome) -> Self {
        use crate::model::{ActorRole, Ending};
        let actors = &plan.variant_plan(trial.variant).actors;
        let helper_ended_early = seen.actors.iter().any(|actor| {
            let helper = actors
                .get(actor.actor as usize)
                .is_some_and(|plan| plan.role == ActorRole::Helper);
            helper && actor.ending != Ending::Stopped
        });
        Self {
            outcome,
            elapsed: seen.elapsed,
            holds: seen.holds.clone(),
            leaked: (
                seen.residue.process_count(),
                seen.residue.objects.len() as u64,
            ),
            unkillable: seen.residue.unkillable.len() as u64,
            settled: !seen.residue.settled.is_zero(),
            helper_ended_early,
            around: seen.around,
            load: seen.load.clone(),
        }
    }
}
