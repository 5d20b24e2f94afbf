//! Finds the tests that ran before a test of a suite when it failed, as the items of a reduction.

use crate::case_reports::pytest;
use crate::model::{
    BugFilter, CaseEnd, CaseName, CasePattern, CaseRecord, CaseRunner, Event, Item, ItemKind,
    NumberList, TrialId, VariantChoices,
};
use crate::scenario::{OnlyRule, PlanError, Scenario, SearchSources};
use crate::state::State;
use crate::store::{self, RunFolder, default_root};

/// Maximum number of bytes of the names: each variant of the search has a copy.
const MOST_BYTES: usize = 4 << 20;

/// The tests before a failure.
struct FailingOrder {
    trial: TrialId,
    /// The numbers of the tests in the same process, in their order.
    earlier: Vec<u32>,
}

/// Returns the tests that ran before the test of `only` in a trial in which it failed. The trial with the fewest such tests
/// is chosen.
pub(super) fn earlier_tests(scenario: &Scenario) -> Result<SearchSources, PlanError> {
    let run = scenario.items.polluters.as_deref().unwrap_or_default();
    let pattern = searched_case(scenario)?;
    let folder = RunFolder::find_run(run, &default_root())
        .and_then(|folder| folder.check_trust(scenario.trust))
        .map_err(|error| refuse(format!("cannot read the run: {error}"), "provoke list"))?;
    let mut shortest: Option<FailingOrder> = None;
    let state = store::read_run(&folder.journal_path(), |event, state| {
        let Event::TrialFinished { trial, seen, .. } = event else {
            return;
        };
        let Some(record) = &seen.case_record else {
            return;
        };
        if let Some(order) = failing_order(state, *trial, record, &pattern)
            && shortest
                .as_ref()
                .is_none_or(|known| order.earlier.len() < known.earlier.len())
        {
            shortest = Some(order);
        }
    })
    .map_err(|error| refuse(format!("cannot read the run: {error}"), "provoke list"))?;
    check_runner(&state)?;
    let name = state.run.as_str();
    let Some(order) = shortest else {
        return Err(refuse(
            format!("no trial of the run {name} shows a failure of `{pattern}`"),
            "provoke report RUN --cases lists the tests of a run",
        ));
    };
    let victim = state
        .case_names
        .all_names()
        .iter()
        .find(|name| pattern.matches_case(name))
        .map_or_else(String::new, CaseName::to_string);
    if order.earlier.is_empty() {
        return Err(refuse(
            format!(
                "`{victim}` failed as the first test of {}: it needs no earlier test",
                order.trial
            ),
            "measure how often it fails alone: provoke run -- pytest NAME",
        ));
    }
    let names = order.earlier.iter();
    let names: Vec<String> = names
        .filter_map(|number| state.case_names.name_of(*number))
        .map(CaseName::to_string)
        .collect();
    if names.iter().map(String::len).sum::<usize>() > MOST_BYTES {
        return Err(refuse(
            format!(
                "the names of the {} tests before `{victim}` are too long together",
                names.len()
            ),
            "measure a smaller part of the suite, in which it still fails, with --cases --shuffle",
        ));
    }
    let item = |name: &String| Item {
        name: name.clone(),
        at: None,
        what: ItemKind::Text(Some(name.into()), None),
    };
    let items = names.iter().map(item).collect();
    Ok(SearchSources {
        env: vec![(
            pytest::SELECTION_VARIABLE.to_owned(),
            format!("{{lines}}\n{victim}"),
        )],
        ..VariantChoices::Things(items).into()
    })
}

fn refuse(message: impl Into<String>, hint: &str) -> PlanError {
    PlanError::of_field("polluters", message, hint)
}

/// Returns the test whose failure is searched.
fn searched_case(scenario: &Scenario) -> Result<CasePattern, PlanError> {
    let mut patterns = scenario.judge.only.0.iter().filter_map(|rule| match rule {
        OnlyRule(BugFilter::Test(pattern)) => Some(pattern.clone()),
        _ => None,
    });
    match (patterns.next(), patterns.next()) {
        (Some(pattern), None) if pattern.exact_name().is_some() => Ok(pattern),
        _ => Err(refuse(
            "the search for polluters needs the name of one test",
            "name the test that fails: --only test:NAME",
        )),
    }
}

fn check_runner(state: &State) -> Result<(), PlanError> {
    match state.plan.cases.as_deref() {
        None => Err(refuse(
            format!("the run {} did not count its tests", state.run),
            "measure it again with --cases",
        )),
        Some(cases) if cases.runner != CaseRunner::Pytest => Err(refuse(
            format!(
                "polluters can be searched with pytest only, and not with {}",
                cases.runner.name()
            ),
            "leave tests out yourself: provoke reduce --set A,B,C -- CMD {set}",
        )),
        Some(_) => Ok(()),
    }
}

/// Returns the tests before a failure in its process; `None` if the test did not fail.
fn failing_order(
    state: &State,
    trial: TrialId,
    record: &CaseRecord,
    pattern: &CasePattern,
) -> Option<FailingOrder> {
    let names = state.case_names.all_names();
    let victim = names.iter().position(|name| pattern.matches_case(name))?;
    let victim = u32::try_from(victim).ok()?;
    let ends = record.decode_ends();
    if !ends.get(victim as usize)?.is_some_and(CaseEnd::is_failure) {
        return None;
    }
    let has_started = |end: &Option<CaseEnd>| end.is_some_and(|end| end != CaseEnd::NotRun);
    let mut orders: Vec<Vec<u32>> = record.orders.iter().map(NumberList::decode).collect();
    if orders.is_empty() {
        let numbered = (0..).zip(&ends).filter(|(_, end)| has_started(end));
        orders.push(numbered.map(|(number, _)| number).collect());
    }
    orders.into_iter().find_map(|order| {
        let position = order.iter().position(|number| *number == victim)?;
        Some(FailingOrder {
            trial,
            earlier: order[..position].to_vec(),
        })
    })
}
