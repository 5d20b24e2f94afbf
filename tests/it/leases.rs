//! Trials that a slot gets together: which, how many, and what happens to those that it does not run.

use provoke_exec::{Executor, ExecutorFuture, FakeExecutor, StopUrgency, TrialReporter};
use provoke_model::{Event, Observation, Outcome, SlotId, Trial, TrialId};
use provoke_report::Report;
use provoke_state::State;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::watch;

use crate::loop_and_fold::{begin, exited, plan, run_with};

/// Records which trials are given together.
struct Recorder {
    trials: FakeExecutor,
    orders: Arc<Mutex<Vec<Vec<u64>>>>,
}

impl Executor for Recorder {
    fn run_trial(
        &self,
        trial: Trial,
        halt: watch::Receiver<StopUrgency>,
    ) -> ExecutorFuture<Observation> {
        self.trials.run_trial(trial, halt)
    }

    fn run_trials(
        &self,
        trials: Vec<Trial>,
        halt: watch::Receiver<StopUrgency>,
        report: TrialReporter,
    ) -> ExecutorFuture<()> {
        let ids = trials.iter().map(|trial| trial.id.0).collect();
        self.orders.lock().unwrap().push(ids);
        self.trials.run_trials(trials, halt, report)
    }

    fn keep_output(&self, _: SlotId, _: PathBuf, _: bool) -> ExecutorFuture<()> {
        Box::pin(std::future::ready(()))
    }
}

/// Runs a plan whose trials take one millisecond, and its loop another. Returns the state, the events, and the trials that were given together.
fn run(
    settings: &str,
    outcome_of: impl Fn(&Trial) -> Observation + Send + Sync + 'static,
    interrupt_after: Option<Duration>,
) -> (State, Vec<Event>, Vec<Vec<u64>>) {
    let orders = Arc::default();
    let script = move |trial: &Trial| (Duration::from_millis(2), outcome_of(trial));
    let executor = Recorder {
        trials: FakeExecutor::new(script),
        orders: Arc::clone(&orders),
    };
    let (_, mut state) = begin(plan(settings));
    let events = run_with(&mut state, Arc::new(executor), interrupt_after);
    let orders = std::mem::take(&mut *orders.lock().unwrap());
    (state, events, orders)
}

fn short_pass(_: &Trial) -> Observation {
    Observation {
        elapsed: Duration::from_millis(1),
        ..exited(0)
    }
}

#[test]
fn a_slot_gets_forty_milliseconds_of_trials_at_once_when_their_duration_is_known() {
    let (state, _, orders) = run("runs = 100", short_pass, None);
    let sizes: Vec<usize> = orders.iter().map(Vec::len).collect();
    assert_eq!(sizes[..5], [1; 5]);
    assert_eq!(sizes[5..7], [40; 2]);
    assert_eq!(sizes[7..], [15]);
    assert_eq!(Report::new(&state, true).variants[0].trials, 100);
}

#[test]
fn trials_with_evidence_or_conditions_of_their_own_are_given_one_by_one() {
    let settings = [
        "keep = 'all'",
        "capture = 'on'",
        "delay = '1ms'",
        "wave = 1",
    ];
    for setting in settings {
        let (_, _, orders) = run(&format!("runs = 30\n{setting}"), short_pass, None);
        assert!(orders.iter().all(|trials| trials.len() == 1), "{setting}");
    }
    let slow = |trial: &Trial| Observation {
        elapsed: Duration::from_millis(50),
        ..short_pass(trial)
    };
    let (_, _, orders) = run("runs = 30", slow, None);
    assert!(orders.iter().all(|trials| trials.len() == 1), "slow");
}

#[test]
fn after_a_failure_the_slot_continues_with_the_rest() {
    let fails = |trial: &Trial| match trial.id.0 {
        8 => exited(1),
        _ => short_pass(trial),
    };
    let (state, events, orders) = run("runs = 15", fails, None);
    assert_eq!(orders[5], (6..=15).collect::<Vec<u64>>());
    assert_eq!(orders[6], (9..=15).collect::<Vec<u64>>());
    let starts = events
        .iter()
        .filter(|event| matches!(event, Event::TrialStarted(_)));
    assert_eq!(starts.count(), 15);
    let variant = &Report::new(&state, true).variants[0];
    assert_eq!((variant.trials, variant.failures), (15, 1));
}

#[test]
fn after_a_lost_trial_the_others_are_retried_one_by_one() {
    let attempts: Mutex<BTreeMap<TrialId, u32>> = Mutex::default();
    let loses = move |trial: &Trial| {
        let mut attempts = attempts.lock().unwrap();
        let attempt = attempts.entry(trial.id).or_default();
        *attempt += 1;
        let lost = (trial.id.0 == 8 && *attempt == 1).then(|| "its slot was lost".to_owned());
        Observation {
            lost,
            ..short_pass(trial)
        }
    };
    let (state, _, orders) = run("runs = 15", loses, None);
    assert_eq!(orders[5], (6..=15).collect::<Vec<u64>>());
    let retries: Vec<Vec<u64>> = (8..=15).map(|id| vec![id]).collect();
    assert_eq!(orders[6..], retries);
    let variant = &Report::new(&state, true).variants[0];
    assert_eq!((variant.trials, variant.void), (15, 0));
}

#[test]
fn trials_that_an_interruption_prevented_run_after_the_resumption() {
    let interrupt = Some(Duration::from_millis(17));
    let (state, events, _) = run("runs = 15", short_pass, interrupt);
    assert!(!state.stage.is_decided());
    let mut outcomes: BTreeMap<TrialId, &Outcome> = BTreeMap::new();
    for event in &events {
        if let Event::TrialFinished { trial, outcome, .. } = event {
            outcomes.insert(*trial, outcome);
        }
    }
    let passes = outcomes
        .values()
        .filter(|outcome| ***outcome == Outcome::Pass);
    assert_eq!((passes.count(), outcomes.len()), (8, 15));
    assert_eq!(state.to_repeat().map(|trial| trial.id), Some(TrialId(9)));
}

#[test]
fn trials_that_no_slot_began_before_the_answer_have_no_result() {
    let fails = |trial: &Trial| match trial.id.0 {
        8 => exited(1),
        _ => short_pass(trial),
    };
    let (state, events, orders) = run("fail-fast = true", fails, None);
    assert_eq!(orders[5], (6..=45).collect::<Vec<u64>>());
    let withdrawn = events.iter().filter_map(|event| match event {
        Event::TrialWithdrawn(trial) => Some(trial.0),
        _ => None,
    });
    assert_eq!(
        withdrawn.collect::<Vec<u64>>(),
        (9..=45).collect::<Vec<u64>>()
    );
    assert_eq!((state.stage.is_decided(), state.after_decision), (true, 0));
    assert!(!state.has_open_trials());
}
