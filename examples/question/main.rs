//! Adds a question to provoke: how long is the longest series of passes before the tenth failure?
//!
//! The question is in `series.rs`. This file runs it in simulated time, with trials of which every seventh fails on
//! average.
//!
//!     cargo run --example question

#![expect(clippy::print_stdout, reason = "an example says what it found")]

mod series;

use provoke_driver::{Driver, drive_run};
use provoke_exec::FakeExecutor;
use provoke_model::{ActorObservation, Ending, Event, FORMAT, Host, Observation, Survey, Trial};
use provoke_plan::{PlanContext, Scenario};
use provoke_questions::QuestionKind as _;
use provoke_state::State;
use series::SeriesKind;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// One trial in seven fails, depending on its seed.
fn world(trial: &Trial) -> (Duration, Observation) {
    let main = ActorObservation {
        ending: Ending::Exited(trial.seed.is_multiple_of(7).into()),
        ..ActorObservation::default()
    };
    let seen = Observation {
        actors: vec![main],
        ..Observation::default()
    };
    (Duration::from_secs(60), seen)
}

fn main() {
    let scenario: Scenario = "command = ['x']\nruns = 1_000_000"
        .parse()
        .expect("a scenario");
    let around = PlanContext {
        environment: Vec::new(),
        base: PathBuf::from("."),
        seed: 1,
        baseline: None,
        held: None,
        searched: None,
    };
    let mut state = State::begin_fold(
        Event::RunStarted {
            format: FORMAT,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            run: "series".to_owned(),
            plan: Box::new(scenario.to_plan(&SeriesKind, around).expect("a plan")),
            survey: Survey::default(),
            host: Host::default(),
            at: 0,
        },
        |goal, trials| SeriesKind.begin_memory(goal, trials),
    )
    .expect("a journal begins with this event");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let (_keep, mut signals) = mpsc::unbounded_channel();
        drive_run(&mut Driver {
            state: &mut state,
            question: &SeriesKind,
            executor: Arc::new(FakeExecutor::new(world)),
            sinks: Vec::new(),
            signals: &mut signals,
            evidence: PathBuf::new(),
        })
        .await;
    });
    println!("{}", SeriesKind.progress(&state).unwrap_or_default());
}
