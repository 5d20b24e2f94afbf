//! Describes the conditions of a space for the statistics of the search.

use provoke_model::{ConditionRole, Item, ItemKind, SearchedCondition, UntestedCondition};
use provoke_stats::screen::{self, Condition};
use std::collections::BTreeMap;

/// Returns the condition of an item.
pub(super) fn condition_of(item: &Item) -> Option<&SearchedCondition> {
    match &item.what {
        ItemKind::Condition(condition) => Some(condition),
        _ => None,
    }
}

/// Returns the conditions of the items, which are all of the space. Those that this machine cannot set are never tried.
pub(super) fn screen_conditions(items: &[Item], untested: &[UntestedCondition]) -> Vec<Condition> {
    let conditions: Vec<&SearchedCondition> = items.iter().filter_map(condition_of).collect();
    let mut families: BTreeMap<&str, usize> = BTreeMap::new();
    for condition in &conditions {
        let next = families.len();
        families.entry(&condition.family).or_insert(next);
    }
    let sham_of = |lever: &str| {
        conditions
            .iter()
            .position(|other| other.lever == lever && other.role == ConditionRole::Sham)
    };
    let tried = |condition: &SearchedCondition| {
        let is_tried = |other: &&SearchedCondition| {
            other.lever == condition.lever
                && matches!(other.role, ConditionRole::Tried | ConditionRole::Harsh)
        };
        conditions.iter().position(is_tried)
    };
    let is_untested = |index: usize| {
        untested
            .iter()
            .any(|untested| untested.item as usize == index)
    };
    let described = conditions
        .iter()
        .enumerate()
        .map(|(index, condition)| Condition {
            family: families[condition.family.as_str()],
            sham: sham_of(&condition.lever),
            is_harsh: condition.role == ConditionRole::Harsh,
            role: match condition.role {
                _ if is_untested(index) => screen::ConditionRole::ShamOnly,
                ConditionRole::Tried | ConditionRole::Harsh => screen::ConditionRole::Tried,
                ConditionRole::Sham => screen::ConditionRole::ShamOnly,
                ConditionRole::Seed => screen::ConditionRole::Seed,
                ConditionRole::Step => match tried(condition) {
                    Some(of) => screen::ConditionRole::Step { of },
                    None => screen::ConditionRole::ShamOnly,
                },
            },
        });
    described.collect()
}
