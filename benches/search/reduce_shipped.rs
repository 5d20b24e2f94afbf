//! Measures reductions as they are shipped, also if the failure is rarer without some of the items.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use provoke_model::{Outcome, Plan, Trial};
use provoke_questions::{Answer, Verdict};
use provoke_report::Report;
use provoke_state::State;

use super::chance::Chance;
use super::{shipped, simulated};

/// The failure rate by the number of needed items in a set, of which the first is counted first: with none, with the
/// first, with the first two, and so on.
type Rates = &'static [f64];

/// The true state, and the options of the search.
#[derive(Clone, Copy)]
struct World {
    items: usize,
    rates: Rates,
    clean: bool,
}

/// Result of one search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Ending {
    Right,
    /// All needed items, but the answer says that they fail more rarely than all items together.
    RightCalledRarer,
    /// The answer lacks an item, and says that the set fails more rarely than all items together.
    LacksCalledRarer,
    LacksUnsaid,
    /// The answer has all needed items, and others.
    Excess,
    Undecided,
}

/// Failures that occur without one of the needed items, but more rarely.
const GRADED: [Rates; 5] = [
    &[0.0, 0.1, 0.5],
    &[0.0, 0.1, 1.0],
    &[0.0, 0.2, 0.5],
    &[0.0, 0.03, 0.3],
    &[0.0, 0.1, 0.3, 0.9],
];

impl World {
    fn plan(&self) -> Plan {
        let names: Vec<String> = (0..self.items).map(|item| format!("'{item}'")).collect();
        let set = names.join(", ");
        let clean = self.clean;
        simulated::plan(&format!(
            "ask = 'reduce'\nclean = {clean}\nset = [{set}]\nenv.SET = '{{set}}'"
        ))
    }

    fn search(&self, plan: &Plan, seed: u64) -> (u64, Ending) {
        let mut chance = Chance::new(seed);
        let mut needed = Vec::new();
        while needed.len() + 1 < self.rates.len() {
            let item = chance.below(self.items);
            if !needed.contains(&item) {
                needed.push(item);
            }
        }
        let state = simulated::answer(plan, u64::MAX, |state, trial: &Trial| {
            let set = state.kept_set(trial.variant).expect("a search has sets");
            let kept = needed.iter().take_while(|item| set.contains(item));
            let outcome = if chance.fails(self.rates[kept.count()]) {
                simulated::failure(1)
            } else {
                Outcome::Pass
            };
            (outcome, Duration::ZERO)
        });
        (shipped::trials(&state), ending_of(&state, &needed))
    }
}

fn ending_of(state: &State, needed: &[usize]) -> Ending {
    let report = Report::new(state, true);
    let Some(Answer::Reduce(answer)) = &report.answer else {
        panic!("a search has an answer");
    };
    if report.verdict != Verdict::Found {
        return Ending::Undecided;
    }
    let is_kept = |item: &usize| {
        let name = format!("`{item}`");
        answer
            .needed
            .iter()
            .any(|group| group.things.contains(&name))
    };
    let kept: usize = answer.needed.iter().map(|group| group.things.len()).sum();
    let is_called_rarer = answer.sentence.contains("more rarely");
    match (needed.iter().all(is_kept), is_called_rarer) {
        (true, true) => Ending::RightCalledRarer,
        (true, false) if kept > needed.len() => Ending::Excess,
        (true, false) => Ending::Right,
        (false, true) => Ending::LacksCalledRarer,
        (false, false) => Ending::LacksUnsaid,
    }
}

fn show(world: &World, count: u64) {
    let started_at = std::time::Instant::now();
    let plan = world.plan();
    let half = |first: u64| {
        let seeds = (first..count).step_by(2);
        seeds
            .map(|seed| world.search(&plan, seed))
            .collect::<Vec<_>>()
    };
    let all = thread::scope(|scope| {
        let second = scope.spawn(|| half(1));
        let mut all = half(0);
        all.extend(second.join().expect("no search panics"));
        all
    });
    let mut counts: BTreeMap<Ending, u64> = BTreeMap::new();
    for (_, ending) in &all {
        *counts.entry(*ending).or_default() += 1;
    }
    let share = |ending| *counts.get(&ending).unwrap_or(&0) as f64 / count as f64;
    let mut trials: Vec<u64> = all.iter().map(|(trials, _)| *trials).collect();
    trials.sort_unstable();
    println!(
        "{:>3} items, rates {:<20} clean {:<5} trials {:>7.1} q95 {:>5} max {:>6}  right {:.3} but called rarer {:.3}  lacks an item: said {:.3} unsaid {:.3}  excess {:.3} open {:.3}  ({count}, {:.0} s)",
        world.items,
        format!("{:?}", world.rates),
        world.clean,
        trials.iter().sum::<u64>() as f64 / count as f64,
        trials[trials.len() * 95 / 100],
        trials[trials.len() - 1],
        share(Ending::Right),
        share(Ending::RightCalledRarer),
        share(Ending::LacksCalledRarer),
        share(Ending::LacksUnsaid),
        share(Ending::Excess),
        share(Ending::Undecided),
        started_at.elapsed().as_secs_f64(),
    );
}

/// Measures failures that are rarer, but not absent, without some of the items.
pub(crate) fn graded(count: u64) {
    for rates in GRADED {
        for clean in [true, false] {
            let world = World {
                items: 32,
                rates,
                clean,
            };
            show(&world, count);
        }
    }
}

/// Measures failures that never occur without one of the needed items.
pub(crate) fn ordinary(count: u64) {
    for clean in [true, false] {
        for items in [8, 32] {
            for rates in [
                &[0.0, 1.0][..],
                &[0.0, 0.5],
                &[0.0, 0.1],
                &[0.0, 0.0, 1.0],
                &[0.0, 0.0, 0.5],
                &[0.0, 0.0, 0.1],
                &[0.0, 0.0, 0.0, 1.0],
                &[0.0, 0.0, 0.0, 0.5],
                &[0.0, 0.0, 0.0, 0.1],
            ] {
                let world = World {
                    items,
                    rates,
                    clean,
                };
                show(&world, count);
            }
        }
    }
}
