//! State of a run: the fold of its events, and nothing else.
//!
//! Live run, resumption and report are the same fold fed from different places.
//!
//! **Outcomes count in launch order.** A trial that has finished waits here until every trial launched
//! before it has finished too, and only then enters the [`Tally`]. Policies and statistics see that
//! gap-free prefix. Failures often last longer (a hang) or shorter (a crash at the start) than passes,
//! so the trials that happen to *finish* first are a biased sample: with 5 % of hangs that take 100
//! times longer and eight slots, "stop at the 100th completion" reports 0.7 % on average.
//! `docs/design/launch-order.md` has the measurements.

mod contrast;
mod features;
mod load;
mod overhead;
mod pause;
mod raise;
mod ramp;
mod search;
mod series;
mod tally;

pub use contrast::Contrast;
pub use load::Lives;
pub use raise::{Raise, Tried, TriedOutcome};
pub use search::{EarlierUse, Reproduced};
pub use series::Series;
pub use tally::{Group, Tally, Times};

use crate::model::{
    Around, Choice, Event, Host, Kind, Level, Limits, LoadSeen, Observation, Outcome, Plan,
    Question, SignatureId, StopCause, Survey, Trial, TrialId, VariantId, VariantPlan, Void,
};
use provoke_stats::ramp::Ramp;
use provoke_stats::search::{Bisection, Reduction, Screen};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// A trial whose lane was lost is tried again this often under the same number.
const ATTEMPTS: u32 = 2;
/// So many trials of a place that is searched may fail otherwise in any case, before it is given up.
const OTHERS: u64 = 20;
/// The same where not one trial ended in another way.
const ONLY_OTHERS: u64 = 5;
/// Notes that are remembered; the journal has all of them.
const NOTES: usize = 20;

/// True when a trial is run again under its number after it ended like this, in its so many-th attempt.
pub(crate) fn is_repeated(outcome: &Outcome, attempts: u32) -> bool {
    match outcome {
        Outcome::Void(Void::Interrupted) => true,
        Outcome::Void(Void::Lost) => attempts < ATTEMPTS,
        _ => false,
    }
}

/// Takes every event, after the state has.
pub trait Sink {
    /// Takes an event.
    fn event(&mut self, event: &Event, state: &State);

    /// Is called before the loop waits: the moment to write out and to redraw.
    fn settle(&mut self, _state: &State) {}

    /// Is called now and then.
    fn tick(&mut self, _state: &State) {}
}

/// The moment at which it was known that something fails at all.
#[derive(Debug)]
pub struct FirstFailure {
    /// What failed.
    pub variant: VariantId,
    /// How often each variant had passed until then.
    pub passes: Vec<u64>,
}

/// What is known of a run.
#[derive(Debug)]
pub struct State {
    /// What was asked for.
    pub plan: Plan,
    /// The version of the program that made the run.
    pub version: String,
    /// The run's name.
    pub run: String,
    /// The machine.
    pub host: Host,
    /// What else about it may make a difference.
    pub survey: Survey,
    /// When it was begun, in seconds since 1970.
    pub begun: i64,
    /// Working time so far.
    pub worked: Duration,
    /// The time budget is spent.
    pub budget_spent: bool,
    /// Why it was broken off, if it was and has not been resumed.
    pub stopped: Option<StopCause>,
    /// The run is over.
    pub finished: bool,
    /// The policy knows its answer: what ends from here on is not counted.
    pub decided: bool,
    /// The measurement is over or paused, and extra trials catch evidence.
    pub capturing: bool,
    /// Trials that ended after the decision, and say nothing about it.
    pub after_decision: u64,
    /// The last trial that entered the tally: all before it did, and none after it.
    pub last_counted: TrialId,
    /// Warnings, with how often each came.
    pub notes: Vec<(String, u64)>,
    /// Trials in a row, in launch order, that said nothing.
    pub void_streak: u64,
    /// Trials in a row, in launch order, whose slot was lost.
    pub lost_streak: u64,
    /// Why the last life of a service said nothing.
    pub last_void: Option<String>,
    /// Attempts that were interrupted or lost, and are made up for.
    pub repeated: u64,
    /// Trials that ran unusually long when the run was stopped. They do not count.
    pub late: Vec<(Trial, Box<Observation>)>,
    /// How large what `setup` left running was, since it last ran: a resumption runs it again.
    pub around: Series,
    /// Variants that cannot be tried, and why.
    pub untestable: BTreeMap<VariantId, String>,
    /// The variants that were chosen, of a search.
    pub chosen: BTreeMap<Choice, VariantId>,
    /// Variants that are being made.
    pub making: BTreeSet<VariantId>,
    /// The places of a list whose artifacts are known, by the name of those.
    builds: BTreeMap<String, Vec<usize>>,
    /// How many variants were made, and how long that took.
    pub made: (u64, Duration),
    /// The variant that was launched last.
    pub last_launched: Option<VariantId>,
    overhead: overhead::Overhead,
    /// The measurement, while it is paused.
    paused: Option<pause::Paused>,
    /// What is set against what, where rates are compared.
    pub contrasts: Vec<Contrast>,
    /// What is known of an ordered list, where its first that fails is searched.
    pub search: Option<Bisection>,
    /// The features of the failures of that search.
    features: features::FeaturesSeen,
    /// Whether earlier runs count for what fails, of a search.
    pub earlier_use: EarlierUse,
    /// What is known of the levels of load, where the first that fails is searched.
    pub ramp: Option<Ramp>,
    /// The settings that are tried before a search, and what was seen under them.
    pub raise: Option<Raise>,
    /// Which things can be left out at all, once everything together has failed often enough.
    pub screen: Option<Screen>,
    /// What is known of a set of things, where the smallest that fails is searched, and everything
    /// together has failed often enough.
    pub reduction: Option<Reduction>,
    /// The first failure of any variant, in launch order.
    pub first_failure: Option<FirstFailure>,
    variants: Vec<Variant>,
    /// Everything from the first trial that is not counted yet.
    open: BTreeMap<TrialId, Open>,
    /// Those of them that are to be run again: `open` may be long behind a trial that hangs.
    again: BTreeSet<TrialId>,
    launched: u64,
    /// Failures so far in the order they came, for what is shown live and kept.
    arrived: BTreeMap<(VariantId, SignatureId), Arrived>,
}

#[derive(Debug, Default)]
struct Variant {
    measured: Counted,
    /// Trials that were run to catch evidence: another setting, so another rate.
    captured: Counted,
    /// It is made, if it needs to be.
    made: bool,
}

#[derive(Debug, Default)]
struct Counted {
    tally: Tally,
    /// Launched, not counted yet, and not known to be void.
    pending: u64,
    /// Ever launched, whatever came of it.
    launched: u64,
    /// Trials of it in a row, in launch order, that said nothing.
    in_vain: u64,
}

impl Variant {
    fn new(lanes: u32) -> Self {
        let counted = || Counted {
            tally: Tally::new(lanes),
            ..Counted::default()
        };
        Self {
            measured: counted(),
            captured: counted(),
            made: false,
        }
    }

    fn of(&mut self, trial: &Trial) -> &mut Counted {
        if trial.capture {
            &mut self.captured
        } else {
            &mut self.measured
        }
    }
}

#[derive(Debug)]
enum Open {
    Running(Trial, u32),
    /// To be run again under the same number, after so many attempts.
    Again(Trial, u32),
    Finished(Trial, Ended),
}

/// Failures of one signature in the order in which they came.
#[derive(Debug)]
struct Arrived {
    kind: Kind,
    /// Failures of all trials.
    all: u64,
    /// Failures of the measurement.
    measured: u64,
}

impl Arrived {
    fn new(kind: Kind) -> Self {
        Self {
            kind,
            all: 0,
            measured: 0,
        }
    }
}

/// What the tally takes from an observation.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) outcome: Outcome,
    pub(crate) elapsed: Duration,
    /// Processes, and objects of an engine, that were left behind.
    pub(crate) leaked: (u64, u64),
    pub(crate) unkillable: u64,
    pub(crate) settled: bool,
    pub(crate) helper_ended_early: bool,
    pub(crate) around: Option<Around>,
    pub(crate) load: Option<Box<LoadSeen>>,
}

impl State {
    /// Starts the fold with the first event of a journal; nothing for any other event.
    pub fn begin(event: Event) -> Option<Self> {
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
        let new = |variant: &VariantPlan| Variant::new(plan.jobs_of(variant));
        let choices = plan.variants.iter().map(|variant| variant.choice.clone());
        let chosen = choices.zip((0..).map(VariantId));
        Some(Self {
            variants: plan.variants.iter().map(new).collect(),
            contrasts: contrast::contrasts(&plan),
            chosen: chosen
                .filter_map(|(choice, id)| Some((choice?, id)))
                .collect(),
            making: BTreeSet::new(),
            search: search::bisection(&plan),
            features: features::FeaturesSeen::default(),
            earlier_use: search::earlier_use(&plan),
            ramp: ramp::ramp(&plan),
            raise: Raise::new(&plan),
            screen: None,
            reduction: None,
            first_failure: None,
            builds: BTreeMap::new(),
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
            around: Series::default(),
            untestable: BTreeMap::new(),
            open: BTreeMap::new(),
            again: BTreeSet::new(),
            launched: 0,
            arrived: BTreeMap::new(),
        })
    }

    /// Takes in the next event. `decided` is asked after every single trial that
    /// enters the tally, so that not one is counted beyond the decision.
    pub fn apply(&mut self, event: &Event, decided: impl Fn(&Self) -> bool) {
        match event {
            Event::TrialStarted(trial) => self.started(trial.clone()),
            Event::TrialFinished {
                trial,
                at,
                seen,
                outcome,
            } => {
                let took = at.saturating_sub(self.worked);
                self.worked = *at;
                self.spend(*trial, took);
                if !self.capturing {
                    self.overhead.add(took, seen.elapsed);
                }
                self.ended(*trial, seen, outcome.clone());
                self.advance(decided);
            }
            Event::CaptureBegun { at } => {
                self.worked = *at;
                if self.decided || self.budget_spent {
                    let finished = |open: &&Open| matches!(open, Open::Finished(..));
                    self.after_decision += self.open.values().filter(finished).count() as u64;
                    self.open.clear();
                    self.again.clear();
                } else {
                    self.pause();
                }
                (self.capturing, self.decided) = (true, false);
            }
            Event::VariantChosen(choice) => self.choose(choice),
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
                self.identify(*variant, build.as_deref());
            }
            Event::VariantUntestable { variant, why, at } => {
                self.worked = *at;
                self.making.remove(variant);
                self.give_up(*variant, why.clone());
                self.decided = self.decided || self.any_testable() && decided(self);
                self.advance(decided);
            }
            Event::BudgetSpent { at } => {
                self.worked = *at;
                self.budget_spent = true;
            }
            Event::Note {
                level: Level::Warning,
                text,
            } => self.note(text),
            // The one began the fold; the other is good to know while it happens.
            Event::RunStarted { .. }
            | Event::Note {
                level: Level::Info, ..
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
                    // What its `setup` left running is gone.
                    variant.made = false;
                }
                // What kept every single one from being tried may be out of the way now.
                if !self.any_testable() {
                    self.untestable.clear();
                    self.search = search::bisection(&self.plan);
                    self.features = features::FeaturesSeen::default();
                    self.search_with_earlier();
                    self.ramp = ramp::ramp(&self.plan);
                }
                self.around = Series::default();
                for (id, open) in &mut self.open {
                    match open {
                        Open::Running(trial, attempts) => {
                            self.repeated += 1;
                            self.again.insert(*id);
                            *open = Open::Again(trial.clone(), *attempts);
                        }
                        Open::Finished(_, ended) => ended.around = None,
                        Open::Again(..) => {}
                    }
                }
                self.abandon();
            }
            Event::RunFinished { at } => {
                self.worked = *at;
                self.finished = true;
            }
        }
    }

    /// Reopens the question under other limits.
    fn change_limits(&mut self, limits: &Limits) {
        self.plan.stop.change(limits);
        if let Question::Confirm(asked) = &mut self.plan.question
            && limits.exclude_half
        {
            asked.exclude_half = Some(true);
        }
        self.finished = false;
        self.budget_spent = false;
        self.decided = false;
        self.capturing = false;
    }

    /// Adds a variant of the plan's space. One that is not in it, or is there, comes from a
    /// damaged file.
    fn choose(&mut self, choice: &Choice) {
        let space = self.plan.space.as_ref();
        let space = space.filter(|space| space.has(choice) && !self.chosen.contains_key(choice));
        let Some(variant) = space.map(|space| space.variant(choice)) else {
            return;
        };
        let id = VariantId(u32::try_from(self.variants.len()).unwrap_or(u32::MAX));
        self.plan.variants.push(variant);
        self.variants.push(Variant::new(self.plan.jobs));
        self.chosen.insert(choice.clone(), id);
    }

    /// Adds time to the setting of a trial, while settings are tried one after another.
    fn spend(&mut self, trial: TrialId, time: Duration) {
        if let Some(Open::Running(trial, _)) = self.open.get(&trial)
            && let Some(raise) = &mut self.raise
        {
            raise.add_time(trial.variant, time);
        }
    }

    /// Begins the search under the setting of a variant. Trials under the conditions of the plan count in a search under
    /// these conditions. Trials under a setting never count, because it was chosen for its failures.
    fn use_setting(&mut self, variant: VariantId) {
        let Some(raise) = self.raise.as_mut().filter(|raise| raise.chosen.is_none()) else {
            return;
        };
        let Some(setting) = self.plan.settings().find(|(id, _)| *id == variant) else {
            return;
        };
        raise.chosen = Some(variant);
        let natural = raise.natural().variant;
        self.plan.use_setting(setting.1);
        let made = self.variants[Self::FAILING.index()].made;
        let begun = if variant == natural {
            std::mem::take(&mut self.variants[natural.index()])
        } else {
            Variant::new(self.plan.jobs)
        };
        self.variants[Self::FAILING.index()] = Variant { made, ..begun };
        if variant == natural {
            if let Some(why) = self.untestable.remove(&natural) {
                self.give_up(Self::FAILING, why);
            }
            self.learn_reproduction();
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

    fn started(&mut self, trial: Trial) {
        // What no plan of ours asks for comes from a damaged file.
        if trial.id.0 == 0 || trial.variant.index() >= self.variants.len() {
            return;
        }
        if trial.id.0 > self.launched {
            self.launched = trial.id.0;
            self.last_launched = Some(trial.variant);
        }
        let attempts = match self.open.get(&trial.id) {
            Some(Open::Again(_, attempts) | Open::Running(_, attempts)) => *attempts,
            Some(Open::Finished(..)) => return,
            None => {
                let counted = self.variants[trial.variant.index()].of(&trial);
                counted.pending += 1;
                counted.launched += 1;
                0
            }
        };
        self.again.remove(&trial.id);
        self.open
            .insert(trial.id, Open::Running(trial, attempts + 1));
    }

    fn ended(&mut self, id: TrialId, seen: &Observation, outcome: Outcome) {
        if let Outcome::Void(Void::NotReady) = outcome {
            self.last_void = seen.not_ready();
        }
        let Some(Open::Running(trial, attempts)) = self.open.get(&id) else {
            return;
        };
        let (trial, attempts) = (trial.clone(), *attempts);
        if outcome == Outcome::Void(Void::Interrupted) && seen.hang.is_some() {
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
            self.open.insert(id, Open::Again(trial, attempts));
            return;
        }
        match &outcome {
            Outcome::Void(_) => self.variants[trial.variant.index()].of(&trial).pending -= 1,
            Outcome::Fail(failure) | Outcome::Other(failure) => {
                let group = (trial.variant, failure.signature.id);
                let known = self.arrived.entry(group);
                let arrived = known.or_insert_with(|| Arrived::new(failure.kind.clone()));
                arrived.all += 1;
                arrived.measured += u64::from(!trial.capture);
            }
            Outcome::Pass => {}
        }
        let ended = Ended::new(&self.plan, &trial, seen, outcome);
        self.open.insert(id, Open::Finished(trial, ended));
    }

    /// Notes that a variant cannot be tried. One that is not in the plan comes from a
    /// damaged file.
    fn give_up(&mut self, variant: VariantId, why: String) {
        if variant.index() < self.variants.len() {
            self.untestable.entry(variant).or_insert(why);
            self.forget(variant);
            self.abandon();
        }
    }

    /// Lets go of trials to be run again of which nothing is launched any more: those after
    /// them would wait for ever.
    fn abandon(&mut self) {
        let untestable = &self.untestable;
        for (id, open) in &mut self.open {
            if let Open::Again(trial, _) = open
                && untestable.contains_key(&trial.variant)
            {
                self.variants[trial.variant.index()].of(trial).pending -= 1;
                let nothing = Observation::default();
                let outcome = Outcome::Void(Void::Interrupted);
                let ended = Ended::new(&self.plan, trial, &nothing, outcome);
                self.again.remove(id);
                *open = Open::Finished(trial.clone(), ended);
            }
        }
    }

    /// Moves what has finished into the tally, in launch order, until the decision.
    fn advance(&mut self, decided: impl Fn(&Self) -> bool) {
        // Where nothing can be tried, nothing is decided: the run is broken off.
        let decided = |state: &Self| state.any_testable() && decided(state);
        while !self.decided
            && let Some(first) = self.open.first_entry()
            && matches!(first.get(), Open::Finished(..))
            && let Open::Finished(trial, ended) = first.remove()
        {
            self.lost_streak = match ended.outcome {
                Outcome::Void(Void::Lost) => self.lost_streak + 1,
                _ => 0,
            };
            let counted = self.variants[trial.variant.index()].of(&trial);
            match ended.outcome {
                Outcome::Void(Void::Warmup) => {}
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
            counted.tally.add(trial.id, &ended);
            if let Some(raise) = self.raise.as_mut().filter(|_| !trial.capture) {
                raise.add(trial.variant, &ended);
            }
            let failed = match &ended.outcome {
                Outcome::Pass => Some(false),
                Outcome::Fail(_) => Some(true),
                Outcome::Other(_) | Outcome::Void(_) => None,
            };
            if failed.is_none() && !trial.capture && self.reduction.is_none() {
                self.screen(trial.variant, false);
            }
            if let Some(failed) = failed.filter(|_| !trial.capture) {
                let contrasts = self.contrasts.iter_mut();
                contrasts.for_each(|one| one.add(trial.variant, failed));
                self.learn(&trial, &ended);
                if failed && self.first_failure.is_none() {
                    let tallies = self.variants.iter().map(|one| &one.measured.tally);
                    self.first_failure = Some(FirstFailure {
                        variant: trial.variant,
                        passes: tallies.map(|tally| tally.passes).collect(),
                    });
                }
            }
            if let Some(around) = ended.around.filter(|_| !trial.capture) {
                self.around.add(trial.id, around);
            }
            self.last_counted = trial.id;
            self.decided = decided(self);
        }
        if self.decided {
            let finished = |open: &Open| matches!(open, Open::Finished(..));
            let late = self.open.values().filter(|open| finished(open)).count() as u64;
            self.after_decision += late;
            self.open.retain(|_, open| !finished(open));
        }
    }

    fn note(&mut self, text: &str) {
        if let Some((_, count)) = self.notes.iter_mut().find(|(known, _)| known == text) {
            *count += 1;
        } else if self.notes.len() < NOTES {
            self.notes.push((text.to_owned(), 1));
        }
    }

    /// Returns the tally of a variant: all trials up to the first one that is still open.
    pub fn tally(&self, variant: VariantId) -> &Tally {
        &self.variants[variant.index()].measured.tally
    }

    /// Returns the tally of those trials of a variant that were run to catch evidence.
    pub fn captured(&self, variant: VariantId) -> &Tally {
        &self.variants[variant.index()].captured.tally
    }

    /// Returns every variant with its tally.
    pub fn tallies(&self) -> impl Iterator<Item = (VariantId, &Tally)> {
        (0..)
            .map(VariantId)
            .zip(self.variants.iter().map(|variant| &variant.measured.tally))
    }

    /// True unless a variant cannot be tried.
    pub fn is_testable(&self, variant: VariantId) -> bool {
        !self.untestable.contains_key(&variant)
    }

    /// True when nothing must be done for a variant before it is tried.
    pub fn is_ready(&self, variant: VariantId) -> bool {
        let variant = self.runs_as(variant);
        !self.plan.variant(variant).is_made() || self.variants[variant.index()].made
    }

    /// Returns the variant whose folder this one runs in: under a setting, that of the failing variant.
    pub fn runs_as(&self, variant: VariantId) -> VariantId {
        match self.plan.variant(variant).setting {
            Some(_) => Self::FAILING,
            None => variant,
        }
    }

    /// Returns how many trials of a variant run, or have run and are not counted yet.
    pub fn in_flight(&self, variant: VariantId) -> u64 {
        self.variants[variant.index()].measured.pending
    }

    /// Returns the variants of which nothing but other failures comes: a search that learned
    /// nothing of one would choose it for ever.
    pub fn failing_otherwise(&self) -> impl Iterator<Item = VariantId> {
        let searched = self.plan.space.is_some() || self.ramp.is_some();
        let useless = |tally: &Tally| match tally.trials() {
            0 => tally.other >= ONLY_OTHERS,
            some => tally.other >= OTHERS.max(2 * some),
        };
        let all = self.tallies().filter(move |_| searched && !self.capturing);
        let those = all.filter(move |(id, tally)| useless(tally) && self.is_testable(*id));
        those.map(|(id, _)| id)
    }

    /// True while there is a variant that can be tried.
    pub fn any_testable(&self) -> bool {
        self.untestable.len() < self.variants.len()
    }

    /// Returns for every variant how many of its trials in a row, in launch order, said nothing,
    /// and whether any ever asked to be skipped. Those count here that wait for a trial of
    /// another variant, which may take long.
    pub fn in_vain(&self) -> Vec<(u64, bool)> {
        let counted = self.variants.iter().map(|variant| {
            let Counted { tally, in_vain, .. } = &variant.measured;
            (*in_vain, tally.void.contains_key(&Void::Skipped))
        });
        let mut all: Vec<(u64, bool)> = counted.collect();
        let mut known = vec![true; all.len()];
        for open in self.open.values() {
            let (Open::Running(trial, _) | Open::Again(trial, _) | Open::Finished(trial, _)) = open;
            let known = &mut known[trial.variant.index()];
            let (streak, skipped) = &mut all[trial.variant.index()];
            match open {
                Open::Finished(_, ended) if *known => match ended.outcome {
                    Outcome::Void(Void::Warmup) => {}
                    Outcome::Void(void) => {
                        *streak += 1;
                        *skipped |= void == Void::Skipped;
                    }
                    _ => *streak = 0,
                },
                _ => *known = false,
            }
        }
        all
    }

    /// True where trials may influence each other: something that `setup` started was alive
    /// after the last of them.
    pub fn shares_a_life(&self) -> bool {
        let ends = self.around.ends();
        ends.is_some_and(|(_, last)| last.processes > 0)
    }

    /// Returns how many trials of a variant are counted or may still come to count.
    pub fn underway(&self, variant: VariantId) -> u64 {
        let Counted { tally, pending, .. } = &self.variants[variant.index()].measured;
        tally.ran() + pending
    }

    /// Returns how many trials of a variant were ever launched.
    pub fn launched(&self, variant: VariantId) -> u64 {
        self.variants[variant.index()].measured.launched
    }

    /// Returns the same of trials that catch evidence.
    pub fn captures_underway(&self, variant: VariantId) -> u64 {
        let Counted { tally, pending, .. } = &self.variants[variant.index()].captured;
        tally.ran() + pending
    }

    /// Returns the trials that run now.
    pub fn running(&self) -> impl Iterator<Item = &Trial> {
        self.open.values().filter_map(|open| match open {
            Open::Running(trial, _) => Some(trial),
            _ => None,
        })
    }

    /// Returns the mean time per trial in which the program does not run.
    pub fn overhead(&self) -> Duration {
        self.overhead.per_trial(self.plan.jobs)
    }

    /// True while a trial is launched that is not counted yet.
    pub fn unsettled(&self) -> bool {
        !self.open.is_empty()
    }

    /// Returns the trials that have finished and wait for one launched before them.
    pub fn waiting(&self) -> impl Iterator<Item = (TrialId, &Outcome)> {
        self.open.iter().filter_map(|(id, open)| match open {
            Open::Finished(_, ended) => Some((*id, &ended.outcome)),
            _ => None,
        })
    }

    /// Returns the first trial that must be run again under its old number.
    pub fn to_repeat(&self) -> Option<&Trial> {
        match self.open.get(self.again.first()?) {
            Some(Open::Again(trial, _)) => Some(trial),
            _ => None,
        }
    }

    /// Returns the number that the next new trial gets.
    pub fn next_id(&self) -> TrialId {
        TrialId(self.launched.saturating_add(1))
    }

    /// Returns how many failures of this signature have come so far, in any order.
    pub fn arrived(&self, variant: VariantId, signature: SignatureId) -> u64 {
        let known = self.arrived.get(&(variant, signature));
        known.map_or(0, |arrived| arrived.all)
    }

    /// Returns every kind of failure that measured trials have shown so far, in any order, with its number.
    pub fn arrivals(&self) -> impl Iterator<Item = (&Kind, u64)> {
        let measured = self
            .arrived
            .values()
            .map(|arrived| (&arrived.kind, arrived.measured));
        measured.filter(|(_, count)| *count > 0)
    }

    /// Returns how many trials of the measurement have finished conclusively so far, in any order.
    pub fn completed(&self) -> u64 {
        let waiting = self.open.values().filter(|open| match open {
            Open::Finished(trial, ended) => {
                !trial.capture && !matches!(ended.outcome, Outcome::Void(_))
            }
            _ => false,
        });
        self.variants
            .iter()
            .map(|variant| variant.measured.tally.ran())
            .sum::<u64>()
            + waiting.count() as u64
    }

    /// Returns how many trials said nothing.
    pub fn void(&self) -> u64 {
        self.variants
            .iter()
            .map(|variant| variant.measured.tally.void_total())
            .sum()
    }
}

impl Ended {
    fn new(plan: &Plan, trial: &Trial, seen: &Observation, outcome: Outcome) -> Self {
        use crate::model::{Ending, Role};
        let actors = &plan.variant(trial.variant).actors;
        let helper_ended_early = seen.actors.iter().any(|actor| {
            let helper = actors
                .get(actor.actor as usize)
                .is_some_and(|plan| plan.role == Role::Helper);
            helper && actor.ending != Ending::Stopped
        });
        Self {
            outcome,
            elapsed: seen.elapsed,
            leaked: (seen.residue.processes(), seen.residue.objects.len() as u64),
            unkillable: seen.residue.unkillable.len() as u64,
            settled: !seen.residue.settled.is_zero(),
            helper_ended_early,
            around: seen.around,
            load: seen.load.clone(),
        }
    }
}
