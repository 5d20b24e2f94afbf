//! The conditions that this machine can set for trials.

use provoke_levers::{LEVERS, Lever, TrialStart, find_lever};
use provoke_model::{ItemKind, TrialsPlan, UntestedCondition};
use provoke_prepare as prepare;
use provoke_words::diagnostic::Diagnostic;
use provoke_words::document::{Cell, Column, Place, Row, Table, Tone};
use std::collections::BTreeMap;
use std::path::Path;

/// Returns the conditions of a search that this machine cannot set. Fails if it can set none.
pub(super) fn untested_conditions(
    trials: &TrialsPlan,
) -> Result<Vec<UntestedCondition>, Diagnostic> {
    let space = trials.space.as_ref();
    let items = space.map_or(&[][..], |space| space.choices.as_items());
    let untested = (0..).zip(items).filter_map(|(item, named)| {
        let ItemKind::Condition(condition) = &named.what else {
            return None;
        };
        let lever = find_lever(&condition.lever)?;
        let reason = find_obstacle(trials, lever, &condition.value)?;
        Some(UntestedCondition { item, reason })
    });
    let untested: Vec<UntestedCondition> = untested.collect();
    match untested.first() {
        Some(first) if untested.len() == items.len() => {
            let refusal = Diagnostic::could_not("none of the conditions can be tried");
            Err(refusal.because(format!("{}: {}", items[0].name, first.reason)))
        }
        _ => Ok(untested),
    }
}

/// Returns why this machine cannot set a stored value of a lever for trials, if it cannot.
fn find_obstacle(trials: &TrialsPlan, lever: &Lever, value: &str) -> Option<String> {
    let mut start = TrialStart::default();
    let first = trials.variants.first();
    let main = first.and_then(|variant| variant.main_actor());
    if (lever.apply)(value, &mut start).is_ok()
        && start.cwd_copy.is_some()
        && main.is_some_and(|main| !prepare::is_small(Path::new(main.cwd.as_os_str())))
    {
        return Some("the working directory is too large to copy it for a search".to_owned());
    }
    let refusal = lever.prepare(value, &mut trials.clone()).err()?;
    let reason = refusal.causes.first().unwrap_or(&refusal.message);
    let way_out = refusal.hints.first().map(|hint| format!("; {hint}"));
    Some(format!("{reason}{}", way_out.unwrap_or_default()))
}

/// Returns a table of all conditions: what they do, the values that a search tries, and why this machine cannot set some.
pub fn condition_table(trials: &TrialsPlan) -> Table {
    let columns = vec![
        Column::words("condition"),
        Column::sentences("what it is, and the values that `why` tries"),
    ];
    let mut table = Table::new("Conditions", Place::Screen, columns);
    for lever in LEVERS {
        let search = lever.search();
        let values: Vec<&str> =
            search.map_or_else(Vec::new, |search| [search.values, search.seeds].concat());
        let cells = [lever.name.to_owned(), lever.about.to_owned()];
        table.rows.push(Row::Cells(cells.map(Cell::text).to_vec()));
        if !values.is_empty() {
            let note = format!("tries {}", values.join(", "));
            table.rows.push(Row::Note(note, Tone::Faint));
        }
        let mut refused: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        for typed in &values {
            let value = lever.parse(typed).unwrap_or_default();
            if let Some(reason) = find_obstacle(trials, lever, &value) {
                refused.entry(reason).or_default().push(typed);
            }
        }
        for (reason, typed) in refused {
            let name = if typed.len() == values.len() {
                lever.name.to_owned()
            } else {
                format!("{}={}", lever.name, typed.join(", "))
            };
            let note = format!("not here: {name}: {reason}");
            table.rows.push(Row::Note(note, Tone::Open));
        }
    }
    table
}
