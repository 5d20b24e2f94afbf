//! Simulates runs without processes: they use plan, policy and state of the program, with one trial after another.

use std::time::Duration;

use provoke_model::{
    Event, EvidenceDepth, FORMAT, Failure, FailureKind, Host, Observation, Outcome, Plan,
    Signature, SignatureId, SlotId, Survey, Trial, TrialPurpose,
};
use provoke_plan::{PlanContext, Scenario};
use provoke_questions as questions;
use provoke_questions::Step;
use provoke_state::State;

/// Returns the plan of a scenario whose command does not matter.
pub(crate) fn plan(text: &str) -> Plan {
    let text = format!("command = ['x']\n{text}");
    let scenario: Scenario = text.parse().expect("a scenario");
    let surroundings = PlanContext {
        environment: Vec::new(),
        base: "/".into(),
        seed: 1,
        baseline: None,
        held: None,
        searched: None,
    };
    provoke_questions::plan(&scenario, surroundings).expect("a plan")
}

/// Returns the state of a run that has begun.
pub(crate) fn begin(plan: Plan) -> State {
    let event = Event::RunStarted {
        format: FORMAT,
        version: String::new(),
        run: String::new(),
        plan: Box::new(plan),
        host: Host::default(),
        survey: Survey::default(),
        at: 0,
    };
    State::begin_fold(event, questions::begin_memory).expect("a sound plan")
}

/// Returns a failure with this signature.
pub(crate) fn failure(signature: u32) -> Outcome {
    Outcome::Fail(Box::new(Failure {
        kind: FailureKind::Exit { code: 1 },
        signature: Signature {
            id: SignatureId(signature),
            title: String::new(),
            depth: EvidenceDepth::Output,
            also: Vec::new(),
            placed: false,
            family: None,
            families: Vec::new(),
        },
        sites: Vec::new(),
        functions: Vec::new(),
    }))
}

/// Runs trials until the question is answered or `most` were run. `outcome` returns how a trial ends, and its time.
pub(crate) fn answer(
    plan: &Plan,
    most: u64,
    mut outcome: impl FnMut(&State, &Trial) -> (Outcome, Duration),
) -> State {
    let mut state = begin(plan.clone());
    let policy = questions::policy_of(&state);
    while !state.stage.is_decided() && state.next_id().0 <= most {
        let variant = match policy.next_step(&state) {
            Step::Launch(variant) => variant,
            Step::Choose(choice) => {
                state.apply_event(&Event::VariantChosen(choice), |_| false);
                continue;
            }
            Step::Done => break,
            step => panic!("one trial at a time never waits: {step:?}"),
        };
        let trial = Trial {
            id: state.next_id(),
            variant,
            slot: SlotId(0),
            seed: 0,
            timeout: Duration::from_secs(1),
            purpose: TrialPurpose::Measure,
            hold: None,
        };
        state.apply_event(&Event::TrialStarted(trial.clone()), |_| false);
        let (outcome, elapsed) = outcome(&state, &trial);
        let ended = Event::TrialFinished {
            trial: trial.id,
            at: Duration::ZERO,
            seen: Box::new(Observation {
                elapsed,
                ..Observation::default()
            }),
            outcome,
        };
        state.apply_event(&ended, questions::is_done);
    }
    state
}
