//! Contrasts of a comparison: the variants on each side, and the evidence so far.

use crate::state::{Memory, State};
use provoke_model::{CompareQuestion, Outcome, Plan, Trial, VariantId};
use provoke_stats as stats;
use std::any::Any;
use std::time::Duration;

/// The evidence of every contrast.
#[derive(Debug)]
pub(super) struct CompareMemory(Vec<Contrast>);

impl CompareMemory {
    /// Returns the memory before the first trial.
    pub(super) fn new(plan: &Plan, question: &CompareQuestion) -> Self {
        Self(if plan.factors.is_empty() {
            with_reference(plan, question)
        } else {
            with_level(plan, question)
        })
    }
}

impl Memory for CompareMemory {
    fn parts(&self) -> Vec<&dyn Any> {
        vec![&self.0]
    }

    fn add_trial(&mut self, _: &State, trial: &Trial, outcome: &Outcome, _: Duration) {
        let failed = match outcome {
            Outcome::Pass => false,
            Outcome::Fail(_) => true,
            Outcome::Other(_) | Outcome::Void(_) => return,
        };
        for contrast in &mut self.0 {
            contrast.add_trial(trial.variant, failed);
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
}

impl Contrast {
    fn new(
        factor: Option<usize>,
        reference: &str,
        other_name: &str,
        pairs: Vec<(VariantId, VariantId)>,
    ) -> Self {
        Self {
            factor,
            reference: reference.to_owned(),
            other_name: other_name.to_owned(),
            evidence: stats::Contrast::new(),
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

    /// Adds a counted trial.
    fn add_trial(&mut self, variant: VariantId, failed: bool) {
        for (stratum, (reference, other_variant)) in self.pairs.iter().enumerate() {
            if *reference == variant {
                self.evidence.push_reference(stratum, failed);
            }
            if *other_variant == variant {
                self.evidence.push_other(stratum, failed);
            }
        }
    }
}

/// Returns the contrasts of every other variant with the reference.
fn with_reference(plan: &Plan, compare: &CompareQuestion) -> Vec<Contrast> {
    let reference = compare.reference;
    let others = (0..)
        .map(VariantId)
        .zip(&plan.variants)
        .filter(|(id, _)| *id != reference);
    let contrast = |(id, other_variant): (VariantId, &provoke_model::VariantPlan)| {
        let name = &plan.variant_plan(reference).name;
        Contrast::new(None, name, &other_variant.name, vec![(reference, id)])
    };
    others.map(contrast).collect()
}

/// Returns, for every factor, the contrasts of each other level with that of the reference.
fn with_level(plan: &Plan, compare: &CompareQuestion) -> Vec<Contrast> {
    let base = &plan.variant_plan(compare.reference).levels;
    let mut contrasts = Vec::new();
    for (number, factor) in plan.factors.iter().enumerate() {
        for (level, name) in (0..).zip(&factor.levels) {
            if level == base[number] {
                continue;
            }
            // Equal in all other factors.
            let twin = |levels: &[u32]| {
                let mut levels = levels.to_vec();
                levels[number] = level;
                plan.variants
                    .iter()
                    .position(|variant| variant.levels == levels)
            };
            let of_level = plan
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
            ));
        }
    }
    contrasts
}

fn variant_id(index: usize) -> VariantId {
    VariantId(u32::try_from(index).unwrap_or(u32::MAX))
}
