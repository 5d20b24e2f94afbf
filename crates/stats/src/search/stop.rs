//! Decides when a search ends.
//!
//! One culprit, or a group that no testable version divides, must hold 1 - delta of the probability. While a background
//! is possible it must hold as much of the probability inside the class "good versions fail too", and inside the class
//! where the background is a quarter of the failure rate or more: a few early background failures look like failures of a
//! bad version. A class is ignored if it holds only a tenth of delta against the answer. This share matters, not the
//! probability of the class: in wrong searches, an improbable class that was entirely for another answer took
//! background failures for the bug. (64 versions, p = .03, q = .01: .058 wrong; if a class below .02 is ignored, .08.)

use super::posterior::Bisection;
use super::query::{Costs, Query};
use super::sums::sum_in_parts;
use std::ops::Range;

/// Share of the error that an ignored class of the model may hold against the answer.
const TRIFLE: f64 = 0.1;

/// Neighbouring hypotheses that no testable version distinguishes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HypothesisGroup {
    pub first: usize,
    pub last: usize,
    pub mass: f64,
}

/// The present result of a search.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum SearchVerdict {
    /// The culprit is one of these versions, usually a single one.
    Known(HypothesisGroup),
    /// The good end fails at the rate of the others.
    AlreadyBad(f64),
    /// The newest version does not fail.
    NoneBad(f64),
    /// Not decided yet; the likeliest group so far.
    Open(HypothesisGroup),
    /// The runs contradict each other for every culprit.
    Impossible,
}

/// The conditions under which a search stops.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StopConditions {
    /// The probability that the posterior may leave to all other answers.
    pub(super) rest: f64,
    /// The same for cases in which the posterior is overconfident.
    pub(super) strict: f64,
    /// The probability of other answers at which the check of the likeliest group begins: its runs are evidence like
    /// all others.
    pub(super) early: f64,
    /// Level of the check; `None` if the model is trusted.
    pub(super) check: Option<f64>,
}

/// Share of the error that the posterior may leave if no background is possible, or if there is one. If the true rate
/// is low, a baseline of five failures makes it look higher more often than lower, and a posterior that leaves 5 % is
/// wrong in 6 % of searches.
const OPTIMISM: f64 = 0.8;
/// The probability of other answers at which the check of the likeliest group begins.
const EARLY: f64 = 0.2;

impl StopConditions {
    /// Assumes that all bad versions fail at one rate; the answer is wrong with probability `delta`.
    pub fn at_delta(delta: f64) -> Self {
        Self {
            rest: delta,
            strict: OPTIMISM * delta,
            early: delta,
            check: None,
        }
    }

    /// Allows different rates of bad versions: the versions before the culprit are checked.
    pub fn with_check(delta: f64) -> Self {
        Self {
            early: EARLY,
            check: Some(delta),
            ..Self::at_delta(delta)
        }
    }

    /// Trusts the posterior without correction.
    pub(super) fn without_margin(delta: f64) -> Self {
        Self {
            strict: delta,
            ..Self::at_delta(delta)
        }
    }
}

/// What prevents the end of a search.
pub(super) enum MissingEvidence {
    Mass,
    MassInside(Range<usize>),
    /// Approximate number of runs of a version.
    Runs {
        version: usize,
        about: u64,
    },
    Nothing,
}

impl Bisection {
    /// Returns the group with the most probability; of equals, the first.
    pub fn likeliest_group(&self) -> HypothesisGroup {
        let mut likeliest = HypothesisGroup {
            first: 0,
            last: 0,
            mass: -1.0,
        };
        for segment in 0..self.rows.segment_count() {
            let density = sum_in_parts(self.rows.segment_row(segment));
            if density * self.segment_prior(segment) > likeliest.mass {
                let group = self.heaviest_group(segment, density);
                if group.mass > likeliest.mass * (1.0 + 1e-12) {
                    likeliest = group;
                }
            }
        }
        likeliest
    }

    /// Returns the heaviest group of a segment.
    fn heaviest_group(&self, segment: usize, density: f64) -> HypothesisGroup {
        let hypotheses = self.rows.segment_hypotheses(segment);
        let mut heaviest = HypothesisGroup {
            first: hypotheses.start,
            last: hypotheses.start,
            mass: -1.0,
        };
        let mut first = hypotheses.start;
        for last in hypotheses.clone() {
            if last + 1 < hypotheses.end && self.untestable.contains(&last) {
                continue;
            }
            let mass = density * (self.masses_before[last + 1] - self.masses_before[first]);
            if mass > heaviest.mass * (1.0 + 1e-12) {
                heaviest = HypothesisGroup { first, last, mass };
            }
            first = last + 1;
        }
        heaviest
    }

    /// Returns the group that holds 1 - delta, if there is one.
    fn leading_group(&self, delta: f64) -> Option<HypothesisGroup> {
        let heavy = (0..self.rows.segment_count()).find_map(|segment| {
            let density = sum_in_parts(self.rows.segment_row(segment));
            (density * self.segment_prior(segment) >= 1.0 - delta).then_some((segment, density))
        });
        let (segment, density) = heavy?;
        let group = self.heaviest_group(segment, density);
        (group.mass >= 1.0 - delta).then_some(group)
    }

    /// Returns the group that holds enough of the probability, with a background as well; otherwise what keeps the
    /// search open.
    fn sufficient_group(&self, stop: &StopConditions) -> Result<HypothesisGroup, MissingEvidence> {
        let (background, close) = (self.grid().background_cells(), self.grid().close_cells());
        let rest = if background.is_empty() {
            stop.strict
        } else {
            stop.rest
        };
        let Some(group) = self.leading_group(rest) else {
            return Err(MissingEvidence::Mass);
        };
        let objects = |(inside, of_group): (f64, f64)| {
            let against = inside - of_group;
            against >= TRIFLE * stop.rest && against > stop.strict * inside
        };
        for class in [background, close] {
            let class_mass = self.class_mass(&class, &group, |_| 1.0);
            let alike = self.class_mass(&class, &group, |segment| {
                self.rows.alike_probability(segment)
            });
            if objects(class_mass) || objects(alike) {
                return Err(MissingEvidence::MassInside(class));
            }
        }
        Ok(group)
    }

    pub(super) fn what_lacks(&self, stop: &StopConditions) -> MissingEvidence {
        let answer = self.sufficient_group(stop);
        let group = answer
            .as_ref()
            .ok()
            .copied()
            .or_else(|| stop.check.and_then(|_| self.leading_group(stop.early)));
        let check = group.and_then(|group| self.check_group(stop, &group));
        match (check, answer) {
            (Some((version, about)), _) => MissingEvidence::Runs { version, about },
            (None, Ok(_)) => MissingEvidence::Nothing,
            (None, Err(lacks)) => lacks,
        }
    }

    /// Returns the probability of a class of cells, and that of the class and the group together. `share` is the
    /// counted share of each segment.
    fn class_mass(
        &self,
        cells: &Range<usize>,
        group: &HypothesisGroup,
        share: impl Fn(usize) -> f64,
    ) -> (f64, f64) {
        let density = |segment: usize| {
            let row = &self.rows.segment_row(segment)[cells.clone()];
            share(segment) * sum_in_parts(row)
        };
        let segments = 0..self.rows.segment_count();
        let inside = segments.map(|segment| self.segment_prior(segment) * density(segment));
        let prior = self.prior_weight(&(group.first..group.last + 1));
        let of_group = prior * density(self.rows.segment_of(group.first));
        (inside.sum(), of_group)
    }

    /// Returns the present verdict.
    pub fn current_verdict(&self, stop: &StopConditions) -> SearchVerdict {
        if self.is_impossible() {
            return SearchVerdict::Impossible;
        }
        match self.sufficient_group(stop) {
            Ok(group) if group.last == 0 => SearchVerdict::AlreadyBad(group.mass),
            Ok(group) if group.first > self.newest => SearchVerdict::NoneBad(group.mass),
            Ok(group) => SearchVerdict::Known(group),
            Err(_) => SearchVerdict::Open(self.likeliest_group()),
        }
    }

    /// Returns the next query, or `None` if the search is over or no run gives more information.
    pub fn choose_query(&self, stop: &StopConditions, costs: &Costs) -> Option<Query> {
        let cells = 0..self.rows.cell_count();
        match self.what_lacks(stop) {
            MissingEvidence::Mass => self.best_query(costs, &cells),
            MissingEvidence::MassInside(class) => self.best_query(costs, &class),
            MissingEvidence::Runs { version, .. } => Some(Query {
                version,
                block: 1,
                gain: 0.0,
            }),
            MissingEvidence::Nothing => None,
        }
    }

    /// Returns the fewest hypotheses, the likeliest first, that hold this share of the probability.
    pub fn credible_set(&self, share: f64) -> Vec<usize> {
        let masses = self.posterior_masses();
        let mut order: Vec<usize> = (0..masses.len()).collect();
        order.sort_by(|&a, &b| masses[b].total_cmp(&masses[a]).then(a.cmp(&b)));
        let mut mass = 0.0;
        let enough = order.iter().position(|&c| {
            mass += masses[c];
            mass >= share
        });
        order.truncate(enough.map_or(order.len(), |last| last + 1));
        order
    }

    /// Returns the mean failure rate of the newest version and the range that holds `1 - alpha` of the
    /// probability.
    pub fn rate_range(&self, alpha: f64) -> (f64, f64, f64) {
        let mut of_rates: Vec<(f64, f64)> = Vec::new();
        for (cell, mass) in self.grid().cells().iter().zip(self.cell_masses()) {
            of_rates.push((cell.p, mass));
        }
        of_rates.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mean = of_rates.iter().map(|(p, mass)| p * mass).sum();
        let quantile = |share: f64| {
            let mut held = 0.0;
            let range_end = of_rates.iter().find(|(_, mass)| {
                held += mass;
                held >= share
            });
            range_end.map_or(1.0, |(p, _)| *p)
        };
        (mean, quantile(alpha / 2.0), quantile(1.0 - alpha / 2.0))
    }

    /// Returns the probability that good versions never fail this way.
    pub fn no_background(&self) -> f64 {
        self.cell_masses()[..self.grid().background_cells().start]
            .iter()
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::super::SearchPrior;
    use super::*;

    #[test]
    fn a_search_stays_open_if_a_background_explains_the_failures() {
        // Version 6 fails at a third of the rate of the newest: probably bad; if not, its failures come from a
        // background.
        let verdict = |clean_before: u64| {
            let mut search = Bisection::new(8, &SearchPrior::default(), None);
            search.observe_many(8, 5, 100);
            search.observe_many(6, 5, 164);
            search.observe_many(5, 0, clean_before);
            (
                search.current_verdict(&StopConditions::at_delta(0.05)),
                search.likeliest_group().mass,
            )
        };
        let (open, mass) = verdict(235);
        assert!(
            matches!(open, SearchVerdict::Open(_)) && mass > 0.98,
            "{open:?}"
        );
        let (known, _) = verdict(400);
        assert!(
            matches!(known, SearchVerdict::Known(group) if group.first == 6),
            "{known:?}"
        );
    }
}
