//! Searches the lowest load level at which a service fails.
//!
//! Levels are in ascending order. The search finds the lowest level whose trials fail at the rate `detect` or more. Below
//! it, the model allows a background: a lower rate of failures that have nothing to do with the load. A model without it
//! named a level in 70 % of searches for a service that fails in 5 % of its trials at any load. From the level on, the
//! rate may be constant or rise as a power of the level. A model with a constant rate finds a far too high level if the
//! rate rises (wrong in 44 % of searches instead of none).
//!
//! The search has these phases:
//! * **top**: one trial at the highest level. Trials with few clients take the longest if the number of requests is
//!   fixed, so levels are not tried from below;
//! * **narrow**: the trial with the most information, until one level holds 1 - delta of the probability. All trials
//!   count as equally expensive: a trial has a fixed number of requests, or a fixed time, at every level;
//! * **guard**: the level below passes so often that the rate is excluded there, whatever the model says, and until its
//!   trials differ significantly from the trials of the answer. Trials of both alternate: otherwise a machine that becomes
//!   less busy during the search would look like a threshold;
//! * **background**, instead of the guard phase if a level below has failed: the level below has as many trials as in the
//!   guard phase, and the level fails significantly more often than the level below and than the lowest level;
//! * **above**, if requested: a level at twice the answer fails, too.
//!
//! A failure below counts like any other: the search continues lower down, unless a background explains it better.
//! All results depend on the counts alone, whatever their order.

use super::confirm::clean_runs_needed;
use super::convert::real;
use super::fisher::fisher;
use super::interval::{clopper_pearson, upper_one_sided};
use super::plan::clean_runs_at_known_rate;
use super::search::{coin_entropy, rate_weights};
use std::ops::RangeInclusive;

/// Number of failure rates at the first failing level; the lowest is a little below `detect`.
const RATES: u32 = 12;
const LOWEST: f64 = 0.8;
/// Exponents with which the rate may rise with the level: constant, linear, quadratic.
const SLOPES: [i32; 3] = [0, 1, 2];
/// The prior probability that no level fails.
const NEVER: f64 = 1.0 / 16.0;
/// Rates below the first failing level, as shares of the rate searched for, with their prior probabilities: a service may
/// also fail for reasons that have nothing to do with the load.
const BACKGROUNDS: [(f64, f64); 3] = [(0.0, 0.9), (0.15, 0.05), (0.5, 0.05)];
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
/// Error of the lower bound of the rate of the failing level.
const BOUND: f64 = 0.01;
/// Multiple of the guard trials after which two levels count as not distinguishable.
const PATIENCE: u64 = 10;
/// If a trial leaves less than this of the total weight, everything is computed again from logarithms: hypotheses that
/// seemed impossible before may explain it.
const SURPRISE: f64 = 1e-30;
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
    /// The failure rate at lower levels.
    background: f64,
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
    pub fn total_trials(&self) -> u64 {
        self.0.iter().sum()
    }
}

/// The next step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RampStep {
    /// Run a trial at this level.
    Try(usize),
    /// Run a trial at this level or at any other below the top: no level fails so far, and a rate may fall as the load
    /// grows.
    TryAny(usize),
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
    counts: Vec<LevelCounts>,
    usable: Vec<bool>,
    /// The probability of each hypothesis ("from this level on", and last "never") with each cell.
    masses: Vec<f64>,
}

/// Masses of each first failing level, summed over cells.
#[derive(Debug)]
struct SummedMasses {
    /// For levels from the first failing one on, where the background has no effect.
    by_course: Vec<Vec<f64>>,
    /// For levels below, where only the background has.
    by_background: Vec<[f64; BACKGROUNDS.len()]>,
}

fn rate_cells(detect: f64) -> Vec<RampCell> {
    let rates = rate_weights(LOWEST * detect, RATES);
    let courses = rates.into_iter().flat_map(|(rate, weight)| {
        SLOPES.map(|slope| (rate, slope, weight / real(SLOPES.len() as u64)))
    });
    let courses: Vec<(f64, i32, f64)> = courses.collect();
    let with_courses = |(share, prior): (f64, f64)| {
        courses.iter().map(move |(rate, slope, weight)| RampCell {
            rate: *rate,
            slope: *slope,
            background: share * detect,
            weight: prior * weight,
        })
    };
    BACKGROUNDS.into_iter().flat_map(with_courses).collect()
}

impl RampCell {
    /// Returns the rate of a level that is `times` times as high as the first failing one; `None` below that one.
    fn rate_at(&self, times: Option<f64>) -> f64 {
        times.map_or(self.background, |times| {
            (self.rate * times.powi(self.slope)).min(1.0)
        })
    }
}

/// Returns how many times as high as the first failing level a level is; `None` below it, or if no level fails.
fn times_of_first(levels: &[f64], level: usize, first: usize) -> Option<f64> {
    let first_level = levels.get(first).filter(|_| first <= level);
    first_level.map(|first_level| levels[level] / first_level)
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
            counts: vec![LevelCounts::default(); count],
            usable: vec![true; count],
            masses: Vec::new(),
        };
        ramp.rebuild_masses();
        ramp
    }

    /// Adds one trial.
    pub fn observe_life(&mut self, level: usize, failed: bool) {
        let trials = &mut self.counts[level];
        trials.runs += 1;
        trials.failures += u64::from(failed);
        let width = self.cells.len();
        for (first, row) in self.masses.chunks_exact_mut(width).enumerate() {
            let times = times_of_first(&self.levels, level, first);
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
        self.counts[level].failures += failures;
        self.counts[level].runs += runs;
        self.rebuild_masses();
    }

    /// Returns whether the trials of a level alone exclude the rate searched for.
    fn is_excluded(&self, level: usize, delta: f64) -> bool {
        let LevelCounts { failures, runs } = self.counts[level];
        runs > 0 && upper_one_sided(failures, runs, delta) <= self.detect
    }

    /// Returns the lowest level that failed and probably not by the background alone.
    pub fn lowest_failing(&self) -> Option<usize> {
        let mut reached = 0.0;
        let reached_by = self.level_posterior().into_iter().map(|mass| {
            reached += mass;
            reached
        });
        let mut levels = self.counts.iter().zip(reached_by);
        levels.position(|(trials, reached)| trials.failures > 0 && reached >= 0.5)
    }

    /// Returns the trials of all levels below this one.
    pub fn background_counts(&self, level: usize) -> LevelCounts {
        let lower = &self.counts[..level];
        LevelCounts {
            failures: lower.iter().map(|trials| trials.failures).sum(),
            runs: lower.iter().map(|trials| trials.runs).sum(),
        }
    }

    /// Marks a level as not testable.
    pub fn mark_untestable(&mut self, level: usize) {
        self.usable[level] = false;
    }

    /// Returns the trials at each level.
    pub fn trials_by_level(&self) -> &[LevelCounts] {
        &self.counts
    }

    /// Returns the probability of each level to be the first that fails; the last entry is for "never".
    pub fn level_posterior(&self) -> Vec<f64> {
        let rows = self.masses.chunks_exact(self.cells.len());
        rows.map(|row| row.iter().sum()).collect()
    }

    fn normalise_masses(&mut self) {
        let total: f64 = self.masses.iter().sum();
        if total < SURPRISE {
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
            for cell in &self.cells {
                let mut ln = (prior * cell.weight).ln();
                let levels = self.counts.iter().enumerate();
                for (level, trials) in levels.filter(|(_, trials)| trials.runs > 0) {
                    let rate = cell.rate_at(times_of_first(&self.levels, level, first));
                    ln += times_ln(trials.failures, rate.ln())
                        + times_ln(trials.runs - trials.failures, (-rate).ln_1p());
                }
                lns.push(ln);
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
        self.expected_gains(level, &self.summed_masses()).1[0]
    }

    /// Returns the masses summed over the cells that predict the same at a level.
    fn summed_masses(&self) -> SummedMasses {
        let courses = self.cells.len() / BACKGROUNDS.len();
        let rows = self.masses.chunks_exact(self.cells.len());
        let row_sums = rows.map(|row| {
            let mut by_course = vec![0.0; courses];
            let by_background = std::array::from_fn(|background| {
                let cells = &row[background * courses..(background + 1) * courses];
                by_course
                    .iter_mut()
                    .zip(cells)
                    .for_each(|(sum, mass)| *sum += mass);
                cells.iter().sum()
            });
            (by_course, by_background)
        });
        let (by_course, by_background) = row_sums.unzip();
        SummedMasses {
            by_course,
            by_background,
        }
    }

    /// Returns for blocks of 1, 2, 4 ... trials at a level the information of the outcome "none failed" or "some
    /// failed" about the first failing level, and the probability of a failure.
    fn expected_gains(&self, level: usize, sums: &SummedMasses) -> ([f64; BLOCKS], [f64; BLOCKS]) {
        let courses = self.cells.len() / BACKGROUNDS.len();
        let (mut fails, mut noise) = ([0.0; BLOCKS], [0.0; BLOCKS]);
        for first in 0..=self.levels.len() {
            let times = times_of_first(&self.levels, level, first);
            let (masses, cells_between) = match times {
                Some(_) => (sums.by_course[first].as_slice(), 1),
                None => (sums.by_background[first].as_slice(), courses),
            };
            // Without a background, trials below the first failing level pass for certain.
            let certain = usize::from(times.is_none());
            if masses[certain..].iter().all(|mass| *mass < NEGLIGIBLE) {
                continue;
            }
            let (mut mass, mut clean) = (0.0, [0.0; BLOCKS]);
            for (value, cell) in masses.iter().zip(self.cells.iter().step_by(cells_between)) {
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
            } else if self.counts[level].runs > 0 {
                levels.push(level);
            }
            below = Some(level);
        }
        levels
    }

    /// Returns the level whose trials give the most information, each or as a block.
    pub fn choose_level(&self) -> Option<usize> {
        let sums = self.summed_masses();
        let mut best_level: Option<(f64, usize)> = None;
        for level in self.candidate_levels() {
            let (gains, _) = self.expected_gains(level, &sums);
            let mut trials = 1.0;
            for gain in gains {
                let worth = gain / trials;
                trials *= 2.0;
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
        let LevelCounts { failures, runs } = self.counts[level];
        let min = clopper_pearson(failures, runs, 2.0 * BOUND).lo;
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
        let LevelCounts { failures, runs } = self.counts[level];
        let apart = clean_runs_needed(failures, runs, APART * delta);
        let guard = self.guard_runs(self.guard_error(level, delta));
        guard.max(apart.unwrap_or(u64::MAX))
    }

    /// Returns whether the trials of a level show that it fails more often than the level below.
    pub fn is_apart(&self, level: usize, below: usize, delta: f64) -> bool {
        let [counts, other_counts] = [level, below].map(|level| self.counts[level]);
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

    /// Returns the level whose passing trials end the search: the level below the likeliest, or the top if probably no
    /// level fails. Returns `None` while neither is probable enough.
    pub fn guarded_level(&self, rule: &RampRule) -> Option<usize> {
        let (group, never_fails) = self.likeliest_group();
        if group.mass < 1.0 - rule.delta {
            return None;
        }
        if never_fails {
            return self.open_levels().next_back();
        }
        self.level_below(*group.levels.end())
    }

    /// Returns how many more trials of each level the search takes if levels continue to fail as often as they did, or
    /// as the lowest failing one, and other levels do not fail. Returns `None` if this would not end the search.
    pub fn forecast_trials(&self, rule: &RampRule) -> Option<Forecast> {
        let lowest = self.lowest_failing();
        let fails_next = |ahead: &Self, level: usize| {
            let counts = match (self.counts[level].runs, lowest) {
                (0, Some(lowest)) if level >= lowest => self.counts[lowest],
                _ => self.counts[level],
            };
            let LevelCounts { failures, runs } = ahead.counts[level];
            failures * counts.runs < counts.failures * (runs + 1)
        };
        let mut ahead = self.clone();
        let max = self.guard_runs(rule.delta).saturating_mul(2 * PATIENCE);
        for _ in 0..max {
            match ahead.next_step(rule) {
                RampStep::Try(level) | RampStep::TryAny(level) => {
                    ahead.observe_life(level, fails_next(&ahead, level));
                }
                RampStep::From(_) | RampStep::Never => {
                    let trials = ahead.counts.iter().zip(&self.counts);
                    return Some(Forecast(
                        trials.map(|(then, now)| then.runs - now.runs).collect(),
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
        if self.counts.iter().all(|trials| trials.runs == 0) {
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
        let trials = self.counts[level];
        if let Some(below) = self.level_below(level) {
            let error = self.guard_error(level, rule.delta);
            let guard = self.guard_runs(error);
            let needed = self.needed_below(level, rule.delta);
            // Another failure is cheaper than the clean trials that a comparison with few failures needs.
            if needed > guard && trials.failures < FAILURES {
                return RampStep::Try(level);
            }
            if self.background_counts(level).failures > 0 {
                if let Some(step) = self.compare_with_background(level, rule.delta) {
                    return step;
                }
            } else if self.counts[below].runs < needed {
                let runs = self.counts[below].runs;
                return match runs {
                    _ if trials.runs * MIXED < runs => RampStep::Try(level),
                    // The level stopped failing, so it cannot be distinguished from the one below.
                    _ if runs >= guard.saturating_mul(PATIENCE) => RampStep::Stuck,
                    _ => RampStep::Try(below),
                };
            }
        } else if trials.failures < FAILURES {
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

    /// Returns the next step until a level fails more often than the level below it and than the lowest level, which
    /// shows the rate of failures that have nothing to do with the load. Returns `None` if both are known.
    fn compare_with_background(&self, level: usize, delta: f64) -> Option<RampStep> {
        let below = self.level_below(level)?;
        let lowest = self.open_levels().next()?;
        let guard = self.guard_runs(delta);
        if self.counts[level].runs * MIXED < self.counts[below].runs {
            return Some(RampStep::Try(level));
        }
        if self.counts[below].runs < guard {
            return Some(RampStep::Try(below));
        }
        let patience = guard.saturating_mul(PATIENCE);
        let other = [below, lowest]
            .into_iter()
            .find(|other| !self.is_apart(level, *other, delta))?;
        let least = if self.counts[level].runs < self.counts[other].runs {
            level
        } else {
            other
        };
        Some(if self.counts[least].runs < patience {
            RampStep::Try(least)
        } else {
            RampStep::Stuck
        })
    }

    /// Returns the next step if probably no level fails: the top is tried until the rate is excluded there, in turn
    /// with the other levels, because a rate may fall as the load grows.
    fn next_of_none(&self, top: usize, delta: f64) -> RampStep {
        let others = || self.open_levels().filter(|level| *level < top);
        let below = self.background_counts(top);
        // The lowest level shows whether failures have to do with the load.
        let has_failed = below.failures + self.counts[top].failures > 0;
        let lowest = others().next().filter(|_| has_failed);
        if self.is_excluded(top, delta) {
            let guard = self.guard_runs(delta);
            let unknown = lowest.filter(|lowest| self.counts[*lowest].runs < guard);
            return unknown.map_or(RampStep::Never, RampStep::Try);
        }
        if below.runs >= self.counts[top].runs {
            return RampStep::Try(top);
        }
        let rarest = || others().min_by_key(|level| self.counts[*level].runs);
        match lowest.filter(|lowest| self.counts[*lowest].runs * 2 <= below.runs) {
            Some(lowest) => RampStep::Try(lowest),
            None => rarest().map_or(RampStep::Try(top), RampStep::TryAny),
        }
    }

    /// Returns whether a level or one above it failed, or the first of them is known not to fail.
    fn holds_from(&self, level: usize, delta: f64) -> bool {
        let failed = self.counts[level..]
            .iter()
            .any(|trials| trials.failures > 0);
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
                RampStep::Try(level) | RampStep::TryAny(level) => {
                    ramp.observe_life(level, fails(level, ramp.trials_by_level()[level].runs));
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
            ramp.trials_by_level()[4],
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
            ramp.trials_by_level()[5].runs * MIXED >= 28,
            "{:?}",
            ramp.trials_by_level()
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
            ramp.trials_by_level()[6].runs >= 29,
            "{:?}",
            ramp.trials_by_level()
        );
        let others = &ramp.trials_by_level()[..6];
        assert!(others.iter().all(|trials| trials.runs >= 4), "{others:?}");
    }

    #[test]
    fn a_failure_of_the_level_below_continues_the_search_there() {
        let mut ramp = Ramp::new(&LEVELS, 0.1);
        let again = |level, turn| level == 4 && turn >= 20;
        let (over, _) = finish(&mut ramp, |level, turn| level >= 5 || again(level, turn));
        assert_eq!(over, RampStep::From(4));
        assert!(
            ramp.trials_by_level()[3].runs >= 29,
            "{:?}",
            ramp.trials_by_level()
        );
    }

    #[test]
    fn the_lowest_level_shows_the_background_before_a_level_is_named() {
        let mut ramp = Ramp::new(&LEVELS, 0.1);
        let (over, _) = finish(&mut ramp, |level, turn| level >= 5 || turn % 20 == 9);
        assert_eq!(over, RampStep::From(5));
        let trials = ramp.trials_by_level();
        assert!(trials[4].failures > 0 && trials[4].runs >= 29, "{trials:?}");
        assert!(ramp.is_apart(5, 0, RULE.delta), "{trials:?}");
    }

    #[test]
    fn a_background_alone_gives_no_level() {
        let mut ramp = Ramp::new(&LEVELS, 0.1);
        let (over, _) = finish(&mut ramp, |level, turn| (turn + 3 * level as u64) % 20 == 9);
        assert_eq!(over, RampStep::Never);
        let trials = ramp.trials_by_level();
        assert!(trials[0].failures > 0 && trials[0].runs >= 29, "{trials:?}");
    }

    #[test]
    fn a_level_with_a_much_lower_rate_is_below_the_answer() {
        let mut ramp = Ramp::new(&LEVELS, 0.1);
        let rare = |level, turn| level == 4 && turn == 2;
        let (over, _) = finish(&mut ramp, |level, turn| level >= 5 || rare(level, turn));
        assert_eq!(over, RampStep::From(5));
        assert_eq!(ramp.trials_by_level()[4].failures, 1);
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
        let trials = [(6, true), (4, false), (5, true), (4, false), (6, false)];
        let mut one = Ramp::new(&LEVELS, 0.1);
        let mut other = one.clone();
        for (at, failed) in trials {
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
