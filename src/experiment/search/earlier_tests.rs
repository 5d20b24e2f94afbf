//! Finds the tests that ran before a test of a suite when it failed, or when it passed, as the items of a reduction.

use provoke_journal as journal;
use provoke_journal::{RunFolder, default_root};
use provoke_model::{
    BugFilter, CaseEnd, CaseName, CasePattern, CaseRecord, Event, Item, ItemKind, NumberList,
    TrialId, VariantChoices,
};
use provoke_plan::{OnlyRule, Scenario, SearchSources};
use provoke_questions as questions;
use provoke_runners::{runner_named, titles_of};
use provoke_state::State;
use provoke_words::diagnostic::Diagnostic;

/// Maximum number of bytes of the names: each variant of the search has a copy.
const MOST_BYTES: usize = 4 << 20;

/// The trials that the search is about: one of them has the tests that ran before.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SearchedTrials {
    /// The test failed: which earlier tests does the failure need?
    Failing,
    /// The test passed: which earlier tests does the test need?
    Passing,
}

impl SearchedTrials {
    fn of_scenario(scenario: &Scenario) -> Self {
        if scenario.items.needs.is_some() {
            Self::Passing
        } else {
            Self::Failing
        }
    }

    fn includes_end(self, end: CaseEnd) -> bool {
        match self {
            Self::Failing => end.is_failure(),
            Self::Passing => end.is_pass(),
        }
    }

    fn refuse(self, message: impl Into<String>, hint: &str) -> Diagnostic {
        let field = match self {
            Self::Failing => "polluters",
            Self::Passing => "needs",
        };
        Diagnostic::of_field(field, message, hint)
    }
}

/// The tests before the searched one in a trial.
struct EarlierTests {
    trial: TrialId,
    /// The numbers of the tests in the same process, in their order.
    earlier: Vec<u32>,
}

/// Returns the tests that ran before the test of `only` in a trial in which it failed, or passed. The trial with the fewest
/// such tests is chosen.
pub(super) fn find_earlier_tests(scenario: &Scenario) -> Result<SearchSources, Diagnostic> {
    let run = scenario.items.run_of_tests().map_or("", String::as_str);
    let searched = SearchedTrials::of_scenario(scenario);
    let refuse = |message: String, hint: &str| searched.refuse(message, hint);
    let pattern = searched_case(scenario, searched)?;
    let folder = RunFolder::find_run(run, &default_root())
        .and_then(|folder| folder.check_trust(scenario.trust))
        .map_err(|error| refuse(format!("cannot read the run: {error}"), "provoke list"))?;
    let mut shortest: Option<EarlierTests> = None;
    let state = journal::read_run(&folder.journal_path(), questions::FOLD, |event, state| {
        let Event::TrialFinished { trial, seen, .. } = event else {
            return;
        };
        let Some(record) = &seen.case_record else {
            return;
        };
        if let Some(order) = searched_order(state, *trial, record, &pattern, searched)
            && shortest
                .as_ref()
                .is_none_or(|known| order.earlier.len() < known.earlier.len())
        {
            shortest = Some(order);
        }
    })
    .map_err(|error| refuse(format!("cannot read the run: {error}"), "provoke list"))?;
    let (runner, list_variable) = check_runner(&state, searched)?;
    let name = state.origin.run.as_str();
    let Some(order) = shortest else {
        let message = match searched {
            SearchedTrials::Failing => {
                format!("no trial of the run {name} shows a failure of `{pattern}`")
            }
            SearchedTrials::Passing => {
                format!("`{pattern}` passed in no trial of the run {name}")
            }
        };
        return Err(refuse(
            message,
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
        let end = match searched {
            SearchedTrials::Failing => "failed",
            SearchedTrials::Passing => "passed",
        };
        return Err(refuse(
            format!(
                "`{victim}` {end} as the first test of {}: it needs no earlier test",
                order.trial
            ),
            &format!("measure how often it fails alone: provoke run -- {runner} NAME"),
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
        env: vec![(list_variable.to_owned(), format!("{{lines}}\n{victim}"))],
        ..VariantChoices::Items(items).into()
    })
}

/// Returns the test that the search is about.
fn searched_case(scenario: &Scenario, searched: SearchedTrials) -> Result<CasePattern, Diagnostic> {
    let mut patterns = scenario.judge.only.0.iter().filter_map(|rule| match rule {
        OnlyRule(BugFilter::Test(pattern)) => Some(pattern.clone()),
        _ => None,
    });
    match (patterns.next(), patterns.next()) {
        (Some(pattern), None) if pattern.exact_name().is_some() => Ok(pattern),
        _ => Err(searched.refuse(
            "the search for earlier tests needs the name of one test",
            "name the test that fails: --only test:NAME",
        )),
    }
}

/// Returns the title of the runner of the run, and its variable with the names of the only tests to run.
fn check_runner(
    state: &State,
    searched: SearchedTrials,
) -> Result<(&'static str, &'static str), Diagnostic> {
    let Some(cases) = state.trials.cases.as_deref() else {
        return Err(searched.refuse(
            format!("the run {} did not count its tests", state.origin.run),
            "measure it again with --cases",
        ));
    };
    let runner = runner_named(&cases.runner.name);
    let title = runner.map_or("an unknown runner", |runner| runner.title);
    match runner.and_then(|runner| runner.list_variable) {
        Some(variable) => Ok((title, variable)),
        None => Err(searched.refuse(
            format!(
                "earlier tests can be searched with {} only, and not with {title}",
                titles_of(|runner| runner.list_variable.is_some())
            ),
            "leave tests out yourself: provoke reduce --set A,B,C -- CMD {set}",
        )),
    }
}

/// Returns the tests before the searched one in its process; `None` if the trial is not searched.
fn searched_order(
    state: &State,
    trial: TrialId,
    record: &CaseRecord,
    pattern: &CasePattern,
    searched: SearchedTrials,
) -> Option<EarlierTests> {
    let names = state.case_names.all_names();
    let victim = names.iter().position(|name| pattern.matches_case(name))?;
    let victim = u32::try_from(victim).ok()?;
    let ends = record.decode_ends();
    if !ends
        .get(victim as usize)?
        .is_some_and(|end| searched.includes_end(end))
    {
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
        Some(EarlierTests {
            trial,
            earlier: order[..position].to_vec(),
        })
    })
}
