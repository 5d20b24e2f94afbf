//! Tests the search for the lowest failing load level: its error rate and its cost.

use super::chance::Chance;
use provoke_stats::ramp::{Ramp, RampRule, RampStep};

const LEVELS: [u32; 64] = {
    let mut levels = [1; 64];
    let mut level = 1;
    while level < 64 {
        levels[level] = levels[level - 1] + 1;
        level += 1;
    }
    levels
};
const DELTA: f64 = 0.05;
const RULE: RampRule = RampRule {
    delta: DELTA,
    above: false,
};

/// A true state, and the limits of the cost.
struct Cell {
    /// The rate at the first level that fails.
    p: f64,
    /// Whether the rate rises with the level.
    rises: bool,
    /// The rate at lower levels.
    background: f64,
    searches: u32,
    trials: f64,
}

struct Search {
    ramp: Ramp,
    first: usize,
    trials: f64,
    chance: Chance,
}

impl Search {
    fn new(seed: u64) -> Self {
        let mut chance = Chance::new(seed);
        let all = f64::from(u32::try_from(LEVELS.len()).unwrap());
        let drawn = chance.uniform() * all;
        let first = (1..LEVELS.len())
            .rfind(|level| f64::from(u32::try_from(*level).unwrap()) <= drawn)
            .unwrap_or(0);
        Self {
            ramp: Ramp::new(&LEVELS, 0.1),
            first,
            trials: 0.0,
            chance,
        }
    }

    fn live(&mut self, level: usize, cell: &Cell) {
        let first_level = LEVELS.get(self.first).copied().unwrap_or(u32::MAX);
        let times = f64::from(LEVELS[level]) / f64::from(first_level);
        let rate = match level < self.first {
            true => cell.background,
            false if cell.rises => (cell.p * times).min(1.0),
            false => cell.p,
        };
        let failed = self.chance.fails(rate);
        self.ramp.observe_life(level, failed);
        self.trials += 1.0;
    }
}

/// Asserts that few searches are wrong: the promised share plus two standard errors.
fn assert_rare(wrong: u32, cell: &Cell) {
    let (wrong, all) = (f64::from(wrong), f64::from(cell.searches));
    let error = (DELTA * (1.0 - DELTA) / all).sqrt();
    assert!(wrong <= all * (DELTA + 2.0 * error), "{}: {wrong}", cell.p);
}

fn assert_cheap(trials: f64, cell: &Cell) {
    let mean = trials / f64::from(cell.searches);
    assert!(mean <= cell.trials, "{}, {}: {mean}", cell.p, cell.rises);
}

/// The top level has failed five times before, and the search has no guard phase.
#[test]
fn the_lowest_failing_level_is_found_in_few_trials() {
    for (p, rises, trials) in [(0.5, false, 30.0), (0.5, true, 28.0), (1.0, false, 18.0)] {
        let cell = Cell {
            p,
            rises,
            background: 0.0,
            searches: 60,
            trials,
        };
        let (mut wrong, mut all) = (0, 0.0);
        for seed in 0..u64::from(cell.searches) {
            let mut search = Search::new(seed);
            let top = LEVELS.len() - 1;
            while search.ramp.trials_by_level()[top].failures < 5 {
                search.live(top, &cell);
            }
            search.trials = 0.0;
            let found = loop {
                let (group, never) = search.ramp.likeliest_group();
                if group.mass >= 1.0 - DELTA {
                    break (!never).then(|| *group.levels.end());
                }
                let level = search.ramp.choose_level().unwrap();
                search.live(level, &cell);
            };
            wrong += u32::from(found != Some(search.first));
            all += search.trials;
        }
        assert_rare(wrong, &cell);
        assert_cheap(all, &cell);
    }
}

#[test]
fn a_whole_search_keeps_its_promise_down_to_the_requested_rate() {
    for (p, rises, searches, trials) in [
        (0.5, false, 40, 78.0),
        (0.2, true, 30, 125.0),
        (0.1, false, 12, 330.0),
    ] {
        let cell = Cell {
            p,
            rises,
            background: 0.0,
            searches,
            trials,
        };
        let (mut wrong, mut all) = (0, 0.0);
        for seed in 0..u64::from(cell.searches) {
            let mut search = Search::new(seed);
            let found = loop {
                match search.ramp.next_step(&RULE) {
                    RampStep::Try(level) | RampStep::TryAny(level) => search.live(level, &cell),
                    over => break over,
                }
            };
            // An inconclusive search is not a wrong answer.
            let right = [RampStep::From(search.first), RampStep::Stuck];
            wrong += u32::from(!right.contains(&found));
            all += search.trials;
        }
        assert_rare(wrong, &cell);
        assert_cheap(all, &cell);
    }
}

/// A service that dies in 5 % of its trials whatever the load gave a wrong level in two of three searches when the
/// search assumed that lower levels never fail.
#[test]
fn a_background_rate_does_not_lead_to_a_lower_level() {
    for (p, first, searches, trials) in [
        (1.0, None, 30, 70.0),
        (0.5, None, 20, 180.0),
        (0.05, Some(64), 6, 800.0),
    ] {
        let cell = Cell {
            p,
            rises: false,
            background: 0.05,
            searches,
            trials,
        };
        let (mut wrong, mut all) = (0, 0.0);
        for seed in 0..u64::from(cell.searches) {
            let mut search = Search::new(seed);
            search.first = first.unwrap_or(search.first);
            let found = loop {
                match search.ramp.next_step(&RULE) {
                    RampStep::Try(level) | RampStep::TryAny(level) => search.live(level, &cell),
                    over => break over,
                }
            };
            let right = if first.is_some() {
                RampStep::Never
            } else {
                RampStep::From(search.first)
            };
            wrong += u32::from(![right, RampStep::Stuck].contains(&found));
            all += search.trials;
        }
        assert_rare(wrong, &cell);
        assert_cheap(all, &cell);
    }
}
