//! Searches the lowest load level at which a service fails.
//!
//! Levels are in ascending order. The search finds the lowest level whose trials fail at the rate `detect` or more. The
//! model assumes that levels below it never fail; from it on the rate may be constant or rise as a power of the level.
//! A model with a constant rate finds a far too high level if the rate rises (wrong in 44 % of searches instead of
//! none).
//!
//! The search has these phases:
//! * **top**: one trial at the highest level. Trials with few clients take the longest if the number of requests is
//!   fixed, so levels are not tried from below;
//! * **narrow**: the trial with the most information, until one level holds 1 - delta of the probability. All trials
//!   count as equally expensive: a trial has a fixed number of requests, or a fixed time, at every level;
//! * **guard**: the level below passes so often that the rate is excluded there, whatever the model says, and until its
//!   trials differ significantly from the trials of the answer. Trials of both alternate: otherwise a machine that becomes
//!   less busy during the search would look like a threshold;
//! * **above**, if requested: a level at twice the answer fails, too.
//!
//! A failure in the guard phase counts like any other, so the search continues lower down. The exception is a level
//! that fails so rarely that the rate searched for is excluded there all the same: such a level stays below the answer.
//! All results depend on the counts alone, whatever their order.

use super::confirm::clean_runs_needed;
use super::convert::real;
use super::fisher::fisher;
use super::interval::{clopper_pearson, upper_one_sided};
use super::plan::clean_runs_at_known_rate;
use std::ops::RangeInclusive;

/// Number of failure rates at the first failing level; the lowest is a little below `detect`.
const RATES: u32 = 12;
const LOWEST: f64 = 0.8;
const HIGHEST_RATE: f64 = 0.97;
/// The prior probability that every trial at the first failing level fails.
const ALWAYS: f64 = 0.1;
/// Exponents with which the rate may rise with the level: constant, linear, quadratic.
const SLOPES: [i32; 3] = [0, 1, 2];
/// The prior probability that no level fails.
const NEVER: f64 = 1.0 / 16.0;
/// Number of block lengths for which the information of a trial is computed.
const BLOCKS: usize = 8;
/// Minimum number of failures of a level before its trials are compared with the level below.
const FAILURES: u64 = 3;
/// Number of guard trials for each trial of the failing level.
const MIXED: u64 = 2;
/// Share of the error for the test of the level below, if the failing level may fail at a rate near the one searched
/// for: such a search often tests several levels.
const GUARD: f64 = 0.5;
/// A rate is near the one searched for if it is below this multiple of it.
const HARDLY: f64 = 2.0;
/// Share of the error for the comparison of two levels: a level was chosen because it had failed.
const APART: f64 = 0.2;
/// Probability that a level is wrongly said to fail less often than at the rate searched for: this is tested after
/// every trial, and an error makes the answer wrong.
const RARE: f64 = 0.01;
/// Multiple of the guard trials after which two levels count as not distinguishable.
const PATIENCE: u64 = 10;
/// Below this total weight, everything is computed again from logarithms.
const UNDERFLOW: f64 = 1e-200;
/// With more levels than this, not all of them are considered for the next trial.
const CANDIDATES: usize = 64;
/// Gains that differ by less than this share are equal.
const TIE: f64 = 1e-9;
/// A hypothesis with less than this probability does not influence the choice.
const NEGLIGIBLE: f64 = 1e-15;
/// A gain below this is a rounding error.
const NOTHING: f64 = 1e-13;

/// A failure rate at the first failing level, and how it rises.
#[derive(Debug, Clone, Copy)]
struct RampCell {
    rate: f64,
    slope: i32,
    weight: f64,
}

/// Trials at a level.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LevelCounts {
    /// Failed trials.
    pub failures: u64,
    /// All counted trials.
    pub runs: u64,
}

/// Requirements of a search.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RampRule {
    /// Probability that the answer is wrong.
    pub delta: f64,
    /// Whether a level at twice the answer is tried as well.
    pub above: bool,
}

/// Levels that no trial distinguishes as the first failing one; usually a single level.
#[derive(Debug, Clone, PartialEq)]
pub struct LevelGroup {
    /// Their indices; the last one is the level that was tried.
    pub levels: RangeInclusive<usize>,
    /// Probability that the first failing level is one of them.
    pub mass: f64,
}

/// How many more trials of each level a search takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forecast(Vec<u64>);

impl Forecast {
    /// Returns the number of trials of one level.
    pub fn of_level(&self, level: usize) -> u64 {
        self.0[level]
    }

    /// Returns the number of trials of all levels together.
    pub fn total_lives(&self) -> u64 {
        self.0.iter().sum()
    }
}

/// The next step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RampStep {
    /// Run a trial at this level.
    Try(usize),
    /// This level is the first that fails, among the levels that could be tried.
    From(usize),
    /// No level fails.
    Never,
    /// No testable level would give more information.
    Stuck,
}

/// A search for the lowest level that fails.
#[derive(Debug, Clone)]
pub struct Ramp {
    levels: Vec<f64>,
    detect: f64,
    cells: Vec<RampCell>,
    /// Trials of each level.
    lives: Vec<LevelCounts>,
    usable: Vec<bool>,
    /// The probability of each hypothesis ("from this level on", and last "never") with each cell.
    masses: Vec<f64>,
}

fn x_ln_x(x: f64) -> f64 {
    if x > 0.0 { x * x.ln() } else { 0.0 }
}

/// Returns the entropy of a Bernoulli variable with probability `part` of `whole`, times the whole.
fn coin_entropy(part: f64, whole: f64) -> f64 {
    let part = part.clamp(0.0, whole);
    x_ln_x(whole) - x_ln_x(part) - x_ln_x(whole - part)
}

fn rate_cells(detect: f64) -> Vec<RampCell> {
    let (low, high) = ((LOWEST * detect).min(HIGHEST_RATE).ln(), HIGHEST_RATE.ln());
    let node = |i: u32| (low + (high - low) * f64::from(i) / f64::from(RATES - 1)).exp();
    let nodes: Vec<f64> = (0..RATES).map(node).collect();
    let total: f64 = nodes.iter().map(|rate| rate.sqrt()).sum();
    let weighted = |&rate: &f64| (rate, (1.0 - ALWAYS) * rate.sqrt() / total);
    let rates = nodes.iter().map(weighted).chain([(1.0, ALWAYS)]);
    let with_slopes = |(rate, weight): (f64, f64)| {
        SLOPES.map(|slope| RampCell {
            rate,
            slope,
            weight: weight / real(SLOPES.len() as u64),
        })
    };
    rates.flat_map(with_slopes).collect()
}

impl RampCell {
    /// Returns the rate of a level that is `times` times as high as the first failing one.
    fn rate_at(&self, times: f64) -> f64 {
        (self.rate * times.powi(self.slope)).min(1.0)
    }
}

impl Ramp {
    /// Returns a search among ascending levels for the lowest that fails at this rate or more.
    pub fn new(levels: &[u32], detect: f64) -> Self {
        debug_assert!(levels.is_sorted() && levels.first().is_some_and(|first| *first > 0));
        debug_assert!(detect > 0.0 && detect < 1.0);
        let count = levels.len();
        let mut ramp = Self {
            levels: levels.iter().map(|level| f64::from(*level)).collect(),
            detect,
            cells: rate_cells(detect),
            lives: vec![LevelCounts::default(); count],
            usable: vec![true; count],
            masses: Vec::new(),
        };
        ramp.rebuild_masses();
        ramp
    }

    /// Adds one trial.
    pub fn observe_life(&mut self, level: usize, failed: bool) {
        let was_rare = self.is_rare(level);
        let lives = &mut self.lives[level];
        lives.runs += 1;
        lives.failures += u64::from(failed);
        let rare = self.is_rare(level);
        if rare != was_rare {
            return self.rebuild_masses();
        }
        let width = self.cells.len();
        for first in 0..=self.levels.len() {
            let row = &mut self.masses[first * width..(first + 1) * width];
            if level < first {
                if failed && !rare {
                    row.fill(0.0);
                }
                continue;
            }
            let times = self.levels[level] / self.levels[first];
            for (mass, cell) in row.iter_mut().zip(&self.cells) {
                let rate = cell.rate_at(times);
                *mass *= if failed { rate } else { 1.0 - rate };
            }
        }
        self.normalise_masses();
    }

    /// Adds several trials of a level.
    pub fn observe_many(&mut self, level: usize, failures: u64, runs: u64) {
        debug_assert!(failures <= runs);
        self.lives[level].failures += failures;
        self.lives[level].runs += runs;
        self.rebuild_masses();
    }

    /// Returns whether a level failed, but so rarely that the rate searched for is excluded.
    fn is_rare(&self, level: usize) -> bool {
        self.lives[level].failures > 0 && self.is_excluded(level, RARE)
    }

    /// Returns whether the trials of a level alone exclude the rate searched for.
    fn is_excluded(&self, level: usize, delta: f64) -> bool {
        let LevelCounts { failures, runs } = self.lives[level];
        runs > 0 && upper_one_sided(failures, runs, delta) <= self.detect
    }

    /// Returns the lowest level that failed and that is not excluded as too rare.
    pub fn lowest_failing(&self) -> Option<usize> {
        let failed = |level: &usize| self.lives[*level].failures > 0 && !self.is_rare(*level);
        (0..self.levels.len()).find(failed)
    }

    /// Marks a level as not testable.
    pub fn mark_untestable(&mut self, level: usize) {
        self.usable[level] = false;
    }

    /// Returns the trials at each level.
    pub fn lives_by_level(&self) -> &[LevelCounts] {
        &self.lives
    }

    /// Returns the probability of each level to be the first that fails; the last entry is for "never".
    pub fn level_posterior(&self) -> Vec<f64> {
        let rows = self.masses.chunks_exact(self.cells.len());
        rows.map(|row| row.iter().sum()).collect()
    }

    fn normalise_masses(&mut self) {
        let total: f64 = self.masses.iter().sum();
        if total < UNDERFLOW {
            self.rebuild_masses();
        } else {
            self.masses.iter_mut().for_each(|mass| *mass /= total);
        }
    }

    /// Computes everything again from the counts.
    fn rebuild_masses(&mut self) {
        let count = self.levels.len();
        let each = (1.0 - NEVER) / real(count as u64);
        let times_ln = |runs: u64, ln: f64| if runs == 0 { 0.0 } else { real(runs) * ln };
        let mut lns = Vec::with_capacity((count + 1) * self.cells.len());
        for first in 0..=count {
            let prior = if first == count { NEVER } else { each };
            let below = self.lowest_failing().is_some_and(|level| level < first);
            for cell in &self.cells {
                let mut ln = (prior * cell.weight).ln();
                let levels = self.lives.iter().enumerate().skip(first);
                for (level, lives) in levels.filter(|(_, lives)| lives.runs > 0) {
                    let rate = cell.rate_at(self.levels[level] / self.levels[first]);
                    ln += times_ln(lives.failures, rate.ln())
                        + times_ln(lives.runs - lives.failures, (-rate).ln_1p());
                }
                lns.push(if below { f64::NEG_INFINITY } else { ln });
            }
        }
        let largest = lns.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        self.masses = lns.into_iter().map(|ln| (ln - largest).exp()).collect();
        let total: f64 = self.masses.iter().sum();
        self.masses.iter_mut().for_each(|mass| *mass /= total);
    }

    /// Returns the levels that can be tried.
    fn open_levels(&self) -> impl DoubleEndedIterator<Item = usize> {
        (0..self.levels.len()).filter(|level| self.usable[*level])
    }

    /// Returns the distinguishable groups in ascending order; the last is "never", together with all levels above the
    /// last testable one.
    fn distinguishable_groups(&self) -> Vec<LevelGroup> {
        let posterior = self.level_posterior();
        let mut start = 0;
        let mut group = |end: usize| {
            let levels = start..=end;
            let mass = posterior[levels.clone()].iter().sum();
            start = end + 1;
            LevelGroup { levels, mass }
        };
        let mut groups: Vec<LevelGroup> = self.open_levels().map(&mut group).collect();
        groups.push(group(self.levels.len()));
        groups
    }

    /// Returns the likeliest group, and whether it is "never".
    pub fn likeliest_group(&self) -> (LevelGroup, bool) {
        let mut groups = self.distinguishable_groups();
        let mut likeliest = 0;
        for (index, group) in groups.iter().enumerate() {
            if group.mass > groups[likeliest].mass {
                likeliest = index;
            }
        }
        let never = likeliest + 1 == groups.len();
        (groups.swap_remove(likeliest), never)
    }

    /// Returns the fewest levels that hold a probability, in ascending order.
    pub fn credible_levels(&self, probability: f64) -> Vec<usize> {
        let posterior = self.level_posterior();
        let mut order: Vec<usize> = (0..posterior.len()).collect();
        order.sort_by(|a, b| posterior[*b].total_cmp(&posterior[*a]));
        let mut mass = 0.0;
        let mut levels: Vec<usize> = order
            .into_iter()
            .take_while(|level| {
                let enough = mass >= probability;
                mass += posterior[*level];
                !enough
            })
            .collect();
        levels.sort_unstable();
        levels
    }

    /// Returns the probability that a trial at a level fails.
    pub fn failure_chance(&self, level: usize) -> f64 {
        self.expected_gains(level).1[0]
    }

    /// Returns for blocks of 1, 2, 4 ... trials at a level the information of the outcome "none failed" or "some
    /// failed" about the first failing level, and the probability of a failure.
    fn expected_gains(&self, level: usize) -> ([f64; BLOCKS], [f64; BLOCKS]) {
        let width = self.cells.len();
        let (mut fails, mut noise) = ([0.0; BLOCKS], [0.0; BLOCKS]);
        for first in 0..=level {
            let row = &self.masses[first * width..(first + 1) * width];
            if row.iter().all(|mass| *mass < NEGLIGIBLE) {
                continue;
            }
            let times = self.levels[level] / self.levels[first];
            let (mut mass, mut clean) = (0.0, [0.0; BLOCKS]);
            for (value, cell) in row.iter().zip(&self.cells) {
                mass += value;
                let mut passes = 1.0 - cell.rate_at(times);
                for clean in &mut clean {
                    *clean += value * passes;
                    passes *= passes;
                }
            }
            for (block, clean) in clean.into_iter().enumerate() {
                fails[block] += mass - clean;
                noise[block] += coin_entropy(clean, mass);
            }
        }
        let gains = std::array::from_fn(|block| coin_entropy(fails[block], 1.0) - noise[block]);
        (gains, fails)
    }

    /// Returns the levels to choose from. With many levels these are the tried ones, and those at which the probability
    /// that the first failing level is not higher has grown noticeably, each with the level below.
    fn candidate_levels(&self) -> Vec<usize> {
        let open: Vec<usize> = self.open_levels().collect();
        if open.len() <= CANDIDATES {
            return open;
        }
        let posterior = self.level_posterior();
        let step = 1.0 / real(CANDIDATES as u64);
        let (mut levels, mut below, mut start) = (Vec::new(), None, 0);
        let mut gained = 0.0;
        for level in open {
            gained += posterior[start..=level].iter().sum::<f64>();
            start = level + 1;
            if gained >= step {
                gained = 0.0;
                levels.extend(below.filter(|below| levels.last() != Some(below)));
                levels.push(level);
            } else if self.lives[level].runs > 0 {
                levels.push(level);
            }
            below = Some(level);
        }
        levels
    }

    /// Returns the level whose trials give the most information, each or as a block.
    pub fn choose_level(&self) -> Option<usize> {
        let mut best_level: Option<(f64, usize)> = None;
        for level in self.candidate_levels() {
            let (gains, _) = self.expected_gains(level);
            let mut lives = 1.0;
            for gain in gains {
                let worth = gain / lives;
                lives *= 2.0;
                let is_better =
                    best_level.is_none_or(|(best_worth, _)| worth > best_worth * (1.0 + TIE));
                if gain > NOTHING && is_better {
                    best_level = Some((worth, level));
                }
            }
        }
        best_level.map(|(_, level)| level)
    }

    /// Returns the minimum number of clean trials that exclude the rate searched for.
    pub fn guard_runs(&self, delta: f64) -> u64 {
        clean_runs_at_known_rate(self.detect, delta).unwrap_or(u64::MAX)
    }

    /// Returns the error of the test of the level below this one.
    fn guard_error(&self, level: usize, delta: f64) -> f64 {
        let LevelCounts { failures, runs } = self.lives[level];
        let min = clopper_pearson(failures, runs, 2.0 * RARE).lo;
        if min < HARDLY * self.detect {
            GUARD * delta
        } else {
            delta
        }
    }

    /// Returns the next lower testable level.
    pub fn level_below(&self, level: usize) -> Option<usize> {
        self.open_levels().rfind(|other| *other < level)
    }

    /// Returns the total number of clean trials of the level below that distinguish it from this one.
    pub fn needed_below(&self, level: usize, delta: f64) -> u64 {
        let LevelCounts { failures, runs } = self.lives[level];
        let apart = clean_runs_needed(failures, runs, APART * delta);
        let guard = self.guard_runs(self.guard_error(level, delta));
        guard.max(apart.unwrap_or(u64::MAX))
    }

    /// Returns whether the trials of a level show that it fails more often than the level below.
    pub fn is_apart(&self, level: usize, below: usize, delta: f64) -> bool {
        let [counts, other_counts] = [level, below].map(|level| self.lives[level]);
        let chance = fisher(
            counts.failures,
            counts.runs,
            other_counts.failures,
            other_counts.runs,
        )
        .greater;
        chance <= APART * delta
    }

    /// Returns the level at twice this one or more, which must fail if `above` is set.
    pub fn level_above(&self, level: usize) -> Option<usize> {
        let twice = 2.0 * self.levels[level];
        self.open_levels()
            .find(|other| self.levels[*other] >= twice)
    }

    /// Returns the level below the likeliest, with its trials and the trials that it still needs, if only the guard
    /// phase is left.
    pub fn guarding_level(&self, rule: &RampRule) -> Option<(usize, u64, u64)> {
        let below = self.guarded_level(rule)?;
        let forecast = self.forecast_lives(rule)?;
        Some((below, self.lives[below].runs, forecast.of_level(below)))
    }

    fn guarded_level(&self, rule: &RampRule) -> Option<usize> {
        let (group, never_fails) = self.likeliest_group();
        if never_fails || group.mass < 1.0 - rule.delta {
            return None;
        }
        self.level_below(*group.levels.end())
    }

    /// Returns the number of trials that are missing according to [`Self::forecast_lives`], if only the guard phase is left.
    pub fn missing_guard_lives(&self, rule: &RampRule) -> Option<u64> {
        self.guarded_level(rule)?;
        let forecast = self.forecast_lives(rule)?;
        Some(forecast.total_lives())
    }

    /// Returns how many more trials of each level the search takes if levels continue to fail as often as they did, or
    /// as the lowest failing one, and the levels below it do not fail. Returns `None` if this would not end the search,
    /// or if nothing has failed yet.
    pub fn forecast_lives(&self, rule: &RampRule) -> Option<Forecast> {
        let lowest = self.lowest_failing()?;
        let fails_next = |ahead: &Self, level: usize| {
            let counts = match self.lives[level].runs {
                0 => self.lives[lowest],
                _ => self.lives[level],
            };
            let LevelCounts { failures, runs } = ahead.lives[level];
            level >= lowest && failures * counts.runs < counts.failures * (runs + 1)
        };
        let mut ahead = self.clone();
        let max = self.guard_runs(rule.delta).saturating_mul(2 * PATIENCE);
        for _ in 0..max {
            match ahead.next_step(rule) {
                RampStep::Try(level) => ahead.observe_life(level, fails_next(&ahead, level)),
                RampStep::From(_) | RampStep::Never => {
                    let lives = ahead.lives.iter().zip(&self.lives);
                    return Some(Forecast(
                        lives.map(|(then, now)| then.runs - now.runs).collect(),
                    ));
                }
                RampStep::Stuck => return None,
            }
        }
        None
    }

    /// Returns the next step.
    pub fn next_step(&self, rule: &RampRule) -> RampStep {
        let Some(top) = self.open_levels().next_back() else {
            return RampStep::Stuck;
        };
        if self.lives.iter().all(|lives| lives.runs == 0) {
            return RampStep::Try(top);
        }
        let (group, never) = self.likeliest_group();
        if group.mass < 1.0 - rule.delta {
            return self.choose_level().map_or(RampStep::Stuck, RampStep::Try);
        }
        if never {
            return self.next_of_none(top, rule.delta);
        }
        let level = *group.levels.end();
        let lives = self.lives[level];
        if let Some(below) = self.level_below(level) {
            let error = self.guard_error(level, rule.delta);
            let guard = self.guard_runs(error);
            let needed = self.needed_below(level, rule.delta);
            // Another failure is cheaper than the clean trials that a comparison with few failures needs.
            if needed > guard && lives.failures < FAILURES {
                return RampStep::Try(level);
            }
            let counts = self.lives[below];
            let clean_for_long = counts.failures == 0 && counts.runs >= needed;
            if !self.is_excluded(below, error) || counts.failures == 0 && !clean_for_long {
                return match counts.runs {
                    _ if lives.runs * MIXED < counts.runs => RampStep::Try(level),
                    // The level stopped failing, so it cannot be distinguished from the one below.
                    runs if counts.failures == 0 && runs >= guard.saturating_mul(PATIENCE) => {
                        RampStep::Stuck
                    }
                    _ => RampStep::Try(below),
                };
            }
            if counts.failures > 0 && !self.is_apart(level, below, rule.delta) {
                let lowest_level = if counts.runs < lives.runs {
                    below
                } else {
                    level
                };
                let patient = self.lives[lowest_level].runs < guard.saturating_mul(PATIENCE);
                return if patient {
                    RampStep::Try(lowest_level)
                } else {
                    RampStep::Stuck
                };
            }
        } else if lives.failures < FAILURES {
            // A single failure may come from a rate below the one searched for.
            return RampStep::Try(level);
        }
        match self.level_above(level) {
            Some(above) if rule.above && !self.holds_from(above, rule.delta) => {
                RampStep::Try(above)
            }
            _ => RampStep::From(level),
        }
    }

    /// Returns the next step if probably no level fails: the top is tried until the rate is excluded there, in turn
    /// with the other levels, because a rate may fall as the load grows.
    fn next_of_none(&self, top: usize, delta: f64) -> RampStep {
        if self.is_excluded(top, delta) {
            return RampStep::Never;
        }
        let others = || self.open_levels().filter(|level| *level < top);
        let runs_below: u64 = others().map(|level| self.lives[level].runs).sum();
        match others().min_by_key(|level| self.lives[*level].runs) {
            Some(level) if runs_below < self.lives[top].runs => RampStep::Try(level),
            _ => RampStep::Try(top),
        }
    }

    /// Returns whether a level or one above it failed, or the first of them is known not to fail.
    fn holds_from(&self, level: usize, delta: f64) -> bool {
        let failed = self.lives[level..].iter().any(|lives| lives.failures > 0);
        failed || self.is_excluded(level, delta)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEVELS: [u32; 7] = [1, 2, 4, 8, 9, 10, 16];
    const RULE: RampRule = RampRule {
        delta: 0.05,
        above: false,
    };

    /// Runs a search to its end; `fails` receives the level and the number of its trial.
    fn finish(ramp: &mut Ramp, fails: impl Fn(usize, u64) -> bool) -> (RampStep, Vec<usize>) {
        let mut tried = Vec::new();
        loop {
            match ramp.next_step(&RULE) {
                RampStep::Try(level) => {
                    ramp.observe_life(level, fails(level, ramp.lives_by_level()[level].runs));
                    tried.push(level);
                }
                over => return (over, tried),
            }
        }
    }

    #[test]
    fn the_search_begins_at_the_top_and_tests_the_level_below_the_answer() {
        let mut ramp = Ramp::new(&LEVELS, 0.1);
        let (over, tried) = finish(&mut ramp, |level, _| level >= 5);
        assert_eq!(over, RampStep::From(5));
        assert_eq!(tried[..5], [6, 3, 4, 5, 4]);
        assert_eq!(
            ramp.lives_by_level()[4],
            LevelCounts {
                failures: 0,
                runs: 29
            }
        );
    }

    #[test]
    fn trials_of_both_levels_alternate() {
        let mut ramp = Ramp::new(&LEVELS, 0.1);
        let (_, tried) = finish(&mut ramp, |level, _| level >= 5);
        assert!(
            ramp.lives_by_level()[5].runs * MIXED >= 28,
            "{:?}",
            ramp.lives_by_level()
        );
        let last = &tried[tried.len() - 4..];
        assert!(last.contains(&4) && last.contains(&5), "{tried:?}");
    }

    #[test]
    fn failures_that_stop_over_time_give_no_answer() {
        for calm_after in 6..10 {
            let mut ramp = Ramp::new(&LEVELS, 0.1);
            let all = std::cell::Cell::new(0);
            let fails = |level, _| {
                let before = all.replace(all.get() + 1);
                level >= 5 && before < calm_after
            };
            let (over, tried) = finish(&mut ramp, fails);
            assert!(!matches!(over, RampStep::From(_)), "{over:?}: {tried:?}");
            assert!(tried.len() < 1000, "{}", tried.len());
        }
    }

    #[test]
    fn without_failures_the_top_is_tried_until_the_rate_is_excluded() {
        let mut ramp = Ramp::new(&LEVELS, 0.1);
        let (over, _) = finish(&mut ramp, |_, _| false);
        assert_eq!(over, RampStep::Never);
        assert!(
            ramp.lives_by_level()[6].runs >= 29,
            "{:?}",
            ramp.lives_by_level()
        );
        let others = &ramp.lives_by_level()[..6];
        assert!(others.iter().all(|lives| lives.runs >= 4), "{others:?}");
    }

    #[test]
    fn a_failure_of_the_level_below_continues_the_search_there() {
        let mut ramp = Ramp::new(&LEVELS, 0.1);
        let again = |level, turn| level == 4 && turn >= 20;
        let (over, _) = finish(&mut ramp, |level, turn| level >= 5 || again(level, turn));
        assert_eq!(over, RampStep::From(4));
        assert!(
            ramp.lives_by_level()[3].runs >= 29,
            "{:?}",
            ramp.lives_by_level()
        );
    }

    #[test]
    fn a_level_with_a_much_lower_rate_is_below_the_answer() {
        let mut ramp = Ramp::new(&LEVELS, 0.1);
        let rare = |level, turn| level == 4 && turn == 2;
        let (over, _) = finish(&mut ramp, |level, turn| level >= 5 || rare(level, turn));
        assert_eq!(over, RampStep::From(5));
        assert_eq!(ramp.lives_by_level()[4].failures, 1);
        assert_eq!(ramp.lowest_failing(), Some(5));
    }

    #[test]
    fn a_search_between_two_levels_with_similar_rates_ends() {
        let mut ramp = Ramp::new(&[1, 2], 0.1);
        let often = |level: usize, turn: u64| turn % (19 - level as u64) == 1;
        let (_, tried) = finish(&mut ramp, often);
        assert!(tried.len() < 1000, "{}", tried.len());
    }

    #[test]
    fn the_first_level_can_be_the_answer() {
        let mut ramp = Ramp::new(&LEVELS, 0.1);
        let (over, tried) = finish(&mut ramp, |_, _| true);
        assert_eq!(over, RampStep::From(0));
        assert!(tried.len() < 9, "{tried:?}");
    }

    #[test]
    fn untestable_levels_are_reported_as_a_group() {
        let mut ramp = Ramp::new(&LEVELS, 0.1);
        ramp.mark_untestable(4);
        let (over, tried) = finish(&mut ramp, |level, _| level >= 5);
        assert_eq!(over, RampStep::From(5));
        assert!(!tried.contains(&4));
        assert_eq!(ramp.likeliest_group().0.levels, 4..=5);
        (0..7).for_each(|level| ramp.mark_untestable(level));
        assert_eq!(ramp.next_step(&RULE), RampStep::Stuck);
    }

    #[test]
    fn twice_the_answer_is_tried_if_requested() {
        let rule = RampRule {
            above: true,
            ..RULE
        };
        let mut ramp = Ramp::new(&[1, 2, 3, 4, 8], 0.1);
        ramp.observe_life(2, true);
        ramp.observe_many(2, 9, 9);
        ramp.observe_many(1, 0, 29);
        assert_eq!(ramp.next_step(&RULE), RampStep::From(2));
        assert_eq!(ramp.next_step(&rule), RampStep::Try(4));
        let mut clean = ramp.clone();
        ramp.observe_life(4, true);
        assert_eq!(ramp.next_step(&rule), RampStep::From(2));
        clean.observe_many(4, 0, 29);
        assert_eq!(clean.next_step(&rule), RampStep::From(2));
    }

    #[test]
    fn the_posterior_does_not_depend_on_the_order_of_the_trials() {
        let lives = [(6, true), (4, false), (5, true), (4, false), (6, false)];
        let mut one = Ramp::new(&LEVELS, 0.1);
        let mut other = one.clone();
        for (at, failed) in lives {
            one.observe_life(at, failed);
        }
        other.observe_many(4, 0, 2);
        other.observe_many(6, 1, 2);
        other.observe_many(5, 1, 1);
        for (a, b) in one
            .level_posterior()
            .into_iter()
            .zip(other.level_posterior())
        {
            assert!((a - b).abs() < 1e-12, "{a} is not {b}");
        }
    }

    #[test]
    fn thousands_of_trials_do_not_underflow() {
        let mut ramp = Ramp::new(&LEVELS, 0.1);
        (0..10_000).for_each(|_| ramp.observe_life(0, false));
        (0..2000).for_each(|_| ramp.observe_life(0, true));
        assert!((ramp.level_posterior()[0] - 1.0).abs() < 1e-9);
    }
}
