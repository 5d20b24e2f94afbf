//! Joint posterior of the culprit and the failure rates.
//!
//! Culprits between two neighbouring tested versions have the same likelihood, so there is one row of cells for each
//! such segment and, computed once, the sums of the prior. A run costs the tested versions times the cells, however
//! many versions there are.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use super::super::convert::real;
use super::features::{Features, ObservedFeatures};
use super::grid::{Cell, Grid, SearchPrior};
use super::sums::sum_in_parts;
use super::tested::TestedVersion;

/// A product below this share of its former value is computed again from logarithms.
const UNDERFLOW: f64 = 1e-200;

/// The likelihoods of each segment between tested versions, times the weight of the cell.
#[derive(Debug, Clone)]
pub(super) struct SegmentLikelihoods {
    pub(super) grid: Arc<Grid>,
    newest: usize,
    pub(super) tested: Vec<TestedVersion>,
    /// One row of cells per segment; there is one segment more than tested versions.
    values: Vec<f64>,
    features: ObservedFeatures,
    /// The logarithm of the factor of the features of failures in the values of each segment.
    ln_features: Vec<f64>,
    /// The part of that factor from good and bad versions failing alike: the same for all segments.
    ln_alike: Option<f64>,
    /// The logarithm of all scaling of the values so far.
    ln_scale: f64,
    bad: Vec<f64>,
    good: Vec<f64>,
}

fn outcome_chance(rate: f64, failed: bool) -> f64 {
    if failed { rate } else { 1.0 - rate }
}

/// Multiplies each cell with the probability of an outcome.
fn multiply_outcome(factors: &mut [f64], rates: &[f64], failed: bool) {
    for (factor, rate) in factors.iter_mut().zip(rates) {
        *factor *= outcome_chance(*rate, failed);
    }
}

fn multiply_each(values: &mut [f64], factors: &[f64]) {
    for (value, factor) in values.iter_mut().zip(factors) {
        *value *= factor;
    }
}

/// Returns k ln x, with 0 for k = 0 even if x is 0.
pub(super) fn times_ln(k: u64, ln: f64) -> f64 {
    if k == 0 { 0.0 } else { real(k) * ln }
}

impl SegmentLikelihoods {
    fn new(grid: Arc<Grid>, newest: usize) -> Self {
        Self {
            values: grid.cells().iter().map(|cell| cell.weight).collect(),
            grid,
            newest,
            tested: Vec::new(),
            features: ObservedFeatures::default(),
            ln_features: vec![0.0],
            ln_alike: None,
            ln_scale: 0.0,
            bad: Vec::new(),
            good: Vec::new(),
        }
    }

    /// Returns rows with the same counts, without features of failures.
    fn of_counts(&self, grid: Arc<Grid>) -> Self {
        let mut rows = Self::new(grid, self.newest);
        for tested in &self.tested {
            rows.count_runs(tested.version, tested.failures, tested.runs);
        }
        rows.rebuild_all();
        rows
    }

    pub(super) fn cell_count(&self) -> usize {
        self.grid.cells().len()
    }

    pub(super) fn segment_row(&self, segment: usize) -> &[f64] {
        let width = self.cell_count();
        &self.values[segment * width..(segment + 1) * width]
    }

    /// Returns the hypotheses of a segment; the last segment includes "none".
    pub(super) fn segment_hypotheses(&self, segment: usize) -> Range<usize> {
        let start = segment
            .checked_sub(1)
            .map_or(0, |i| self.tested[i].version + 1);
        let end = self
            .tested
            .get(segment)
            .map_or(self.newest + 2, |tested| tested.version + 1);
        start..end
    }

    pub(super) fn segment_count(&self) -> usize {
        self.tested.len() + 1
    }

    /// Returns the segment in which a version lies.
    pub(super) fn segment_of(&self, version: usize) -> usize {
        self.tested
            .partition_point(|tested| tested.version < version)
    }

    /// Makes the version the end of a segment, and returns the index of the segment.
    fn split_at(&mut self, version: usize) -> usize {
        let segment = self.segment_of(version);
        if self
            .tested
            .get(segment)
            .is_some_and(|tested| tested.version == version)
        {
            return segment;
        }
        let width = self.cell_count();
        let end = (segment + 1) * width;
        let length_before = self.values.len();
        // The row and all after it are copied, then those after it are moved down.
        self.values.extend_from_within(end - width..);
        self.values.copy_within(length_before.., end);
        self.values.truncate(length_before + width);
        self.ln_features.insert(segment, self.ln_features[segment]);
        self.tested.insert(
            segment,
            TestedVersion {
                version,
                failures: 0,
                runs: 0,
            },
        );
        segment
    }

    /// Adds one run; `values` are not normalised afterwards.
    pub(super) fn observe_run(&mut self, version: usize, failed: bool) {
        let index = self.split_at(version);
        let tested = &mut self.tested[index];
        tested.runs += 1;
        tested.failures += u64::from(failed);
        let width = self.cell_count();
        let grid = Arc::clone(&self.grid);
        let cells = grid.cells();
        self.good.clear();
        self.good
            .extend(cells.iter().map(|cell| outcome_chance(cell.q, failed)));
        self.bad.clear();
        self.bad
            .extend(cells.iter().map(|cell| outcome_chance(cell.p, failed)));
        for segment in 0..self.segment_count() {
            let factors = if segment <= index {
                &self.bad
            } else {
                &self.good
            };
            let row = &mut self.values[segment * width..(segment + 1) * width];
            for (value, factor) in row.iter_mut().zip(factors) {
                *value *= factor;
            }
        }
    }

    /// Adds the features of a failure whose run was already added.
    fn add_features(&mut self, version: usize, features: Features) {
        self.features.add_features(version, features);
        let ln_features = self.features.ln_factors(&self.tested);
        let width = self.cell_count();
        for (segment, ln) in ln_features.iter().enumerate() {
            let factor = (ln - self.ln_features[segment]).exp();
            for value in &mut self.values[segment * width..(segment + 1) * width] {
                *value *= factor;
            }
        }
        self.ln_features = ln_features;
        self.ln_alike = Some(self.features.ln_alike());
    }

    /// Returns the probability that good and bad versions fail alike, if the culprit is in a segment.
    pub(super) fn alike_probability(&self, segment: usize) -> f64 {
        let ln = |ln_alike: f64| ln_alike - self.ln_features[segment];
        self.ln_alike.map_or(1.0, |ln_alike| ln(ln_alike).exp())
    }

    /// Adds several runs at the price of one.
    pub(super) fn observe_all(&mut self, runs: &[(usize, bool)]) {
        if let &[(version, failed)] = runs {
            return self.observe_run(version, failed);
        }
        for &(version, failed) in runs {
            self.count_runs(version, u64::from(failed), 1);
        }
        let grid = Arc::clone(&self.grid);
        let width = self.cell_count();
        let mut sorted = runs.to_vec();
        sorted.sort_unstable();
        // The runs of a version imply that it is bad in the segments up to its own, and good in the rest: so the
        // factors accumulate from segment to segment, from either end.
        let (mut good, mut bad) = (vec![1.0; width], vec![1.0; width]);
        let mut start = 0;
        for segment in 0..self.segment_count() {
            let passed = self.segment_hypotheses(segment).start;
            while let Some((_, failed)) = sorted.get(start).filter(|run| run.0 < passed) {
                multiply_outcome(&mut good, grid.good_rates(), *failed);
                start += 1;
            }
            multiply_each(&mut self.values[segment * width..][..width], &good);
        }
        let mut end = sorted.len();
        for segment in (0..self.segment_count()).rev() {
            let first = self.segment_hypotheses(segment).start;
            while let Some((_, failed)) = end
                .checked_sub(1)
                .map(|i| sorted[i])
                .filter(|run| run.0 >= first)
            {
                multiply_outcome(&mut bad, grid.bad_rates(), failed);
                end -= 1;
            }
            multiply_each(&mut self.values[segment * width..][..width], &bad);
        }
    }

    /// Adds runs without updating the likelihoods.
    fn count_runs(&mut self, version: usize, failures: u64, runs: u64) {
        let index = self.split_at(version);
        self.tested[index].failures += failures;
        self.tested[index].runs += runs;
    }

    /// Returns the logarithm of the likelihood of a segment in a cell, times the cell's weight.
    fn ln_value(&self, segment: usize, cell: &Cell) -> f64 {
        let ln_chance_of = |tested: &TestedVersion, rate: f64| {
            times_ln(tested.failures, rate.ln())
                + times_ln(tested.runs - tested.failures, (-rate).ln_1p())
        };
        let sum = |side: &[TestedVersion]| TestedVersion {
            version: 0,
            failures: side.iter().map(|tested| tested.failures).sum(),
            runs: side.iter().map(|tested| tested.runs).sum(),
        };
        let (good, bad) = self.tested.split_at(segment);
        self.ln_features[segment]
            + cell.weight.ln()
            + ln_chance_of(&sum(good), cell.q)
            + ln_chance_of(&sum(bad), cell.p)
    }

    /// Computes everything again from the counts, so that the largest value is one.
    fn rebuild_all(&mut self) {
        let grid = Arc::clone(&self.grid);
        let of_segment = |s| grid.cells().iter().map(move |cell| (s, cell));
        let lns = (0..self.segment_count()).flat_map(of_segment);
        self.values = lns.map(|(s, cell)| self.ln_value(s, cell)).collect();
        let max = self.values.iter().copied().fold(f64::MIN, f64::max);
        for value in &mut self.values {
            *value = (*value - max).exp();
        }
        self.ln_scale = -max;
    }

    pub(super) fn scale_values(&mut self, factor: f64) {
        for value in &mut self.values {
            *value *= factor;
        }
        self.ln_scale += factor.ln();
    }

    /// Rescales the values, which would otherwise underflow after many products.
    pub(super) fn refresh_scale(&mut self) {
        let max = self.values.iter().copied().fold(0.0, f64::max);
        if max > 0.0 && max < 1e-100 {
            self.scale_values(max.recip());
        }
    }

    /// Returns the rows restricted to these cells.
    pub(super) fn only_cells(&self, cells: &[usize]) -> Self {
        let kept_cells = cells.iter().map(|&i| self.grid.cells()[i]).collect();
        let values = (0..self.segment_count())
            .flat_map(|segment| cells.iter().map(move |&i| (segment, i)))
            .map(|(segment, i)| self.segment_row(segment)[i])
            .collect();
        Self {
            grid: Arc::new(Grid::of_cells(kept_cells)),
            newest: self.newest,
            tested: self.tested.clone(),
            values,
            features: self.features.clone(),
            ln_features: self.ln_features.clone(),
            ln_alike: self.ln_alike,
            ln_scale: self.ln_scale,
            bad: Vec::new(),
            good: Vec::new(),
        }
    }
}

/// A search for the version that made a failure possible, at an unknown rate.
///
/// Versions are 0..=n: 0 is the good end, n the newest. Hypothesis c = 1..=n is "bad from version c on", 0 is "bad at
/// the good end already", n+1 is "none is bad".
#[derive(Debug, Clone)]
pub struct Bisection {
    pub(super) newest: usize,
    /// Sums of the prior: the weight of all hypotheses before the i-th.
    pub(super) masses_before: Vec<f64>,
    pub(super) rows: SegmentLikelihoods,
    pub(super) untestable: BTreeSet<usize>,
}

impl Bisection {
    /// Returns a search over the versions 0..=n, with a weight for each culprit 1..=n; without weights the prior is
    /// uniform.
    ///
    /// The weights are trusted; pass weights that may be wrong through [`hedged`](super::hedge_weights) first.
    pub fn new(n: usize, model: &SearchPrior, weights: Option<&[f64]>) -> Self {
        let even = vec![1.0; n];
        let weights = weights.unwrap_or(&even);
        debug_assert_eq!(weights.len(), n);
        let total: f64 = weights.iter().sum();
        let rest = 1.0 - model.already_bad - model.none;
        let of_culprits = weights.iter().map(|weight| weight * rest / total);
        let prior: Vec<f64> = [model.already_bad]
            .into_iter()
            .chain(of_culprits)
            .chain([model.none])
            .collect();
        Self::with_grid(Grid::new(model), &prior)
    }

    /// Returns the same search with a possible background: good versions may fail as well.
    #[must_use]
    pub fn with_background(&self) -> Self {
        let grid = Arc::new(Grid::new(&SearchPrior::default()));
        self.with_counts(self.rows.of_counts(grid))
    }

    /// Returns the same search with other counts and the same features.
    fn with_counts(&self, mut rows: SegmentLikelihoods) -> Self {
        rows.features = self.rows.features.clone();
        rows.ln_features.clone_from(&self.rows.ln_features);
        rows.ln_alike = self.rows.ln_alike;
        rows.rebuild_all();
        let mut search = Self {
            masses_before: self.masses_before.clone(),
            untestable: self.untestable.clone(),
            newest: self.newest,
            rows,
        };
        search.normalise_values();
        search
    }

    /// Returns whether good versions may fail.
    pub fn allows_background(&self) -> bool {
        !self.grid().background_cells().is_empty()
    }

    /// Returns the same search without some of the runs of a version.
    #[must_use]
    pub fn without_runs(&self, version: usize, failures: u64, runs: u64) -> Self {
        let mut rows = self.rows.of_counts(Arc::clone(&self.rows.grid));
        let mut tested = rows.tested.iter_mut();
        if let Some(tested) = tested.find(|tested_version| tested_version.version == version) {
            tested.failures = tested.failures.saturating_sub(failures);
            tested.runs = tested.runs.saturating_sub(runs);
        }
        self.with_counts(rows)
    }

    /// Returns a search with these rates and these weights of all hypotheses, 0..=n+1.
    pub(super) fn with_grid(grid: Grid, prior: &[f64]) -> Self {
        let newest = prior.len() - 2;
        let mut sum = 0.0;
        let mut masses_before = vec![0.0];
        masses_before.extend(prior.iter().map(|weight| {
            sum += weight;
            sum
        }));
        Self {
            newest,
            masses_before,
            rows: SegmentLikelihoods::new(Arc::new(grid), newest),
            untestable: BTreeSet::new(),
        }
    }

    /// Adds one run.
    pub fn observe_run(&mut self, version: usize, failed: bool) {
        self.observe_with_features(version, failed, Features::default());
    }

    /// Adds one run with the features of its failure.
    pub fn observe_with_features(&mut self, version: usize, failed: bool, features: Features) {
        self.exclude_none(version, failed);
        self.rows.observe_run(version, failed);
        if features != Features::default() {
            self.rows.add_features(version, features);
        }
        self.normalise_values();
    }

    /// Adds several runs of one version.
    pub fn observe_many(&mut self, version: usize, failures: u64, runs: u64) {
        debug_assert!(failures <= runs && version <= self.newest);
        if runs == 0 {
            return;
        }
        self.exclude_none(version, failures > 0);
        self.rows.count_runs(version, failures, runs);
        self.rows.rebuild_all();
        self.normalise_values();
    }

    /// Marks a version as not testable.
    ///
    /// It stays a possible culprit, together with the neighbours that no run can distinguish from it.
    pub fn mark_untestable(&mut self, version: usize) {
        self.untestable.insert(version);
    }

    /// Marks two versions as identical: none after the first of them, up to the second, is the culprit.
    pub fn mark_identical(&mut self, first: usize, second: usize) {
        self.retain_hypotheses(|c| c <= first || c > second);
    }

    /// Excludes all other hypotheses, unless nothing would be possible then.
    pub(super) fn retain_hypotheses(&mut self, is_kept: impl Fn(usize) -> bool) {
        let mut other_bisection = self.clone();
        let mut sum = 0.0;
        for c in 0..=self.newest + 1 {
            if is_kept(c) {
                sum += self.prior_weight(&(c..c + 1));
            }
            other_bisection.masses_before[c + 1] = sum;
        }
        if !other_bisection.is_impossible() {
            other_bisection.normalise_values();
            *self = other_bisection;
        }
    }

    /// Excludes "none is bad" after a failure of the newest version.
    fn exclude_none(&mut self, version: usize, failed: bool) {
        if version == self.newest && failed {
            let last = self.newest + 2;
            self.masses_before[last] = self.masses_before[last - 1];
        }
    }

    fn normalise_values(&mut self) {
        let mut total = self.total_mass();
        if total < UNDERFLOW {
            self.rows.rebuild_all();
            total = self.total_mass();
        }
        if total > 0.0 {
            self.rows.scale_values(total.recip());
        }
    }

    fn total_mass(&self) -> f64 {
        (0..self.rows.segment_count())
            .map(|segment| {
                self.segment_prior(segment) * sum_in_parts(self.rows.segment_row(segment))
            })
            .sum()
    }

    /// Returns the prior weight of a segment.
    pub(super) fn segment_prior(&self, segment: usize) -> f64 {
        self.prior_weight(&self.rows.segment_hypotheses(segment))
    }

    /// Returns the prior weight of some hypotheses.
    pub(super) fn prior_weight(&self, hypotheses: &Range<usize>) -> f64 {
        self.masses_before[hypotheses.end] - self.masses_before[hypotheses.start]
    }

    /// Returns the number of the newest version.
    pub fn newest_version(&self) -> usize {
        self.newest
    }

    /// Returns the versions that have runs, in their order.
    pub fn tested_versions(&self) -> &[TestedVersion] {
        &self.rows.tested
    }

    /// Returns the failures and the runs of a version.
    pub fn failures_and_runs(&self, version: usize) -> (u64, u64) {
        let segment = self.rows.segment_of(version);
        match self.rows.tested.get(segment) {
            Some(tested) if tested.version == version => (tested.failures, tested.runs),
            _ => (0, 0),
        }
    }

    /// Returns the logarithm of the probability of all outcomes in their order.
    pub(super) fn ln_likelihood(&self) -> f64 {
        let counts = Self {
            rows: self.rows.of_counts(Arc::clone(&self.rows.grid)),
            ..self.clone()
        };
        counts.total_mass().ln() - counts.rows.ln_scale
    }

    /// Returns whether the runs are impossible under every hypothesis of the model.
    pub fn is_impossible(&self) -> bool {
        self.total_mass() <= 0.0
    }

    /// Returns the posterior probability of each hypothesis, 0..=n+1.
    pub fn posterior_masses(&self) -> Vec<f64> {
        let mut masses = Vec::with_capacity(self.newest + 2);
        for segment in 0..self.rows.segment_count() {
            let density = sum_in_parts(self.rows.segment_row(segment));
            let hypotheses = self.rows.segment_hypotheses(segment);
            masses.extend(
                hypotheses.map(|c| density * (self.masses_before[c + 1] - self.masses_before[c])),
            );
        }
        masses
    }

    /// Returns the posterior weight of each cell of the grid.
    pub(super) fn cell_masses(&self) -> Vec<f64> {
        let mut masses = vec![0.0; self.rows.cell_count()];
        for segment in 0..self.rows.segment_count() {
            let prior = self.segment_prior(segment);
            for (mass, value) in masses.iter_mut().zip(self.rows.segment_row(segment)) {
                *mass += prior * value;
            }
        }
        masses
    }

    pub fn grid(&self) -> &Grid {
        &self.rows.grid
    }
}

#[cfg(test)]
mod tests {
    use super::super::{SearchVerdict, StopConditions};
    use super::*;

    fn assert_near(a: &[f64], b: &[f64]) {
        for (a, b) in a.iter().zip(b) {
            assert!((a - b).abs() < 1e-9, "{a} is not {b}");
        }
    }

    #[test]
    fn the_posterior_does_not_depend_on_the_order_of_the_runs() {
        let runs = [
            (16, true),
            (8, false),
            (3, false),
            (8, true),
            (5, false),
            (8, false),
        ];
        let mut one = Bisection::new(16, &SearchPrior::default(), None);
        for (version, failed) in runs {
            one.observe_run(version, failed);
        }
        let mut other = Bisection::new(16, &SearchPrior::default(), None);
        for (version, failed) in runs.into_iter().rev() {
            other.observe_run(version, failed);
        }
        assert_near(&one.posterior_masses(), &other.posterior_masses());
        let mut at_once = Bisection::new(16, &SearchPrior::default(), None);
        at_once.observe_many(8, 1, 3);
        at_once.observe_many(16, 1, 1);
        at_once.observe_many(5, 0, 1);
        at_once.observe_many(3, 0, 1);
        assert_near(&one.posterior_masses(), &at_once.posterior_masses());
        assert_eq!(one.failures_and_runs(8), (1, 3));
        assert_eq!(one.failures_and_runs(9), (0, 0));
    }

    #[test]
    fn runs_observed_together_equal_runs_observed_one_by_one() {
        let runs = [
            (9, true),
            (3, false),
            (9, false),
            (16, true),
            (12, true),
            (3, false),
        ];
        let mut one = Bisection::new(16, &SearchPrior::default(), None);
        one.observe_run(9, false);
        let mut together = one.clone();
        for (version, failed) in runs {
            one.rows.observe_run(version, failed);
        }
        together.rows.observe_all(&runs);
        assert_eq!(one.tested_versions(), together.tested_versions());
        assert_near(&one.rows.values, &together.rows.values);
    }

    #[test]
    fn millions_of_runs_do_not_underflow() {
        let mut search = Bisection::new(100, &SearchPrior::default(), None);
        search.observe_many(100, 1_000_000, 2_000_000);
        search.observe_many(50, 0, 3_000_000);
        for _ in 0..5000 {
            search.observe_run(75, false);
        }
        let total: f64 = search.posterior_masses().iter().sum();
        assert!((total - 1.0).abs() < 1e-9, "{total}");
        assert!(search.posterior_masses()[..=75].iter().sum::<f64>() < 1e-9);
    }

    #[test]
    fn a_failure_of_the_newest_version_excludes_that_none_is_bad() {
        let mut search = Bisection::new(4, &SearchPrior::default(), None);
        assert!(search.posterior_masses()[5] > 0.0);
        search.observe_run(4, true);
        assert!(search.posterior_masses()[5] <= 0.0);
        let mut clean = Bisection::new(4, &SearchPrior::default(), None);
        clean.observe_many(4, 0, 5000);
        assert!(matches!(
            clean.current_verdict(&StopConditions::at_delta(0.05)),
            SearchVerdict::NoneBad(_)
        ));
    }

    #[test]
    fn a_search_that_allows_a_background_keeps_the_earlier_runs() {
        let model = SearchPrior {
            clean: true,
            ..SearchPrior::default()
        };
        let mut clean = Bisection::new(16, &model, None);
        let mut other = Bisection::new(16, &SearchPrior::default(), None);
        for search in [&mut clean, &mut other] {
            search.observe_many(16, 5, 10);
            search.observe_many(0, 1, 100);
            search.observe_many(8, 0, 20);
            search.mark_untestable(4);
        }
        assert!(clean.posterior_masses()[0] > 0.9);
        let with_background = clean.with_background();
        assert!(!clean.allows_background() && with_background.allows_background());
        assert_near(
            &with_background.posterior_masses(),
            &other.posterior_masses(),
        );
        assert_eq!(with_background.tested_versions(), other.tested_versions());
    }

    #[test]
    fn a_good_end_that_fails_as_often_is_already_bad() {
        let mut search = Bisection::new(4, &SearchPrior::default(), None);
        search.observe_many(4, 10, 20);
        search.observe_many(0, 10, 20);
        assert!(matches!(
            search.current_verdict(&StopConditions::at_delta(0.05)),
            SearchVerdict::AlreadyBad(_)
        ));
    }

    #[test]
    fn an_untestable_version_is_reported_in_a_group() {
        let mut search = Bisection::new(8, &SearchPrior::default(), None);
        search.mark_untestable(4);
        search.mark_untestable(5);
        search.observe_many(8, 10, 10);
        search.observe_many(6, 10, 10);
        search.observe_many(3, 0, 20);
        let SearchVerdict::Known(group) = search.current_verdict(&StopConditions::at_delta(0.05))
        else {
            panic!(
                "{:?}",
                search.current_verdict(&StopConditions::at_delta(0.05))
            );
        };
        assert_eq!((group.first, group.last), (4, 6));
    }
}
