//! Selects the facts about one main command of a plan.

use super::ABSENT;
use super::ranking::{FactGroup, group_of};
use provoke_model::{ActorPlan, Survey};
use std::collections::BTreeMap;

/// Returns the facts about a main command under the names of the first command's facts.
pub(super) fn of_main<'a>(
    main: &ActorPlan,
    name: &str,
    survey: &'a Survey,
) -> BTreeMap<String, &'a str> {
    let mut facts: BTreeMap<String, &str> = BTreeMap::new();
    for (key, value) in &survey.0 {
        // Facts about the CPU are only comparable if they come from the same source.
        let shared = !key.contains('[') && group_of(key) != FactGroup::Processor;
        // The name of a commit changes no trial, and the files are compared. Files in an image are unknown.
        if shared && key != Survey::COMMIT && main.container.is_none() {
            facts.insert(key.clone(), value.as_str());
        }
    }
    for (key, value) in &survey.0 {
        if let Some(key) = without_variant_name(key, name) {
            if value == ABSENT {
                facts.remove(&key);
            } else {
                facts.insert(key, value);
            }
        }
    }
    facts
}

/// Returns `program.path` for `program[NAME].path`; `None` for a fact of another command.
fn without_variant_name(key: &str, name: &str) -> Option<String> {
    let (section, rest) = key.split_once('[')?;
    let rest = rest.strip_prefix(name)?.strip_prefix(']')?;
    (rest.is_empty() || rest.starts_with('.')).then(|| format!("{section}{rest}"))
}

/// Returns whether the fact is a digest of any command.
pub(super) fn is_digest(name: &str) -> bool {
    name.starts_with("files.") || name.starts_with("files[")
}
