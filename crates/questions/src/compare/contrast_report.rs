//! Reports the evidence of a contrast: whether two sides differ, and by how much.

use super::contrast::{Contrast, FailureContrast};
use super::rates::{evidence_threshold, failure_threshold, have_different_rates, levels};
use crate::FailureCounts;
use provoke_model::VariantId;
use provoke_state::State;
use provoke_stats::{self as stats, real};
use provoke_words as words;
use serde::Serialize;
use std::collections::BTreeSet;

/// Maximum number of failures in a sentence.
const MAX_SHOWN: usize = 3;

/// A comparison of two variants.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ContrastReport {
    /// The setting that differs, if variants are combinations.
    pub factor: Option<String>,
    /// The reference.
    pub reference: String,
    /// The variant that is compared with it.
    pub other: String,
    /// Compared pairs of trials.
    pub pairs: u64,
    /// Evidence that they differ, as a likelihood ratio, at its largest.
    pub evidence: f64,
    /// The evidence that decides.
    pub enough: f64,
    /// Whether the evidence shows a difference, or the planned look.
    pub differs: bool,
    /// Whether Fisher's test shows a difference after the planned number of pairs, at a fifth of the error level.
    pub planned_look: bool,
    /// How much more often the variant failed than the reference.
    pub observed: f64,
    /// How much more often the variant fails than the reference, at least and at most.
    pub difference: [f64; 2],
    /// Fisher's two-sided p-value. It does not hold for a test that is repeated while trials run; use it only to
    /// compare with other work.
    pub fisher: f64,
    /// The different failures of both sides, in the order in which they were first seen.
    pub failures: Vec<FailureContrastReport>,
}

/// How often one failure occurred on both sides of a comparison.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FailureContrastReport {
    /// The failure.
    pub title: String,
    /// How often the reference showed it.
    pub reference: FailureCounts,
    /// How often the other variant showed it.
    pub other: FailureCounts,
    /// Whether the evidence shows that one side shows it more often.
    pub differs: bool,
}

impl ContrastReport {
    pub(super) fn new(state: &State, contrast: &Contrast) -> Self {
        let enough = evidence_threshold(state);
        let evidence = contrast.evidence.ln_e_max();
        // Only pairs count: trials without a partner would give one condition more weight than another.
        let pairs = contrast.evidence.pair_count();
        let (reference, other) = contrast.evidence.failure_counts();
        let alpha = state.goal.alpha.to_probability();
        let difference = stats::difference((reference, pairs), (other, pairs), alpha);
        Self {
            factor: contrast
                .factor
                .map(|index| state.trials.factors[index].name.clone()),
            reference: contrast.reference.clone(),
            other: contrast.other_name.clone(),
            pairs,
            evidence: evidence.exp(),
            enough: enough.exp(),
            differs: have_different_rates(state, contrast),
            planned_look: contrast.differs_as_planned(levels(state)),
            observed: (real(other) - real(reference)) / real(pairs.max(1)),
            difference: difference.ends(),
            fisher: stats::fisher(reference, pairs, other, pairs).two_sided,
            failures: report_failures(state, contrast),
        }
    }

    /// Returns whether the two sides fail in different ways.
    pub(super) fn fails_differently(&self) -> bool {
        self.failures.iter().any(|failure| failure.differs)
    }

    /// Describes the failures of both sides.
    pub(super) fn describe_failures(&self) -> String {
        let counts: Vec<String> = self
            .failures
            .iter()
            .take(MAX_SHOWN)
            .map(|failure| {
                let FailureContrastReport {
                    title,
                    reference,
                    other,
                    ..
                } = failure;
                format!(
                    "{} in {} and {}",
                    words::sanitize_line(title),
                    reference.in_words(),
                    other.in_words()
                )
            })
            .collect();
        format!(
            "{} and {} fail in different ways: {}",
            self.level_name(&self.reference),
            self.level_name(&self.other),
            counts.join(", ")
        )
    }

    fn level_name(&self, level: &str) -> String {
        match &self.factor {
            Some(factor) => format!("{factor}={level}"),
            None => level.to_owned(),
        }
    }

    /// Returns how much more often the variant fails: `-4 to 12 points`.
    pub fn describe_difference(&self) -> String {
        let [low, high] = self.difference.map(format_points);
        format!("{low} to {high} points")
    }

    pub(super) fn to_sentence(&self) -> String {
        let [lo, hi] = self.difference;
        let is_higher = lo + hi > 0.0;
        // The direction is known; if the interval contains 0, that end is shown as it is.
        let (min, max) = if is_higher { (lo, hi) } else { (-hi, -lo) };
        let (observed, max) = (format_points(self.observed.abs()), format_points(max));
        let bounds = if min > 0.0 {
            format!(" ({} to {max})", format_points(min))
        } else if max == observed {
            String::new()
        } else {
            format!(" (at most {max} points)")
        };
        format!(
            "{} fails {} often than {}, by about {observed} points{bounds}",
            self.level_name(&self.other),
            if is_higher { "more" } else { "less" },
            self.level_name(&self.reference),
        )
    }
}

fn report_failures(state: &State, contrast: &Contrast) -> Vec<FailureContrastReport> {
    let trials_of = |side: fn(&(VariantId, VariantId)) -> VariantId| {
        let variants: BTreeSet<VariantId> = contrast.pairs.iter().map(side).collect();
        variants
            .into_iter()
            .map(|id| state.tally_of(id).counted_trials())
            .sum()
    };
    let reference_trials: u64 = trials_of(|pair| pair.0);
    let other_trials: u64 = trials_of(|pair| pair.1);
    let report = |(position, failure): (usize, &FailureContrast)| FailureContrastReport {
        title: failure.failure.signature.title.clone(),
        reference: FailureCounts {
            failures: failure.counts.0,
            trials: reference_trials,
        },
        other: FailureCounts {
            failures: failure.counts.1,
            trials: other_trials,
        },
        differs: failure.evidence.ln_e_max() >= failure_threshold(state, position),
    };
    contrast.failures.iter().enumerate().map(report).collect()
}

/// Formats a difference of two shares in percentage points, with few digits, because it is known only roughly.
fn format_points(difference: f64) -> String {
    words::format_number(difference * 100.0)
}
