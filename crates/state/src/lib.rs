//! State of a run, which is the fold of its events.
//!
//! Live runs, resumed runs and reports compute the same fold from different sources of events.
//!
//! **Outcomes count in launch order.** A finished trial waits here until every trial launched before it has finished
//! too, and only then enters the [`Tally`]. Policies and statistics see that gap-free prefix. Failures often last
//! longer (a hang) or shorter (a crash at the start) than passes, so the trials that happen to *finish* first are a
//! biased sample: with 5 % of hangs that take 100 times longer and eight slots, "stop at the 100th completion" reports
//! 0.7 % on average. `docs/design/launch-order.md` has the measurements.

mod cases;
mod choices;
mod counts;
mod early_trials;
mod environment;
mod fold;
mod hosts;
mod load;
mod memory;
mod open_trials;
mod overhead;
mod pause;
mod raise;
mod repeated_trials;
mod series;
mod stage;
mod tally;
mod trial_facts;
mod trial_queue;

pub use cases::{CaseCounts, CaseNames, SuiteCounts, TrialOrder};
pub use counts::IsolatedCounts;
pub use fold::Fold;
pub use hosts::{HostCounts, HostState, Hosts};
pub use load::RequestTotals;
pub use memory::Memory;
pub use raise::{TriedOutcome, TriedSetting, TriedSettings};
pub use repeated_trials::is_repeated;
pub use series::{RateSeries, UsageSeries};
pub use stage::RunStage;
pub use tally::{DurationHistogram, SignatureFailures, Tally};
pub use trial_facts::TrialFacts;

use counts::{SignatureCounts, VariantState};
use provoke_model::{
    Event, FailureKind, Goal, Host, HostPlan, NoteLevel, Observation, Outcome, Plan, ResumeLimits,
    SignatureId, StopCause, StopLimits, Survey, Trial, TrialId, TrialsPlan, VariantChoice,
    VariantId, VariantPlan,
};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use trial_queue::{OpenTrial, TrialQueue};

/// Maximum number of stored notes; the journal has all of them.
const NOTES: usize = 20;
/// Maximum number of characters of a stored note: that of a hostile host or journal may have any length.
const LONGEST_NOTE: usize = 4096;

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

/// Where and when a run began.
#[derive(Debug)]
pub struct RunOrigin {
    /// The version of provoke.
    pub version: String,
    /// Name of the run.
    pub run: String,
    /// The machine.
    pub host: Host,
    /// Further facts of the environment.
    pub survey: Survey,
    /// Seconds since 1970.
    pub started_at: i64,
}

/// Trials that gave no result.
#[derive(Debug, Default)]
pub struct InconclusiveTrials {
    /// Consecutive ones, in launch order.
    pub streak: u64,
    /// Consecutive ones whose slot was lost, in launch order.
    pub lost_streak: u64,
    /// Why the last trial of a service was inconclusive.
    pub last_reason: Option<String>,
    /// Number of attempts that were interrupted or lost, and retried.
    pub repeated: u64,
    /// Trials that ran unusually long when the run was stopped. They do not count.
    pub late: Vec<(Trial, Box<Observation>)>,
}

/// Preparations of variants.
#[derive(Debug, Default)]
pub struct PreparationState {
    /// Variants in preparation.
    pub running: BTreeSet<VariantId>,
    /// Number of prepared variants, and the total duration.
    pub made: (u64, Duration),
}

/// State of a run.
#[derive(Debug)]
pub struct State {
    /// The question, and the expected result.
    pub goal: Goal,
    /// When it stops. Other limits can be given when it is resumed.
    pub stop: StopLimits,
    /// How its trials run now: with the variants that a search chose, on the hosts of the last resumption.
    pub trials: TrialsPlan,
    /// Where it began.
    pub origin: RunOrigin,
    /// Working time so far.
    pub worked: Duration,
    /// The stage of the run.
    pub stage: RunStage,
    /// Trials that ended after the decision; they are not counted.
    pub after_decision: u64,
    /// The last trial that entered the tally: all before it did, and none after it.
    pub last_counted: TrialId,
    /// Warnings, with the number of occurrences.
    pub notes: Vec<(String, u64)>,
    /// Trials without a result.
    pub inconclusive: InconclusiveTrials,
    /// Size of the processes that `setup` left running, since `setup` last ran: a resumption runs it again.
    pub usage: UsageSeries,
    /// Variants that are not testable, with the reasons.
    pub untestable: BTreeMap<VariantId, String>,
    /// In a search, the variant of each choice.
    pub chosen: BTreeMap<VariantChoice, VariantId>,
    /// Preparations of variants.
    pub preparation: PreparationState,
    overhead: overhead::Overhead,
    /// The hosts on which trials run.
    pub hosts: Hosts,
    /// What the question has learned.
    memory: Box<dyn Memory>,
    /// The settings that are tried before a search, with their trials.
    pub raise: Option<TriedSettings>,
    /// The first failure of any variant, in launch order.
    pub first_failure: Option<FirstFailure>,
    variants: Vec<VariantState>,
    queue: TrialQueue,
    /// The cases of the trials.
    pub case_names: CaseNames,
    /// Failures in the order in which they ended, for the live display and for evidence.
    arrived: BTreeMap<(VariantId, SignatureId), SignatureCounts>,
    /// The trials in which a case ran alone, by its number.
    isolated_cases: BTreeMap<(VariantId, u32), IsolatedCounts>,
}

impl State {
    /// Starts the fold with the first event of a journal, and the memory of the plan's question; returns `None` for any
    /// other event.
    pub fn begin_fold(
        event: Event,
        memory: fn(&Goal, &TrialsPlan) -> Box<dyn Memory>,
    ) -> Option<Self> {
        let Event::RunStarted {
            plan,
            version,
            run,
            host,
            survey,
            at: time,
            ..
        } = event
        else {
            return None;
        };
        if !plan.is_sound() {
            return None;
        }
        let Plan { goal, stop, trials } = *plan;
        let begin_variant = |variant: &VariantPlan| VariantState::new(trials.jobs_of(variant));
        let choices = trials.variants.iter().map(|variant| variant.choice.clone());
        let chosen = choices.zip((0..).map(VariantId));
        Some(Self {
            variants: trials.variants.iter().map(begin_variant).collect(),
            memory: memory(&goal, &trials),
            chosen: chosen
                .filter_map(|(choice, id)| Some((choice?, id)))
                .collect(),
            raise: TriedSettings::new(&trials),
            first_failure: None,
            overhead: overhead::Overhead::default(),
            origin: RunOrigin {
                version,
                run,
                host,
                survey,
                started_at: time,
            },
            inconclusive: InconclusiveTrials::default(),
            preparation: PreparationState::default(),
            queue: TrialQueue::default(),
            hosts: Hosts::default(),
            goal,
            stop,
            trials,
            worked: Duration::ZERO,
            stage: RunStage::default(),
            after_decision: 0,
            last_counted: TrialId(0),
            notes: Vec::new(),
            usage: UsageSeries::default(),
            untestable: BTreeMap::new(),
            case_names: CaseNames::default(),
            arrived: BTreeMap::new(),
            isolated_cases: BTreeMap::new(),
        })
    }

    /// Returns a plan with which the run would go on.
    pub fn plan(&self) -> Plan {
        Plan {
            goal: self.goal.clone(),
            stop: self.stop.clone(),
            trials: self.trials.clone(),
        }
    }

    /// Adds the next event. `decided` is evaluated after every single trial that enters the tally, so that no trial is
    /// counted after the decision.
    pub fn apply_event(&mut self, event: &Event, decided: impl Fn(&Self) -> bool) {
        self.fold_event(event, &decided);
    }

    fn fold_event(&mut self, event: &Event, decided: &dyn Fn(&Self) -> bool) {
        match event {
            Event::TrialStarted(trial) => self.trial_started(trial.clone()),
            Event::TrialFinished {
                trial,
                at: time,
                seen: observation,
                outcome,
            } => {
                self.add_ended_trial(*trial, *time, observation, outcome.clone());
                self.advance_tally(decided);
            }
            Event::CasesNamed(names) => self.case_names.add_names(names),
            Event::TrialWithdrawn(trial) => self.trial_withdrawn(*trial),
            Event::RerunsStarted { at: time } | Event::CaptureStarted { at: time } => {
                self.worked = *time;
                self.begin_extra_trials(event);
            }
            Event::VariantChosen(choice) => self.add_chosen(choice),
            Event::SettingChosen(variant) => {
                self.use_setting(*variant);
                let is_decided = self.any_testable() && decided(self);
                self.stage = self.stage.decide(is_decided);
            }
            Event::PreparationStarted(variant) => {
                self.preparation.running.insert(*variant);
            }
            Event::VariantMade {
                variant,
                took,
                gone: evicted,
                build,
                at: time,
            } => {
                self.worked = *time;
                self.add_made_variant(*variant, *took, evicted, build.as_deref());
            }
            Event::VariantUntestable {
                variant,
                why: reason,
                at: time,
            } => {
                self.worked = *time;
                self.preparation.running.remove(variant);
                self.give_up(*variant, reason.clone());
                let is_decided = self.stage.is_decided() || self.any_testable() && decided(self);
                self.stage = self.stage.decide(is_decided);
                self.advance_tally(decided);
            }
            Event::HostsChanged { hosts, jobs } => self.change_hosts(hosts.as_ref(), *jobs),
            Event::HostJoined { joined, at: time } => {
                self.worked = *time;
                self.hosts.join(joined);
            }
            Event::HostMissing {
                name,
                why: reason,
                at: time,
            } => {
                self.worked = *time;
                self.hosts.miss(name, reason);
            }
            Event::HostLost {
                host,
                why: reason,
                at: time,
            } => {
                self.worked = *time;
                self.hosts.lose(*host, reason);
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
            Event::RunStopped { at: time, .. } => {
                self.worked = *time;
                self.end_pause();
                self.stage = self.stage.after(event);
            }
            Event::LimitsChanged(limits) => {
                self.change_limits(limits);
                self.stage = self.stage.after(event);
            }
            Event::RunResumed { .. } => {
                self.resume_run();
                self.stage = self.stage.after(event);
            }
            Event::BudgetSpent { at: time } | Event::RunFinished { at: time } => {
                self.worked = *time;
                self.stage = self.stage.after(event);
            }
        }
    }

    /// Adds a trial that ended at this working time.
    fn add_ended_trial(
        &mut self,
        trial: TrialId,
        time: Duration,
        observation: &Observation,
        outcome: Outcome,
    ) {
        let took = time.saturating_sub(self.worked);
        self.worked = time;
        self.add_setting_time(trial, took);
        if !self.stage.runs_extra_trials() {
            self.overhead.add_trial(took, observation.elapsed);
        }
        self.trial_ended(trial, observation, outcome);
    }

    /// Begins trials that are not measured: reruns of failing tests, or captures of evidence. The measurement is over or
    /// continues later.
    fn begin_extra_trials(&mut self, event: &Event) {
        let was_set_aside = self.stage.is_measurement_set_aside();
        self.stage = self.stage.after(event);
        if self.stage.is_measurement_set_aside() && !was_set_aside {
            self.pause_measurement();
        } else {
            let finished = self.queue.open.values().filter(|open| open.is_finished());
            self.after_decision += finished.count() as u64;
            self.queue.open.clear();
            self.queue.retries.clear();
        }
    }

    /// Adds a variant that was prepared, for which others were removed.
    fn add_made_variant(
        &mut self,
        variant: VariantId,
        took: Duration,
        evicted: &[VariantId],
        build: Option<&str>,
    ) {
        self.preparation.made.0 += 1;
        self.preparation.made.1 += took;
        self.is_made(&[variant], true);
        self.is_made(evicted, false);
        if let Some(build) = build {
            self.update_memory(|memory, state| memory.add_build(state, variant, build));
        }
    }

    /// Continues an interrupted run: its hosts, preparations and running trials are gone.
    fn resume_run(&mut self) {
        self.hosts.leave();
        self.end_pause();
        self.inconclusive.late.clear();
        self.inconclusive.streak = 0;
        self.inconclusive.lost_streak = 0;
        self.preparation.running.clear();
        for variant in &mut self.variants {
            variant.measured.inconclusive_streak = 0;
            // Processes that its `setup` started no longer run.
            variant.is_made = false;
        }
        // The reason why no variant was testable may no longer apply.
        if !self.any_testable() {
            self.untestable.clear();
            self.update_memory(|memory, state| memory.restart(state));
        }
        self.usage = UsageSeries::default();
        self.repeat_running_trials();
    }

    /// Resumes the run on other hosts.
    fn change_hosts(&mut self, hosts: Option<&HostPlan>, jobs: u32) {
        self.trials.hosts = hosts.cloned();
        self.trials.jobs = jobs;
        self.hosts.leave();
    }

    /// Reopens the question under other limits.
    fn change_limits(&mut self, limits: &ResumeLimits) {
        self.stop.change_limits(limits);
    }

    /// Adds a variant of the plan's space. A choice that is not in the space, or was added before, comes from a damaged
    /// file.
    fn add_chosen(&mut self, choice: &VariantChoice) {
        let space = self.trials.space.as_ref();
        let space =
            space.filter(|space| space.has_choice(choice) && !self.chosen.contains_key(choice));
        let Some(variant) = space.map(|space| space.variant_of_choice(choice)) else {
            return;
        };
        let id = VariantId(u32::try_from(self.variants.len()).unwrap_or(u32::MAX));
        self.trials.variants.push(variant);
        self.variants.push(VariantState::new(self.trials.jobs));
        self.chosen.insert(choice.clone(), id);
    }

    /// Adds time to the setting of a trial, while settings are tried one after another.
    fn add_setting_time(&mut self, trial: TrialId, time: Duration) {
        if let Some(OpenTrial::Running(trial, _)) = self.queue.open.get(&trial)
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
        let Some(setting) = self
            .trials
            .variant_settings()
            .find(|(id, _)| *id == variant)
        else {
            return;
        };
        raise.chosen = Some(variant);
        let natural = raise.natural_trials().variant;
        self.trials.use_setting(setting.1);
        let is_made = self.variants[Self::FAILING.index()].is_made;
        let started_at = if variant == natural {
            std::mem::take(&mut self.variants[natural.index()])
        } else {
            VariantState::new(self.trials.jobs)
        };
        self.variants[Self::FAILING.index()] = VariantState {
            is_made,
            ..started_at
        };
        if variant == natural {
            if let Some(reason) = self.untestable.remove(&natural) {
                self.give_up(Self::FAILING, reason);
            }
            self.use_early_trials();
        } else {
            self.drop_early_trials();
        }
    }

    fn is_made(&mut self, variants: &[VariantId], made: bool) {
        for id in variants {
            self.preparation.running.remove(id);
            if let Some(variant) = self.variants.get_mut(id.index()) {
                variant.is_made = made;
            }
        }
    }

    /// Marks a variant as not testable. A variant that is not in the plan comes from a damaged file.
    fn give_up(&mut self, variant: VariantId, reason: String) {
        if variant.index() < self.variants.len() {
            self.untestable.entry(variant).or_insert(reason);
            self.update_memory(|memory, state| memory.give_up(state, variant));
            self.abandon_retries();
        }
    }

    fn add_note(&mut self, text: &str) {
        let text: String = text.chars().take(LONGEST_NOTE).collect();
        let mut notes = self.notes.iter_mut();
        if let Some((_, count)) = notes.find(|(known_text, _)| *known_text == text) {
            *count += 1;
        } else if self.notes.len() < NOTES {
            self.notes.push((text, 1));
        }
    }

    /// Returns the variant that was launched last.
    pub fn last_launched(&self) -> Option<VariantId> {
        self.queue.last_launched
    }

    /// Returns whether a variant is testable.
    pub fn is_testable(&self, variant: VariantId) -> bool {
        !self.untestable.contains_key(&variant)
    }

    /// Returns whether a variant can be tried without preparation.
    pub fn is_ready(&self, variant: VariantId) -> bool {
        let variant = self.runs_as(variant);
        !self.trials.variant_plan(variant).is_made() || self.variants[variant.index()].is_made
    }

    /// Returns the variant in whose directory this one runs: for a setting, the failing variant.
    pub fn runs_as(&self, variant: VariantId) -> VariantId {
        match self.trials.variant_plan(variant).setting {
            Some(_) => Self::FAILING,
            None => variant,
        }
    }

    /// Returns whether any variant is testable.
    pub fn any_testable(&self) -> bool {
        self.untestable.len() < self.variants.len()
    }

    /// Returns whether the run stopped because every trial failed with the same exit code and message.
    pub fn is_probably_mistyped(&self) -> bool {
        let is_exit = |group: &SignatureFailures| matches!(group.kind, FailureKind::Exit { .. });
        self.stage.stop_cause() == Some(StopCause::AllAlike)
            && self
                .all_tallies()
                .any(|(_, tally)| tally.groups.values().any(is_exit))
    }

    /// Returns whether the run stopped because every trial ended in the same deadlock.
    pub fn always_deadlocks(&self) -> bool {
        self.stage.stop_cause() == Some(StopCause::AllAlike) && !self.is_probably_mistyped()
    }

    /// Returns whether trials may influence each other, because processes that `setup` started were still running after
    /// the last trial.
    pub fn shares_a_life(&self) -> bool {
        let ends = self.usage.first_and_last();
        ends.is_some_and(|(_, last)| last.processes > 0)
    }

    /// Returns the mean time per trial in which the program does not run.
    pub fn mean_overhead(&self) -> Duration {
        self.overhead.per_trial(self.trials.jobs)
    }
}
