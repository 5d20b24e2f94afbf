//! Uses the signatures and times of failures as evidence for the culprit.
//!
//! A failure has two features: its signature, and its time. Failures of bad versions draw the kind of each feature from
//! one distribution, failures of good versions from another. Both are unknown, with symmetric Dirichlet priors. A
//! failure that resembles failures of the newest version is evidence that its version is bad. One that differs is evidence
//! that its version is good. Both weigh more, the more failures of the newest version were seen.
//!
//! Features may mislead, so three other explanations keep a share of the prior:
//!
//! * good and bad versions fail alike;
//! * every failure is different, because a message holds a random word;
//! * the bug has other features in older versions, where a function has another name. So a version that fails often is
//!   bad, whatever its failures resemble.
//!
//! Given the culprit, the features are assumed to be independent of the rates. So they are one factor for each culprit,
//! and the order of the runs does not matter.

use std::collections::BTreeMap;

use super::super::convert::real;
use super::super::special::ln_rising;
use super::sums::ln_sum;
use super::tested::TestedVersion;

/// Number of kinds of a feature that are distinguished; all further kinds count as the last.
pub(super) const KINDS: usize = 8;
/// Weights of the priors of each distribution, in failures: with a small weight one kind is common, with a large one
/// all are.
const WEIGHTS: [f64; 2] = [1.0, 8.0];
/// The probability that good and bad versions fail alike.
const ALIKE: f64 = 0.7;
/// The probability that the features of bad versions change once, unless good and bad versions fail alike.
const CHANGE: f64 = 0.1;

/// The kind of each feature of a failure, numbered from 0 in the order in which the kinds were first seen; `None` if
/// the kind is unknown or has no meaning.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Features {
    pub signature: Option<usize>,
    pub time: Option<usize>,
}

/// The features of all failures.
#[derive(Debug, Clone, Default)]
pub(super) struct ObservedFeatures([Feature; 2]);

impl ObservedFeatures {
    pub(super) fn add_features(&mut self, version: usize, features: Features) {
        for (feature, kind) in self.0.iter_mut().zip([features.signature, features.time]) {
            if let Some(kind) = kind {
                feature.0.entry(version).or_default()[kind.min(KINDS - 1)] += 1;
            }
        }
    }

    /// Returns the logarithm of the probability of all features for each segment between tested versions.
    pub(super) fn ln_factors(&self, tested: &[TestedVersion]) -> Vec<f64> {
        let [signatures, times] = self.0.each_ref().map(|feature| feature.ln_factors(tested));
        let pairs = signatures.iter().zip(times);
        pairs.map(|(signature, time)| signature + time).collect()
    }

    /// Returns the logarithm of the probability of all features and that good and bad versions fail alike.
    pub(super) fn ln_alike(&self) -> f64 {
        let of_each = self.0.each_ref().map(|feature| {
            let sums = PrefixSums::new(feature.0.values());
            ln_sum(&WEIGHTS.map(|weight| sums.ln_alike(weight)))
        });
        of_each.iter().sum()
    }
}

/// Number of failures of each kind.
type KindCounts = [u64; KINDS];

/// The kinds of one feature, by version.
#[derive(Debug, Clone, Default)]
struct Feature(BTreeMap<usize, KindCounts>);

impl Feature {
    fn ln_factors(&self, tested: &[TestedVersion]) -> Vec<f64> {
        let sums = PrefixSums::new(self.0.values());
        let of_good: Vec<f64> = (0..=self.0.len())
            .map(|good| sums.ln_factor(good))
            .collect();
        let mut good = 0;
        let mut factors = vec![of_good[0]];
        factors.extend(tested.iter().map(|version| {
            good += usize::from(self.0.contains_key(&version.version));
            of_good[good]
        }));
        factors
    }
}

/// The sums of the counts of all failing versions before the i-th.
struct PrefixSums(Vec<KindCounts>);

impl PrefixSums {
    fn new<'a>(counts: impl Iterator<Item = &'a KindCounts>) -> Self {
        let mut sum = KindCounts::default();
        let mut sums = vec![sum];
        for counts in counts {
            for (sum, count) in sum.iter_mut().zip(counts) {
                *sum += count;
            }
            sums.push(sum);
        }
        Self(sums)
    }

    /// Returns the logarithm of the probability of all kinds if the first `good` of the failing versions are good.
    fn ln_factor(&self, good: usize) -> f64 {
        let terms = WEIGHTS.map(|weight| {
            let apart = (1.0 - ALIKE).ln() + self.ln_apart(good, weight);
            ln_sum(&[self.ln_alike(weight), apart])
        });
        ln_sum(&terms)
    }

    fn newest_version(&self) -> usize {
        self.0.len() - 1
    }

    /// Returns the logarithm of the probability of all kinds and that good and bad versions fail alike.
    fn ln_alike(&self, weight: f64) -> f64 {
        ALIKE.ln() + self.ln_drawn(0, self.newest_version(), weight)
    }

    /// Returns the logarithm of the probability of all kinds if good and bad versions fail differently.
    fn ln_apart(&self, good: usize, weight: f64) -> f64 {
        let newest = self.newest_version();
        let drawn = |start, end| self.ln_drawn(start, end, weight);
        let changes = good + 1..newest;
        let rest = if changes.is_empty() {
            drawn(good, newest)
        } else {
            let ln_each = (CHANGE / real(changes.len() as u64)).ln();
            let changing = changes.map(|index| ln_each + drawn(good, index) + drawn(index, newest));
            let constant = (1.0 - CHANGE).ln() + drawn(good, newest);
            ln_sum(&changing.chain([constant]).collect::<Vec<_>>())
        };
        drawn(0, good) + rest
    }

    /// Returns the logarithm of the probability that these failing versions draw their kinds from one distribution.
    fn ln_drawn(&self, start: usize, end: usize, weight: f64) -> f64 {
        let weight_each = weight / real(KINDS as u64);
        let mut total = 0;
        let of_kinds = self.0[start]
            .iter()
            .zip(&self.0[end])
            .map(|(count_before, after)| {
                total += after - count_before;
                ln_rising(weight_each, real(after - count_before))
            });
        of_kinds.sum::<f64>() - ln_rising(weight, real(total))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Bisection, SearchPrior};
    use super::*;

    fn features_of(signature: usize) -> Features {
        Features {
            signature: Some(signature),
            time: None,
        }
    }

    /// Returns how many times as likely version 30 is to be bad, rather than good, after another run.
    fn odds(search: &Bisection) -> f64 {
        let bad: f64 = search.posterior_masses()[..=30].iter().sum();
        bad / (1.0 - bad)
    }

    fn search_with_failing_newest() -> Bisection {
        let mut search = Bisection::new(64, &SearchPrior::default(), None);
        for run in 0..20 {
            let features = if run % 2 == 0 {
                features_of(0)
            } else {
                Features::default()
            };
            search.observe_with_features(64, run % 2 == 0, features);
        }
        search
    }

    #[test]
    fn the_probability_of_kinds_equals_that_of_drawing_them_one_by_one() {
        // With a weight of 1: 1/8, then 9/16, then 1/24, then 17/32.
        let drawn: f64 = 1.0 / 8.0 * (9.0 / 16.0) * (1.0 / 24.0) * (17.0 / 32.0);
        let mut counts = KindCounts::default();
        counts[0] = 3;
        counts[5] = 1;
        let sums = PrefixSums::new([counts].iter());
        assert!((sums.ln_drawn(0, 1, 1.0) - drawn.ln()).abs() < 1e-12);
    }

    #[test]
    fn a_failure_with_the_signature_of_the_newest_version_is_more_evidence() {
        let mut plain = search_with_failing_newest();
        plain.observe_run(30, true);
        let mut alike = search_with_failing_newest();
        alike.observe_with_features(30, true, features_of(0));
        let mut other = search_with_failing_newest();
        other.observe_with_features(30, true, features_of(1));
        // It may be due to good and bad versions failing alike, so it weighs little more.
        let times = odds(&alike) / odds(&plain);
        assert!(times > 1.2 && times < 1.0 / ALIKE, "{times}");
        assert!(
            odds(&other) < 0.5 * odds(&plain),
            "{} {}",
            odds(&other),
            odds(&plain)
        );
    }

    #[test]
    fn a_version_that_fails_as_often_with_another_signature_is_bad() {
        let mut search = search_with_failing_newest();
        for run in 0..20 {
            let failed = run % 2 == 0;
            let features = if failed {
                features_of(1)
            } else {
                Features::default()
            };
            search.observe_with_features(30, failed, features);
        }
        assert!(odds(&search) > 100.0, "{}", odds(&search));
    }

    #[test]
    fn the_posterior_does_not_depend_on_the_order_of_failures() {
        let runs = [(64, 0), (30, 1), (64, 0), (20, 0), (40, 2), (30, 0)];
        let mut one = Bisection::new(64, &SearchPrior::default(), None);
        let mut other = one.clone();
        for (version, kind) in runs {
            one.observe_with_features(version, true, features_of(kind));
        }
        for (version, kind) in runs.into_iter().rev() {
            other.observe_with_features(version, true, features_of(kind));
        }
        one.observe_run(10, false);
        other.observe_many(10, 0, 1);
        for (a, b) in one.posterior_masses().iter().zip(other.posterior_masses()) {
            assert!((a - b).abs() < 1e-9, "{a} {b}");
        }
        let anew = one.with_background();
        for (a, b) in one.posterior_masses().iter().zip(anew.posterior_masses()) {
            assert!((a - b).abs() < 1e-9, "{a} {b}");
        }
    }

    #[test]
    fn features_do_not_change_the_contradiction() {
        let mut search = search_with_failing_newest();
        for version in [10, 20, 30, 40] {
            search.observe_with_features(version, true, features_of(version));
        }
        let mut plain = Bisection::new(64, &SearchPrior::default(), None);
        plain.observe_many(64, 10, 20);
        for version in [10, 20, 30, 40] {
            plain.observe_run(version, true);
        }
        assert_eq!(search.find_contradiction(), plain.find_contradiction());
    }
}
