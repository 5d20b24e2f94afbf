//! Reports the variants of a matrix by their settings, and finds the settings under which they fail.

use super::race::VariantVerdict;
use provoke_model::TrialsPlan;
use provoke_state::State;
use serde::Serialize;
use std::collections::BTreeSet;

/// The variants by one setting.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FactorReport {
    /// The name of the setting.
    pub name: String,
    /// Its value.
    pub levels: Vec<FactorLevelReport>,
}

/// All variants that share one setting.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FactorLevelReport {
    /// The setting.
    pub level: String,
    /// Testable variants that have it.
    pub variants: u64,
    /// How many of them failed.
    pub failing: u64,
    /// Their counted trials.
    pub trials: u64,
    /// Their trials that showed the bug.
    pub failures: u64,
}

/// Counts the trials and the failing variants of each setting.
pub(super) fn factor_effects(state: &State) -> Vec<FactorReport> {
    let trials = &state.trials;
    let level = |factor: usize, number: u32| {
        let of_level = state
            .all_tallies()
            .filter(|(id, _)| trials.variant_plan(*id).levels.get(factor) == Some(&number));
        let tested = of_level.filter(|(id, _)| state.is_testable(*id));
        tested.fold(FactorLevelReport::default(), |report, (_, tally)| {
            FactorLevelReport {
                variants: report.variants + 1,
                failing: report.failing + u64::from(tally.failures > 0),
                trials: report.trials + tally.counted_trials(),
                failures: report.failures + tally.failures,
                ..report
            }
        })
    };
    let factors = trials
        .factors
        .iter()
        .enumerate()
        .map(|(index, factor)| FactorReport {
            name: factor.name.clone(),
            levels: (0..)
                .zip(&factor.levels)
                .map(|(number, name)| FactorLevelReport {
                    level: name.clone(),
                    ..level(index, number)
                })
                .collect(),
        });
    factors.collect()
}

/// Finds the settings that all failing combinations share and no other combination has.
///
/// For every factor, it collects the levels that occur among the failing combinations. If all combinations of these
/// levels fail, they are the rule.
pub(super) fn fails_where(trials: &TrialsPlan, verdicts: &[VariantVerdict]) -> Option<String> {
    let standing = |verdict: VariantVerdict| {
        let variants = trials.variants.iter().zip(verdicts);
        variants
            .filter(move |(_, variant_verdict)| **variant_verdict == verdict)
            .map(|(variant, _)| &variant.levels)
    };
    if trials.factors.is_empty() || standing(VariantVerdict::Open).next().is_some() {
        return None;
    }
    let passing = || standing(VariantVerdict::FailsLess).chain(standing(VariantVerdict::Clean));
    standing(VariantVerdict::Fails)
        .next()
        .and(passing().next())?;
    let levels = |factor: usize| -> BTreeSet<u32> {
        standing(VariantVerdict::Fails)
            .map(|levels| levels[factor])
            .collect()
    };
    let failing: Vec<BTreeSet<u32>> = (0..trials.factors.len()).map(levels).collect();
    let fits = |levels: &&Vec<u32>| {
        let mut factor_levels = levels.iter().zip(&failing);
        factor_levels.all(|(level, failing)| failing.contains(level))
    };
    if passing().any(|levels| fits(&levels)) {
        return None;
    }
    let conditions: Vec<String> = trials
        .factors
        .iter()
        .zip(&failing)
        .filter(|(factor, failing)| failing.len() < factor.levels.len())
        .map(|(factor, failing)| {
            let levels: Vec<&str> = failing
                .iter()
                .map(|level| factor.levels[*level as usize].as_str())
                .collect();
            format!("{}={}", factor.name, levels.join(" or "))
        })
        .collect();
    (!conditions.is_empty()).then(|| conditions.join(" and "))
}
