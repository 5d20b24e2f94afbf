//! The conditions that a search for those that matter tries.

use super::settings::parse_condition;
use provoke_levers::{LEVERS, Lever, LeverSearch, find_lever};
use provoke_model::{ConditionRole, Item, ItemKind, SearchedCondition};
use provoke_words::diagnostic::{Diagnostic, refuse_at};

/// Returns the named conditions, or all that levers propose for a suite or for another command, with what they are compared with, and milder ones.
pub(super) fn condition_items(named: &[String], is_suite: bool) -> Result<Vec<Item>, Diagnostic> {
    let mut items = Vec::new();
    if named.is_empty() {
        for (lever, search) in searched_levers() {
            if search.only_in_suites && !is_suite {
                continue;
            }
            add_lever(&mut items, lever, &search, search.values);
        }
        return Ok(items);
    }
    for name in named {
        let refuse = |message: String| {
            let hint = "`provoke why --list` shows all conditions";
            refuse_at(message, &["try"], hint)
        };
        match find_lever(name).and_then(|lever| Some((lever, lever.search()?))) {
            Some((lever, search)) => add_lever(&mut items, lever, &search, search.values),
            None => {
                parse_condition(name).map_err(refuse)?;
                let (lever, value) = name.split_once('=').unwrap_or((name, ""));
                let lever = find_lever(lever).expect("its value was read");
                let search = lever.search().unwrap_or(LeverSearch::of_one(lever));
                add_lever(&mut items, lever, &search, &[value]);
            }
        }
    }
    Ok(items)
}

/// Returns the levers that a search tries.
fn searched_levers() -> impl Iterator<Item = (&'static Lever, LeverSearch)> {
    let levers = LEVERS.iter();
    levers.filter_map(|lever| Some((*lever, lever.search()?)))
}

/// Adds values of a lever, with its sham and its steps.
fn add_lever(items: &mut Vec<Item>, lever: &Lever, search: &LeverSearch, values: &[&str]) {
    let mut add = |typed: &str, role: ConditionRole| {
        // A lever proposes only values that it can read.
        let Ok(value) = lever.parse(typed) else {
            return;
        };
        let name = match typed {
            "" => lever.name.to_owned(),
            _ => format!("{}={typed}", lever.name),
        };
        let condition = SearchedCondition {
            lever: lever.name.to_owned(),
            value,
            family: search.family.to_owned(),
            role,
        };
        let is_same = |item: &Item| {
            matches!(&item.what, ItemKind::Condition(other)
            if other.lever == condition.lever && other.value == condition.value)
        };
        if !items.iter().any(is_same) {
            let (what, at) = (ItemKind::Condition(condition), None);
            items.push(Item { name, at, what });
        }
    };
    let role = if search.is_harsh {
        ConditionRole::Harsh
    } else {
        ConditionRole::Tried
    };
    for value in values {
        add(value, role);
    }
    if values == search.values {
        search
            .seeds
            .iter()
            .for_each(|seed| add(seed, ConditionRole::Seed));
    }
    if let Some(sham) = search.sham {
        add(sham, ConditionRole::Sham);
    }
    // The ladder belongs to the first value. What is harsher says nothing about it.
    let ladder = search.ladder.iter();
    let milder = ladder.take_while(|step| values.first() != Some(*step));
    milder.for_each(|value| add(value, ConditionRole::Step));
}
