//! Measures the search as it is shipped: plan, policy, state and report, one trial after another, with seeded random
//! outcomes instead of processes.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use provoke_model::{EarlierTrials, Outcome, Plan, Question, VariantChoice};
use provoke_questions::{Answer, Verdict};
use provoke_report::Report;
use provoke_state::State;

use super::chance::Chance;
use super::simulated;

/// The failure rate of a version, by its position, the culprit and the last position.
type Rates = fn(usize, usize, usize) -> f64;

/// The signature of a failure and its time in seconds, by the position of the version, the culprit and the last
/// position.
type FeaturesOf = fn(usize, usize, usize, &mut Chance) -> (u32, f64);

/// The true state, and the options of the search.
pub(crate) struct World {
    pub(crate) name: &'static str,
    pub(crate) last: usize,
    pub(crate) clean: bool,
    /// The culprit is one of the versions up to this share of the list.
    pub(crate) within: f64,
    pub(crate) rate: Rates,
    pub(crate) features: FeaturesOf,
}

/// Result of one search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Ending {
    Right,
    /// The answer is right, but an earlier version is reported to fail as well.
    RightWarned,
    WrongWarned,
    WrongUnsaid,
    /// The verdict is that the ends agree.
    Agree,
    Undecided,
}

/// Returns the plan of a search along this many versions.
pub(crate) fn plan(last: usize, more: &str) -> Plan {
    simulated::plan(&format!("ask = 'bisect'\nrange = '0..{last}'\n{more}"))
}

/// Runs a search to its end.
pub(crate) fn search(
    plan: &Plan,
    chance: &mut Chance,
    rate: impl Fn(usize) -> f64,
    features: impl Fn(usize, &mut Chance) -> (u32, f64),
) -> State {
    simulated::answer(plan, u64::MAX, |state, trial| {
        let Some(VariantChoice::Place(place)) = state.trials.variant_plan(trial.variant).choice
        else {
            panic!("a search has places");
        };
        let place = place as usize;
        if !chance.fails(rate(place)) {
            return (Outcome::Pass, Duration::ZERO);
        }
        let (signature, seconds) = features(place, chance);
        let elapsed = Duration::from_secs_f64(seconds);
        (simulated::failure(signature), elapsed)
    })
}

pub(crate) fn trials(state: &State) -> u64 {
    state
        .all_tallies()
        .map(|(_, tally)| tally.counted_trials())
        .sum()
}

/// Returns the result of a search with a known culprit.
pub(crate) fn ending(state: &State, culprit: usize, rate: impl Fn(usize) -> f64) -> Ending {
    let report = Report::new(state, true);
    let Some(Answer::Bisect(answer)) = &report.answer else {
        panic!("a search has an answer");
    };
    let culprits = answer.culprits.iter();
    let first = culprits.filter_map(|name| name.parse::<usize>().ok()).min();
    // A stated bound is a warning if it covers the rate of the version before the answer.
    let is_bounded = |bound: f64| {
        first.is_some_and(|first| first != culprit && bound >= rate(first.saturating_sub(1)))
    };
    let warned = answer.contradiction.is_some()
        || answer.earlier.is_some()
        || answer.rise.is_some()
        || answer.earlier_rate_bound.is_some_and(is_bounded);
    match (report.verdict, warned) {
        (Verdict::Found, _) => {
            let right = answer.culprits == [culprit.to_string()];
            match (right, warned) {
                (true, false) => Ending::Right,
                (true, true) => Ending::RightWarned,
                (false, true) => Ending::WrongWarned,
                (false, false) => Ending::WrongUnsaid,
            }
        }
        (Verdict::NotThere, _) => Ending::Agree,
        _ => Ending::Undecided,
    }
}

/// Earlier runs of the bad end.
#[derive(Clone, Copy)]
pub(crate) struct History {
    /// Number of failures after which they ended.
    pub(crate) failures: u64,
    /// The failure rate then, as a multiple of the rate now.
    pub(crate) times: f64,
}

impl History {
    const NONE: Self = Self {
        failures: 0,
        times: 1.0,
    };

    /// Adds earlier runs of the bad end, which fails at this rate now, to a search.
    fn add(self, plan: &Plan, rate: f64, chance: &mut Chance) -> Plan {
        let mut plan = plan.clone();
        let rate = (rate * self.times).min(1.0);
        let (mut failures, mut trials) = (0, 0);
        while failures < self.failures {
            trials += 1;
            failures += u64::from(chance.fails(rate));
        }
        if let (Question::Bisect(asked), 1..) = (&mut plan.goal.question, trials) {
            asked.earlier = Some(EarlierTrials {
                failures,
                trials,
                ..EarlierTrials::default()
            });
        }
        plan
    }
}

/// Returns the trials and the ending of each search, on two threads.
pub(crate) fn searches(
    world: &World,
    more: &str,
    history: History,
    count: u64,
) -> Vec<(u64, Ending)> {
    let clean = if world.clean { "clean = true" } else { "" };
    let plan = plan(world.last, &format!("{clean}\n{more}"));
    let half = |first: u64| {
        let seeds = (first..count).step_by(2);
        let one = |seed| {
            let mut chance = Chance::new(seed);
            let among = (world.last as f64 * world.within) as usize;
            let culprit = 1 + chance.below(among);
            let rate = |version| (world.rate)(version, culprit, world.last);
            let plan = history.add(&plan, rate(world.last), &mut chance);
            let features = |version, chance: &mut Chance| {
                (world.features)(version, culprit, world.last, chance)
            };
            let state = search(&plan, &mut chance, rate, features);
            (trials(&state), ending(&state, culprit, rate))
        };
        seeds.map(one).collect::<Vec<_>>()
    };
    thread::scope(|scope| {
        let second = scope.spawn(|| half(1));
        let mut all = half(0);
        all.extend(second.join().expect("no search panics"));
        all
    })
}

fn show(world: &World, more: &str, count: u64) {
    show_after(world, more, History::NONE, count);
}

fn show_after(world: &World, more: &str, history: History, count: u64) {
    let started_at = std::time::Instant::now();
    let all = searches(world, more, history, count);
    let History { failures, times } = history;
    let about = match failures {
        0 => more.to_owned(),
        _ => format!("{more}{failures} known, {times} times"),
    };
    let mut counts: BTreeMap<Ending, u64> = BTreeMap::new();
    for (_, ending) in &all {
        *counts.entry(*ending).or_default() += 1;
    }
    let share = |ending| *counts.get(&ending).unwrap_or(&0) as f64 / count as f64;
    let mut trials: Vec<u64> = all.iter().map(|(trials, _)| *trials).collect();
    trials.sort_unstable();
    let mean = trials.iter().sum::<u64>() as f64 / count as f64;
    println!(
        "{:<34} {about:<24} trials {mean:>7.1} q95 {:>5} max {:>6}  wrong {:.3} unsaid {:.3} agree {:.3} open {:.3}  right but warned {:.3}  ({count}, {:.0} s)",
        format!("{}{}", world.name, if world.clean { ", clean" } else { "" }),
        trials[trials.len() * 95 / 100],
        trials[trials.len() - 1],
        share(Ending::WrongWarned) + share(Ending::WrongUnsaid),
        share(Ending::WrongUnsaid),
        share(Ending::Agree),
        share(Ending::Undecided),
        share(Ending::RightWarned),
        started_at.elapsed().as_secs_f64(),
    );
}

/// Returns the position of a bad version between the culprit (0) and the last version (1).
fn way(version: usize, culprit: usize, last: usize) -> f64 {
    (version - culprit) as f64 / (last - culprit) as f64
}

macro_rules! constant {
    ($p:expr, $q:expr) => {
        |version, culprit, _| if version >= culprit { $p } else { $q }
    };
}

/// The rate of bad versions by their position between the culprit and the last version.
macro_rules! shaped {
    (|$way:ident| $rate:expr) => {
        |version, culprit, last| {
            if version < culprit {
                return 0.0;
            }
            let $way = way(version, culprit, last);
            $rate
        }
    };
}

/// The rate of good versions by their position before the culprit.
macro_rules! background {
    ($p:expr, |$way:ident| $rate:expr) => {
        |version, culprit, _| {
            if version >= culprit {
                return $p;
            }
            let $way = version as f64 / culprit as f64;
            $rate
        }
    };
}

const fn world(name: &'static str, last: usize, clean: bool, within: f64, rate: Rates) -> World {
    World {
        name,
        last,
        clean,
        within,
        rate,
        features: ALIKE,
    }
}

/// One rate of all bad versions, and one of all good ones.
pub(crate) const CONSTANT: [World; 29] = [
    world("16, 1, 0", 16, false, 1.0, constant!(1.0, 0.0)),
    world("64, 1, 0", 64, false, 1.0, constant!(1.0, 0.0)),
    world("16, .5, 0", 16, false, 1.0, constant!(0.5, 0.0)),
    world("16, .1, 0", 16, false, 1.0, constant!(0.1, 0.0)),
    world("64, 1, 0", 64, true, 1.0, constant!(1.0, 0.0)),
    world("64, .5, 0", 64, false, 1.0, constant!(0.5, 0.0)),
    world("64, .5, 0", 64, true, 1.0, constant!(0.5, 0.0)),
    world("64, .3, 0", 64, false, 1.0, constant!(0.3, 0.0)),
    world("64, .3, 0", 64, true, 1.0, constant!(0.3, 0.0)),
    world("64, .1, 0", 64, false, 1.0, constant!(0.1, 0.0)),
    world("64, .1, 0", 64, true, 1.0, constant!(0.1, 0.0)),
    world("64, .03, 0", 64, false, 1.0, constant!(0.03, 0.0)),
    world("64, .03, 0", 64, true, 1.0, constant!(0.03, 0.0)),
    world("64, 1, .01", 64, false, 1.0, constant!(1.0, 0.01)),
    world("64, 1, .05", 64, false, 1.0, constant!(1.0, 0.05)),
    world("64, .5, .01", 64, false, 1.0, constant!(0.5, 0.01)),
    world("64, .5, .05", 64, false, 1.0, constant!(0.5, 0.05)),
    world("64, .02, 0", 64, false, 1.0, constant!(0.02, 0.0)),
    world("64, .02, .01", 64, false, 1.0, constant!(0.02, 0.01)),
    world("64, .3, .01", 64, false, 1.0, constant!(0.3, 0.01)),
    world("64, .1, .01", 64, false, 1.0, constant!(0.1, 0.01)),
    world("64, .03, .01", 64, false, 1.0, constant!(0.03, 0.01)),
    world("1024, 1, 0", 1024, false, 1.0, constant!(1.0, 0.0)),
    world("1024, .5, 0", 1024, false, 1.0, constant!(0.5, 0.0)),
    world("1024, .5, 0", 1024, true, 1.0, constant!(0.5, 0.0)),
    world("1024, .1, 0", 1024, false, 1.0, constant!(0.1, 0.0)),
    world("1024, .1, 0", 1024, true, 1.0, constant!(0.1, 0.0)),
    world("1024, .5, .01", 1024, false, 1.0, constant!(0.5, 0.01)),
    world("1024, .1, .01", 1024, false, 1.0, constant!(0.1, 0.01)),
];

const RISE: Rates = shaped!(|way| 0.1 + 0.4 * way);
const GENTLE: Rates = shaped!(|way| 0.15 + 0.35 * way);
const STEP: Rates = shaped!(|way| if way < 0.5 { 0.1 } else { 0.5 });
const ALWAYS_STEP: Rates = shaped!(|way| if way < 0.5 { 0.2 } else { 1.0 });
const ALWAYS_DIP: Rates = shaped!(|way| if (0.4..0.6).contains(&way) { 0.02 } else { 1.0 });
const SMALL_STEP: Rates = shaped!(|way| if way < 0.5 { 0.25 } else { 0.5 });
const DIP: Rates = shaped!(|way| if (0.4..0.6).contains(&way) { 0.02 } else { 0.5 });
const SHALLOW: Rates = shaped!(|way| if (0.4..0.6).contains(&way) { 0.1 } else { 0.5 });
const FALL: Rates = shaped!(|way| 0.5 - 0.4 * way);
const WAVE: Rates = shaped!(|way| 0.3 + 0.2 * (way * 6.0 * std::f64::consts::PI).sin());

/// Rates that vary between versions, with 64 versions.
pub(crate) const VARYING: [World; 25] = [
    world("rise .1 to .5", 64, false, 0.75, RISE),
    world("rise .1 to .5", 64, true, 0.75, RISE),
    world("rise .15 to .5", 64, false, 0.75, GENTLE),
    world("rise .15 to .5", 64, true, 0.75, GENTLE),
    world("step .1, then .5", 64, false, 0.75, STEP),
    world("step .1, then .5", 64, true, 0.75, STEP),
    world("step .2, then always", 64, false, 0.75, ALWAYS_STEP),
    world("dip of always to .02", 64, false, 0.75, ALWAYS_DIP),
    world("step .25, then .5", 64, false, 0.75, SMALL_STEP),
    world("step .25, then .5", 64, true, 0.75, SMALL_STEP),
    world("dip to .02", 64, false, 0.75, DIP),
    world("dip to .02", 64, true, 0.75, DIP),
    world("dip to .1", 64, false, 0.75, SHALLOW),
    world("dip to .1", 64, true, 0.75, SHALLOW),
    world("falling .5 to .1", 64, false, 0.75, FALL),
    world("falling .5 to .1", 64, true, 0.75, FALL),
    world("wave .1 to .5", 64, false, 0.75, WAVE),
    world("wave .1 to .5", 64, true, 0.75, WAVE),
    world(
        "later half of the good .05, p .5",
        64,
        false,
        0.75,
        background!(0.5, |way| if way < 0.5 { 0.0 } else { 0.05 }),
    ),
    world(
        "later half of the good .05, p .3",
        64,
        false,
        0.75,
        background!(0.3, |way| if way < 0.5 { 0.0 } else { 0.05 }),
    ),
    world(
        "background 0 to .1, p .5",
        64,
        false,
        0.75,
        background!(0.5, |way| 0.1 * way),
    ),
    world(
        "background 0 to .1, p .3",
        64,
        false,
        0.75,
        background!(0.3, |way| 0.1 * way),
    ),
    world(
        "first half of the good .03, p .5",
        64,
        false,
        0.75,
        background!(0.5, |way| if way < 0.5 { 0.03 } else { 0.0 }),
    ),
    world(
        "background .02, p .5",
        64,
        true,
        0.75,
        background!(0.5, |_way| 0.02),
    ),
    world(
        "background .02, p .3",
        64,
        true,
        0.75,
        background!(0.3, |_way| 0.02),
    ),
];

const fn failing(name: &'static str, last: usize, rate: Rates, features: FeaturesOf) -> World {
    World {
        features,
        ..world(name, last, false, 1.0, rate)
    }
}

const ALIKE: FeaturesOf = |_, _, _, chance| (1, about_two_seconds(chance));

fn about_two_seconds(chance: &mut Chance) -> f64 {
    1.8 + 0.4 * chance.uniform()
}

/// Nine in ten failures of good versions have one of three other signatures.
const OTHER_NAME: FeaturesOf = |version, culprit, _, chance| {
    let other = version < culprit && chance.fails(0.9);
    let signature = if other { 2 + chance.below(3) as u32 } else { 1 };
    (signature, about_two_seconds(chance))
};
/// Failures of good versions have any time within ten seconds, instead of two seconds.
const OTHER_TIME: FeaturesOf = |version, culprit, _, chance| {
    let any = version < culprit;
    (
        1,
        if any {
            10.0 * chance.uniform()
        } else {
            about_two_seconds(chance)
        },
    )
};
const OTHER_BOTH: FeaturesOf = |version, culprit, last, chance| {
    let (signature, _) = OTHER_NAME(version, culprit, last, chance);
    (signature, OTHER_TIME(version, culprit, last, chance).1)
};
/// The bug has another signature in the first half of the bad versions.
const RENAMED: FeaturesOf = |version, culprit, last, chance| {
    let early = version < usize::midpoint(culprit, last);
    (if early { 2 } else { 1 }, about_two_seconds(chance))
};
/// Every failure has another signature.
const NEVER_THE_SAME: FeaturesOf =
    |_, _, _, chance| (chance.below(1_000_000) as u32, about_two_seconds(chance));
/// The last bad version takes eight times as long to fail as the first.
const SLOWER: FeaturesOf = |version, culprit, last, chance| {
    let octaves = 3.0 * version.saturating_sub(culprit) as f64 / (last - culprit + 1) as f64;
    (1, about_two_seconds(chance) * octaves.exp2())
};

/// Searches with features of failures.
pub(crate) const FEATURES: [World; 15] = [
    failing("64, .1, .01, alike", 64, constant!(0.1, 0.01), ALIKE),
    failing(
        "64, .1, .01, other signature",
        64,
        constant!(0.1, 0.01),
        OTHER_NAME,
    ),
    failing(
        "64, .1, .01, other time",
        64,
        constant!(0.1, 0.01),
        OTHER_TIME,
    ),
    failing("64, .1, .01, both", 64, constant!(0.1, 0.01), OTHER_BOTH),
    failing("64, .3, .05, alike", 64, constant!(0.3, 0.05), ALIKE),
    failing(
        "64, .3, .05, other signature",
        64,
        constant!(0.3, 0.05),
        OTHER_NAME,
    ),
    failing("64, .3, .05, both", 64, constant!(0.3, 0.05), OTHER_BOTH),
    failing(
        "64, .5, .01, other signature",
        64,
        constant!(0.5, 0.01),
        OTHER_NAME,
    ),
    failing("1024, .1, .01, alike", 1024, constant!(0.1, 0.01), ALIKE),
    failing(
        "1024, .1, .01, other signature",
        1024,
        constant!(0.1, 0.01),
        OTHER_NAME,
    ),
    failing("64, .1, 0, renamed", 64, constant!(0.1, 0.0), RENAMED),
    failing("64, .3, 0, renamed", 64, constant!(0.3, 0.0), RENAMED),
    failing(
        "64, .1, 0, never the same",
        64,
        constant!(0.1, 0.0),
        NEVER_THE_SAME,
    ),
    failing("64, .1, 0, slower", 64, constant!(0.1, 0.0), SLOWER),
    failing("64, .3, 0, slower", 64, constant!(0.3, 0.0), SLOWER),
];

/// Shows the searches with the features of failures, and without.
pub(crate) fn features(count: u64, only: &str) {
    for world in FEATURES.iter().filter(|world| world.name.contains(only)) {
        show(world, "any-failure = true", count);
        show(world, "", count);
    }
}

/// Shows these searches; `only` keeps the rows with these words in their name.
pub(crate) fn shown(worlds: &[World], count: u64, only: &str) {
    for world in worlds {
        let name = format!("{}{}", world.name, if world.clean { ", clean" } else { "" });
        if name.contains(only) {
            show(world, "", count);
        }
    }
}

/// Shows the savings by earlier runs of the bad end, and their cost if the rate has changed since.
pub(crate) fn after_earlier_runs(count: u64, only: &str) {
    let worlds = CONSTANT.iter().chain(&VARYING);
    for world in worlds.filter(|world| world.name.starts_with(only)) {
        show(world, "", count);
        for failures in [3, 30, 300] {
            for times in [1.0, 2.0, 5.0, 0.5] {
                show_after(world, "", History { failures, times }, count);
            }
        }
    }
}
