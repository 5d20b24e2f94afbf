//! Measures searches that first look for a setting that raises the failure rate, with the policy, the state and the
//! report of the command.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use provoke_model::{
    Event, Observation, Outcome, ParallelSetting, Plan, SlotId, Trial, TrialPurpose, VariantChoice,
    VariantId,
};
use provoke_questions as questions;
use provoke_questions::Step;
use provoke_state::State;

use super::chance::Chance;
use super::shipped::{Ending, ending, plan, trials};
use super::simulated;

/// Number of CPUs of the simulated machine: the settings are `--copies 4`, `-j 4` and `--wave 4`.
const CPUS: u32 = 2;
const LAST: usize = 64;

/// Failure rates of bad versions.
struct World {
    /// Under the conditions of the plan.
    natural: f64,
    /// With copies, with parallel trials, in waves.
    raised: [f64; 3],
    /// Whether parallel trials fail all together or not at all.
    together: bool,
}

impl World {
    fn rate(&self, setting: ParallelSetting) -> f64 {
        let [copies, parallel, waves] = self.raised;
        match (setting.copies, setting.jobs, setting.waves) {
            (Some(_), ..) => copies,
            (None, Some(_), false) => parallel,
            (None, Some(_), true) => waves,
            (None, None, _) => self.natural,
        }
    }
}

/// Result of one search.
struct Search {
    trials: u64,
    used: bool,
    ending: Ending,
}

/// Runs a search to its end.
fn search(plan: &Plan, world: &World, culprit: usize, chance: &mut Chance) -> State {
    let mut state = simulated::begin(plan.clone());
    let policy = questions::policy_of(&state);
    let mut batches: BTreeMap<(VariantId, u64), bool> = BTreeMap::new();
    let mut at = Duration::ZERO;
    while !state.stage.is_decided() {
        let event = match policy.next_step(&state) {
            Step::Choose(choice) => Event::VariantChosen(choice),
            Step::Use(variant) => Event::SettingChosen(variant),
            Step::Launch(variant) => Event::TrialStarted(Trial {
                id: state.next_id(),
                variant,
                slot: SlotId(0),
                seed: 0,
                timeout: Duration::from_secs(1),
                purpose: TrialPurpose::Measure,
                hold: None,
            }),
            step => panic!("one trial at a time never waits: {step:?}"),
        };
        state.apply_event(&event, |_| false);
        let Event::TrialStarted(trial) = &event else {
            continue;
        };
        let variant = state.trials.variant_plan(trial.variant);
        let chosen = state
            .raise
            .as_ref()
            .and_then(|raise| raise.chosen)
            .and_then(|id| state.trials.variant_plan(id).setting);
        let setting = variant.setting.or(chosen).unwrap_or_default();
        let place = match variant.choice {
            Some(VariantChoice::Place(place)) => place as usize,
            _ => LAST,
        };
        let rate = if place >= culprit {
            world.rate(setting)
        } else {
            0.0
        };
        let jobs = u64::from(state.trials.jobs_of(variant));
        let batch = (state.launched_trials(trial.variant) - 1) / jobs;
        let fails = if world.together && variant.setting.is_some() {
            let together = batches.entry((trial.variant, batch));
            *together.or_insert_with(|| chance.fails(rate))
        } else {
            chance.fails(rate)
        };
        at += Duration::from_secs(1);
        let ended = Event::TrialFinished {
            trial: trial.id,
            at,
            seen: Box::new(Observation {
                elapsed: Duration::from_secs(1),
                ..Observation::default()
            }),
            outcome: if fails {
                simulated::failure(1)
            } else {
                Outcome::Pass
            },
        };
        state.apply_event(&ended, questions::is_done);
    }
    state
}

fn searches(world: &World, raises: bool, count: u64) -> Vec<Search> {
    let mut plan = plan(LAST, if raises { "raise-rate = true" } else { "" });
    plan.trials.add_settings(CPUS);
    let half = |first: u64| {
        let one = |seed| {
            let mut chance = Chance::new(seed);
            let culprit = 1 + chance.below(LAST);
            let state = search(&plan, world, culprit, &mut chance);
            let used = state.raise.as_ref().is_some_and(|raise| {
                raise
                    .chosen
                    .is_some_and(|chosen| chosen != raise.natural_trials().variant)
            });
            Search {
                trials: trials(&state),
                used,
                ending: ending(&state, culprit, |_| 0.0),
            }
        };
        (first..count).step_by(2).map(one).collect::<Vec<_>>()
    };
    thread::scope(|scope| {
        let second = scope.spawn(|| half(1));
        let mut all = half(0);
        all.extend(second.join().expect("no search panics"));
        all
    })
}

fn mean(searches: &[Search], value: impl Fn(&Search) -> f64) -> f64 {
    searches.iter().map(value).sum::<f64>() / searches.len() as f64
}

/// Shows searches with and without a setting; `only` keeps the rows with these words in their name.
pub(crate) fn raised(count: u64, only: &str) {
    let worlds = [
        (0.02, [0.02; 3]),
        (0.05, [0.05; 3]),
        (0.1, [0.1; 3]),
        (0.2, [0.2; 3]),
        (0.5, [0.5; 3]),
        (0.05, [0.02; 3]),
        (0.02, [0.1; 3]),
        (0.02, [0.2; 3]),
        (0.02, [0.5; 3]),
        (0.05, [0.1; 3]),
        (0.05, [0.2; 3]),
        (0.05, [0.5; 3]),
        (0.05, [0.2, 0.05, 0.05]),
        (0.05, [0.5, 0.05, 0.05]),
        (0.1, [0.2; 3]),
        (0.1, [0.3; 3]),
        (0.1, [0.5; 3]),
        (0.1, [0.9; 3]),
        (0.1, [0.5, 0.1, 0.1]),
        (0.1, [0.1, 0.1, 0.5]),
        (0.2, [0.8; 3]),
    ];
    let mut plain: BTreeMap<u64, (f64, f64)> = BTreeMap::new();
    for together in [false, true] {
        for (natural, raised) in worlds {
            let world = World {
                natural,
                raised,
                together,
            };
            let name = format!(
                "{natural} -> {raised:?}{}",
                if together {
                    ", batches fail together"
                } else {
                    ""
                }
            );
            if !name.contains(only) {
                continue;
            }
            let wrong = |one: &Search| {
                f64::from(u8::from(matches!(
                    one.ending,
                    Ending::WrongWarned | Ending::WrongUnsaid
                )))
            };
            let key = (natural * 1000.0) as u64;
            let (without, wrong_without) = *plain.entry(key).or_insert_with(|| {
                let all = searches(&world, false, count);
                (mean(&all, |one| one.trials as f64), mean(&all, wrong))
            });
            let all = searches(&world, true, count);
            let with = mean(&all, |one| one.trials as f64);
            println!(
                "{name:<48} trials {without:>6.0} -> {with:>6.0} ({:.2})  used {:.3}  wrong {wrong_without:.3} -> {:.3}  open {:.3}",
                with / without,
                mean(&all, |one| f64::from(u8::from(one.used))),
                mean(&all, wrong),
                mean(&all, |one| f64::from(u8::from(matches!(
                    one.ending,
                    Ending::Undecided | Ending::Agree
                )))),
            );
        }
    }
}
