//! Contrasts of a comparison: the variants on each side, and the evidence so far.

use provoke_model::{CompareQuestion, Failure, FailureName, Outcome, Trial, TrialsPlan, VariantId};
use provoke_state::{Memory, State, TrialFacts};
use provoke_stats::{self as stats, ComparisonLevels};
use std::any::Any;

/// Maximum number of different failures that are compared: the error level of each is half that of the one before it.
const MAX_FAILURES: usize = 8;

/// The evidence of every contrast.
#[derive(Debug)]
pub(super) struct CompareMemory(Vec<Contrast>);

impl CompareMemory {
    /// Returns the memory before the first trial.
    pub(super) fn new(trials: &TrialsPlan, question: &CompareQuestion) -> Self {
        Self(if trials.factors.is_empty() {
            with_reference(trials, question)
        } else {
            with_level(trials, question)
        })
    }
}

impl Memory for CompareMemory {
    fn parts(&self) -> Vec<&dyn Any> {
        vec![&self.0]
    }

    fn add_trial(&mut self, _: &State, trial: &Trial, facts: &TrialFacts) {
        let failure = match &facts.outcome {
            Outcome::Pass => None,
            Outcome::Fail(failure) => Some(&**failure),
            Outcome::Other(_) | Outcome::Inconclusive(_) => return,
        };
        for contrast in &mut self.0 {
            contrast.add_trial(trial.variant, failure);
        }
    }
}

/// Returns the contrasts of a comparison of rates; none for any other question.
pub fn contrasts(state: &State) -> &[Contrast] {
    state.learned::<Vec<Contrast>>().map_or(&[], Vec::as_slice)
}

/// Pairs of variants that differ in one respect, with the evidence that their rates differ.
#[derive(Debug)]
pub struct Contrast {
    /// Index of the factor that differs, in a matrix.
    pub factor: Option<usize>,
    /// The reference: a level, or a variant.
    pub reference: String,
    /// The level or variant that is compared with it.
    pub other_name: String,
    /// Pairs of variants that differ only in this respect.
    pub pairs: Vec<(VariantId, VariantId)>,
    /// Evidence that they fail at different rates.
    pub evidence: stats::Contrast,
    /// Failures of the reference and of the other side after the planned number of pairs.
    pub planned_counts: Option<(u64, u64)>,
    planned_pairs: Option<u64>,
    /// The different failures, in the order in which they were first seen.
    pub failures: Vec<FailureContrast>,
}

/// Evidence that one failure is more frequent on one side of a contrast.
#[derive(Debug)]
pub struct FailureContrast {
    /// The failure.
    pub failure: Failure,
    /// The evidence from trials after the one that first showed the failure: that trial chose what is compared.
    pub evidence: stats::Contrast,
    /// Trials of the reference and of the other side that showed it.
    pub counts: (u64, u64),
}

impl Contrast {
    fn new(
        factor: Option<usize>,
        reference: &str,
        other_name: &str,
        pairs: Vec<(VariantId, VariantId)>,
        planned_trials: Option<u64>,
    ) -> Self {
        let conditions = pairs.len() as u64;
        Self {
            planned_counts: None,
            planned_pairs: planned_trials.map(|trials| trials.saturating_mul(conditions)),
            factor,
            reference: reference.to_owned(),
            other_name: other_name.to_owned(),
            evidence: stats::Contrast::new(),
            failures: Vec::new(),
            pairs,
        }
    }

    /// Returns whether trials of this variant are evidence in this contrast.
    pub fn has_variant(&self, variant: VariantId) -> bool {
        let mut pairs = self.pairs.iter();
        pairs.any(|(reference, other)| [*reference, *other].contains(&variant))
    }

    /// Returns whether both variants of a pair are testable.
    pub fn is_testable(&self, state: &State) -> bool {
        let mut pairs = self.pairs.iter();
        pairs.any(|(reference, other_variant)| {
            state.is_testable(*reference) && state.is_testable(*other_variant)
        })
    }

    /// Returns whether the planned look shows a difference.
    pub(super) fn differs_as_planned(&self, levels: ComparisonLevels) -> bool {
        let counts = self.planned_counts.zip(self.planned_pairs);
        counts.is_some_and(|((reference, other), pairs)| levels.look(reference, other, pairs))
    }

    /// Adds a counted trial, with its failure if it failed.
    fn add_trial(&mut self, variant: VariantId, failure: Option<&Failure>) {
        if !self.has_variant(variant) {
            return;
        }
        push_trial(&mut self.evidence, &self.pairs, variant, failure.is_some());
        if self.planned_pairs == Some(self.evidence.pair_count()) && self.planned_counts.is_none() {
            self.planned_counts = Some(self.evidence.failure_counts());
        }
        let is_same = |known: &FailureContrast| {
            failure.is_some_and(|failure| FailureName::from(&known.failure).is_same(failure.into()))
        };
        let is_reference = self
            .pairs
            .iter()
            .any(|(reference, _)| *reference == variant);
        let mut is_known = false;
        for known in &mut self.failures {
            // A failure with several names counts for the first failure that has one of them.
            let shows_it = !is_known && is_same(known);
            is_known |= shows_it;
            push_trial(&mut known.evidence, &self.pairs, variant, shows_it);
            known.add_count(is_reference, shows_it);
        }
        if let Some(failure) = failure
            && !is_known
            && self.failures.len() < MAX_FAILURES
        {
            let mut new = FailureContrast {
                failure: failure.clone(),
                evidence: stats::Contrast::new(),
                counts: (0, 0),
            };
            new.add_count(is_reference, true);
            self.failures.push(new);
        }
    }
}

impl FailureContrast {
    fn add_count(&mut self, is_reference: bool, shows_it: bool) {
        let count = if is_reference {
            &mut self.counts.0
        } else {
            &mut self.counts.1
        };
        *count += u64::from(shows_it);
    }
}

fn push_trial(
    evidence: &mut stats::Contrast,
    pairs: &[(VariantId, VariantId)],
    variant: VariantId,
    failed: bool,
) {
    for (stratum, (reference, other_variant)) in pairs.iter().enumerate() {
        if *reference == variant {
            evidence.push_reference(stratum, failed);
        }
        if *other_variant == variant {
            evidence.push_other(stratum, failed);
        }
    }
}

/// Returns the contrasts of every other variant with the reference.
fn with_reference(trials: &TrialsPlan, compare: &CompareQuestion) -> Vec<Contrast> {
    let reference = compare.reference;
    let others = (0..)
        .map(VariantId)
        .zip(&trials.variants)
        .filter(|(id, _)| *id != reference);
    let contrast = |(id, other_variant): (VariantId, &provoke_model::VariantPlan)| {
        let name = &trials.variant_plan(reference).name;
        let pairs = vec![(reference, id)];
        Contrast::new(
            None,
            name,
            &other_variant.name,
            pairs,
            compare.planned_trials,
        )
    };
    others.map(contrast).collect()
}

/// Returns, for every factor, the contrasts of each other level with that of the reference.
fn with_level(trials: &TrialsPlan, compare: &CompareQuestion) -> Vec<Contrast> {
    let base = &trials.variant_plan(compare.reference).levels;
    let mut contrasts = Vec::new();
    for (number, factor) in trials.factors.iter().enumerate() {
        for (level, name) in (0..).zip(&factor.levels) {
            if level == base[number] {
                continue;
            }
            // Equal in all other factors.
            let twin = |levels: &[u32]| {
                let mut levels = levels.to_vec();
                levels[number] = level;
                trials
                    .variants
                    .iter()
                    .position(|variant| variant.levels == levels)
            };
            let of_level = trials
                .variants
                .iter()
                .enumerate()
                .filter(|(_, variant)| variant.levels[number] == base[number]);
            let pairs = of_level.filter_map(|(index, variant)| {
                Some((variant_id(index), variant_id(twin(&variant.levels)?)))
            });
            let reference = &factor.levels[base[number] as usize];
            contrasts.push(Contrast::new(
                Some(number),
                reference,
                name,
                pairs.collect(),
                compare.planned_trials,
            ));
        }
    }
    contrasts
}

fn variant_id(index: usize) -> VariantId {
    VariantId(u32::try_from(index).unwrap_or(u32::MAX))
}
