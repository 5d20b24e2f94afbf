//! Conditions under which a failure rate was measured, and their differences.

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// The conditions under which a failure rate was measured: facts under dotted names such as `jobs` or `cpu.model`. The
/// program under test (command, files, image) is not among them.
///
/// Journals of old versions have no conditions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conditions {
    /// The facts; each has a value, such as `none` for no limit.
    #[serde(default)]
    facts: BTreeMap<String, String>,
}

/// Prefix of the names of environment variables, which are recorded only if they are set.
const VARIABLE: &str = "variable.";

/// Prefix of the names of conditions of trials that are recorded only if they are set.
const UNDER: &str = "under.";

/// The names of the facts in a report, without those of levers.
const NAMES: &[(&str, &str)] = &[
    ("cases", "test runner that reports its tests"),
    ("cases.order", "order of the tests"),
    ("jobs", "parallel trials"),
    ("waves", "trials start in waves"),
    ("copies", "copies of the command in a trial"),
    ("load", "load"),
    ("wrap", "command prefix"),
    ("tracer", "tracer"),
    ("held", "holds of a hunt"),
    ("timeout", "timeout"),
    ("container.engine", "container engine"),
    ("container.network", "container network"),
    ("container.options", "container options"),
    ("cpu.model", "CPU model"),
    ("cpu.count", "CPUs"),
    ("kernel", "kernel"),
    ("machine", "machine"),
];

/// Facts that hardly ever change a rate by themselves.
const HARMLESS: [&str; 2] = ["kernel", "machine"];

/// One condition that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ConditionDifference {
    /// What differs, such as `parallel trials`.
    pub what: String,
    /// Its value in the baseline.
    pub baseline: String,
    /// Its value here.
    pub here: String,
    /// False if a difference of this kind hardly ever changes a failure rate.
    pub can_change_rate: bool,
}

impl Conditions {
    /// Adds a fact.
    pub fn set_fact(&mut self, name: &str, value: impl Into<String>) {
        self.facts.insert(name.to_owned(), value.into());
    }

    /// Adds an environment variable that is set.
    pub fn set_variable(&mut self, name: &str, value: impl Into<String>) {
        self.set_fact(&format!("{VARIABLE}{name}"), value);
    }

    /// Adds a condition of trials that is set.
    pub fn set_condition(&mut self, lever: &str, value: impl Into<String>) {
        self.set_fact(&format!("{UNDER}{lever}"), value);
    }

    /// Returns a fact.
    pub fn get_fact(&self, name: &str) -> Option<&str> {
        self.facts.get(name).map(String::as_str)
    }

    /// Returns the differences from the conditions of a baseline; differences that can change the rate come first. A fact
    /// that only one side records is not a difference, except for a variable or a condition, which is not set on the other
    /// side.
    /// `lever_title` returns the title of the fact of a lever.
    pub fn differences_from(
        &self,
        baseline: &Self,
        lever_title: impl Fn(&str) -> Option<&'static str>,
    ) -> Vec<ConditionDifference> {
        if self.facts.is_empty() || baseline.facts.is_empty() {
            return Vec::new();
        }
        let value = |side: &Self, name: &str| match side.get_fact(name) {
            None if name.starts_with(VARIABLE) || name.starts_with(UNDER) => {
                Some("not set".to_owned())
            }
            value => value.map(str::to_owned),
        };
        let names: BTreeSet<&String> = self.facts.keys().chain(baseline.facts.keys()).collect();
        let differing = names.into_iter().filter_map(|name| {
            let (baseline_value, own_value) = (value(baseline, name)?, value(self, name)?);
            (baseline_value != own_value).then(|| ConditionDifference {
                what: lever_title(name).map_or_else(|| in_words(name), str::to_owned),
                baseline: baseline_value,
                here: own_value,
                can_change_rate: !HARMLESS.contains(&name.as_str()),
            })
        });
        let mut differences: Vec<ConditionDifference> = differing.collect();
        differences.sort_by_key(|difference| !difference.can_change_rate);
        differences
    }
}

fn in_words(name: &str) -> String {
    match NAMES.iter().find(|(entry_name, _)| *entry_name == name) {
        Some((_, words)) => (*words).to_owned(),
        None => match (name.strip_prefix(VARIABLE), name.strip_prefix(UNDER)) {
            (Some(variable), _) => format!("variable {variable}"),
            (_, Some(condition)) => format!("condition {condition}"),
            _ => name.to_owned(),
        },
    }
}

impl fmt::Display for ConditionDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            what: message,
            baseline,
            here,
            ..
        } = self;
        write!(f, "{message}: {baseline} in the baseline, {here} here")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn no_lever(_: &str) -> Option<&'static str> {
        None
    }

    fn conditions(facts: &[(&str, &str)]) -> Conditions {
        let mut all = Conditions::default();
        for (name, value) in facts {
            all.set_fact(name, *value);
        }
        all
    }

    #[test]
    fn differences_that_can_change_the_rate_come_first() {
        let before = conditions(&[("jobs", "8"), ("kernel", "Linux 6.1"), ("memory", "none")]);
        let here = conditions(&[("jobs", "1"), ("kernel", "Linux 6.5"), ("memory", "none")]);
        let all = here.differences_from(&before, no_lever);
        let texts: Vec<String> = all.iter().map(ToString::to_string).collect();
        assert_eq!(
            texts,
            [
                "parallel trials: 8 in the baseline, 1 here",
                "kernel: Linux 6.1 in the baseline, Linux 6.5 here",
            ]
        );
        assert!(all[0].can_change_rate && !all[1].can_change_rate);
    }

    #[test]
    fn a_fact_that_one_side_does_not_record_does_not_differ() {
        let here = conditions(&[("jobs", "1"), ("delay", "none")]);
        assert!(
            here.differences_from(&conditions(&[("jobs", "1")]), no_lever)
                .is_empty()
        );
        assert!(
            here.differences_from(&Conditions::default(), no_lever)
                .is_empty()
        );
    }

    #[test]
    fn a_variable_that_is_not_set_differs_from_one_that_is() {
        let mut here = conditions(&[("jobs", "1")]);
        here.set_variable("LD_PRELOAD", "/lib/x.so");
        let all = here.differences_from(&conditions(&[("jobs", "1")]), no_lever);
        assert_eq!(
            all[0].to_string(),
            "variable LD_PRELOAD: not set in the baseline, /lib/x.so here"
        );
    }

    #[test]
    fn conditions_of_old_journals_are_read_as_unknown() {
        let old: Conditions =
            serde_json::from_str(r#"{"traced":true,"limits":[],"wrap":["env"]}"#).unwrap();
        assert_eq!(old, Conditions::default());
    }
}
