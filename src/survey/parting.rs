//! Finds the facts that distinguish failing from passing runs or variants.

use super::difference::{Run, Side, collect_facts};
use super::weight::{Group, is_used};
use crate::model::is_secret;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// A fact that all failing runs or variants share and no passing one has, or the reverse.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Parting {
    /// The kind of fact.
    pub group: Group,
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
pub struct Parted {
    /// Version of this format; it changes when a field changes its name or its meaning.
    pub format: u32,
    /// The runs.
    pub runs: Vec<Run>,
    /// Distinguishing facts, the most suspicious first.
    pub by: Vec<Parting>,
    /// Probability that a fact which this number of runs share belongs to exactly the failing runs
    /// by chance.
    pub chance: f64,
}

impl Parted {
    /// Returns the result as JSON.
    pub fn to_json(&self) -> String {
        let text = serde_json::to_string_pretty(self);
        text.expect("names and numbers can be written") + "\n"
    }
}

pub(super) type Facts = BTreeMap<(Group, String), String>;

/// Returns the facts that distinguish the failing runs, the most suspicious first.
pub fn find_distinguishing_facts(runs: &[(Side<'_>, bool)]) -> Vec<Parting> {
    let surveyed = runs.iter().all(|(side, _)| !side.survey.0.is_empty());
    let all: Vec<(Facts, bool)> = runs
        .iter()
        .map(|(side, failed)| (flags_apart(collect_facts(*side, surveyed)), *failed))
        .collect();
    distinguishing_facts_of(&all)
}

/// Returns the facts that distinguish failing elements from the others.
pub(super) fn distinguishing_facts_of(all: &[(Facts, bool)]) -> Vec<Parting> {
    let names: BTreeSet<&(Group, String)> =
        all.iter().flat_map(|(facts, _)| facts.keys()).collect();
    let values = |key: &(Group, String), of: bool| -> BTreeSet<Option<String>> {
        let those = all.iter().filter(|(_, failed)| *failed == of);
        those.map(|(facts, _)| facts.get(key).cloned()).collect()
    };
    let mut found: Vec<Parting> = names
        .into_iter()
        .filter(|(group, _)| *group != Group::Trifle)
        .filter_map(|key| {
            let (failing, others) = (values(key, true), values(key, false));
            let parts = failing.is_disjoint(&others) && failing.len().min(others.len()) == 1;
            parts.then(|| make_parting(key, failing, others))
        })
        .collect();
    // CPU flags that programs use come before the other flags.
    found.sort_by_key(|one| (one.group, one.note.is_none()));
    found
}

fn make_parting(
    (group, name): &(Group, String),
    mut failing: BTreeSet<Option<String>>,
    mut others: BTreeSet<Option<String>>,
) -> Parting {
    if *group == Group::Variable && is_secret(name) {
        for values in [&mut failing, &mut others] {
            let hidden = |value: Option<String>| value.map(|_| "(not shown)".to_owned());
            *values = std::mem::take(values).into_iter().map(hidden).collect();
        }
    }
    let note = match group {
        Group::Processor if is_used(name) => {
            Some("code using it dies with SIGILL on CPUs that lack it".to_owned())
        }
        Group::Variable => super::variable_effect(name).map(str::to_owned),
        _ => None,
    };
    Parting {
        group: *group,
        name: name.clone(),
        failing,
        others,
        note,
    }
}

/// Replaces the list of CPU flags with one fact for each flag.
pub(super) fn flags_apart(mut facts: Facts) -> Facts {
    let flags = facts.remove(&(Group::Processor, "cpu.flags".to_owned()));
    for flag in flags.unwrap_or_default().split_whitespace() {
        facts.insert((Group::Processor, flag.to_owned()), "there".to_owned());
    }
    facts
}
