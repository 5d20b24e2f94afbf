//! Tests searches whose variants take time to prepare, cannot all be prepared, and are evicted when the disk budget is
//! spent: the loop, the fold and the policies with an executor in virtual time.

use crate::loop_and_fold::{begin, exited, hash, plan, run_with};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use provoke_exec::{Executor, ExecutorFuture, PreparationResult, StopUrgency};
use provoke_model::{
    Event, Observation, Plan, SlotId, Trial, TrialsPlan, VariantChoice, VariantId, VariantPlan,
};
use provoke_questions as questions;
use provoke_report::Report;
use provoke_state::State;
use provoke_stats::search::Reduction;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::watch;

/// The true state: the command fails from a candidate on, or with two items.
#[derive(Clone, Copy, Debug)]
struct Simulation {
    seed: u64,
    first: u32,
    /// Number out of ten that cannot be prepared.
    broken: u64,
    /// Number of directories that may be kept.
    room: usize,
    /// Whether preparation takes much longer than a trial.
    slow: bool,
}

/// Items that the failure needs.
const NEEDED: [u32; 2] = [1, 4];

impl Simulation {
    fn fails(&self, choice: &VariantChoice) -> bool {
        match choice {
            VariantChoice::Place(place) => *place >= self.first,
            VariantChoice::Set(kept) => NEEDED.iter().all(|thing| kept.holds_item(*thing)),
        }
    }

    /// Both ends can be prepared, and so can all items and none.
    fn can_be_prepared(&self, choice: &VariantChoice, all: usize) -> bool {
        let (key, end) = match choice {
            VariantChoice::Place(place) => {
                (u64::from(*place), *place == 0 || *place as usize + 1 == all)
            }
            VariantChoice::Set(kept) => {
                let key = kept.0.iter().fold(7, |key, one| hash(key, u64::from(*one)));
                (key, kept.0.len() == all || kept.0.is_empty())
            }
        };
        end || hash(self.seed, key) % 10 >= self.broken
    }

    fn time(&self, salt: u64, most: u64) -> Duration {
        Duration::from_millis(hash(!self.seed, salt) % most)
    }
}

/// An executor that simulates the preparation of directories.
struct SimulatedExecutor(Arc<(Simulation, Mutex<ExecutorState>)>);

struct ExecutorState {
    choices: BTreeMap<VariantId, VariantChoice>,
    all: usize,
    /// The prepared variants, the most recently used last.
    prepared: Vec<VariantId>,
    used: Vec<VariantId>,
}

impl ExecutorState {
    /// Evicts directories beyond the budget, but not the last prepared one.
    fn make_room(&mut self, room: usize) -> Vec<VariantId> {
        let mut gone = Vec::new();
        let last = self.prepared.last().copied();
        while self.prepared.len() > room {
            let is_evictable = |id: &&VariantId| Some(**id) != last && !self.used.contains(id);
            let Some(oldest) = self.prepared.iter().find(is_evictable).copied() else {
                break;
            };
            self.prepared.retain(|id| *id != oldest);
            gone.push(oldest);
        }
        gone
    }
}

impl SimulatedExecutor {
    fn new(simulation: Simulation, plan: &TrialsPlan) -> Self {
        let variants = (0..).map(VariantId).zip(&plan.variants);
        let choices = variants.filter_map(|(id, variant)| Some((id, variant.choice.clone()?)));
        let executor_state = ExecutorState {
            choices: choices.collect(),
            all: plan.space.as_ref().unwrap().len(),
            prepared: Vec::new(),
            used: Vec::new(),
        };
        Self(Arc::new((simulation, Mutex::new(executor_state))))
    }
}

impl Executor for SimulatedExecutor {
    fn learn_variant(&self, id: VariantId, variant: &VariantPlan) {
        let choice = variant.choice.clone().unwrap();
        self.0.1.lock().unwrap().choices.insert(id, choice);
    }

    fn make_variant(
        &self,
        id: VariantId,
        mut halt: watch::Receiver<StopUrgency>,
    ) -> ExecutorFuture<PreparationResult> {
        let shared = Arc::clone(&self.0);
        Box::pin(async move {
            let (simulation, executor_state) = &*shared;
            let most = if simulation.slow { 60_000 } else { 200 };
            tokio::select! {
                () = tokio::time::sleep(simulation.time(u64::from(id.0), most)) => {}
                _ = halt.wait_for(|halt| *halt != StopUrgency::No) => return PreparationResult::Halted,
            }
            let mut executor_state = executor_state.lock().unwrap();
            if !simulation.can_be_prepared(&executor_state.choices[&id], executor_state.all) {
                return PreparationResult::Failed("no".to_owned());
            }
            assert!(!executor_state.prepared.contains(&id), "prepared twice");
            executor_state.prepared.push(id);
            PreparationResult::Ready { build: None }
        })
    }

    fn make_room(&self) -> Vec<VariantId> {
        let (simulation, executor_state) = &*self.0;
        executor_state.lock().unwrap().make_room(simulation.room)
    }

    fn run_trial(
        &self,
        trial: Trial,
        mut halt: watch::Receiver<StopUrgency>,
    ) -> ExecutorFuture<Observation> {
        let shared = Arc::clone(&self.0);
        let fails = {
            let (simulation, executor_state) = &*shared;
            let mut executor_state = executor_state.lock().unwrap();
            let is_made = executor_state.prepared.contains(&trial.variant);
            assert!(is_made, "{:?} was removed", trial.variant);
            executor_state.prepared.retain(|id| *id != trial.variant);
            executor_state.prepared.push(trial.variant);
            executor_state.used.push(trial.variant);
            simulation.fails(&executor_state.choices[&trial.variant])
        };
        Box::pin(async move {
            let (simulation, executor_state) = &*shared;
            let mut seen = exited(i32::from(fails));
            tokio::select! {
                () = tokio::time::sleep(simulation.time(trial.id.0, 2_000)) => {}
                _ = halt.wait_for(|halt| *halt != StopUrgency::No) => seen.interrupted = true,
            }
            let used = &mut executor_state.lock().unwrap().used;
            let at = used.iter().position(|id| *id == trial.variant).unwrap();
            used.remove(at);
            seen
        })
    }

    fn keep_output(&self, _: SlotId, _: PathBuf, _: bool) -> ExecutorFuture<()> {
        Box::pin(std::future::ready(()))
    }
}

/// Runs a state to its end, or to an interruption; returns the events.
fn run(state: &mut State, simulation: Simulation, interrupt: Option<Duration>) -> Vec<Event> {
    let executor = SimulatedExecutor::new(simulation, &state.trials);
    run_with(state, Arc::new(executor), interrupt)
}

const CANDIDATES: u32 = 16;
const ITEMS: u32 = 6;

fn bisect(jobs: u32, builds: u32) -> Plan {
    plan(&format!(
        "ask = 'bisect'\nrange = '0..{CANDIDATES}'\nsetup = 'make {{variant}}'\njobs = {jobs}\nbuilds = {builds}"
    ))
}

fn reduce(jobs: u32, builds: u32) -> Plan {
    let names: Vec<String> = (0..ITEMS).map(|thing| format!("'{thing}'")).collect();
    plan(&format!(
        "ask = 'reduce'\nset = [{}]\nsetup = 'make {{set}}'\njobs = {jobs}\nbuilds = {builds}",
        names.join(", ")
    ))
}

/// Returns the verdict and the culprits.
fn culprits(state: &State) -> (String, Vec<u32>) {
    let report = serde_json::to_value(Report::new(state, true)).unwrap();
    let all = report["answer"]["bisect"]["culprits"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one.as_str().unwrap().parse().unwrap());
    (
        report["verdict"].as_str().unwrap().to_owned(),
        all.collect(),
    )
}

/// Returns the expected result: the first failing candidate that can be prepared, with those before it that cannot.
fn expected(simulation: &Simulation) -> (String, Vec<u32>) {
    let all = CANDIDATES as usize + 1;
    let known = |place: &u32| simulation.can_be_prepared(&VariantChoice::Place(*place), all);
    let before = (0..simulation.first).rev().find(known).unwrap();
    let culprit = (simulation.first..=CANDIDATES).find(known).unwrap();
    ("found".to_owned(), (before + 1..=culprit).collect())
}

/// Asserts that a journal is consistent: tried variants were prepared, and none is prepared twice at once.
fn assert_in_order(events: &[Event], builds: usize) {
    let (mut preparing, mut prepared) = (BTreeSet::new(), BTreeSet::new());
    let (mut chosen, mut known) = (BTreeSet::new(), 1);
    for event in events {
        match event {
            Event::VariantChosen(choice) => {
                assert!(chosen.insert(choice.clone()), "chosen twice: {choice:?}");
                known += 1;
            }
            Event::PreparationStarted(id) => {
                assert!(
                    id.0 < known && !prepared.contains(id),
                    "prepared for nothing: {id:?}"
                );
                assert!(preparing.insert(*id), "prepared twice at once: {id:?}");
                assert!(preparing.len() <= builds, "too many at once");
            }
            Event::VariantMade { variant, gone, .. } => {
                assert!(preparing.remove(variant) && prepared.insert(*variant));
                for id in gone {
                    assert!(prepared.remove(id), "it was not there: {id:?}");
                }
            }
            Event::VariantUntestable { variant, .. } => {
                preparing.remove(variant);
            }
            Event::TrialStarted(trial) => assert!(prepared.contains(&trial.variant)),
            Event::RunResumed { .. } => {
                preparing.clear();
                prepared.clear();
            }
            _ => {}
        }
    }
}

/// Reads the events as from a journal.
fn replayed(first: &Event, events: &[Event]) -> State {
    let read = |event: &Event| {
        let text = serde_json::to_string(event).unwrap();
        serde_json::from_str::<Event>(&text).unwrap()
    };
    let mut state = State::begin_fold(read(first), questions::begin_memory).unwrap();
    for event in events {
        state.apply_event(&read(event), questions::is_done);
    }
    state
}

fn any_simulation() -> impl Strategy<Value = Simulation> {
    let each = (
        any::<u64>(),
        1..=CANDIDATES,
        0..5_u64,
        1..5_usize,
        any::<bool>(),
    );
    each.prop_map(|(seed, first, broken, room, slow)| Simulation {
        seed,
        first,
        broken,
        room,
        slow,
    })
}

fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(1),
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(cases(15))]

    #[test]
    fn a_search_with_prepared_variants_gives_the_same_answer_after_any_cut(
        simulation in any_simulation(),
        jobs in 1..4_u32,
        builds in 1..4_u32,
        cut in any::<prop::sample::Index>(),
    ) {
        let (first, mut state) = begin(bisect(jobs, builds));
        let mut events = run(&mut state, simulation, None);
        assert_in_order(&events, builds as usize);
        prop_assert_eq!(culprits(&state), expected(&simulation));
        prop_assert_eq!(culprits(&replayed(&first, &events)), expected(&simulation));

        events.truncate(cut.index(events.len()));
        events.push(Event::RunResumed { at: 0 });
        let mut resumed = replayed(&first, &events);
        events.extend(run(&mut resumed, simulation, None));
        assert_in_order(&events, builds as usize);
        prop_assert_eq!(culprits(&resumed), expected(&simulation));
    }

    #[test]
    fn a_search_with_prepared_variants_can_be_interrupted_at_any_time(
        simulation in any_simulation(),
        jobs in 1..4_u32,
        builds in 1..4_u32,
        after in 0..60_000_u64,
    ) {
        let (first, mut state) = begin(bisect(jobs, builds));
        let mut events = run(&mut state, simulation, Some(Duration::from_millis(after)));
        if !state.stage.is_finished() {
            // An interruption during its preparation does not make a variant untestable.
            let given_up = events.iter().filter(|event| matches!(event, Event::VariantUntestable { variant, .. }
                if simulation.can_be_prepared(state.trials.variant_plan(*variant).choice.as_ref().unwrap(), CANDIDATES as usize + 1)));
            prop_assert_eq!(given_up.count(), 0);
            events.push(Event::RunResumed { at: 0 });
            let mut resumed = replayed(&first, &events);
            events.extend(run(&mut resumed, simulation, None));
            state = resumed;
        }
        assert_in_order(&events, builds as usize);
        prop_assert_eq!(culprits(&state), expected(&simulation));
    }

}

proptest! {
    #![proptest_config(cases(8))]

    #[test]
    fn a_reduction_with_prepared_variants_finds_the_needed_items_after_any_cut(
        simulation in any_simulation(),
        jobs in 1..4_u32,
        builds in 1..4_u32,
        cut in any::<prop::sample::Index>(),
    ) {
        let needed = |state: &State| {
            let answer = state.learned::<Reduction>().unwrap().current_answer();
            let all: BTreeSet<usize> = answer.needed.concat().into_iter().collect();
            (questions::policy_of(state).verdict_of(state), all)
        };
        let (first, mut state) = begin(reduce(jobs, builds));
        let mut events = run(&mut state, simulation, None);
        assert_in_order(&events, builds as usize);
        let (verdict, all) = needed(&state);
        prop_assert!(state.stage.is_finished());
        prop_assert_eq!(needed(&replayed(&first, &events)), (verdict, all.clone()));

        events.truncate(cut.index(events.len()));
        events.push(Event::RunResumed { at: 0 });
        let mut resumed = replayed(&first, &events);
        events.extend(run(&mut resumed, simulation, None));
        assert_in_order(&events, builds as usize);
        prop_assert!(resumed.stage.is_finished());
        for (verdict, all) in [(verdict, all), needed(&resumed)] {
            prop_assert_eq!(verdict, questions::Verdict::Found);
            prop_assert!(NEEDED.iter().all(|thing| all.contains(&(*thing as usize))), "{:?}", all);
            // Items that cannot be prepared may hide others that are not needed.
            prop_assert!(simulation.broken > 0 || all.len() == NEEDED.len(), "{:?}", all);
        }
    }
}

#[test]
fn evicted_variants_are_prepared_again_when_needed() {
    let simulation = Simulation {
        seed: 1,
        first: 9,
        broken: 0,
        room: 1,
        slow: false,
    };
    let mut again = 0;
    for seed in 0..4 {
        let (_, mut state) = begin(reduce(3, 1));
        let events = run(&mut state, Simulation { seed, ..simulation }, None);
        assert_in_order(&events, 1);
        assert_eq!(
            questions::policy_of(&state).verdict_of(&state),
            questions::Verdict::Found
        );
        let mut prepared = BTreeSet::new();
        again += events
            .iter()
            .filter(|event| matches!(event, Event::PreparationStarted(id) if !prepared.insert(*id)))
            .count();
    }
    assert!(again > 0);
}
