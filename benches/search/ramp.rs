//! Measures the cost and the error rate of the search for the lowest failing load level.

use provoke_stats::ramp::{Ramp, RampRule, RampStep};
use rand::{Rng as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;

const LEVELS: [u32; 15] = [1, 2, 3, 4, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64];
const DETECT: f64 = 0.1;
const DELTA: f64 = 0.05;

/// The factor of the rate at a level that is this many times as high as the first failing one.
type Shape = fn(f64) -> f64;

const SHAPES: [(&str, Shape); 4] = [
    ("flat", |_| 1.0),
    ("rising linearly", |times| times),
    ("rising with the square", |times| times * times),
    ("falling", |times| 1.0 / times),
];

#[derive(Default)]
struct Sums {
    lives: f64,
    requests: f64,
    wrong: f64,
    open: f64,
}

struct Search<'a> {
    ramp: Ramp,
    levels: &'a [u32],
    rate: &'a dyn Fn(usize) -> f64,
    chance: Pcg64Mcg,
    sums: Sums,
}

impl Search<'_> {
    fn live(&mut self, level: usize) {
        let failed = uniform(&mut self.chance) < (self.rate)(level);
        self.ramp.observe_life(level, failed);
        self.sums.lives += 1.0;
        self.sums.requests += f64::from(self.levels[level]);
    }

    /// Runs only until one level holds enough of the probability; the top level has failed five times before.
    fn engine(&mut self) -> Option<usize> {
        let top = self.levels.len() - 1;
        while self.ramp.trials_by_level()[top].failures < 5 {
            self.live(top);
        }
        self.sums = Sums::default();
        loop {
            let (group, never) = self.ramp.likeliest_group();
            if group.mass >= 1.0 - DELTA {
                return (!never).then(|| *group.levels.end());
            }
            let level = self.ramp.choose_level().expect("something to learn");
            self.live(level);
        }
    }

    /// Runs until the search ends, and returns its result.
    fn whole(&mut self) -> RampStep {
        let rule = RampRule {
            delta: DELTA,
            above: false,
        };
        loop {
            match self.ramp.next_step(&rule) {
                RampStep::Try(level) | RampStep::TryAny(level) => self.live(level),
                result => return result,
            }
        }
    }
}

fn uniform(chance: &mut Pcg64Mcg) -> f64 {
    (chance.next_u64() >> 11) as f64 / 2_f64.powi(53)
}

#[derive(Clone, Copy)]
enum How {
    Engine,
    Whole,
}

fn cell(how: How, levels: &[u32], p: Option<f64>, shape: Shape, trials: u64) -> Sums {
    let mut all = Sums::default();
    for seed in 0..trials {
        let mut chance = Pcg64Mcg::seed_from_u64(seed);
        let first = (chance.next_u64() % levels.len() as u64) as usize;
        let rate = |level: usize| match p {
            Some(p) if level >= first => {
                let times = f64::from(levels[level]) / f64::from(levels[first]);
                (p * shape(times)).min(1.0)
            }
            _ => 0.0,
        };
        let mut search = Search {
            ramp: Ramp::new(levels, DETECT),
            levels,
            rate: &rate,
            chance,
            sums: Sums::default(),
        };
        let found = match how {
            How::Engine => search.engine(),
            How::Whole => match search.whole() {
                RampStep::From(level) => Some(level),
                _ => None,
            },
        };
        let truth = p.map(|_| first);
        all.wrong += f64::from(u8::from(found != truth));
        all.open += f64::from(u8::from(found.is_none()));
        all.lives += search.sums.lives;
        all.requests += search.sums.requests;
    }
    let count = trials as f64;
    Sums {
        lives: all.lives / count,
        requests: all.requests / count,
        wrong: all.wrong / count,
        open: all.open / count,
    }
}

/// Shows all cells.
pub(crate) fn ramps(trials: u64, only: &str) {
    let every: Vec<u32> = (1..=64).collect();
    println!(
        "{:<58}{:>9}{:>10}{:>8}{:>8}",
        "", "lives", "requests", "wrong", "never"
    );
    for (levels_name, levels) in [("15 levels", &LEVELS[..]), ("64 levels", &every)] {
        for (how_name, how) in [
            ("top measured, no guard", How::Engine),
            ("whole", How::Whole),
        ] {
            for p in [1.0, 0.5, 0.2, 0.1] {
                for (shape_name, shape) in SHAPES {
                    // If the rate falls, the smallest rate above the first failing level is below the searched one.
                    let falls = shape(2.0) < 1.0;
                    if falls && (p < 0.5 || matches!(how, How::Engine)) {
                        continue;
                    }
                    let name = format!("{levels_name}, {how_name}, {p}, {shape_name}");
                    if name.contains(only) {
                        show(&name, &cell(how, levels, Some(p), shape, trials));
                    }
                }
            }
        }
        let name = format!("{levels_name}, whole, never");
        if name.contains(only) {
            show(&name, &cell(How::Whole, levels, None, |_| 1.0, trials));
        }
    }
}

/// Shows how often the level is right, or too low, if lower levels fail as well.
pub(crate) fn backgrounds(trials: u64, only: &str) {
    let levels: Vec<u32> = (1..=64).collect();
    let flat: Shape = |_| 1.0;
    let linear: Shape = |times| times;
    for (below, p, shape_name, shape) in [
        (0.0, Some(1.0), "flat", flat),
        (0.0, Some(0.5), "flat", flat),
        (0.0, Some(0.2), "flat", flat),
        (0.05, Some(1.0), "flat", flat),
        (0.05, Some(0.5), "flat", flat),
        (0.05, Some(0.5), "rising linearly", linear),
        (0.05, None, "at every level", flat),
        (0.02, None, "at every level", flat),
    ] {
        let name = match p {
            Some(p) => format!("{below} below, {p}, {shape_name}"),
            None => format!("{below} {shape_name}"),
        };
        if !name.contains(only) {
            continue;
        }
        let (mut lives, mut right, mut low, mut open) = (0.0, 0.0, 0.0, 0.0);
        for seed in 0..trials {
            let mut chance = Pcg64Mcg::seed_from_u64(seed);
            let drawn = (chance.next_u64() % levels.len() as u64) as usize;
            let first = p.map_or(levels.len(), |_| drawn);
            let rate = |level: usize| match p {
                Some(p) if level >= first => {
                    (p * shape(f64::from(levels[level]) / f64::from(levels[first]))).min(1.0)
                }
                _ => below,
            };
            let mut search = Search {
                ramp: Ramp::new(&levels, DETECT),
                levels: &levels,
                rate: &rate,
                chance,
                sums: Sums::default(),
            };
            let found = search.whole();
            lives += search.sums.lives;
            match found {
                RampStep::From(level) if level == first => right += 1.0,
                RampStep::From(level) if level < first => low += 1.0,
                RampStep::Never if p.is_none() => right += 1.0,
                RampStep::Stuck => open += 1.0,
                _ => {}
            }
        }
        let count = trials as f64;
        println!(
            "{name:<40} trials {:>6.1}  right {:.3}  too low {:.3}  not known {:.3}  ({trials})",
            lives / count,
            right / count,
            low / count,
            open / count,
        );
    }
}

fn show(name: &str, sums: &Sums) {
    println!(
        "{name:<58}{:>9.1}{:>10.0}{:>8.3}{:>8.3}",
        sums.lives, sums.requests, sums.wrong, sums.open
    );
}
