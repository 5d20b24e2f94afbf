//! Runs all trials in a loop: asks the policy, launches trials and records events.
//!
#![doc = include_str!("../README.md")]

mod cases;
mod finish;
mod hosts;
mod identical_failures;
mod inconclusive;
mod launch;
mod lease;
mod slow_trials;
mod timeout;

use hosts::next_change;
use lease::{Lease, PlainPasses};
use provoke_exec::{Executor, HostChange, KeptCores, PreparationResult, StopUrgency};
use provoke_model::{Event, NoteLevel, Observation, Signal, SlotId, StopCause, TrialId, VariantId};
use provoke_questions::{CapturePolicy, Policy, QuestionKind, RerunPolicy};
use provoke_state::{EventSink, State};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use timeout::PassDurations;
use tokio::sync::{mpsc, watch};
use tokio::task::{self, JoinError, JoinSet};
use tokio::time::Instant;
use tracing::Instrument as _;

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
    started_at: Instant,
    worked_before: Duration,
    free: Vec<SlotId>,
    /// Hosts that join and that are lost, if trials run on hosts.
    host_changes: Option<mpsc::UnboundedReceiver<HostChange>>,
    /// The trials of each busy slot.
    under_way: BTreeMap<SlotId, Lease>,
    /// Number of trials that a slot gets at once now.
    at_once: u64,
    /// Busy slots whose trials have not been started yet.
    filling: Vec<SlotId>,
    tasks: JoinSet<TaskResult>,
    /// Finished trials, with their slots; a task sends them before it ends.
    finished: mpsc::UnboundedReceiver<FinishedTrial>,
    results: mpsc::UnboundedSender<FinishedTrial>,
    /// Variants in preparation, with their starting times.
    preparing: BTreeMap<tokio::task::Id, (VariantId, Instant)>,
    /// How urgently trials were requested to end.
    halt: StopUrgency,
    pace: PassDurations,
    plain_passes: PlainPasses,
    /// The same for the preparation of variants, which is not waited for when no further trial is launched.
    stop_preparation: watch::Sender<StopUrgency>,
    /// Whether the machine could not prepare a variant.
    cannot_make: bool,
    /// Number of trials that may still be launched in the present wave.
    wave: u32,
    /// Reason of the last inconclusive trial of each variant.
    last_void: BTreeMap<VariantId, String>,
    kept_cores: KeptCores,
    /// Whether the user was informed that cores are removed.
    cores_note_shown: bool,
    /// Whether a program does not exist, or the kernel refuses it: the next trial cannot start either.
    cannot_start: bool,
    /// The last lines of output of the first trials, until the check for equal failures is made.
    first_words: Option<BTreeMap<TrialId, String>>,
    /// Number of trials that were reported as slow.
    slow_notes: u32,
}

/// A trial that was run, and its slot.
type FinishedTrial = (SlotId, TrialId, Box<Observation>);

/// Result of a task.
enum TaskResult {
    /// The slot has run its trials, or the first of them.
    Lease(SlotId),
    Prepared(PreparationResult),
}

/// Runs trials until the question is answered or the run is interrupted.
pub async fn drive_run(driver: &mut Driver<'_>) {
    let trials = &driver.state.trials;
    // The slots of hosts are free when the hosts have joined.
    let own_slots = trials.hosts.as_ref().map_or(trials.most_jobs(), |_| 0);
    let slots = (0..own_slots).rev().map(SlotId).collect();
    let (results, finished) = mpsc::unbounded_channel();
    let mut run = LoopState {
        started_at: Instant::now(),
        worked_before: driver.state.worked,
        free: slots,
        host_changes: driver.executor.host_changes(),
        under_way: BTreeMap::new(),
        filling: Vec::new(),
        at_once: 1,
        tasks: JoinSet::new(),
        finished,
        results,
        preparing: BTreeMap::new(),
        halt: StopUrgency::No,
        pace: PassDurations::default(),
        plain_passes: PlainPasses::default(),
        stop_preparation: watch::Sender::new(StopUrgency::No),
        cannot_make: false,
        wave: 0,
        last_void: BTreeMap::new(),
        kept_cores: KeptCores::of_interrupted_run(&driver.evidence),
        cores_note_shown: false,
        cannot_start: false,
        // By resuming, the user confirmed that a run with equal failures continues.
        first_words: (driver.state.stop.all_alike && !identical_failures::is_due(driver.state))
            .then(BTreeMap::new),
        slow_notes: 0,
        driver,
    };
    let span = tracing::info_span!(target: "run", "run", jobs = run.driver.state.trials.jobs);
    run.measure_and_capture().instrument(span).await;
}

impl LoopState<'_, '_> {
    /// Runs the measurement, then failing cases alone, then captures evidence of the failures.
    async fn measure_and_capture(&mut self) {
        let mut broken_off = None;
        let mut decided = self.driver.state.stage.is_decided();
        if !self.driver.state.stage.runs_extra_trials() {
            let budget = self.driver.state.stop.time_budget();
            let time_left = budget.map(|budget| budget.saturating_sub(self.worked_before));
            let ends = time_left.and_then(|time_left| self.started_at.checked_add(time_left));
            broken_off = self.run_stage(ends).await;
            decided = self.driver.state.stage.is_decided();
            let wants_reruns = broken_off.is_none() && RerunPolicy::is_wanted(self.driver.state);
            let at = self.working_time();
            if wants_reruns {
                self.begin_extra_trials(&Event::RerunsStarted { at });
            } else if self.wants_evidence(broken_off) {
                self.begin_extra_trials(&Event::CaptureStarted { at });
            }
        }
        if self.driver.state.stage.reruns_tests() {
            let is_complete = self.run_stage(None).await.is_none();
            if is_complete && self.wants_evidence(None) {
                let at = self.working_time();
                self.begin_extra_trials(&Event::CaptureStarted { at });
            }
        }
        if self.driver.state.stage.runs_extra_trials() && !self.driver.state.stage.reruns_tests() {
            let time = match broken_off {
                // The answer is known: a user who does not want to wait for evidence can end the run.
                None => CapturePolicy::time_limit(self.driver.state),
                Some(_) => CapturePolicy::TIME_AFTER_STOP,
            };
            self.run_stage(Instant::now().checked_add(time)).await;
        }
        let time = self.working_time();
        self.emit_event(&match broken_off {
            Some(cause) if !decided => Event::RunStopped {
                why: cause,
                at: time,
            },
            _ => Event::RunFinished { at: time },
        });
        self.notify_before_wait();
    }

    /// Begins to run trials that do not belong to the measurement.
    fn begin_extra_trials(&mut self, event: &Event) {
        tracing::info!(target: "run", reruns = matches!(event, Event::RerunsStarted { .. }), "begin extra trials");
        self.emit_event(event);
        self.halt = StopUrgency::No;
        self.stop_preparation = watch::Sender::new(StopUrgency::No);
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
        let mut is_over = false;
        let mut kill_at = None;
        let mut tick = tokio::time::interval(TICK);
        loop {
            self.note_host_changes();
            if broken_off.is_none() {
                let cannot_make = self.cannot_make.then_some(StopCause::CannotMake);
                broken_off = cannot_make
                    .or_else(|| self.all_hosts_lost())
                    .or_else(|| self.too_many_inconclusive())
                    .or_else(|| self.all_alike());
                if broken_off.is_none() {
                    self.launch_trials();
                }
            }
            if let Some(StopCause::Signal(_)) = broken_off {
                self.inspect_late_trials();
            }
            if self.driver.state.stage.is_decided()
                || broken_off.is_some()
                || self.stops_at_time_limit()
            {
                self.raise_halt(StopUrgency::Gently);
            }
            if self.driver.state.stage.is_budget_spent() || self.halt != StopUrgency::No {
                self.stop_preparation.send_replace(StopUrgency::Now);
            }
            self.notify_before_wait();
            if self.tasks.is_empty() && (broken_off.is_some() || !self.waits_for_hosts()) {
                self.name_stopped_trial();
                tracing::info!(target: "run", stopped = ?broken_off, "the stage has ended");
                return broken_off;
            }
            tokio::select! {
                biased;
                Some(signal) = self.driver.signals.recv() => {
                    tracing::info!(target: "run", %signal, "received a signal");
                    if broken_off.is_some() || self.driver.state.stage.is_decided() {
                        self.raise_halt(StopUrgency::Now);
                    }
                    broken_off.get_or_insert(StopCause::Signal(signal));
                    kill_at = kill_at.or_else(|| self.time_to_kill_on_hosts());
                }
                () = sleep_until(kill_at), if self.halt != StopUrgency::Now => {
                    self.raise_halt(StopUrgency::Now);
                }
                Some((slot, trial, observation)) = self.finished.recv() => {
                    self.finish_trial(slot, trial, *observation).await;
                    while let Ok((slot, trial, observation)) = self.finished.try_recv() {
                        self.finish_trial(slot, trial, *observation).await;
                    }
                }
                Some(done) = self.tasks.join_next_with_id() => self.task_ended(done).await,
                Some(change) = next_change(&mut self.host_changes) => self.note_host_change(change),
                () = sleep_until(ends), if !is_over => {
                    is_over = true;
                    tracing::info!(target: "run", "the time is up");
                    if self.driver.state.stage.runs_extra_trials() {
                        // The running trials are not worth waiting for, however long they take.
                        broken_off.get_or_insert(StopCause::NothingCounts);
                    } else if !self.driver.state.stage.is_budget_spent() {
                        self.emit_event(&Event::BudgetSpent { at: self.working_time() });
                    }
                }
                _ = tick.tick() => self.check_slow_trials(),
            }
        }
    }

    async fn task_ended(&mut self, done: Result<(task::Id, TaskResult), JoinError>) {
        match done {
            Ok((_, TaskResult::Lease(slot))) => self.lease_ended(slot).await,
            Ok((task, TaskResult::Prepared(made))) => {
                if let Some((id, since)) = self.preparing.remove(&task) {
                    self.variant_made(id, since, made);
                }
            }
            // Only a bug of provoke causes this.
            Err(error) => match self.preparing.remove(&error.id()) {
                Some((id, _)) => self.give_up(id, &error.to_string()),
                None => self.lease_broke(error.id(), &error.to_string()).await,
            },
        }
    }

    /// Returns whether the time budget is spent and stops running trials: a trial of a service can take long, and a hunt
    /// provokes hangs. Other trials may finish.
    fn stops_at_time_limit(&self) -> bool {
        let state = &*self.driver.state;
        let may_take_long = state.trials.load.is_some() || self.driver.question.explores();
        state.stage.is_budget_spent() && !state.stage.runs_extra_trials() && may_take_long
    }

    /// Names the first trial of a service that the time budget stopped. It stays open, so that later trials do not count:
    /// which of them finish in time depends on how they end.
    fn name_stopped_trial(&mut self) {
        if !self.stops_at_time_limit() || self.driver.state.trials.load.is_none() {
            return;
        }
        let open = self.driver.state.to_repeat().map(|trial| trial.id);
        if let Some(id) = open {
            self.emit_warning(format!("the time limit stopped {id}, which does not count"));
        }
    }

    /// Returns the working time of the whole run.
    fn working_time(&self) -> Duration {
        self.worked_before.saturating_add(self.started_at.elapsed())
    }

    fn policy(&self) -> &'static dyn Policy {
        self.driver.question.policy(&self.driver.state.goal)
    }

    fn emit_event(&mut self, event: &Event) {
        let Driver {
            state,
            question,
            sinks,
            ..
        } = &mut *self.driver;
        let policy = question.policy(&state.goal);
        state.apply_event(event, |state| policy.is_done(state));
        for sink in sinks.iter_mut() {
            sink.on_event(event, state);
        }
    }

    fn raise_halt(&mut self, level: StopUrgency) {
        if level > self.halt {
            tracing::debug!(target: "run", ?level, running = self.under_way.len(), "ask the trials to end");
        }
        self.halt = level.max(self.halt);
        for trial in self.under_way.values() {
            trial.raise_halt(level);
        }
    }

    /// Returns the cause of a stop if the first trials all failed alike; checks this once.
    fn all_alike(&mut self) -> Option<StopCause> {
        let state = &*self.driver.state;
        let is_due = |_: &mut _| !state.stage.is_decided() && identical_failures::is_due(state);
        let words = self.first_words.take_if(is_due)?;
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
}

async fn sleep_until(end: Option<Instant>) {
    match end {
        Some(end) => tokio::time::sleep_until(end).await,
        None => std::future::pending().await,
    }
}
