//! Tests the loop, the fold and the policy together, with outcomes from a table and simulated time.

use proptest::prelude::*;
use provoke_driver::{Driver, drive_run};
use provoke_exec::{Executor, FakeExecutor};
use provoke_model::{
    ActorObservation, CoreObservation, Crash, Ending, Event, FORMAT, Host, Observation, Outcome,
    Plan, Signal, TotalUsage, Trial, TrialId, VariantId,
};
use provoke_plan::{PlanContext, Scenario};
use provoke_questions as questions;
use provoke_questions::{Policy as _, RepeatPolicy, StopRule, Verdict};
use provoke_report::Report;
use provoke_state::{EventSink, State};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::mpsc;

/// Records every event.
#[derive(Default)]
struct EventRecorder(Vec<Event>);

impl EventSink for EventRecorder {
    fn on_event(&mut self, event: &Event, _: &State) {
        self.0.push(event.clone());
    }
}

pub(crate) fn plan(toml: &str) -> Plan {
    let scenario: Scenario = format!("command = ['x']\n{toml}").parse().unwrap();
    let around = PlanContext {
        environment: Vec::new(),
        base: PathBuf::from("/"),
        seed: 1,
        baseline: None,
        held: None,
        searched: None,
    };
    provoke_questions::plan(&scenario, around).unwrap()
}

pub(crate) fn begin(plan: Plan) -> (Event, State) {
    let event = Event::RunStarted {
        format: FORMAT,
        version: "test".to_owned(),
        run: "test".to_owned(),
        plan: Box::new(plan),
        host: Host::default(),
        survey: provoke_model::Survey::default(),
        at: 0,
    };
    (
        event.clone(),
        State::begin_fold(event, questions::begin_memory).unwrap(),
    )
}

fn apply(state: &mut State, event: &Event) {
    state.apply_event(event, questions::is_done);
}

/// Runs a state to its end in virtual time; returns the events.
pub(crate) fn run(
    state: &mut State,
    script: impl Fn(&Trial) -> (Duration, Observation) + Send + Sync + 'static,
    interrupt_after: Option<Duration>,
) -> Vec<Event> {
    run_with(state, Arc::new(FakeExecutor::new(script)), interrupt_after)
}

/// Runs a state to its end with this executor.
pub(crate) fn run_with(
    state: &mut State,
    executor: Arc<dyn Executor>,
    interrupt_after: Option<Duration>,
) -> Vec<Event> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build();
    let question = questions::of(state);
    let mut recorder = EventRecorder::default();
    runtime.unwrap().block_on(async {
        let (sender, mut signals) = mpsc::unbounded_channel();
        let interrupt = async {
            match interrupt_after {
                Some(time) => tokio::time::sleep(time).await,
                None => std::future::pending().await,
            }
            sender.send(Signal::INT).unwrap();
            std::future::pending::<()>().await;
        };
        let mut driver = Driver {
            state,
            question,
            executor,
            sinks: vec![&mut recorder],
            signals: &mut signals,
            evidence: PathBuf::new(),
        };
        tokio::select! {
            () = drive_run(&mut driver) => {}
            () = interrupt => {}
        }
    });
    recorder.0
}

pub(crate) fn hash(a: u64, b: u64) -> u64 {
    provoke_model::trial_seed(a, TrialId(b))
}

/// About one trial in four fails and one in ten is inconclusive; failures take longer.
fn mixed_outcome(seed: u64, trial: &Trial) -> (Duration, Observation) {
    let (seen, slower) = match hash(seed, trial.id.0) % 20 {
        0..=1 => (exited(1), 10),
        2..=4 => (crashed(trial), 10),
        5..=6 => (exited(125), 1),
        _ => (exited(0), 1),
    };
    let spread = Duration::from_millis(hash(!seed, trial.id.0) % 1000);
    (spread * slower, seen)
}

pub(crate) fn exited(code: i32) -> Observation {
    ended(Ending::Exited(code))
}

/// Returns a crash, optionally with a core.
fn crashed(trial: &Trial) -> Observation {
    crashed_with(trial, Signal::SEGV)
}

fn crashed_with(trial: &Trial, signal: Signal) -> Observation {
    let mut seen = ended(Ending::Signaled(signal, trial.captures_evidence()));
    if trial.captures_evidence() {
        let crash = Crash {
            signal: Some(signal),
            ..Crash::default()
        };
        seen.cores.push(CoreObservation {
            crash: Some(Box::new(crash)),
            ..CoreObservation::default()
        });
    }
    seen
}

fn ended(ending: Ending) -> Observation {
    let actor = ActorObservation {
        ending,
        ..ActorObservation::default()
    };
    Observation {
        actors: vec![actor],
        elapsed: Duration::from_secs(1),
        ..Observation::default()
    }
}

/// Returns the result of a run, without the parts that depend on timing.
fn answer(state: &State) -> (Verdict, u64, u64, Vec<u64>, u64, StopRule) {
    let report = Report::new(state, true);
    let variant = &report.variants[0];
    (
        report.verdict,
        variant.trials,
        variant.failures,
        variant.failing_trials.clone(),
        variant.void,
        variant.stop_rule,
    )
}

const RULES: [&str; 4] = [
    "runs = 30",
    "max-fail = 3",
    "runs = 40\nmax-fail = 2",
    "width = 0.5",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn any_completion_order_gives_the_same_answer(
        seed in any::<u64>(),
        order in any::<u64>(),
        jobs in 1..9_u32,
        waves in any::<bool>(),
        rule in 0..RULES.len(),
    ) {
        let concurrency = if waves { format!("wave = {jobs}") } else { format!("jobs = {jobs}") };
        let (_, mut state) = begin(plan(&format!("{}\n{concurrency}", RULES[rule])));
        run(&mut state, move |trial| {
            let (_, seen) = mixed_outcome(seed, trial);
            (Duration::from_millis(hash(order, trial.id.0) % 50), seen)
        }, None);
        let (_, mut one_by_one) = begin(plan(RULES[rule]));
        run(&mut one_by_one, move |trial| mixed_outcome(seed, trial), None);
        prop_assert_eq!(answer(&state), answer(&one_by_one));
    }

    #[test]
    fn a_journal_cut_anywhere_and_resumed_gives_the_same_answer(
        seed in any::<u64>(),
        jobs in 1..6_u32,
        rule in 0..RULES.len(),
        cut in any::<prop::sample::Index>(),
    ) {
        let (first, mut state) = begin(plan(&format!("{}\njobs = {jobs}", RULES[rule])));
        let events = run(&mut state, move |trial| mixed_outcome(seed, trial), None);

        let mut resumed = State::begin_fold(first, questions::begin_memory).unwrap();
        for event in &events[..cut.index(events.len())] {
            apply(&mut resumed, event);
        }
        apply(&mut resumed, &Event::RunResumed { at: 0 });
        run(&mut resumed, move |trial| mixed_outcome(seed, trial), None);
        prop_assert_eq!(answer(&state), answer(&resumed));
    }

    #[test]
    fn an_interrupted_and_resumed_run_gives_the_same_answer(
        seed in any::<u64>(),
        jobs in 1..6_u32,
        rule in 0..RULES.len(),
        after in 0..20_000_u64,
    ) {
        // Extra trials after the interrupt would take numbers, and a trial's number decides how it ends here.
        let text = format!("{}\njobs = {jobs}\ncapture = 'off'", RULES[rule]);
        let (_, mut whole) = begin(plan(&text));
        run(&mut whole, move |trial| mixed_outcome(seed, trial), None);

        let (first, mut broken) = begin(plan(&text));
        let mut events = vec![first];
        let pause = Some(Duration::from_millis(after));
        events.extend(run(&mut broken, move |trial| mixed_outcome(seed, trial), pause));
        prop_assert!(broken.stage.is_finished() || broken.stage.stop_cause().is_some());
        if !broken.stage.is_finished() {
            apply(&mut broken, &Event::RunResumed { at: 0 });
            events.push(Event::RunResumed { at: 0 });
            events.extend(run(&mut broken, move |trial| mixed_outcome(seed, trial), None));
        }
        prop_assert_eq!(answer(&whole), answer(&broken));

        // The journal gives the same result.
        let mut events = events.into_iter();
        let mut replayed = State::begin_fold(events.next().unwrap(), questions::begin_memory).unwrap();
        for event in events {
            apply(&mut replayed, &event);
        }
        prop_assert_eq!(answer(&whole), answer(&replayed));
        let caught = |state: &State| state.captured_tally(VariantId(0)).failed.clone();
        prop_assert_eq!(caught(&broken), caught(&replayed));
    }

    #[test]
    fn every_trial_number_is_used_exactly_once(
        seed in any::<u64>(),
        jobs in 1..9_u32,
    ) {
        let (_, mut state) = begin(plan(&format!("runs = 30\njobs = {jobs}")));
        let events = run(&mut state, move |trial| mixed_outcome(seed, trial), None);
        let finished: BTreeSet<u64> = events.iter().filter_map(|event| match event {
            Event::TrialFinished { trial, .. } => Some(trial.0),
            _ => None,
        }).collect();
        prop_assert_eq!(state.tally_of(VariantId(0)).counted_trials(), 30);
        let started = state.next_id().0 - 1;
        prop_assert_eq!(finished, (1..=started).collect());
    }
}

#[test]
fn inconclusive_trials_are_replaced() {
    let (_, mut state) = begin(plan("runs = 10\njobs = 3"));
    run(
        &mut state,
        |trial| {
            (
                Duration::ZERO,
                exited(if trial.id.0.is_multiple_of(3) { 125 } else { 0 }),
            )
        },
        None,
    );
    let (verdict, trials, failures, _, void, rule) = answer(&state);
    assert_eq!(
        (verdict, trials, failures, void),
        (Verdict::Clean, 10, 0, 4)
    );
    assert_eq!(rule, StopRule::PlannedN);
}

#[test]
fn trials_after_the_deciding_failure_are_not_counted() {
    // #4 fails slowly, #5 and #6 fail at once: the decision is still that of #4.
    let script = |trial: &Trial| match trial.id.0 {
        4 => (Duration::from_secs(60), exited(1)),
        5 | 6 => (Duration::from_millis(1), exited(1)),
        _ => (Duration::from_secs(1), exited(0)),
    };
    let (_, mut state) = begin(plan("fail-fast = true\njobs = 8"));
    run(&mut state, script, None);
    let (verdict, trials, failures, failing, _, rule) = answer(&state);
    assert_eq!(
        (verdict, trials, failures, failing),
        (Verdict::Failing, 4, 1, vec![4])
    );
    assert_eq!(rule, StopRule::KthFailure);
    assert!(state.after_decision > 0);
}

#[test]
fn slow_failures_are_counted_although_passes_end_sooner() {
    // With a true rate of 1 in 4 and hangs that last 100 times longer, a run that stops at the 40th completion sees far
    // too few hangs.
    let script = |trial: &Trial| match trial.id.0 % 4 {
        0 => (Duration::from_secs(100), exited(1)),
        _ => (Duration::from_secs(1), exited(0)),
    };
    let (_, mut state) = begin(plan("runs = 40\njobs = 8"));
    run(&mut state, script, None);
    let (_, trials, failures, ..) = answer(&state);
    assert_eq!((trials, failures), (40, 10));
}

#[test]
fn a_time_limit_waits_for_the_running_trials() {
    let script = |trial: &Trial| match trial.id.0 {
        7 => (Duration::from_secs(30), exited(1)),
        _ => (Duration::from_secs(1), exited(0)),
    };
    let (_, mut state) = begin(plan("duration = '10s'\njobs = 2\ntimeout = '60s'"));
    run(&mut state, script, None);
    let (verdict, trials, failures, _, _, rule) = answer(&state);
    assert_eq!(
        (verdict, failures, rule),
        (Verdict::Failing, 1, StopRule::Time)
    );
    assert!(trials >= 12, "{trials}");
    assert!(state.stage.is_finished());
}

#[test]
fn a_time_limit_stops_service_runs_and_does_not_count_them() {
    let script = |trial: &Trial| match trial.id.0 {
        7 => (Duration::from_secs(30), exited(1)),
        _ => (Duration::from_secs(1), exited(0)),
    };
    let (_, mut state) = begin(plan("duration = '10s'\njobs = 2\ntimeout = '60s'"));
    state.trials.load = plan("[load]\nurl = 'http://127.0.0.1:1'\nclients = 1")
        .trials
        .load;
    let events = run(&mut state, script, None);
    let (_, trials, failures, _, void, rule) = answer(&state);
    assert_eq!((trials, failures, void, rule), (6, 0, 0, StopRule::Time));
    assert!(state.stage.is_finished());
    let started = |event: &&Event| matches!(event, Event::TrialStarted(trial) if trial.id.0 == 7);
    assert_eq!(events.iter().filter(started).count(), 1);
    let note = "the time limit stopped #7, which does not count";
    assert_eq!(state.notes, [(note.to_owned(), 1)]);
}

#[test]
fn a_wave_starts_after_the_end_of_the_wave_before() {
    let running = Arc::new(Mutex::new((0_u64, Vec::new())));
    let (_, mut state) = begin(plan("runs = 12\nwave = 4"));
    let starts = Arc::clone(&running);
    let events = run(
        &mut state,
        move |trial| {
            starts.lock().unwrap().1.push(trial.id.0);
            (Duration::from_millis(trial.id.0 % 4 * 100 + 1), exited(0))
        },
        None,
    );
    let mut open = 0;
    for event in events {
        match event {
            Event::TrialStarted(trial) => {
                let first_of_wave = (trial.id.0 - 1).is_multiple_of(4);
                assert!(
                    !first_of_wave || open == 0,
                    "{} began among {open}",
                    trial.id
                );
                open += 1;
            }
            Event::TrialFinished { .. } => open -= 1,
            _ => {}
        }
    }
}

#[test]
fn warmup_trials_are_not_counted() {
    let (_, mut state) = begin(plan("runs = 5\nwarmup = 3"));
    run(
        &mut state,
        |trial| (Duration::ZERO, exited(i32::from(trial.id.0 <= 3))),
        None,
    );
    let (verdict, trials, failures, _, void, _) = answer(&state);
    assert_eq!((verdict, trials, failures, void), (Verdict::Clean, 5, 0, 0));
}

#[test]
fn a_run_ends_if_every_trial_is_inconclusive() {
    let (_, mut state) = begin(plan("runs = 1000\njobs = 2"));
    let unstarted = || {
        let ending = Ending::NotStarted("no such program".to_owned());
        let actor = ActorObservation {
            ending,
            ..ActorObservation::default()
        };
        Observation {
            actors: vec![actor],
            ..Observation::default()
        }
    };
    let events = run(
        &mut state,
        move |_| (Duration::from_millis(1), unstarted()),
        None,
    );
    assert!(events.len() < 50, "{}", events.len());
    assert_eq!(answer(&state).0, Verdict::CouldNotTest);
}

#[test]
fn a_lost_trial_is_retried_once_and_then_inconclusive() {
    let attempts = Arc::new(Mutex::new(0));
    let count = Arc::clone(&attempts);
    let (_, mut state) = begin(plan("runs = 3"));
    run(
        &mut state,
        move |trial| {
            let lost = trial.id.0 == 2;
            *count.lock().unwrap() += u32::from(lost);
            let lost = lost.then(|| "gone".to_owned());
            (Duration::ZERO, Observation { lost, ..exited(0) })
        },
        None,
    );
    let (verdict, trials, _, _, void, _) = answer(&state);
    assert_eq!(
        (verdict, trials, void, *attempts.lock().unwrap()),
        (Verdict::Clean, 3, 1, 2)
    );
}

#[test]
fn variants_alternate_and_each_stops_by_its_own_rule() {
    let variants = "max-fail = 2\nruns = 10\n[[variant]]\nname = 'a'\n[[variant]]\nname = 'b'\n";
    let (_, mut state) = begin(plan(variants));
    let events = run(
        &mut state,
        |trial| (Duration::ZERO, exited(i32::from(trial.variant.0 == 0))),
        None,
    );
    let order = launched(&events);
    assert!(
        order[..4]
            .chunks(2)
            .all(|pair| pair.contains(&0) && pair.contains(&1))
    );
    let rules: Vec<_> = state
        .all_tallies()
        .map(|(id, tally)| (tally.counted_trials(), RepeatPolicy.stop_rule(&state, id)))
        .collect();
    assert_eq!(rules, [(2, StopRule::KthFailure), (10, StopRule::PlannedN)]);
}

#[test]
fn interrupted_trials_are_inconclusive() {
    let script = |_: &Trial| (Duration::from_secs(3600), exited(0));
    let (_, mut state) = begin(plan("runs = 4\njobs = 4"));
    let events = run(&mut state, script, Some(Duration::from_secs(1)));
    assert!(matches!(events.last(), Some(Event::RunStopped { .. })));
    let interrupted = |event: &&Event| {
        matches!(
            event,
            Event::TrialFinished {
                outcome: Outcome::Inconclusive(_),
                ..
            }
        )
    };
    assert_eq!(events.iter().filter(interrupted).count(), 4);
    assert_eq!(answer(&state).0, Verdict::CouldNotTest);
}

#[test]
fn a_slow_trial_causes_one_note_before_its_timeout() {
    let script = |trial: &Trial| {
        let seconds = if trial.id.0 == 8 { 300 } else { 1 };
        (Duration::from_secs(seconds), exited(0))
    };
    let (_, mut state) = begin(plan("runs = 8\ntimeout = '10m'"));
    let events = run(&mut state, script, None);
    let notes: Vec<&String> = events
        .iter()
        .filter_map(|event| match event {
            Event::Note { text, .. } => Some(text),
            _ => None,
        })
        .collect();
    assert_eq!(
        notes,
        [
            "#8 takes longer than usual (timeout: 600 s; -t changes it); Ctrl-C ends the run and shows where it waits"
        ]
    );
}

#[test]
fn the_automatic_timeout_depends_on_the_slowest_passing_trial() {
    let script = |_: &Trial| (Duration::from_secs(3), exited(0));
    let (_, mut state) = begin(plan("runs = 8\ntimeout = 'auto'"));
    // A fake trial takes the scripted time; its observation always says one second.
    let events = run(&mut state, script, None);
    let timeouts: Vec<u64> = events
        .iter()
        .filter_map(|event| match event {
            Event::TrialStarted(trial) => Some(trial.timeout.as_secs()),
            _ => None,
        })
        .collect();
    assert_eq!(
        timeouts[..5],
        [300, 60, 60, 60, 60],
        "until five trials passed"
    );
    assert!(
        timeouts[5..].iter().all(|timeout| *timeout == 20),
        "{timeouts:?}"
    );
}

#[test]
fn the_automatic_timeout_also_ends_trials_that_started_before_it() {
    // While the second trial hangs, others pass; they are not counted before it has ended.
    let script = |trial: &Trial| {
        let seconds = if trial.id.0 == 2 { 3600 } else { 1 };
        (Duration::from_secs(seconds), exited(0))
    };
    let (_, mut state) = begin(plan("runs = 40\njobs = 2\ntimeout = 'auto'"));
    let events = run(&mut state, script, None);
    let hung = events.iter().find_map(|event| match event {
        Event::TrialFinished { seen, outcome, .. } if outcome.any_failure().is_some() => {
            let kind = outcome
                .any_failure()
                .map(|failure| failure.kind.to_string());
            Some((kind.unwrap_or_default(), seen.elapsed.as_secs()))
        }
        _ => None,
    });
    assert_eq!(hung, Some(("hang".to_owned(), 20)));
    assert_eq!(state.tally_of(VariantId(0)).failures, 1);
}

#[test]
fn evidence_trials_run_after_the_measurement_and_are_not_counted() {
    let (_, mut state) = begin(plan("runs = 20\njobs = 2"));
    let events = run(
        &mut state,
        |trial| {
            let crash = trial.id.0.is_multiple_of(5);
            let seen = if crash { crashed(trial) } else { exited(0) };
            (Duration::from_millis(10), seen)
        },
        None,
    );
    let variant = &Report::new(&state, true).variants[0];
    assert_eq!((variant.trials, variant.failures), (20, 4));
    assert_eq!(variant.failing_trials, [5, 10, 15, 20]);
    let captured = variant.captured.as_ref().unwrap();
    assert_eq!(
        (captured.failures, captured.trials),
        (3, 15),
        "a handful is enough"
    );
    let of = |event: &Event| match event {
        Event::TrialStarted(trial) => Some((trial.id.0 > 20, trial.captures_evidence())),
        _ => None,
    };
    let starts = events.iter().filter_map(of);
    assert!(starts.into_iter().all(|(later, capture)| later == capture));
}

#[test]
fn evidence_trials_go_on_until_the_most_frequent_crash_has_a_stack() {
    let (_, mut state) = begin(plan("runs = 20"));
    let script = |trial: &Trial| {
        let number = trial.id.0;
        let seen = match number {
            7 | 21..=23 => crashed_with(trial, Signal::ABRT),
            _ if number.is_multiple_of(4) && (number <= 20 || number == 40) => crashed(trial),
            _ => exited(0),
        };
        (Duration::from_millis(10), seen)
    };
    run(&mut state, script, None);
    let captured = state.captured_tally(VariantId(0));
    assert_eq!((captured.finished_trials(), captured.failures), (20, 4));
}

#[test]
fn an_interrupted_run_captures_evidence_and_resumes_the_measurement() {
    let (started, mut state) = begin(plan("runs = 400\njobs = 2"));
    let script = |trial: &Trial| {
        let crash = trial.id.0.is_multiple_of(5);
        let seen = if crash { crashed(trial) } else { exited(0) };
        // The last trial of the first part is still running when the user stops the run.
        let time = if trial.id.0 == 41 { 1_000 } else { 10 };
        (Duration::from_millis(time), seen)
    };
    let mut events = vec![started];
    events.extend(run(&mut state, script, Some(Duration::from_millis(405))));
    assert!(matches!(events.last(), Some(Event::RunStopped { .. })));
    let (_, trials, failures, ..) = answer(&state);
    assert_eq!((trials, failures), (40, 8));
    assert_eq!(state.captured_tally(VariantId(0)).failures, 3);
    assert!(!state.stage.runs_extra_trials() && !state.stage.is_finished());

    let mut events = events.iter();
    let mut again =
        State::begin_fold(events.next().unwrap().clone(), questions::begin_memory).unwrap();
    events.for_each(|event| apply(&mut again, event));
    apply(&mut again, &Event::RunResumed { at: 0 });
    run(&mut again, script, None);
    let (_, trials, ..) = answer(&again);
    assert_eq!(trials, 400);
    assert_eq!(
        again.captured_tally(VariantId(0)).failures,
        3,
        "no more are needed"
    );
    assert!(again.stage.is_finished());
}

#[test]
fn evidence_of_a_rare_crash_is_not_captured_after_an_interrupt() {
    let (_, mut state) = begin(plan("runs = 400"));
    let script = |trial: &Trial| {
        let crash = trial.id.0 == 2;
        let seen = if crash { crashed(trial) } else { exited(0) };
        (Duration::from_millis(100), seen)
    };
    run(&mut state, script, Some(Duration::from_secs(10)));
    assert_eq!(state.captured_tally(VariantId(0)).finished_trials(), 0);
}

#[test]
fn evidence_trials_end_if_the_crash_does_not_occur_again() {
    let (_, mut state) = begin(plan("runs = 20"));
    let once = |trial: &Trial| {
        let seen = if trial.id.0 == 7 {
            crashed(trial)
        } else {
            exited(0)
        };
        (Duration::from_millis(10), seen)
    };
    run(&mut state, once, None);
    let captured = state.captured_tally(VariantId(0));
    assert_eq!((captured.finished_trials(), captured.failures), (60, 0));
    assert!(state.stage.is_finished());
}

#[test]
fn evidence_trials_run_only_after_crashes_and_with_capture_auto() {
    let crash = |trial: &Trial| (Duration::from_millis(10), crashed(trial));
    let fail = |_: &Trial| (Duration::from_millis(10), exited(1));
    let captured = |text: &str, script: fn(&Trial) -> (Duration, Observation)| {
        let (_, mut state) = begin(plan(text));
        run(&mut state, script, None);
        state.captured_tally(VariantId(0)).finished_trials()
    };
    assert_eq!(captured("runs = 5", fail), 0);
    assert_eq!(captured("runs = 5\ncapture = 'off'", crash), 0);
    assert_eq!(
        captured("runs = 5\ncapture = 'on'", crash),
        0,
        "they were there already"
    );
    assert_eq!(captured("runs = 5", crash), 3);
}

#[test]
fn evidence_trials_end_early_if_crashes_leave_no_core() {
    let (_, mut state) = begin(plan("runs = 100"));
    let crash = ended(Ending::Signaled(Signal::SEGV, false));
    run(
        &mut state,
        move |_| (Duration::from_millis(10), crash.clone()),
        None,
    );
    assert_eq!(state.captured_tally(VariantId(0)).finished_trials(), 6);
}

#[test]
fn growth_is_restored_from_the_journal_and_restarts_on_resume() {
    let threads = |trial: &Trial| Observation {
        around: Some(TotalUsage {
            processes: 1,
            threads: trial.id.0,
            ..TotalUsage::default()
        }),
        ..exited(0)
    };
    let (first, mut state) = begin(plan("runs = 40\njobs = 4"));
    let script = move |trial: &Trial| (Duration::from_secs(1), threads(trial));
    let events = run(&mut state, script, None);
    let growth = |state: &State| Report::new(state, true).growth;
    let found = growth(&state);
    let warning: Vec<_> = found.iter().filter(|growth| growth.warns).collect();
    assert_eq!((found.len(), warning.len()), (4, 1), "{found:?}");
    assert_eq!((warning[0].from, warning[0].to), (1, 40));

    let text = |event| serde_json::to_string(event).unwrap();
    let read = |text: String| serde_json::from_str::<Event>(&text).unwrap();
    let mut again = State::begin_fold(read(text(&first)), questions::begin_memory).unwrap();
    for event in &events {
        apply(&mut again, &read(text(event)));
    }
    assert_eq!(again.usage.kept_points(), state.usage.kept_points());
    apply(&mut again, &Event::RunResumed { at: 0 });
    assert!(growth(&again).is_empty());
}

#[test]
fn an_interrupt_of_the_evidence_trials_keeps_the_answer() {
    let (_, mut state) = begin(plan("runs = 20"));
    let script = |trial: &Trial| {
        let crash = trial.id.0 == 7;
        let seen = if crash { crashed(trial) } else { exited(0) };
        (Duration::from_secs(1), seen)
    };
    run(&mut state, script, Some(Duration::from_millis(25_500)));
    let (verdict, trials, failures, ..) = answer(&state);
    assert_eq!((verdict, trials, failures), (Verdict::Failing, 20, 1));
    assert!(state.stage.is_finished() && state.stage.stop_cause().is_none());
    assert_eq!(state.captured_tally(VariantId(0)).finished_trials(), 5);
}

/// A scenario with four variants.
const FOUR: &str = "[[variant]]\nname = 'a'\n[[variant]]\nname = 'b'\n[[variant]]\nname = 'c'\n[[variant]]\nname = 'd'\n";

fn launched(events: &[Event]) -> Vec<u32> {
    let variant = |event: &Event| match event {
        Event::TrialStarted(trial) => Some(trial.variant.0),
        _ => None,
    };
    events.iter().filter_map(variant).collect()
}

#[test]
fn variants_run_in_blocks_of_random_order() {
    let order = |seed: u64| {
        let (_, mut state) = begin(plan(&format!("runs = 200\nseed = {seed}\n{FOUR}")));
        let events = run(&mut state, |_| (Duration::from_millis(1), exited(0)), None);
        launched(&events)
    };
    let all = order(1);
    assert_eq!(all.len(), 800);
    let mut firsts = [0; 4];
    let mut orders = BTreeSet::new();
    for block in all.chunks(4) {
        let members: BTreeSet<u32> = block.iter().copied().collect();
        assert_eq!(members.len(), 4, "each of them once: {block:?}");
        firsts[block[0] as usize] += 1;
        orders.insert(block.to_vec());
    }
    assert_eq!(orders.len(), 24, "every order comes up");
    assert!(
        firsts.iter().all(|first| (25..=75).contains(first)),
        "{firsts:?}"
    );
    assert_eq!(all, order(1), "the same seed, the same order");
    assert_ne!(all, order(2));
}

#[test]
fn a_variant_with_only_inconclusive_trials_becomes_untestable() {
    for concurrency in ["jobs = 1", "jobs = 5", "wave = 4"] {
        let (first, mut state) = begin(plan(&format!("runs = 30\n{concurrency}\n{FOUR}")));
        let events = run(
            &mut state,
            |trial| {
                let code = if trial.variant == VariantId(2) {
                    125
                } else {
                    0
                };
                (Duration::from_millis(1), exited(code))
            },
            None,
        );
        let why: Vec<_> = state.untestable.clone().into_iter().collect();
        let output = "100 consecutive trials were inconclusive: skipped".to_owned();
        assert_eq!(why, [(VariantId(2), output)], "{concurrency}");
        assert!(!state.is_testable(VariantId(2)) && state.is_testable(VariantId(1)));
        assert!(state.stage.is_finished(), "{concurrency}");
        for (id, tally) in state.all_tallies().filter(|(id, _)| id.0 != 2) {
            assert_eq!(tally.counted_trials(), 30, "{concurrency}: {}", id.0);
        }
        let mut again = State::begin_fold(first, questions::begin_memory).unwrap();
        for event in &events {
            apply(&mut again, event);
        }
        assert_eq!(again.untestable, state.untestable);
        assert_eq!(answer(&again), answer(&state), "{concurrency}");
    }
}

#[test]
fn a_run_without_testable_variants_stops_and_retries_them_on_resume() {
    let (_, mut state) = begin(plan(&format!("runs = 30\njobs = 3\n{FOUR}")));
    let nothing = |_: &Trial| {
        let seen = ended(Ending::NotStarted("no such program".to_owned()));
        (Duration::from_millis(1), seen)
    };
    let events = run(&mut state, nothing, None);
    assert_eq!(state.untestable.len(), 4);
    assert_eq!(
        state.untestable[&VariantId(0)],
        "10 consecutive trials were inconclusive: not started: no such program"
    );
    assert!(!state.any_testable() && !state.stage.is_finished() && !state.stage.is_decided());
    assert!(matches!(
        events.last(),
        Some(Event::RunStopped {
            why: provoke_model::StopCause::NothingCounts,
            ..
        })
    ));
    apply(&mut state, &Event::RunResumed { at: 0 });
    run(&mut state, |_| (Duration::from_millis(1), exited(0)), None);
    assert!(state.stage.is_finished() && state.untestable.is_empty());
    assert!(
        state
            .all_tallies()
            .all(|(_, tally)| tally.counted_trials() == 30)
    );
}

#[test]
fn a_resumed_run_does_not_retry_trials_of_an_untestable_variant() {
    let (_, mut state) = begin(plan(&format!("runs = 9\njobs = 8\n{FOUR}")));
    let slow = |_: &Trial| (Duration::from_secs(10), exited(0));
    run(&mut state, slow, Some(Duration::from_secs(1)));
    assert!(state.to_repeat().is_some());
    apply(&mut state, &Event::RunResumed { at: 0 });
    let given_up = Event::VariantUntestable {
        variant: VariantId(1),
        why: "`setup` failed: exit 1".to_owned(),
        at: state.worked,
    };
    apply(&mut state, &given_up);
    let events = run(&mut state, slow, None);
    assert!(!launched(&events).contains(&1));
    assert!(state.stage.is_finished());
    let trials: Vec<u64> = state
        .all_tallies()
        .map(|(_, tally)| tally.counted_trials())
        .collect();
    assert_eq!(trials, [9, 0, 9, 9]);
}

#[test]
fn an_unstartable_variant_is_tried_few_times_while_another_is_slow() {
    let (_, mut state) = begin(plan(&format!("runs = 3\njobs = 4\n{FOUR}")));
    let events = run(
        &mut state,
        |trial| match trial.variant.0 {
            0 => (Duration::from_secs(600), exited(0)),
            1 => (
                Duration::from_millis(1),
                ended(Ending::NotStarted("gone".to_owned())),
            ),
            _ => (Duration::from_secs(1), exited(0)),
        },
        None,
    );
    let tried = launched(&events)
        .iter()
        .filter(|variant| **variant == 1)
        .count();
    assert!((10..20).contains(&tried), "{tried}");
    assert!(state.stage.is_finished());
}
