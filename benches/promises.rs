//! Measures the error rates of `run` and `confirm` if trials are not independent or the rate changes: the figures of
//! `docs/statistics-appendix.md`. Baselines use the policy and the state of the program itself.
//!
//!     cargo bench --bench promises -- [repetitions] [only rows with this text]

#![expect(clippy::print_stdout, reason = "a program that prints a table")]
#![expect(clippy::cast_precision_loss, reason = "small counts")]

#[path = "common/simulated.rs"]
mod simulated;

use provoke_model::{
    Baseline, ConfirmQuestion, MeasuredBaseline, Outcome, Plan, Question, VariantId,
};
use provoke_questions as questions;
use provoke_questions::ConfirmProgress;
use provoke_report::Report;
use provoke_state::State;
use rand::{Rng as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;
use std::time::Duration;

/// Number of trials after which a baseline is given up.
const MOST: u64 = 100_000;

/// The failure rate of trials.
#[derive(Clone, Copy)]
enum World {
    /// Constant.
    Even(f64),
    /// In blocks of trials: the length, the share of blocks with failures, and the rate in these.
    Blocks(u64, f64, f64),
    /// One rate, and another from this trial on.
    Step(f64, u64, f64),
    /// A rate that changes linearly until this trial.
    Slope(f64, f64, u64),
}

impl World {
    /// Returns the rate over all of `trials`.
    fn mean(self, trials: u64) -> f64 {
        match self {
            Self::Even(rate) => rate,
            Self::Blocks(_, bad, inside) => bad * inside,
            Self::Step(first, at, second) => {
                let early = (at - 1).min(trials) as f64;
                (early * first + (trials as f64 - early) * second) / trials as f64
            }
            Self::Slope(from, to, _) => f64::midpoint(from, to),
        }
    }
}

/// The trials of one run. It starts anywhere in a block.
struct Course {
    world: World,
    /// Trials of the first block that came before the run.
    before: u64,
    /// The rate of the present block.
    block: f64,
}

impl Course {
    fn new(world: World, chance: &mut Pcg64Mcg) -> Self {
        let mut course = Self {
            world,
            before: 0,
            block: 0.0,
        };
        if let World::Blocks(length, ..) = world {
            course.before = u64::from(chance.next_u32()) % length;
            course.begin_block(chance);
        }
        course
    }

    fn begin_block(&mut self, chance: &mut Pcg64Mcg) {
        if let World::Blocks(_, bad, inside) = self.world {
            self.block = if uniform(chance) < bad { inside } else { 0.0 };
        }
    }

    /// Returns whether a trial fails; trials are asked in their order.
    fn fails(&mut self, trial: u64, chance: &mut Pcg64Mcg) -> bool {
        let rate = match self.world {
            World::Even(rate) => rate,
            World::Blocks(length, ..) => {
                if trial > 1 && (trial - 1 + self.before).is_multiple_of(length) {
                    self.begin_block(chance);
                }
                self.block
            }
            World::Step(first, at, second) => {
                if trial < at {
                    first
                } else {
                    second
                }
            }
            World::Slope(from, to, length) => from + (to - from) * trial as f64 / length as f64,
        };
        uniform(chance) < rate
    }

    /// Returns the number of passing trials before the first failure.
    fn passes(mut self, chance: &mut Pcg64Mcg) -> u64 {
        let failing = (1..1_000_000).find(|trial| self.fails(*trial, chance));
        failing.map_or(1_000_000, |trial| trial - 1)
    }
}

fn uniform(chance: &mut Pcg64Mcg) -> f64 {
    f64::from(chance.next_u32()) / 4_294_967_296.0
}

/// Measures a baseline.
fn baseline(plan: &Plan, world: World, chance: &mut Pcg64Mcg) -> State {
    let mut course = Course::new(world, chance);
    simulated::answer(plan, MOST, |_, trial| {
        let outcome = if course.fails(trial.id.0, chance) {
            simulated::failure(1)
        } else {
            Outcome::Pass
        };
        (outcome, Duration::ZERO)
    })
}

/// Shares of the baselines with a failure.
#[derive(Default)]
struct Shares {
    seen: u32,
    clumps: u32,
    drift: u32,
    covered: u32,
    unknown: u32,
    /// Baselines after which the unchanged program is called PROBABLY FIXED, and FIXED.
    probably_fixed: u32,
    fixed: u32,
    needed: Vec<u64>,
}

/// Returns the passing trials that `confirm` requires, optionally to exclude a fix that only halves the rate as well.
fn needed_passes(measured: &MeasuredBaseline, exclude_half: bool) -> Option<u64> {
    let confirm = simulated::begin(Plan {
        question: Question::Confirm(ConfirmQuestion {
            baseline: Baseline::Measured(Box::new(measured.clone())),
            accept_conditions: false,
            earlier_attempts: 0,
            exclude_half: Some(exclude_half),
            independent: false,
            doubts: Vec::new(),
        }),
        ..simulated::plan("ask = 'confirm'\nassume-rate = 0.1")
    });
    ConfirmProgress::of_state(&confirm)?.needed
}

fn row(name: &str, rule: &str, before: World, after: World, repetitions: u64) {
    let only = arguments().nth(1).unwrap_or_default();
    if !format!("{name}, {rule}").contains(&only) {
        return;
    }
    let plan = simulated::plan(rule);
    let mut shares = Shares::default();
    for seed in 0..repetitions {
        let mut chance = Pcg64Mcg::seed_from_u64(seed * 7919 + 5);
        let state = baseline(&plan, before, &mut chance);
        let tally = state.tally_of(VariantId(0));
        if tally.failures == 0 {
            continue;
        }
        shares.seen += 1;
        let report = Report::new(&state, true);
        let variant = &report.variants[0];
        shares.clumps += u32::from(variant.clumps.is_some_and(|found| found.warns));
        shares.drift += u32::from(variant.trend.is_some_and(|found| found.warns));
        let [low, high] = variant.rate.interval();
        let mean = before.mean(tally.counted_trials());
        shares.covered += u32::from((low..=high).contains(&mean));
        let measured = questions::measure_variant(&state, VariantId(0), tally.failures);
        let [probably, certainly] = [false, true].map(|half| needed_passes(&measured, half));
        let (Some(probably), Some(certainly)) = (probably, certainly) else {
            shares.unknown += 1;
            continue;
        };
        shares.needed.push(probably);
        let clean = Course::new(after, &mut chance).passes(&mut chance);
        shares.probably_fixed += u32::from(clean >= probably);
        shares.fixed += u32::from(clean >= certainly);
    }
    let share = |count: u32| f64::from(count) / f64::from(shares.seen.max(1));
    shares.needed.sort_unstable();
    let median = shares.needed.get(shares.needed.len() / 2).copied();
    println!(
        "| {name}, {rule} | {:.2} | {:.3} | {:.3} | {:.3} | {:.3} | {:.3} | {:.3} | {} |",
        f64::from(shares.seen) / repetitions as f64,
        share(shares.clumps),
        share(shares.drift),
        share(shares.covered),
        share(shares.unknown),
        share(shares.probably_fixed),
        share(shares.fixed),
        median.unwrap_or(0),
    );
}

/// Returns the arguments of this program, without the one that Cargo adds.
fn arguments() -> impl Iterator<Item = String> {
    std::env::args()
        .skip(1)
        .filter(|argument| argument != "--bench")
}

fn main() {
    let repetitions = arguments()
        .next()
        .map_or(2000, |text| text.parse().expect("a number"));
    println!(
        "| world, rule | saw a failure | clumps | drift | covered | not known | false PROBABLY FIXED | false FIXED | median clean trials |"
    );
    let rules = [
        "runs = 100",
        "runs = 200",
        "runs = 400",
        "max-fail = 3",
        "max-fail = 5",
        "max-fail = 10",
    ];
    for (name, world) in [
        ("2 %", World::Even(0.02)),
        ("10 %", World::Even(0.1)),
        ("30 %", World::Even(0.3)),
        ("blocks of 8", World::Blocks(8, 0.1, 0.5)),
        ("blocks of 20", World::Blocks(20, 0.1, 0.5)),
        ("blocks of 50", World::Blocks(50, 0.1, 0.5)),
        (
            "blocks of 20, half of them, 10 %",
            World::Blocks(20, 0.5, 0.1),
        ),
        (
            "blocks of 200, a third of them, 10 %",
            World::Blocks(200, 1.0 / 3.0, 0.1),
        ),
    ] {
        for rule in rules {
            row(name, rule, world, world, repetitions);
        }
    }
    for trials in [100, 200, 400] {
        let rule = format!("runs = {trials}");
        let up = World::Step(0.02, trials / 2, 0.2);
        let down = World::Step(0.2, trials / 2, 0.02);
        let slope = World::Slope(0.0, 0.2, trials);
        row(
            "2 % to 20 %, then 20 %",
            &rule,
            up,
            World::Even(0.2),
            repetitions,
        );
        row(
            "2 % to 20 %, then 2 %",
            &rule,
            up,
            World::Even(0.02),
            repetitions,
        );
        row(
            "20 % to 2 %, then 2 %",
            &rule,
            down,
            World::Even(0.02),
            repetitions,
        );
        row(
            "0 to 20 %, then 10 %",
            &rule,
            slope,
            World::Even(0.1),
            repetitions,
        );
        row(
            "0 to 20 %, then 5 %",
            &rule,
            slope,
            World::Even(0.05),
            repetitions,
        );
    }
    row(
        "20 %, then 2 %",
        "max-fail = 3",
        World::Even(0.2),
        World::Even(0.02),
        repetitions,
    );
}
