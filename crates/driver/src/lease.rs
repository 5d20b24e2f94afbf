//! Sends several short trials to a slot at once: a message to a slot and back costs more than a very short trial should.

use super::{LoopState, TaskResult};
use provoke_exec::{ExecutorFuture, StopUrgency};
use provoke_levers::delay_of;
use provoke_model::{
    CaptureMode, Event, KeepRule, Observation, SlotId, Trial, TrialId, TrialsPlan, VariantId,
};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task;
use tokio::time::Instant;

/// Duration of the trials that a slot on this machine gets at once.
const LEASE: Duration = Duration::from_millis(40);
/// The same for a slot on a host: a message to it and back can take 10 ms.
const LEASE_ON_HOST: Duration = Duration::from_millis(500);
/// Maximum number of trials that a slot gets at once.
const MAX_TRIALS: u64 = 256;
/// Number of passing trials of each variant from which the duration is derived.
const PASSES_NEEDED: u32 = 5;
/// Number of the last trials that determine it.
const MEAN_OF: u32 = 16;

/// Trials that were given to one slot. The first of them runs.
pub(super) struct Lease {
    pub(super) trials: VecDeque<Trial>,
    /// The task that runs them, after their start.
    pub(super) task: Option<task::Id>,
    /// Start of the first.
    pub(super) since: Instant,
    /// Whether the first was reported as slow.
    pub(super) called_slow: bool,
    /// Requests the end of all.
    halt: watch::Sender<StopUrgency>,
    /// Maximum number of trials.
    room: u64,
    /// Whether a trial was lost. The slot or its host may be the reason, so the others are retried one by one.
    pub(super) is_lost: bool,
}

impl Lease {
    fn new(room: u64, halt: StopUrgency) -> Self {
        Self {
            trials: VecDeque::new(),
            task: None,
            since: Instant::now(),
            called_slow: false,
            halt: watch::Sender::new(halt),
            room,
            is_lost: false,
        }
    }

    /// Removes the first trial, because it has ended.
    pub(super) fn take_first(&mut self, id: TrialId) -> Option<Trial> {
        if self.trials.front()?.id != id {
            return None;
        }
        let trial = self.trials.pop_front()?;
        self.since = Instant::now();
        self.called_slow = false;
        Some(trial)
    }

    pub(super) fn is_full(&self) -> bool {
        self.trials.len() as u64 >= self.room
    }

    /// Returns whether all trials have ended. The slot is free when its task has ended, too.
    pub(super) fn has_ended(&self) -> bool {
        self.trials.is_empty()
    }

    /// Returns whether the slot never got more than one trial. The timeout of several was known at their start.
    pub(super) fn is_single(&self) -> bool {
        self.room == 1
    }

    /// Requests the end of the trials, unless it was requested as urgently before.
    pub(super) fn raise_halt(&self, level: StopUrgency) {
        self.halt.send_if_modified(|halt| {
            let is_raised = *halt < level;
            *halt = level.max(*halt);
            is_raised
        });
    }
}

/// Durations of plain passes, which determine how many trials a slot gets at once.
///
/// Whether a plain trial passes depends only on the rules. So if one has passed, all pass, and no output of them is kept.
#[derive(Default)]
pub(super) struct PlainPasses(BTreeMap<VariantId, (u32, Duration)>);

impl PlainPasses {
    pub(super) fn add_pass(&mut self, variant: VariantId, observation: &Observation) {
        if !observation.is_plain() {
            return;
        }
        let (count, mean) = self.0.entry(variant).or_default();
        *count = count.saturating_add(1);
        // Of the last trials; at first of all.
        let weight = (*count).min(MEAN_OF);
        *mean = (*mean * (weight - 1) + observation.elapsed) / weight;
    }

    /// Returns the number of trials that take this long, after enough passes of each of this many variants; otherwise 1.
    fn trials_within(&self, time: Duration, variants: usize) -> u64 {
        let known = self.0.values().filter(|(count, _)| *count >= PASSES_NEEDED);
        let durations: Vec<Duration> = known.map(|(_, mean)| *mean).collect();
        match durations.iter().max() {
            Some(slowest) if durations.len() >= variants => {
                let count = time.as_nanos() / slowest.as_nanos().max(1);
                u64::try_from(count).map_or(MAX_TRIALS, |count| count.clamp(1, MAX_TRIALS))
            }
            _ => 1,
        }
    }
}

/// Returns whether there is a pause before the trials of any variant.
fn has_delay(trials: &TrialsPlan) -> bool {
    let variants = trials.variants.iter().map(|variant| &variant.conditions);
    let mut conditions = variants.chain([&trials.conditions]);
    conditions.any(|conditions| !delay_of(conditions).is_zero())
}

impl LoopState<'_, '_> {
    /// Returns the number of trials that a slot may get at once. It is 1 if each trial has evidence, conditions of its
    /// own, or decides what the next trial does.
    pub(super) fn max_trials_at_once(&self) -> u64 {
        let state = &*self.driver.state;
        let trials = &state.trials;
        let one_by_one = trials.waves
            || has_delay(trials)
            || trials.load.is_some()
            || trials.cases.is_some()
            || trials.settings.keep == KeepRule::All
            || matches!(
                trials.settings.capture,
                CaptureMode::On | CaptureMode::Trace
            )
            || trials.held.is_some()
            || trials.space.is_some()
            || state.stage.runs_extra_trials()
            || state.to_repeat().is_some()
            || state.undecided_raise().is_some()
            || self.policy().next_held_trial(state).is_some();
        if one_by_one {
            return 1;
        }
        let variants = trials.variants.len();
        let Some(hosts) = &trials.hosts else {
            return self.plain_passes.trials_within(LEASE, variants);
        };
        let count = self.plain_passes.trials_within(LEASE_ON_HOST, variants);
        if count == 1 {
            return 1;
        }
        // No slot is idle at the end while another still has many trials.
        let remaining = self.policy().remaining_trials(state);
        let slots = u64::from(hosts.jobs().max(1));
        let share = remaining.map_or(MAX_TRIALS, |trials| trials / (2 * slots));
        count.min(share).max(1)
    }

    /// Returns the number of slots that have trials.
    pub(super) fn busy_slots(&self) -> usize {
        let filling = self.filling.iter();
        let free = filling.filter(|slot| {
            let lease = self.under_way.get(slot);
            lease.is_some_and(|lease| !lease.is_full())
        });
        self.under_way.len() - free.count()
    }

    /// Adds a trial to those of a slot; the slot is free until they are enough.
    pub(super) fn add_to_lease(&mut self, trial: Trial) {
        let slot = trial.slot;
        let (halt, at_once) = (self.halt, self.at_once);
        let lease = self.under_way.entry(slot).or_insert_with(|| {
            self.filling.push(slot);
            Lease::new(at_once, halt)
        });
        lease.trials.push_back(trial);
        if lease.is_full() {
            self.free.retain(|free| *free != slot);
        }
    }

    /// Starts the trials that were added.
    pub(super) fn start_leases(&mut self) {
        for slot in std::mem::take(&mut self.filling) {
            self.free.retain(|free| *free != slot);
            self.start_lease(slot);
        }
    }

    fn start_lease(&mut self, slot: SlotId) {
        let Some(lease) = self.under_way.get_mut(&slot) else {
            return;
        };
        tracing::trace!(target: "slot", slot = slot.0, trials = lease.trials.len(), "give trials to a slot");
        let trials = &self.driver.state.trials;
        // Trials with a delay are given to a slot one by one.
        let delay = lease.trials.front().map_or(Duration::ZERO, |trial| {
            delay_of(&trials.conditions_of(trials.variant_plan(trial.variant)))
        });
        let results = self.results.clone();
        let report = move |id, observation| {
            // The receiver exists as long as the loop.
            let _ = results.send((slot, id, Box::new(observation)));
        };
        let running = self.driver.executor.run_trials(
            lease.trials.iter().cloned().collect(),
            lease.halt.subscribe(),
            Box::new(report),
        );
        let attempt = run_after_delay(delay, lease.halt.subscribe(), running);
        let task = self.tasks.spawn(async move {
            attempt.await;
            TaskResult::Lease(slot)
        });
        lease.task = Some(task.id());
        lease.since = Instant::now() + delay;
        lease.called_slow = false;
    }

    /// Continues with the trials that the slot has not run, or frees the slot.
    pub(super) async fn lease_ended(&mut self, slot: SlotId) {
        let Some(lease) = self.under_way.get(&slot) else {
            return;
        };
        let is_halted = *lease.halt.borrow() != StopUrgency::No;
        if !lease.trials.is_empty() && !is_halted && !lease.is_lost && self.is_slot_up(slot) {
            self.start_lease(slot);
            return;
        }
        while let Some(id) = self.first_trial(slot) {
            if self.driver.state.stage.is_decided() {
                self.withdraw_first_trial(slot);
                continue;
            }
            let observation = Observation {
                interrupted: true,
                ..Observation::default()
            };
            self.finish_trial(slot, id, observation).await;
        }
        self.under_way.remove(&slot);
        if self.is_slot_up(slot) {
            self.free.push(slot);
        }
    }

    /// Marks the running trial of a task that did not end regularly as lost.
    pub(super) async fn lease_broke(&mut self, task: task::Id, reason: &str) {
        let mut leases = self.under_way.iter();
        let Some((&slot, _)) = leases.find(|(_, lease)| lease.task == Some(task)) else {
            return;
        };
        if let Some(id) = self.first_trial(slot) {
            let observation = Observation {
                lost: Some(reason.to_owned()),
                ..Observation::default()
            };
            self.finish_trial(slot, id, observation).await;
        }
        self.lease_ended(slot).await;
    }

    /// Withdraws the first trial of a slot, which never ran.
    fn withdraw_first_trial(&mut self, slot: SlotId) {
        let lease = self.under_way.get_mut(&slot);
        if let Some(trial) = lease.and_then(|lease| lease.trials.pop_front()) {
            self.emit_event(&Event::TrialWithdrawn(trial.id));
        }
    }

    fn first_trial(&self, slot: SlotId) -> Option<TrialId> {
        Some(self.under_way.get(&slot)?.trials.front()?.id)
    }
}

/// Runs trials after a delay, unless their end is requested before.
async fn run_after_delay(
    delay: Duration,
    mut halt: watch::Receiver<StopUrgency>,
    running: ExecutorFuture<()>,
) {
    if !delay.is_zero() {
        tokio::select! {
            () = tokio::time::sleep(delay) => {}
            _ = halt.wait_for(|halt| *halt != StopUrgency::No) => return,
        }
    }
    running.await;
}
