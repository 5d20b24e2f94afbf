//! Finds the facts that distinguish failing from passing runs or variants.

use super::difference::{ComparedRun, RunFacts, collect_facts};
use super::ranking::{FactGroup, is_used};
use provoke_model::is_secret;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// A fact that all failing runs or variants share and no passing one has, or the reverse.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DistinguishingFact {
    /// The kind of fact.
    pub group: FactGroup,
    /// Its name.
    pub name: String,
    /// Its value where it failed; null if it was absent there.
    pub failing: BTreeSet<Option<String>>,
    /// Its values in the others.
    pub others: BTreeSet<Option<String>>,
    /// Why it may matter, if known.
    pub note: Option<String>,
}

/// Several runs and the facts that distinguish the failing runs; `provoke diff --json` prints it.
#[derive(Clone, Debug, Serialize)]
pub struct RunsWithDistinguishingFacts {
    /// Version of this format; it changes when a field changes its name or its meaning.
    pub format: u32,
    /// The runs.
    pub runs: Vec<ComparedRun>,
    /// Distinguishing facts, the most suspicious first.
    pub by: Vec<DistinguishingFact>,
    /// Probability that a fact which this number of runs share belongs to exactly the failing runs
    /// by chance.
    pub chance: f64,
}

impl RunsWithDistinguishingFacts {
    /// Returns the result as JSON.
    pub fn to_json(&self) -> String {
        let text = serde_json::to_string_pretty(self);
        text.expect("names and numbers can be written") + "\n"
    }
}

pub(super) type FactValues = BTreeMap<(FactGroup, String), String>;

/// Returns the facts that distinguish the failing runs, the most suspicious first.
pub fn find_distinguishing_facts(runs: &[(RunFacts<'_>, bool)]) -> Vec<DistinguishingFact> {
    let surveyed = runs.iter().all(|(side, _)| !side.survey.0.is_empty());
    let facts: Vec<(FactValues, bool)> = runs
        .iter()
        .map(|(side, failed)| (flags_apart(collect_facts(*side, surveyed)), *failed))
        .collect();
    distinguishing_facts_of(&facts)
}

/// Returns the facts that distinguish failing elements from the others.
pub(super) fn distinguishing_facts_of(runs: &[(FactValues, bool)]) -> Vec<DistinguishingFact> {
    let names: BTreeSet<&(FactGroup, String)> =
        runs.iter().flat_map(|(facts, _)| facts.keys()).collect();
    let values = |key: &(FactGroup, String), has_failed: bool| -> BTreeSet<Option<String>> {
        let matching = runs.iter().filter(|(_, failed)| *failed == has_failed);
        matching.map(|(facts, _)| facts.get(key).cloned()).collect()
    };
    let mut distinguishing: Vec<DistinguishingFact> = names
        .into_iter()
        .filter(|(group, _)| *group != FactGroup::Trifle)
        .filter_map(|key| {
            let (failing, passing) = (values(key, true), values(key, false));
            let is_distinguishing =
                failing.is_disjoint(&passing) && failing.len().min(passing.len()) == 1;
            is_distinguishing.then(|| distinguish_by(key, failing, passing))
        })
        .collect();
    // CPU flags that programs use come before the other flags.
    distinguishing.sort_by_key(|fact| (fact.group, fact.note.is_none()));
    distinguishing
}

fn distinguish_by(
    (group, name): &(FactGroup, String),
    mut failing: BTreeSet<Option<String>>,
    mut passing: BTreeSet<Option<String>>,
) -> DistinguishingFact {
    if *group == FactGroup::Variable && is_secret(name) {
        for values in [&mut failing, &mut passing] {
            let hidden = |value: Option<String>| value.map(|_| "(not shown)".to_owned());
            *values = std::mem::take(values).into_iter().map(hidden).collect();
        }
    }
    let note = match group {
        FactGroup::Processor if is_used(name) => {
            Some("code using it dies with SIGILL on CPUs that lack it".to_owned())
        }
        FactGroup::Variable => super::variable_effect(name).map(str::to_owned),
        _ => None,
    };
    DistinguishingFact {
        group: *group,
        name: name.clone(),
        failing,
        others: passing,
        note,
    }
}

/// Replaces the list of CPU flags with one fact for each flag.
pub(super) fn flags_apart(mut facts: FactValues) -> FactValues {
    let flags = facts.remove(&(FactGroup::Processor, "cpu.flags".to_owned()));
    for flag in flags.unwrap_or_default().split_whitespace() {
        facts.insert((FactGroup::Processor, flag.to_owned()), "there".to_owned());
    }
    facts
}
