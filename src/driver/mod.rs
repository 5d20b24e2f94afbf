//! Loop that runs all trials: asks the policy, launches trials and records events.
//!
//! Only this loop creates events. Every event goes into the [`State`] first, then to each [`EventSink`], so every number on
//! the screen comes from an event.

mod identical_failures;
mod timeout;

use crate::exec::{
    Executor, ExecutorFuture, KeptCores, PreparationResult, STORY, StopUrgency, remove_cores,
};
use crate::model::{
    Ending, Event, HoldPlan, InconclusiveReason, NoteLevel, Observation, Outcome, Plan,
    RequestPace, Signal, SlotId, StopCause, Timeout, Trial, TrialId, VariantId, trial_seed,
};
use crate::oracle;
use crate::questions::{CapturePolicy, Policy, QuestionKind, Step};
use crate::state::{EventSink, State};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use timeout::PassDurations;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

/// Number of consecutive inconclusive trials after which a variant is given up.
const STARTS_IN_VAIN: u64 = 10;
/// The same for trials whose slots were lost, each of them twice: the machine has a fault, or the trials kill their
/// slots.
const LOST_IN_VAIN: u64 = 3;
/// The same for trials of a service, which take longer.
const STARTS_OF_A_SERVICE: u64 = 3;
/// The same for trials that requested to be skipped, which may be random.
const SKIPS_IN_VAIN: u64 = 100;
/// The same for skipped trials of a search: there, a skip means that the candidate is not testable, as in `git bisect`.
const SKIPS_OF_A_PLACE: u64 = 3;
/// Maximum number of trials that are reported as slow; the live line names the slowest.
const SLOW_NOTES: u32 = 3;
/// Interval at which the loop checks the time and redraws the screen.
const TICK: Duration = Duration::from_millis(100);

/// The parts that the loop connects.
pub struct Driver<'a> {
    /// State of the run.
    pub state: &'a mut State,
    /// The question, whose policy decides what to launch.
    pub question: &'a dyn QuestionKind,
    /// Executor, which runs the trials.
    pub executor: Arc<dyn Executor>,
    /// Receivers of the events.
    pub sinks: Vec<&'a mut dyn EventSink>,
    /// Signals to provoke itself.
    pub signals: &'a mut mpsc::UnboundedReceiver<Signal>,
    /// Directory for the output of trials.
    pub evidence: PathBuf,
}

/// State of the loop.
struct LoopState<'a, 'b> {
    driver: &'b mut Driver<'a>,
    begun: Instant,
    worked_before: Duration,
    free: Vec<SlotId>,
    under_way: BTreeMap<TrialId, RunningTrial>,
    tasks: JoinSet<TaskResult>,
    /// Variants in preparation, with their starting times.
    making: BTreeMap<tokio::task::Id, (VariantId, Instant)>,
    /// How urgently trials were requested to end.
    halt: StopUrgency,
    pace: PassDurations,
    /// The same for the preparation of variants, which is not waited for when no further trial is launched.
    halt_making: watch::Sender<StopUrgency>,
    /// Whether the machine could not prepare a variant.
    cannot_make: bool,
    /// Number of trials that may still be launched in the present wave.
    wave: u32,
    /// Reason of the last inconclusive trial of each variant.
    last_void: BTreeMap<VariantId, String>,
    kept_cores: KeptCores,
    /// Whether the user was informed that cores are removed.
    told_of_cores: bool,
    /// Whether a program does not exist, or the kernel refuses it: the next trial cannot start either.
    cannot_start: bool,
    /// The last lines of output of the first trials.
    first_words: BTreeMap<TrialId, String>,
    /// Whether the check for equal failures of the first trials is still to be made.
    looks_for_alike: bool,
    /// Number of trials that were reported as slow.
    slow_notes: u32,
}

/// Result of a task.
enum TaskResult {
    Trial(Box<Observation>),
    Making(PreparationResult),
}

/// A running trial.
struct RunningTrial {
    trial: Trial,
    task: tokio::task::Id,
    since: Instant,
    /// Whether it was reported as slow.
    called_slow: bool,
    /// Requests its end.
    halt: watch::Sender<StopUrgency>,
}

impl RunningTrial {
    /// Requests the end of the trial, unless it was requested as urgently before.
    fn raise_halt(&self, level: StopUrgency) {
        self.halt.send_if_modified(|halt| {
            let more = *halt < level;
            *halt = level.max(*halt);
            more
        });
    }
}

/// Runs trials until the question is answered or the run is interrupted.
pub async fn drive_run(driver: &mut Driver<'_>) {
    let plan = &driver.state.plan;
    let lanes = (0..plan.most_jobs()).rev().map(SlotId).collect();
    let mut run = LoopState {
        begun: Instant::now(),
        worked_before: driver.state.worked,
        free: lanes,
        under_way: BTreeMap::new(),
        tasks: JoinSet::new(),
        making: BTreeMap::new(),
        halt: StopUrgency::No,
        pace: PassDurations::default(),
        halt_making: watch::Sender::new(StopUrgency::No),
        cannot_make: false,
        wave: 0,
        last_void: BTreeMap::new(),
        kept_cores: KeptCores::of_interrupted_run(&driver.evidence),
        told_of_cores: false,
        cannot_start: false,
        first_words: BTreeMap::new(),
        slow_notes: 0,
        // By resuming, the user confirmed that a run with equal failures continues.
        looks_for_alike: driver.state.plan.stop.all_alike
            && !identical_failures::is_due(driver.state),
        driver,
    };
    run.measure_and_capture().await;
}

impl LoopState<'_, '_> {
    /// Runs the measurement, then captures evidence of its failures.
    async fn measure_and_capture(&mut self) {
        let mut broken_off = None;
        let mut decided = self.driver.state.decided;
        if !self.driver.state.capturing {
            let budget = self.driver.state.plan.stop.time_budget();
            let left = budget.map(|budget| budget.saturating_sub(self.worked_before));
            let ends = left.and_then(|left| self.begun.checked_add(left));
            broken_off = self.run_stage(ends).await;
            decided = self.driver.state.decided;
            if self.wants_evidence(broken_off) {
                let at = self.working_time();
                self.emit_event(&Event::CaptureBegun { at });
                self.halt = StopUrgency::No;
                self.halt_making = watch::Sender::new(StopUrgency::No);
            }
        }
        if self.driver.state.capturing {
            let time = match broken_off {
                // The answer is known: a user who does not want to wait for evidence can end the run.
                None => CapturePolicy::time_limit(self.driver.state),
                Some(_) => CapturePolicy::TIME_AFTER_STOP,
            };
            self.run_stage(Instant::now().checked_add(time)).await;
        }
        let at = self.working_time();
        self.emit_event(&match broken_off {
            Some(why) if !decided => Event::RunStopped { why, at },
            _ => Event::RunFinished { at },
        });
        self.notify_before_wait();
    }

    /// Returns whether extra trials should capture evidence now.
    fn wants_evidence(&self, broken_off: Option<StopCause>) -> bool {
        let state = &*self.driver.state;
        CapturePolicy::is_wanted(state)
            && match broken_off {
                None => true,
                // A user in a hurry presses Ctrl-C again.
                Some(StopCause::Signal(Signal::INT)) => {
                    self.halt != StopUrgency::Now && CapturePolicy::is_quick(state)
                }
                Some(_) => false,
            }
    }

    fn notify_before_wait(&mut self) {
        let Driver { state, sinks, .. } = &mut *self.driver;
        for sink in sinks.iter_mut() {
            sink.before_wait(state);
        }
    }

    /// Runs trials until the state is decided; returns the cause if the run was interrupted before.
    async fn run_stage(&mut self, ends: Option<Instant>) -> Option<StopCause> {
        let mut broken_off = None;
        let mut over = false;
        let mut tick = tokio::time::interval(TICK);
        loop {
            if broken_off.is_none() {
                let cannot_make = self.cannot_make.then_some(StopCause::CannotMake);
                broken_off = cannot_make
                    .or_else(|| self.in_vain())
                    .or_else(|| self.all_alike());
                if broken_off.is_none() {
                    self.launch_trials();
                }
            }
            if let Some(StopCause::Signal(_)) = broken_off {
                self.inspect_late_trials();
            }
            if self.driver.state.decided || broken_off.is_some() || self.stops_service_runs() {
                self.raise_halt(StopUrgency::Gently);
            }
            if self.driver.state.budget_spent || self.halt != StopUrgency::No {
                self.halt_making.send_replace(StopUrgency::Now);
            }
            self.notify_before_wait();
            if self.tasks.is_empty() {
                self.name_stopped_service_run();
                return broken_off;
            }
            tokio::select! {
                biased;
                Some(signal) = self.driver.signals.recv() => {
                    if broken_off.is_some() || self.driver.state.decided {
                        self.raise_halt(StopUrgency::Now);
                    }
                    broken_off.get_or_insert(StopCause::Signal(signal));
                }
                Some(done) = self.tasks.join_next_with_id() => {
                    let (task, ended) = match done {
                        Ok(done) => done,
                        // Only a bug of provoke causes this; only this trial is lost.
                        Err(error) => (error.id(), TaskResult::Trial(Box::new(Observation {
                            lost: Some(error.to_string()),
                            ..Observation::default()
                        }))),
                    };
                    match (self.making.remove(&task), ended) {
                        (Some((id, since)), TaskResult::Making(made)) => self.variant_made(id, since, made),
                        (Some((id, _)), TaskResult::Trial(lost)) => {
                            self.give_up(id, lost.lost.unwrap_or_default());
                        }
                        (None, TaskResult::Trial(seen)) => self.finish_trial(task, *seen).await,
                        (None, TaskResult::Making(_)) => {}
                    }
                }
                () = sleep_until(ends), if !over => {
                    over = true;
                    if self.driver.state.capturing {
                        // The running trials are not worth waiting for, however long they take.
                        broken_off.get_or_insert(StopCause::NothingCounts);
                    } else if !self.driver.state.budget_spent {
                        self.emit_event(&Event::BudgetSpent { at: self.working_time() });
                    }
                }
                _ = tick.tick() => self.check_slow_trials(),
            }
        }
    }

    /// Returns whether the time budget is spent and stops running trials. Other trials may finish, but a trial of a
    /// service can take long.
    fn stops_service_runs(&self) -> bool {
        let state = &*self.driver.state;
        state.budget_spent && !state.capturing && state.plan.load.is_some()
    }

    /// Names the first service trial that the time budget stopped. It stays open, so that later trials do not count:
    /// which of them finish in time depends on how they end.
    fn name_stopped_service_run(&mut self) {
        if !self.stops_service_runs() {
            return;
        }
        let open = self.driver.state.to_repeat().map(|trial| trial.id);
        if let Some(id) = open {
            self.emit_warning(format!("the time limit stopped {id}, which does not count"));
        }
    }

    /// Returns the working time of the whole run.
    fn working_time(&self) -> Duration {
        self.worked_before.saturating_add(self.begun.elapsed())
    }

    fn policy(&self) -> &'static dyn Policy {
        self.driver.question.policy(&self.driver.state.plan)
    }

    fn emit_event(&mut self, event: &Event) {
        let Driver {
            state,
            question,
            sinks,
            ..
        } = &mut *self.driver;
        let policy = question.policy(&state.plan);
        state.apply_event(event, |state| policy.is_done(state));
        for sink in sinks.iter_mut() {
            sink.on_event(event, state);
        }
    }

    fn raise_halt(&mut self, level: StopUrgency) {
        self.halt = level.max(self.halt);
        for one in self.under_way.values() {
            one.raise_halt(level);
        }
    }

    /// Ends the trials that run unusually long, if the user stops the run: they may hang, and their stacks show where.
    fn inspect_late_trials(&mut self) {
        if self.halt != StopUrgency::No {
            return;
        }
        let late = self.pace.late_after(self.driver.state);
        for one in self.under_way.values() {
            if one.since.elapsed() > late {
                one.raise_halt(StopUrgency::Inspect);
            }
        }
    }

    /// Fills the free slots, and prepares variants that will probably be tried next.
    fn launch_trials(&mut self) {
        self.choose_setting();
        let Plan { waves, jobs, .. } = self.driver.state.plan;
        if self.under_way.is_empty() {
            self.wave = jobs;
        }
        while !self.driver.state.decided && (!waves || self.wave > 0) && self.has_free_lane() {
            let Some(trial) = self.next_trial() else {
                break;
            };
            self.wave -= u32::from(waves);
            self.free.retain(|lane| *lane != trial.lane);
            self.emit_event(&Event::TrialStarted(trial.clone()));
            let delay = self.driver.state.plan.delay;
            let halt = watch::Sender::new(self.halt);
            let running = self
                .driver
                .executor
                .run_trial(trial.clone(), halt.subscribe());
            let attempt = run_after_delay(delay, halt.subscribe(), running);
            let task = self
                .tasks
                .spawn(async { TaskResult::Trial(Box::new(attempt.await)) });
            let since = Instant::now() + delay;
            let under_way = RunningTrial {
                task: task.id(),
                since,
                called_slow: false,
                halt,
                trial,
            };
            self.under_way.insert(under_way.trial.id, under_way);
        }
        while !self.driver.state.decided
            && !self.driver.state.capturing
            && let Some(step) = self.policy().step_ahead(self.driver.state)
            && self.get_ready(&step)
        {}
    }

    /// Begins the search under the setting that the policy chose.
    fn choose_setting(&mut self) {
        let state = &*self.driver.state;
        if state.undecided_raise().is_none() || state.decided || state.has_open_trials() {
            return;
        }
        let step = self.policy().next_step(state);
        if let Step::Use(_) = step {
            self.get_ready(&step);
        }
    }

    /// Returns whether another trial may be launched. While settings are tried, the policy limits the parallel trials.
    fn has_free_lane(&self) -> bool {
        let state = &*self.driver.state;
        let lanes = match state.undecided_raise() {
            Some(_) => state.plan.most_jobs(),
            None => state.plan.jobs,
        };
        !self.free.is_empty() && self.under_way.len() < lanes as usize
    }

    fn next_trial(&mut self) -> Option<Trial> {
        // The lowest free slot, because `{slot}` is below the number of parallel trials.
        let lane = *self.free.iter().min()?;
        loop {
            let state = &*self.driver.state;
            let timeout = self.pace.hang_timeout(state);
            if let Some(trial) = state.to_repeat()
                && !self.stops_service_runs()
            {
                let trial = Trial {
                    lane,
                    timeout,
                    ..trial.clone()
                };
                return self.is_ready(trial.variant).then_some(trial);
            }
            let capturing = state.capturing;
            let step = if capturing {
                CapturePolicy.next_step(state)
            } else {
                self.policy().next_step(state)
            };
            if let Step::Launch(variant) = step {
                let id = state.next_id();
                let held = if capturing {
                    None
                } else {
                    self.policy().next_held_trial(state)
                };
                let timeout = held.as_ref().map_or(timeout, |held| held.timeout);
                let explores = held.is_some();
                let planned = state.plan.held.as_ref();
                let planned =
                    planned.map(|held| HoldPlan::within_timeout(held.holds.clone(), timeout, true));
                let trial = Trial {
                    id,
                    variant,
                    lane,
                    seed: trial_seed(state.plan.seed, id),
                    timeout,
                    capture: capturing,
                    explores,
                    hold: held.map(|held| held.plan).or(planned).map(Box::new),
                };
                return self.is_ready(variant).then_some(trial);
            }
            if !self.get_ready(&step) {
                return None;
            }
        }
    }

    /// Returns whether a variant can be tried now. After a resumption it is prepared again first.
    fn is_ready(&mut self, variant: VariantId) -> bool {
        let state = &*self.driver.state;
        let variant = state.runs_as(variant);
        let (ready, making) = (state.is_ready(variant), state.making.contains(&variant));
        if !ready && !making {
            self.get_ready(&Step::Make(variant));
        }
        ready
    }

    /// Performs a step that precedes a trial; returns false for any other step.
    fn get_ready(&mut self, step: &Step) -> bool {
        match step {
            Step::Choose(choice) => {
                self.emit_event(&Event::VariantChosen(choice.clone()));
                let Driver {
                    state, executor, ..
                } = &*self.driver;
                if let Some(id) = state.find_variant(choice) {
                    executor.learn_variant(id, state.plan.variant_plan(id));
                }
                true
            }
            Step::Make(id) => {
                self.emit_event(&Event::MakingBegun(*id));
                let halt = self.halt_making.subscribe();
                let making = self.driver.executor.make_variant(*id, halt);
                let task = self.tasks.spawn(async { TaskResult::Making(making.await) });
                self.making.insert(task.id(), (*id, Instant::now()));
                true
            }
            Step::Use(variant) => {
                self.emit_event(&Event::SettingChosen(*variant));
                let Driver {
                    state, executor, ..
                } = &*self.driver;
                executor.learn_variant(State::FAILING, state.plan.variant_plan(State::FAILING));
                true
            }
            Step::Launch(_) | Step::Wait | Step::Done => false,
        }
    }

    fn variant_made(&mut self, variant: VariantId, since: Instant, made: PreparationResult) {
        let at = self.working_time();
        match made {
            PreparationResult::Ready { build } => {
                let gone = self.driver.executor.make_room();
                let took = since.elapsed();
                self.emit_event(&Event::VariantMade {
                    variant,
                    took,
                    gone,
                    build,
                    at,
                });
            }
            PreparationResult::Failed(why) => self.give_up(variant, why),
            PreparationResult::Broken(why) => {
                let name = &self.driver.state.plan.variant_plan(variant).name;
                self.emit_warning(format!("cannot build `{name}`: {why}"));
                self.cannot_make = true;
            }
            PreparationResult::Halted => {}
        }
    }

    async fn finish_trial(&mut self, task: tokio::task::Id, mut seen: Observation) {
        let found = self
            .under_way
            .values()
            .find(|one| one.task == task)
            .map(|one| one.trial.id);
        let Some(RunningTrial { trial, .. }) = found.and_then(|id| self.under_way.remove(&id))
        else {
            return;
        };
        let state = &*self.driver.state;
        let mut outcome = oracle::judge_trial(
            &state.plan.rules,
            state.plan.variant_plan(trial.variant),
            &seen,
        );
        if trial.id.0 <= state.plan.warmup
            && !matches!(outcome, Outcome::Void(InconclusiveReason::Interrupted))
        {
            outcome = Outcome::Void(InconclusiveReason::Warmup);
        }
        if state.plan.held.is_some() && !is_held(&trial, &seen) && !is_inconclusive(&outcome) {
            outcome = Outcome::Void(InconclusiveReason::NotHeld);
        }
        if let Outcome::Fail(failure) = &outcome
            && !self.driver.question.is_the_bug(state, &trial, failure)
        {
            outcome = Outcome::Other(failure.clone());
        }
        let folder = self.driver.evidence.join(trial.id.0.to_string());
        if self.worth_keeping(&trial, &seen, &outcome) {
            self.limit_cores(&outcome, &mut seen);
            self.driver.executor.keep_output(trial.lane, folder).await;
        } else {
            drop_evidence(&folder, &mut seen);
        }
        self.free.push(trial.lane);
        if let Some(hook) = &seen.conclude {
            let text = format!("the `conclude` command failed: {:?}", hook.ending);
            self.emit_warning(text);
        }
        if self.looks_for_alike
            && let Some(words) = oracle::last_words(&seen)
        {
            self.first_words.insert(trial.id, words);
        }
        self.cannot_start |= cannot_start(&seen);
        if outcome == Outcome::Pass {
            self.pace.add_pass(trial.variant, seen.elapsed);
        }
        if let Outcome::Void(void) = outcome {
            self.last_void
                .insert(trial.variant, inconclusive_reason(void, &seen));
        }
        let at = self.working_time();
        self.emit_event(&Event::TrialFinished {
            trial: trial.id,
            at,
            seen: Box::new(seen),
            outcome,
        });
    }

    /// Removes the cores of a failure if the run keeps enough of them.
    fn limit_cores(&mut self, outcome: &Outcome, seen: &mut Observation) {
        let signature = outcome.any_failure().map(|failure| failure.signature.id);
        let Some(why) = signature.and_then(|id| self.kept_cores.add_failure(id, seen)) else {
            return;
        };
        remove_cores(seen);
        if !std::mem::replace(&mut self.told_of_cores, true) {
            self.emit_warning(format!("further cores are read and removed: {why}"));
        }
    }

    /// Marks a variant as not testable, unless it is already.
    fn give_up(&mut self, variant: VariantId, why: String) {
        let state = &*self.driver.state;
        if state.is_testable(variant) {
            let name = state.plan.variant_plan(variant).display_label();
            // In a reduction, many sets are not testable.
            let level = if self.driver.question.expects_untestable() {
                NoteLevel::Info
            } else {
                NoteLevel::Warning
            };
            let text = format!("cannot test the variant `{name}`: {why}");
            self.emit_event(&Event::Note { level, text });
            let at = self.working_time();
            self.emit_event(&Event::VariantUntestable { variant, why, at });
        }
    }

    fn worth_keeping(&self, trial: &Trial, seen: &Observation, outcome: &Outcome) -> bool {
        use crate::model::KeepRule;
        let state = &*self.driver.state;
        if matches!(
            outcome,
            Outcome::Void(InconclusiveReason::Interrupted | InconclusiveReason::Lost)
        ) {
            return seen.hang.is_some() && state.plan.keep != KeepRule::None;
        }
        match (state.plan.keep, outcome) {
            (KeepRule::All, _) => true,
            (KeepRule::Fail, Outcome::Fail(failure) | Outcome::Other(failure)) => {
                let known = state.arrived_failures(trial.variant, failure.signature.id);
                known < state.plan.keep_per_sig
            }
            (KeepRule::Fail, Outcome::Pass | Outcome::Void(_)) | (KeepRule::None, _) => false,
        }
    }

    /// Gives up the variants with too many consecutive inconclusive trials. Returns the cause of an interruption if no
    /// variant is left.
    fn in_vain(&mut self) -> Option<StopCause> {
        let state = &*self.driver.state;
        if state.lost_streak >= LOST_IN_VAIN && !state.decided {
            let why = self
                .last_void
                .values()
                .find(|why| why.starts_with("lost"))
                .cloned()
                .unwrap_or_default();
            self.emit_warning(format!(
                "{LOST_IN_VAIN} consecutive trials could not run: {why}"
            ));
            return Some(StopCause::NothingCounts);
        }
        let several = state.plan.variants.len() > 1 || state.plan.space.is_some();
        // A service that cannot start at one load level cannot start at any.
        let one_service = state.plan.question.as_ramp().is_some();
        if !several || one_service || state.capturing {
            let mut tallies = state.all_tallies().map(|(_, tally)| tally);
            let skipped =
                tallies.any(|tally| tally.void.contains_key(&InconclusiveReason::Skipped));
            let patience = if self.cannot_start {
                1
            } else {
                inconclusive_limit(&state.plan, skipped)
            };
            let in_vain = state.void_streak >= patience;
            return in_vain.then_some(StopCause::NothingCounts);
        }
        if state.decided {
            return None;
        }
        let useless = |(id, (streak, skipped))| {
            let patience = inconclusive_limit(&state.plan, skipped);
            (state.is_testable(id) && streak >= patience).then_some((id, patience))
        };
        let streaks = (0..).map(VariantId).zip(state.in_vain());
        let useless: Vec<(VariantId, u64)> = streaks.filter_map(useless).collect();
        for (variant, patience) in useless {
            let said = self.last_void.get(&variant);
            let said = said.map_or(String::new(), |said| format!(": {said}"));
            self.give_up(
                variant,
                format!("{patience} consecutive trials were inconclusive{said}"),
            );
        }
        let otherwise: Vec<VariantId> = self.driver.state.failing_otherwise().collect();
        for variant in otherwise {
            self.give_up(variant, "it fails in another way".to_owned());
        }
        (!self.driver.state.any_testable()).then_some(StopCause::NothingCounts)
    }

    /// Returns the cause of a stop if the first trials all failed alike; checks this once.
    fn all_alike(&mut self) -> Option<StopCause> {
        let state = &*self.driver.state;
        if !self.looks_for_alike || state.decided || !identical_failures::is_due(state) {
            return None;
        }
        self.looks_for_alike = false;
        let words = std::mem::take(&mut self.first_words);
        let text = identical_failures::explain_alike_failures(state, &words)?;
        self.emit_warning(text);
        Some(StopCause::AllAlike)
    }

    fn emit_warning(&mut self, text: String) {
        self.emit_event(&Event::Note {
            level: NoteLevel::Warning,
            text,
        });
    }

    /// Ends trials that exceed a timeout which was not known when they were launched.
    fn end_hung_trials(&self) {
        let state = &*self.driver.state;
        if state.plan.timeout != Timeout::Auto || state.plan.load.is_some() {
            return;
        }
        let timeout = self.pace.hang_timeout(state);
        for one in self.under_way.values() {
            if one.since.elapsed() > timeout {
                one.raise_halt(StopUrgency::TimedOut);
            }
        }
    }

    /// Reports trials that run unusually long, once each.
    fn check_slow_trials(&mut self) {
        self.end_hung_trials();
        let state = &*self.driver.state;
        if self.slow_notes < SLOW_NOTES {
            let long = self.pace.late_after(state);
            let usual = match self.pace.known_to_be_late_after(state) {
                Some(_) => "takes longer than usual",
                None => "is still running",
            };
            let timeout = self.pace.hang_timeout(state);
            let mut slow = Vec::new();
            for RunningTrial {
                trial,
                since,
                called_slow,
                ..
            } in self.under_way.values_mut()
            {
                if !*called_slow && since.elapsed() > long {
                    *called_slow = true;
                    let hung_after = trial.timeout.min(timeout).as_secs_f64();
                    let load = state.plan.load_of(state.plan.variant_plan(trial.variant));
                    slow.push(if let Some(load) = load {
                        match load.pace {
                            RequestPace::Closed { clients } => {
                                let noun = if clients == 1 { "client" } else { "clients" };
                                format!("{} with {clients} {noun} {usual}", trial.id)
                            }
                            RequestPace::Open { .. } => format!("{} {usual}", trial.id),
                        }
                    } else {
                        format!(
                            "{} {usual} (timeout: {hung_after:.0} s, -t); Ctrl-C ends the run and shows where it waits",
                            trial.id,
                        )
                    });
                }
            }
            for text in slow {
                self.slow_notes += 1;
                self.emit_event(&Event::Note {
                    level: NoteLevel::Info,
                    text,
                });
            }
        }
        let Driver { state, sinks, .. } = &mut *self.driver;
        for sink in sinks.iter_mut() {
            sink.on_tick(state);
        }
    }
}

/// Returns the limit of consecutive inconclusive trials.
fn inconclusive_limit(plan: &Plan, skipped: bool) -> u64 {
    match (skipped, &plan.space) {
        (true, Some(_)) => SKIPS_OF_A_PLACE,
        (true, None) => SKIPS_IN_VAIN,
        (false, _) if plan.load.is_some() => STARTS_OF_A_SERVICE,
        (false, _) => STARTS_IN_VAIN,
    }
}

/// Returns whether the kernel refused a program of a trial for a permanent reason.
fn cannot_start(seen: &Observation) -> bool {
    let reasons = [
        "No such file",
        "Exec format error",
        "Permission denied",
        "Not a directory",
    ];
    seen.actors.iter().any(|actor| match &actor.ending {
        Ending::NotStarted(why) => reasons.iter().any(|reason| why.contains(reason)),
        _ => false,
    })
}

/// Returns why a trial was inconclusive.
fn inconclusive_reason(void: InconclusiveReason, seen: &Observation) -> String {
    let not_started = seen.actors.iter().find_map(|actor| match &actor.ending {
        Ending::NotStarted(why) => Some(why.clone()),
        _ => None,
    });
    let more = match void {
        InconclusiveReason::Unprepared => seen.prepare.as_ref().map(|hook| hook.ending.to_string()),
        InconclusiveReason::NotStarted => not_started,
        InconclusiveReason::Lost => seen.lost.clone(),
        InconclusiveReason::NotReady => seen.not_ready(),
        InconclusiveReason::NotHeld => seen.holds.as_ref().and_then(|holds| holds.refused.clone()),
        _ => None,
    };
    match more {
        Some(more) => format!("{void}: {more}"),
        None => void.to_string(),
    }
}

/// Removes the evidence of a trial that is not kept; its results remain in the observation.
fn drop_evidence(folder: &Path, seen: &mut Observation) {
    if remove_cores(seen) {
        let _ = fs::remove_file(folder.join(STORY));
        let _ = fs::remove_dir(folder);
    }
}

/// Returns whether every hold of a trial held a thread.
fn is_held(trial: &Trial, seen: &Observation) -> bool {
    let plan = trial.hold.as_deref();
    let seen = seen.holds.as_deref();
    plan.zip(seen)
        .is_some_and(|(plan, seen)| seen.reached_all(plan))
}

fn is_inconclusive(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Void(_))
}

/// Runs a trial after a delay, unless its end is requested before.
async fn run_after_delay(
    delay: Duration,
    mut halt: watch::Receiver<StopUrgency>,
    running: ExecutorFuture<Observation>,
) -> Observation {
    if !delay.is_zero() {
        tokio::select! {
            () = tokio::time::sleep(delay) => {}
            _ = halt.wait_for(|halt| *halt != StopUrgency::No) => {
                return Observation { interrupted: true, ..Observation::default() };
            }
        }
    }
    running.await
}

async fn sleep_until(end: Option<Instant>) {
    match end {
        Some(end) => tokio::time::sleep_until(end).await,
        None => std::future::pending().await,
    }
}
