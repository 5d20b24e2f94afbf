//! A custom kind of trial: an executor that runs Rust code instead of processes.
//!
//! Two threads increment one counter with a race. The executor returns the facts about a trial as an `Observation`; the
//! library judges, counts and groups them, and stops the run.
//!
//!     cargo run --example executor

#![expect(clippy::print_stdout, reason = "an example says what it found")]

use provoke_driver::{Driver, drive_run};
use provoke_exec::{Executor, ExecutorFuture, StopUrgency};
use provoke_model::{
    ActorObservation, Ending, Event, FORMAT, Host, Observation, Plan, SlotId, Survey, Trial,
};
use provoke_plan::{PlanContext, Scenario};
use provoke_questions as questions;
use provoke_report::{Report, headlines};
use provoke_state::State;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Instant;
use tokio::sync::{mpsc, watch};

/// Number of increments of each thread.
const EACH: u32 = 2_000;

/// Counts with two threads; returns the result, and the message that the program would have printed.
fn count() -> (u32, String) {
    let (counter, both) = (AtomicU32::new(0), Barrier::new(2));
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                both.wait();
                for _ in 0..EACH {
                    // The bug: the other thread may write between the load and the store.
                    let seen = counter.load(Ordering::Relaxed);
                    counter.store(seen + 1, Ordering::Relaxed);
                }
            });
        }
    });
    let counted = counter.into_inner();
    (counted, format!("counted to {counted}"))
}

struct Threads;

impl Executor for Threads {
    fn run_trial(&self, _: Trial, _: watch::Receiver<StopUrgency>) -> ExecutorFuture<Observation> {
        Box::pin(async {
            let started_at = Instant::now();
            let (counted, words) = count();
            let main = ActorObservation {
                ending: Ending::Exited((counted != 2 * EACH).into()),
                last_words: if counted == 2 * EACH {
                    String::new()
                } else {
                    words
                },
                ..ActorObservation::default()
            };
            Observation {
                elapsed: started_at.elapsed(),
                actors: vec![main],
                ..Observation::default()
            }
        })
    }

    fn keep_output(&self, _: SlotId, _: PathBuf, _: bool) -> ExecutorFuture<()> {
        Box::pin(std::future::ready(()))
    }
}

/// Returns the plan of a scenario; the command is never run here.
fn plan() -> Plan {
    let scenario: Scenario = "command = ['count']\nruns = 500"
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
    provoke_questions::plan(&scenario, around).expect("a plan")
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let mut state = State::begin_fold(
        Event::RunStarted {
            format: FORMAT,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            run: "threads".to_owned(),
            plan: Box::new(plan()),
            survey: Survey::default(),
            host: Host::default(),
            at: 0,
        },
        questions::begin_memory,
    )
    .expect("a journal begins with this event");
    let (_keep, mut signals) = mpsc::unbounded_channel();
    drive_run(&mut Driver {
        question: questions::of(&state),
        state: &mut state,
        executor: Arc::new(Threads),
        sinks: Vec::new(),
        signals: &mut signals,
        evidence: PathBuf::new(),
    })
    .await;
    let report = Report::new(&state, true);
    println!("{}", headlines::rate_headline(&report, &report.variants[0]));
}
