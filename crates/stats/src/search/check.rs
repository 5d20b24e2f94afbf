//! Checks whether a version before the culprit fails as well, but less often.
//!
//! A search assumes that all bad versions fail at one rate. If an earlier version fails at a fifth of it, the model
//! takes that version for good: the answer is then the first version that fails at the rate of the newest, and not the
//! first that fails. So the answer is checked by runs that need no model:
//!
//! * the culprit fails three times;
//! * the version before it passes so often that it does not fail at the culprit's own rate;
//! * the good end and three versions between pass as often together as bad versions would by chance alone: if the rate
//!   falls for some versions and rises again, the version before the culprit may never fail;
//! * the version before the culprit passes so often that it does not fail at a fifth of the rate;
//! * if an earlier version failed, the good end passes as often as the counts of that version require, up to a limit:
//!   if it does, the failures began earlier, and if it fails, good versions fail as well;
//! * if the culprit failed less than half as often as the newest version, the newest is tried until the difference is
//!   significant or disappears, up to a limit: a second change may have made the failure more frequent.
//!
//! If every trial of a bad version failed, the check is shorter (see [`Demands::ALWAYS`]): excluding a fifth of the rate
//! would take as many trials as everything else together. It excludes a half, and the passes of older versions count as
//! well: failures at this rate may have begun at any of them, and the test is the mean over all starts, by their prior
//! weights. The answer states the rate that is left ([`Bisection::earlier_rate_bound`]).
//!
//! The runs of the check are evidence like all others. So it begins before the posterior reaches its limit, and costs
//! little more than the runs that the posterior needs anyway (`benches/search/shipped.rs`).

use super::super::{
    clean_runs_at_known_rate, clean_runs_needed, convert::real, fisher, special::bisect,
};
use super::posterior::Bisection;
use super::stop::{HypothesisGroup, SearchVerdict, StopConditions};
use super::tested::TestedVersion;

/// Required failures of the culprit.
const FAILURES: u64 = 3;
/// Lower bound of the rate that is excluded for the version before the culprit.
const MIN_RATE: f64 = 0.15;
/// Share of the level for the comparison of the culprit with the version before it: the culprit was chosen because it
/// failed.
const APART: f64 = 0.25;
/// Share of the level for the comparison of the newest version with the culprit: it is repeated after each run.
const MORE_OFTEN: f64 = 0.5;
/// Number of runs of the newest version after which its comparison with the culprit stays open.
const MAX_NEWEST_RUNS: u64 = 60;
/// Length of the interval in which a rate is known.
const EXACT_ENOUGH: f64 = 1e-12;

/// What the check demands.
struct Demands {
    /// This share of the rate of the bad versions is excluded for the version before the culprit.
    excluded_share: f64,
    /// Share of the level for the culprit's own failures beside the version before it.
    own_level: f64,
    /// Distances from the version before the culprit, as shares of the way to the good end, which is 1.
    distances: &'static [usize],
    /// Number of runs of the good end after which it stays open whether good versions fail as well.
    max_good_runs: u64,
}

impl Demands {
    /// Every trial of a bad version failed.
    const ALWAYS: Self = Self {
        excluded_share: 0.5,
        own_level: 1.0,
        distances: &[1, 2, 4],
        max_good_runs: 1,
    };
    const SOMETIMES: Self = Self {
        excluded_share: 0.2,
        own_level: APART,
        distances: &[1, 2, 4, 8],
        max_good_runs: 60,
    };
}

impl Bisection {
    /// Returns the version before a group that failed most often, if one failed; of equals, the last. The good end
    /// counts only if no other version failed.
    pub fn earlier_failing(&self, group: &HypothesisGroup) -> Option<TestedVersion> {
        let earlier = self
            .tested_versions()
            .iter()
            .take_while(|tested| tested.version < group.first);
        let failing = earlier.filter(|tested| tested.failures > 0);
        let most_failing =
            failing.max_by_key(|tested| (tested.version > 0, tested.failures, tested.version));
        most_failing.copied()
    }

    /// Returns the version that the check of the answer runs next, and how many runs; `None` once the check is over, or
    /// without an answer.
    pub fn unchecked_version(&self, stop: &StopConditions) -> Option<(usize, u64)> {
        match self.current_verdict(stop) {
            SearchVerdict::Known(group) => self.check_group(stop, &group),
            _ => None,
        }
    }

    /// Returns the same for any group.
    pub(super) fn check_group(
        &self,
        stop: &StopConditions,
        group: &HypothesisGroup,
    ) -> Option<(usize, u64)> {
        if group.last > self.newest {
            return None;
        }
        let alpha = stop.check?;
        let last_good = self.testable_before(group.first)?;
        let missing = |version: usize, enough: u64| {
            let missing = enough.saturating_sub(self.failures_and_runs(version).1);
            (missing > 0).then_some((version, missing))
        };
        let (failures, runs) = self.failures_and_runs(group.last);
        if failures < FAILURES {
            return Some((group.last, FAILURES - failures));
        }
        let (bad_failures, bad_runs) = self.runs_from(group.last);
        let always_failed = bad_failures == bad_runs;
        let demands = if always_failed {
            Demands::ALWAYS
        } else {
            Demands::SOMETIMES
        };
        let apart = clean_runs_needed(bad_failures, bad_runs, APART * alpha)?.max(
            clean_runs_needed(failures, runs, demands.own_level * alpha)?,
        );
        if let Some(missing) = missing(last_good, apart) {
            return Some(missing);
        }
        let distances = demands.distances;
        let trials_each =
            clean_runs_needed(bad_failures, bad_runs, alpha)? / distances.len() as u64;
        let mut further = distances
            .iter()
            .map(|divisor| last_good - last_good / divisor)
            .filter(|version| self.is_testable(*version));
        if let Some(missing) = further.find_map(|version| missing(version, trials_each.max(1))) {
            return Some(missing);
        }
        let rate = real(bad_failures) / real(bad_runs);
        let excluded_rate = MIN_RATE.max(demands.excluded_share * rate);
        let rare = if always_failed {
            self.passes_without_earlier_start(last_good, excluded_rate, alpha)
        } else {
            clean_runs_at_known_rate(excluded_rate, alpha)?
        };
        if let Some(missing) = missing(last_good, rare) {
            return Some(missing);
        }
        if self.failures_and_runs(0).0 == 0
            && self.is_testable(0)
            && let Some(earlier) = self.earlier_failing(group)
        {
            let enough = clean_runs_needed(earlier.failures, earlier.runs, alpha)?;
            if let Some(missing) = missing(0, enough.min(demands.max_good_runs)) {
                return Some(missing);
            }
        }
        let (newest_failures, newest_runs) = self.failures_and_runs(self.newest);
        let is_half =
            2.0 * real(failures) * real(newest_runs) >= real(newest_failures) * real(runs);
        if is_half || self.newest_fails_more_often(stop, group) {
            return None;
        }
        missing(self.newest, runs.min(MAX_NEWEST_RUNS))
    }

    fn is_testable(&self, version: usize) -> bool {
        !self.untestable.contains(&version)
    }

    fn testable_before(&self, version: usize) -> Option<usize> {
        (0..version)
            .rev()
            .find(|version| self.is_testable(*version))
    }

    /// Returns the highest rate at which versions before a group may still fail although none of their trials did;
    /// `None` if the check excludes a fifth of the rate of bad versions.
    pub fn earlier_rate_bound(
        &self,
        stop: &StopConditions,
        group: &HypothesisGroup,
    ) -> Option<f64> {
        let alpha = stop.check?;
        let last_good = self.testable_before(group.first)?;
        let (bad_failures, bad_runs) = self.runs_from(group.last);
        if bad_failures < bad_runs || self.earlier_failing(group).is_some() {
            return None;
        }
        let passes = self.failures_and_runs(last_good).1;
        let is_excluded =
            |rate: f64| self.passes_without_earlier_start(last_good, rate, alpha) <= passes;
        if is_excluded(Demands::SOMETIMES.excluded_share) {
            return None;
        }
        let is_wide = |left: f64, excluded: f64| excluded - left > EXACT_ENOUGH;
        Some(bisect(Demands::SOMETIMES.excluded_share, 1.0, is_wide, is_excluded).1)
    }

    /// Returns how many runs the last good version needs so that failures at this rate, which begin at any version up to
    /// it, would have been seen with probability `1 - alpha`.
    fn passes_without_earlier_start(&self, last_good: usize, rate: f64, alpha: f64) -> u64 {
        let mut unseen = 0.0;
        let mut chance = 1.0;
        let mut next_start = last_good + 1;
        let earlier = self.tested_versions().iter().rev();
        for tested in earlier.filter(|tested| (1..last_good).contains(&tested.version)) {
            unseen += chance * self.prior_weight(&(tested.version + 1..next_start));
            chance *= (1.0 - rate).powf(real(tested.runs));
            next_start = tested.version + 1;
        }
        unseen += chance * self.prior_weight(&(1..next_start));
        let all_starts = self.prior_weight(&(1..last_good + 1));
        let share = if all_starts > 0.0 {
            unseen / all_starts
        } else {
            1.0
        };
        if share <= alpha {
            return 0;
        }
        clean_runs_at_known_rate(rate, alpha / share).unwrap_or(u64::MAX)
    }

    /// Returns whether the newest version fails significantly more often than the last of a group.
    pub fn newest_fails_more_often(&self, stop: &StopConditions, group: &HypothesisGroup) -> bool {
        let (k, n) = self.failures_and_runs(self.newest);
        let (culprit_k, culprit_n) = self.failures_and_runs(group.last);
        let level = MORE_OFTEN * stop.check.unwrap_or(0.0);
        culprit_k > 0 && fisher(k, n, culprit_k, culprit_n).greater <= level
    }

    /// Returns the failures and the runs of a version and of all after it.
    fn runs_from(&self, version: usize) -> (u64, u64) {
        let later_versions = self
            .tested_versions()
            .iter()
            .filter(|tested| tested.version >= version);
        later_versions.fold((0, 0), |(k, n), tested| {
            (k + tested.failures, n + tested.runs)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::SearchPrior;
    use super::*;

    #[test]
    fn the_check_tries_the_culprit_the_version_before_it_and_older_versions() {
        let mut search = Bisection::new(64, &SearchPrior::default(), None);
        let (stop, group) = (
            StopConditions::with_check(0.05),
            HypothesisGroup {
                first: 40,
                last: 40,
                mass: 0.97,
            },
        );
        search.observe_many(64, 5, 10);
        search.observe_many(40, 2, 4);
        assert_eq!(search.check_group(&stop, &group), Some((40, 1)));
        search.observe_many(40, 3, 6);
        search.observe_many(39, 0, 12);
        for version in [0, 20, 30, 35] {
            assert_eq!(search.check_group(&stop, &group), Some((version, 1)));
            search.observe_many(version, 0, 1);
        }
        // At a rate of a half 19 clean runs exclude .15.
        assert_eq!(search.check_group(&stop, &group), Some((39, 7)));
        search.observe_many(39, 0, 7);
        assert_eq!(search.check_group(&stop, &group), None);
        // One failure in two runs requires 38 clean ones of the good end.
        search.observe_many(30, 1, 1);
        assert_eq!(search.check_group(&stop, &group), Some((0, 37)));
        search.observe_many(0, 1, 1);
        assert_eq!(search.check_group(&stop, &group), None);
        let earlier = search.earlier_failing(&group).unwrap();
        assert_eq!(
            (earlier.version, earlier.failures, earlier.runs),
            (30, 1, 2)
        );
        assert_eq!(
            search.check_group(&StopConditions::at_delta(0.05), &group),
            None
        );
    }

    #[test]
    fn the_check_is_shorter_if_every_bad_version_always_failed_and_leaves_a_rate() {
        let mut search = Bisection::new(64, &SearchPrior::default(), None);
        let (stop, group) = (
            StopConditions::with_check(0.05),
            HypothesisGroup {
                first: 40,
                last: 40,
                mass: 0.97,
            },
        );
        search.observe_many(64, 3, 3);
        search.observe_many(40, 3, 3);
        while let Some((version, runs)) = search.check_group(&stop, &group) {
            assert!(version < 40 && runs > 0);
            search.observe_many(version, 0, 1);
        }
        assert_eq!(search.failures_and_runs(39), (0, 4));
        let bound = search.earlier_rate_bound(&stop, &group).unwrap();
        assert!((0.4..=0.5).contains(&bound), "{bound}");
        // Failures at this rate that began at any version would have been seen with 95 %.
        let runs_from = |start| search.runs_from(start).1 - search.runs_from(40).1;
        let unseen: f64 = (1..40)
            .map(|start| (1.0 - bound).powf(real(runs_from(start))))
            .sum();
        assert!((unseen / 39.0 - 0.05).abs() < 1e-6, "{unseen}");
        search.observe_many(39, 0, 20);
        assert_eq!(search.earlier_rate_bound(&stop, &group), None);
    }

    #[test]
    fn the_newest_version_is_tried_until_its_rate_is_compared_with_the_culprit() {
        let group = HypothesisGroup {
            first: 40,
            last: 40,
            mass: 0.97,
        };
        let stop = StopConditions::with_check(0.05);
        let after = |culprit_runs: u64, failures: u64, runs: u64| {
            let mut search = Bisection::new(64, &SearchPrior::default(), None);
            search.observe_many(64, failures, runs);
            search.observe_many(40, 4, culprit_runs);
            for version in [0, 20, 30, 35, 39] {
                search.observe_many(version, 0, 200);
            }
            let more_often = search.newest_fails_more_often(&stop, &group);
            (search.check_group(&stop, &group), more_often)
        };
        assert_eq!(after(87, 3, 20), (Some((64, 40)), false));
        assert_eq!(after(30, 3, 10), (Some((64, 20)), false));
        assert_eq!(after(30, 3, 12), (None, false));
        assert_eq!(after(87, 5, 60), (None, false));
        assert_eq!(after(87, 7, 20), (None, true));
    }
}
