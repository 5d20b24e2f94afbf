//! A custom question: how long is the longest series of passes before the tenth failure?
//!
//! A policy reads the state and returns the next step; it keeps no other data. Here it runs trials in simulated
//! time, of which every seventh fails on average.
//!
//!     cargo run --example policy

#![expect(clippy::print_stdout, reason = "an example says what it found")]

use provoke::driver::{Driver, drive_run};
use provoke::exec::FakeExecutor;
use provoke::model::{
    ActorObservation, Ending, Event, FORMAT, Host, Observation, Outcome, Survey, Trial, VariantId,
};
use provoke::policy::{Policy, Step, StopRule, Verdict};
use provoke::scenario::{PlanContext, Scenario};
use provoke::state::{EventSink, State};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

const FAILURES: u64 = 10;

/// Runs trials until ten have failed.
struct UntilTen;

impl Policy for UntilTen {
    fn next_step(&self, state: &State) -> Step {
        match state.tally_of(VariantId(0)).failures {
            FAILURES.. => Step::Done,
            _ if state.budget_spent => Step::Done,
            _ => Step::Launch(VariantId(0)),
        }
    }

    fn verdict_of(&self, state: &State) -> Verdict {
        match state.tally_of(VariantId(0)).failures {
            0 => Verdict::Undecided,
            _ => Verdict::Failing,
        }
    }

    fn stop_rule(&self, _: &State, _: VariantId) -> StopRule {
        StopRule::KthFailure
    }

    fn remaining_trials(&self, _: &State) -> Option<u64> {
        None
    }
}

/// Receives the events, as the live line and the journal do.
#[derive(Default)]
struct Series {
    now: u64,
    longest: u64,
}

impl EventSink for Series {
    fn on_event(&mut self, event: &Event, _: &State) {
        if let Event::TrialFinished { outcome, .. } = event {
            self.now = match outcome {
                Outcome::Pass => self.now + 1,
                _ => 0,
            };
            self.longest = self.longest.max(self.now);
        }
    }
}

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
        searched: None,
    };
    let mut state = State::begin_fold(Event::RunStarted {
        format: FORMAT,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        run: "series".to_owned(),
        plan: Box::new(scenario.to_plan(around).expect("a plan")),
        survey: Survey::default(),
        host: Host::default(),
        at: 0,
    })
    .expect("a journal begins with this event");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime");
    let mut series = Series::default();
    runtime.block_on(async {
        let (_keep, mut signals) = mpsc::unbounded_channel();
        drive_run(&mut Driver {
            state: &mut state,
            policy: &UntilTen,
            executor: Arc::new(FakeExecutor::new(world)),
            sinks: vec![&mut series],
            signals: &mut signals,
            evidence: PathBuf::new(),
        })
        .await;
    });
    let tally = state.tally_of(VariantId(0));
    println!(
        "{} of {} failed; the longest series of passes was {}",
        tally.failures,
        tally.counted_trials(),
        series.longest,
    );
}
