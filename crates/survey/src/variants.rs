//! Finds the facts in which the variants of one run differ, and which of them distinguish failing variants.
//!
//! Differences that the user made on purpose are left out: the variables, the folders, the images, the
//! commands, and the program itself where commands or files differ. Their consequences are not: other
//! libraries and packages, another build of the same command, another processor.

use super::distinguishing::{DistinguishingFact, FactValues, distinguishing_facts_of, flags_apart};
use super::file_names::NOT_FOUND;
use super::main_facts::{is_digest, of_main};
use super::ranking::{FactGroup, group_of};
use super::{MAINS, mains_of};
use provoke_model::{Survey, TrialsPlan, VariantId, VariantPlan};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// A fact in which variants differ.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DifferingFact {
    /// The kind of fact.
    pub group: FactGroup,
    /// Its name.
    pub name: String,
    /// Its value in each variant, by the variant's name; null if the variant does not have it. Of CPU flags, only those
    /// that some variants lack.
    pub values: BTreeMap<String, Option<String>>,
}

impl DifferingFact {
    /// Returns the names of the variants by their value.
    pub fn variants_by_value(&self) -> BTreeMap<Option<&str>, Vec<&str>> {
        let mut variants: BTreeMap<Option<&str>, Vec<&str>> = BTreeMap::new();
        for (variant, value) in &self.values {
            variants.entry(value.as_deref()).or_default().push(variant);
        }
        variants
    }
}

/// Name of the fact with the CPU flags of a variant.
const FLAGS: &str = "cpu.flags";
const MODEL: &str = "cpu.model";

/// Returns the facts in which these variants differ, the most suspicious first.
pub fn differing_facts(
    plan: &TrialsPlan,
    survey: &Survey,
    variants: &[VariantId],
) -> Vec<DifferingFact> {
    let mut fact_maps = facts_of_variants(plan, survey, variants);
    only_what_differs(&mut fact_maps);
    let names = fact_names(&fact_maps).into_iter().filter_map(|key| {
        let value = |(id, facts): (&VariantId, &FactValues)| {
            (
                plan.variant_plan(*id).name.clone(),
                facts.get(&key).cloned(),
            )
        };
        let values: BTreeMap<_, _> = variants.iter().zip(&fact_maps).map(value).collect();
        let unlike: BTreeSet<&Option<String>> = values.values().collect();
        (unlike.len() > 1).then(|| DifferingFact {
            group: key.0,
            name: key.1.clone(),
            values,
        })
    });
    names.collect()
}

/// Returns the facts that distinguish failing variants, the most suspicious first.
pub fn distinguishing_facts_of_variants(
    plan: &TrialsPlan,
    survey: &Survey,
    variants: &[(VariantId, bool)],
) -> Vec<DistinguishingFact> {
    let ids: Vec<VariantId> = variants.iter().map(|(id, _)| *id).collect();
    let mut fact_maps: Vec<FactValues> = facts_of_variants(plan, survey, &ids)
        .into_iter()
        .map(flags_apart)
        .collect();
    for key in fact_names(&fact_maps) {
        let unlike: BTreeSet<Option<&String>> =
            fact_maps.iter().map(|facts| facts.get(&key)).collect();
        // A fact that is different in every variant only identifies the variant, and so does the
        // name of a CPU.
        let is_its_own = unlike.len() == fact_maps.len() && fact_maps.len() > 2;
        if is_its_own || key.1 == MODEL {
            for facts in &mut fact_maps {
                facts.remove(&key);
            }
        }
    }
    let failed = variants.iter().map(|(_, failed)| *failed);
    distinguishing_facts_of(&fact_maps.into_iter().zip(failed).collect::<Vec<_>>())
}

fn fact_names(fact_maps: &[FactValues]) -> BTreeSet<(FactGroup, String)> {
    fact_maps
        .iter()
        .flat_map(|facts| facts.keys().cloned())
        .collect()
}

/// Returns the facts about each of these variants, except for facts that were varied on purpose.
fn facts_of_variants(
    plan: &TrialsPlan,
    survey: &Survey,
    variants: &[VariantId],
) -> Vec<FactValues> {
    // Without a survey of all commands, a missing fact does not mean the same value as in the
    // first.
    if plan.variants.iter().flat_map(mains_of).count() > MAINS {
        return vec![FactValues::new(); variants.len()];
    }
    let chosen = || variants.iter().map(|id| plan.variant_plan(*id));
    let commands: BTreeSet<Vec<_>> = chosen()
        .map(|variant| mains_of(variant).map(|(_, main)| &main.command).collect())
        .collect();
    let one_program = commands.len() < 2 && chosen().all(|variant| variant.edits.is_empty());
    let mut fact_maps: Vec<FactValues> = chosen()
        .map(|variant| of_variant(variant, survey))
        .collect();
    // An unknown fact must not count as an absent one.
    let flags = (FactGroup::Processor, FLAGS.to_owned());
    let all_answered = fact_maps.iter().all(|facts| facts.contains_key(&flags));
    let all_found = fact_maps.iter().all(is_found);
    for facts in &mut fact_maps {
        facts.retain(|(group, name), _| match group {
            FactGroup::Program => {
                one_program && !is_digest(name) && name.rsplit('.').next() != Some("path")
            }
            FactGroup::Library | FactGroup::Package => all_found,
            FactGroup::Processor => all_answered,
            _ => false,
        });
    }
    fact_maps
}

/// Returns whether the program could be examined: it is not in an image, and existed before
/// `setup`.
fn is_found(facts: &FactValues) -> bool {
    let fact = |name: &str| facts.get(&(FactGroup::Program, name.to_owned()));
    let is_there = |path: &String| !path.ends_with(NOT_FOUND);
    fact("program.path").is_some_and(is_there) && fact("program.launched.path").is_none_or(is_there)
}

/// Returns the facts about the first main command of a variant.
fn of_variant(variant: &VariantPlan, survey: &Survey) -> FactValues {
    let Some((name, main)) = mains_of(variant).next() else {
        return FactValues::new();
    };
    let facts = of_main(main, &name, survey)
        .into_iter()
        .map(|(name, value)| ((group_of(&name), name), value.to_owned()));
    facts.collect()
}

/// Removes the CPU flags that all variants have.
fn only_what_differs(fact_maps: &mut [FactValues]) {
    let key = (FactGroup::Processor, FLAGS.to_owned());
    let flags = |facts: &FactValues| -> BTreeSet<String> {
        let flags = facts.get(&key).map_or("", String::as_str);
        flags.split_whitespace().map(str::to_owned).collect()
    };
    let sets: Vec<BTreeSet<String>> = fact_maps.iter().map(flags).collect();
    let common = sets
        .iter()
        .cloned()
        .reduce(|a, b| &a & &b)
        .unwrap_or_default();
    for (facts, flags) in fact_maps.iter_mut().zip(sets) {
        if facts.contains_key(&key) {
            let own_flags: Vec<String> = (&flags - &common).into_iter().collect();
            facts.insert(key.clone(), own_flags.join(" "));
        }
    }
}
