//! Tests whether a program fails more often under another setting, such as more parallel trials.
//!
//! A search takes a number of runs that is in inverse proportion to the failure rate, so a setting that raises the rate
//! saves runs. Before a search, a few settings are tested, each against the same runs without it. A wrong answer costs
//! time but no correctness: the search learns the rate under its setting anew.
//!
//! The test is Fisher's, one-sided, after 8, 16, 32, 64 and 128 runs under a setting, against as many runs without it.
//! Several settings and the five tests share [`LEVEL`], so that any setting is wrongly said to raise the rate with at
//! most that probability. Parallel runs may fail together: the counts are divided by their design effect, and failures
//! must occur in three batches.

use super::convert::{real, whole};
use super::dependence::Batches;
use super::fisher::fisher;
use super::interval::upper_one_sided;
use super::search::{Channel, bisect_runs};
use std::collections::{BTreeMap, BTreeSet};

/// Factor by which a setting must multiply the failure rate, per run and per unit of time.
pub const FACTOR: f64 = 2.0;
/// Probability that any setting is said to raise the rate although none does. A wrong setting makes the search no
/// shorter, but not wrong.
pub const LEVEL: f64 = 0.2;
/// Numbers of runs under a setting after which the test is made.
const LOOKS: [u64; 5] = [8, 16, 32, 64, 128];
/// Number of runs without any setting before settings are tried, unless [`PILOT_FAILURES`] of them fail.
pub const PILOT: u64 = 12;
/// Number of failures after which no setting is tried, because the search is short without one.
pub const PILOT_FAILURES: u64 = 3;
/// A setting is dropped once it is known to fail in fewer runs than this multiple of the rate without it;
/// [`WORTHWHILE_RATES`] bounds that rate.
const WORTHWHILE: f64 = 3.0;
/// Lower and upper bound of the rate below which a setting is dropped.
const WORTHWHILE_RATES: (f64, f64) = (0.2, 0.9);
/// Probability that a setting at that rate is dropped, at each test.
const DROPPED: f64 = 0.2;
/// Batches of parallel runs in which failures must occur.
const FAILING_BATCHES: usize = 3;
/// Limit of the runs under settings, as a share of the runs that a search takes without them; [`BUDGET`] bounds it.
const SHARE: f64 = 0.5;
/// Lower and upper bound of the runs under settings.
const BUDGET: (u64, u64) = (40, 160);

/// Runs of a program under one setting.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sample {
    /// For each run the number of its batch of parallel runs, and whether it failed.
    pub runs: Vec<(u64, bool)>,
    /// Time of all runs together.
    pub seconds: f64,
}

/// The verdict on a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettingVerdict {
    /// Not decided yet.
    Open,
    /// The failure rate is at least doubled, per run and per unit of time.
    Raises,
    /// The failure rate rises per run, but is not doubled per unit of time.
    TooSlow,
    /// More runs are not worthwhile.
    Dropped,
}

impl Sample {
    /// Returns the number of runs.
    pub fn len(&self) -> u64 {
        self.runs.len() as u64
    }

    /// Returns whether the sample is empty.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Returns the number of failures.
    pub fn failure_count(&self) -> u64 {
        self.runs.iter().filter(|(_, failed)| *failed).count() as u64
    }

    /// Returns the first `runs` runs.
    fn first_runs(&self, runs: u64) -> Self {
        let runs = usize::try_from(runs).unwrap_or(usize::MAX);
        Self {
            runs: self.runs.iter().copied().take(runs).collect(),
            seconds: 0.0,
        }
    }

    /// Returns a rate that is never 0: half a failure in one more run.
    fn cautious_rate(&self) -> f64 {
        (real(self.failure_count()) + 0.5) / (real(self.len()) + 1.0)
    }

    /// Returns how many parallel runs are worth one independent run.
    pub fn design_effect(&self) -> f64 {
        let mut counts: BTreeMap<u64, (u32, u32)> = BTreeMap::new();
        for (batch, failed) in &self.runs {
            let (runs, failures) = counts.entry(*batch).or_default();
            *runs += 1;
            *failures += u32::from(*failed);
        }
        let mut batches = Batches::new();
        for (runs, failures) in counts.into_values() {
            batches.add_batch(runs, failures);
        }
        let dependence = batches.measure_dependence();
        dependence.map_or(1.0, |dependence| dependence.design_effect.max(1.0))
    }

    fn failing_batches(&self) -> usize {
        let failing = self.runs.iter().filter(|(_, failed)| *failed);
        failing
            .map(|(batch, _)| batch)
            .collect::<BTreeSet<_>>()
            .len()
    }

    /// Returns by which factors failures are more frequent than in other runs, per run and per unit of time; `None` if
    /// the others have no failure. Times that were not measured count as equal.
    pub fn times_as_often(&self, natural: &Self) -> Option<(f64, f64)> {
        let (raised_failures, natural_failures) =
            (real(self.failure_count()), real(natural.failure_count()));
        if natural.failure_count() == 0 || self.is_empty() {
            return None;
        }
        let by_runs = raised_failures / real(self.len()) / (natural_failures / real(natural.len()));
        let by_time = if self.seconds > 0.0 && natural.seconds > 0.0 {
            raised_failures / self.seconds / (natural_failures / natural.seconds)
        } else {
            by_runs
        };
        Some((by_runs, by_time))
    }
}

/// Returns whether the first runs under a setting failed more often than those without it, at some test.
fn is_known(natural: &Sample, raised: &Sample, settings: u64) -> bool {
    let level = LEVEL / real(settings * LOOKS.len() as u64);
    LOOKS.into_iter().any(|runs| {
        let natural_runs = runs.max(PILOT);
        if raised.len() < runs || natural.len() < natural_runs {
            return false;
        }
        let (raised_sample, natural_sample) =
            (raised.first_runs(runs), natural.first_runs(natural_runs));
        let (effect, other_effect) = (
            raised_sample.design_effect(),
            natural_sample.design_effect(),
        );
        let effective = |count: u64, effect: f64| real(count) / effect;
        let p_value = fisher(
            whole(effective(raised_sample.failure_count(), effect).floor()),
            whole(effective(raised_sample.len(), effect).ceil()),
            whole(effective(natural_sample.failure_count(), other_effect).ceil()),
            whole(effective(natural_sample.len(), other_effect).floor()),
        );
        p_value.greater <= level
    })
}

/// Returns the verdict on one of several settings.
pub fn standing_of_setting(natural: &Sample, raised: &Sample, settings: u64) -> SettingVerdict {
    if raised.is_empty() {
        return SettingVerdict::Open;
    }
    let (min, max) = WORTHWHILE_RATES;
    let wanted_rate = (WORTHWHILE * natural.cautious_rate()).max(min).min(max);
    if upper_one_sided(raised.failure_count(), raised.len(), DROPPED) <= wanted_rate {
        return SettingVerdict::Dropped;
    }
    let is_decided = is_known(natural, raised, settings);
    let often = raised.times_as_often(natural);
    let (by_runs, by_time) = often.unwrap_or((f64::INFINITY, f64::INFINITY));
    if !is_decided || by_runs < FACTOR || raised.failing_batches() < FAILING_BATCHES {
        SettingVerdict::Open
    } else if by_time < FACTOR {
        SettingVerdict::TooSlow
    } else {
        SettingVerdict::Raises
    }
}

/// Returns whether the search is short without any setting.
pub fn is_short(natural: &Sample) -> bool {
    natural.failure_count() >= PILOT_FAILURES && natural.len() <= PILOT
}

/// Returns the limit of the runs under settings before a search among these versions.
pub fn setting_budget(natural: &Sample, versions: u64, alpha: f64) -> u64 {
    let rate = natural.cautious_rate().min(1.0);
    let channel = Channel { p: rate, q: 0.0 };
    let search = bisect_runs(versions.max(2), &channel, false, alpha);
    whole(SHARE * search).clamp(BUDGET.0, BUDGET.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs that last a second each, in batches of this size; the listed ones fail.
    fn sample(runs: u64, batch: u64, failing: &[u64]) -> Sample {
        let run = |number| (number / batch, failing.contains(&number));
        Sample {
            runs: (0..runs).map(run).collect(),
            seconds: real(runs),
        }
    }

    fn every_nth(n: u64, runs: u64) -> Vec<u64> {
        (0..runs).filter(|number| number % n == 0).collect()
    }

    #[test]
    fn a_large_rise_is_recognized_and_a_small_rise_is_not() {
        let natural = sample(32, 1, &[7, 19]);
        let standing = |raised: &Sample| standing_of_setting(&natural, raised, 3);
        assert_eq!(
            standing(&sample(32, 1, &every_nth(2, 32))),
            SettingVerdict::Raises
        );
        assert_eq!(
            standing(&sample(32, 1, &every_nth(5, 32))),
            SettingVerdict::Open
        );
        assert_eq!(standing(&sample(32, 1, &[3])), SettingVerdict::Dropped);
        assert_eq!(standing(&Sample::default()), SettingVerdict::Open);
    }

    #[test]
    fn more_settings_need_more_evidence() {
        let (natural, raised) = (sample(16, 1, &[7]), sample(16, 1, &every_nth(2, 16)));
        assert_eq!(
            standing_of_setting(&natural, &raised, 3),
            SettingVerdict::Raises
        );
        assert_eq!(
            standing_of_setting(&natural, &raised, 8),
            SettingVerdict::Open
        );
    }

    #[test]
    fn the_test_is_made_only_at_the_planned_numbers_of_runs() {
        let natural = sample(32, 1, &[7]);
        // Seven of the first eight fail, and no later run.
        let early = sample(24, 1, &(0..7).collect::<Vec<u64>>());
        assert!(is_known(&natural, &early, 3));
        assert!(!is_known(&natural, &early.first_runs(7), 3));
        // The comparison takes as many runs without the setting.
        assert!(!is_known(&natural.first_runs(11), &early, 3));
    }

    #[test]
    fn a_setting_that_makes_runs_slower_is_too_slow() {
        let natural = sample(32, 1, &[7, 19]);
        let mut slow = sample(32, 1, &every_nth(2, 32));
        slow.seconds *= 5.0;
        assert_eq!(
            standing_of_setting(&natural, &slow, 3),
            SettingVerdict::TooSlow
        );
        let (by_runs, by_time) = slow.times_as_often(&natural).unwrap();
        assert!((by_runs - 8.0).abs() < 1e-9 && (by_time - 1.6).abs() < 1e-9);
    }

    #[test]
    fn parallel_runs_that_fail_together_count_as_few_runs() {
        let natural = sample(32, 1, &[7, 19]);
        // Two of four waves fail completely, or half of each wave does.
        let together: Vec<u64> = (0..8).chain(16..24).collect();
        let together = sample(32, 8, &together);
        assert!(together.design_effect() > 7.0);
        assert_eq!(
            standing_of_setting(&natural, &together, 3),
            SettingVerdict::Open
        );
        let spread = sample(32, 8, &every_nth(2, 32));
        assert_eq!(
            standing_of_setting(&natural, &spread, 3),
            SettingVerdict::Raises
        );
    }

    #[test]
    fn a_search_is_short_if_the_first_runs_fail_often() {
        assert!(is_short(&sample(12, 1, &[1, 5, 11])));
        assert!(!is_short(&sample(12, 1, &[1, 5])));
        assert!(!is_short(&sample(16, 1, &[1, 5, 13])));
    }

    #[test]
    fn rare_failures_have_a_larger_budget() {
        let rare = setting_budget(&sample(30, 1, &[7]), 64, 0.05);
        let frequent = setting_budget(&sample(30, 1, &every_nth(3, 30)), 64, 0.05);
        assert_eq!((rare, frequent), (160, 40));
    }
}
