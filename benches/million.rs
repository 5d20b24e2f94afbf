//! Runs a million trials without processes, to measure the cost of the loop, the fold and the journal.
//!
//! ```text
//! cargo bench --bench million -- 1000000 /tmp/million
//! provoke report /tmp/million --json
//! ```

#![expect(clippy::print_stdout, reason = "it is a program of its own")]

use provoke_driver::{Driver, drive_run};
use provoke_exec::FakeExecutor;
use provoke_journal::{Journal, RunFolder};
use provoke_model::{ActorObservation, Ending, Event, FORMAT, Host, Observation, Signal, Trial};
use provoke_plan::{PlanContext, ProgramSettings, Scenario, TrialSettings};
use provoke_state::State;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// One trial in ten dies of SIGSEGV.
fn outcome(trial: &Trial) -> (Duration, Observation) {
    let crashes = trial.seed.is_multiple_of(10);
    let time = Duration::from_micros(900 + trial.seed % 200);
    let ending = if crashes {
        Ending::Signaled(Signal::SEGV, false)
    } else {
        Ending::Exited(0)
    };
    let actor = ActorObservation {
        ending,
        elapsed: time,
        cpu: time,
        max_rss: 2400,
        ..ActorObservation::default()
    };
    (
        Duration::ZERO,
        Observation {
            elapsed: time,
            actors: vec![actor],
            ..Observation::default()
        },
    )
}

fn main() {
    // Cargo adds `--bench`.
    let mut args = std::env::args()
        .skip(1)
        .filter(|argument| argument != "--bench");
    let trials = args
        .next()
        .map_or(1_000_000, |text| text.parse().expect("a number of trials"));
    let out = args
        .next()
        .map(PathBuf::from)
        .expect("a folder that does not exist yet");
    let scenario = Scenario {
        program: ProgramSettings {
            command: Some(vec!["x".to_owned()]),
            ..ProgramSettings::default()
        },
        trials: TrialSettings {
            runs: Some(trials),
            jobs: 2.try_into().ok(),
            ..TrialSettings::default()
        },
        ..Scenario::default()
    };
    let around = PlanContext {
        environment: Vec::new(),
        base: PathBuf::from("/"),
        seed: 1,
        baseline: None,
        held: None,
        searched: None,
    };
    let plan = provoke_questions::plan(&scenario, around).expect("a complete scenario");
    let folder = RunFolder::create_run(Some(&out), &out).expect("a new folder");
    let mut journal = Journal::open_for_append(&folder.journal_path()).expect("a new journal");
    let started = Event::RunStarted {
        format: FORMAT,
        version: "example".to_owned(),
        run: folder.run_name(),
        plan: Box::new(plan),
        host: Host::default(),
        survey: provoke_model::Survey::default(),
        at: 0,
    };
    journal
        .add_event(&started)
        .expect("a journal that can be written");
    let mut state =
        State::begin_fold(started, provoke_questions::begin_memory).expect("the first event");

    let question = provoke_questions::of(&state);
    let started_at = Instant::now();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build();
    runtime.expect("a runtime").block_on(async {
        let (_sender, mut signals) = tokio::sync::mpsc::unbounded_channel();
        let mut driver = Driver {
            state: &mut state,
            question,
            executor: Arc::new(FakeExecutor::new(outcome)),
            sinks: vec![&mut journal],
            signals: &mut signals,
            evidence: PathBuf::new(),
        };
        drive_run(&mut driver).await;
    });
    println!(
        "{} trials, {} failed, {:.1} s, journal {}",
        state.completed_trials(),
        state
            .arrivals_by_kind()
            .map(|(_, count)| count)
            .sum::<u64>(),
        started_at.elapsed().as_secs_f64(),
        if journal.sync_to_disk() {
            "complete"
        } else {
            "incomplete"
        },
    );
}
