//! Common parts of the searches along a list and among sets of items.

mod earlier;
mod plan;
mod raise_answer;
mod raise_policy;
mod reproduction;
mod searched_failure;
mod steps;

pub(crate) use earlier::reproduction_needed;
pub use earlier::{EarlierTrialsReport, counts_earlier_trials, set_earlier_trials};
pub(crate) use plan::plan_search;
pub use raise_answer::{
    RaiseReport, TriedSettingReport, describe_raised, describe_settings, raise_hint,
};
pub use raise_policy::RaiseDecision;
pub(crate) use raise_policy::next_step as raise_step;
pub use reproduction::{EarlierUse, Reproduction, ReproductionProgress, reproduction_progress};
pub use searched_failure::SearchedFailure;
pub use steps::trial_limit;
pub(crate) use steps::{
    first_preparation, free_builders, is_crowded, is_spent, launch_or_make, needs_preparation,
    preparation_cost, reproduction_step, step_for_choice, step_for_next, stop_rule, under_way,
    untried_variants,
};

use super::answer::unrecorded_assumption;
use provoke_model::{Goal, SearchQuestion};
use provoke_state::State;
use provoke_words as words;

/// Returns whether a search looks for a setting under which the failing variant fails more often.
pub fn raises_rate(goal: &Goal) -> bool {
    let search = goal.question.as_search();
    search.is_some_and(SearchQuestion::raises_rate)
}

/// Returns whether a search takes every failure for the bug.
pub fn searches_any_failure(goal: &Goal) -> bool {
    let search = goal.question.as_search();
    search.is_some_and(|search| search.any_failure)
}

/// Describes why a search has no result about the failing variant.
pub(crate) fn not_tested(state: &State) -> String {
    let failing = state.trials.variant_plan(State::FAILING);
    let untried = state.launched_trials(State::FAILING) == 0 && state.is_testable(State::FAILING);
    if state.stage.is_budget_spent() && failing.is_made() && untried {
        let name = words::sanitize_line(&failing.name);
        return format!("NOT TESTED: preparing {name} took all of the time; -d allows more");
    }
    if let Some(reason) = state.untestable.get(&State::FAILING)
        && state.launched_trials(State::FAILING) == 0
    {
        let name = words::sanitize_line(&failing.name);
        return format!("NOT TESTED: {name}: {}", words::sanitize_line(reason));
    }
    let space = state.trials.space.as_ref();
    let preparation = space.and_then(|space| space.template.make.as_ref());
    let way_out = match preparation.map(|preparation| &preparation.script) {
        Some(None) => "; --build CMD builds each candidate before its trials",
        Some(Some(_)) => "; check that --build creates what the command runs",
        None => "",
    };
    format!("NOT TESTED: no trial was conclusive{way_out}")
}

/// Names the flags that may help if the failing variant fails too rarely, or not at all.
pub(crate) fn ways_to_reproduce(state: &State) -> String {
    let tally = state.tally_of(State::FAILING);
    // Settings and holds make failures more frequent, not passes.
    let searches_failures = !state.trials.rules.search_passes();
    let mut ways = Vec::new();
    if searches_failures && !raises_rate(&state.goal) {
        ways.push("--raise-rate".to_owned());
    }
    if searches_failures && state.trials.held.is_none() {
        ways.push("--held with a hold that `hunt` found".to_owned());
    }
    ways.push(
        match trials_to_reproduce(tally.failures, tally.counted_trials()) {
            Some(trials) => format!("--reproduce-limit {trials}"),
            None => "a higher --reproduce-limit".to_owned(),
        },
    );
    let last_way = ways.pop().unwrap_or_default();
    if ways.is_empty() {
        format!("try {last_way}")
    } else {
        format!("try {} or {last_way}", ways.join(", "))
    }
}

/// Returns twice the mean number of trials until the required failures, with two significant digits; `None` without a
/// failure.
fn trials_to_reproduce(failures: u64, trials: u64) -> Option<u64> {
    let needed = (2 * reproduction::FAILURES * trials).checked_div(failures)?;
    let unit = 10_u64.pow(needed.checked_ilog10()?.saturating_sub(1));
    Some(needed.div_ceil(unit) * unit)
}

/// Returns the assumptions of a search, after those of its list.
pub(crate) fn search_assumptions(state: &State) -> Vec<String> {
    let mut assumptions = Vec::new();
    let earlier_use = Reproduction::of_state(state).map(|reproduction| reproduction.earlier_use);
    if earlier_use == Some(EarlierUse::Counted) {
        let earlier = EarlierTrialsReport::of_search(state);
        let runs = earlier.map_or_else(Vec::new, |earlier| earlier.runs);
        assumptions.extend(unrecorded_assumption("earlier runs and this one", &runs));
    }
    let other_failures: u64 = state.all_tallies().map(|(_, tally)| tally.other).sum();
    if state.trials.rules.only.is_empty() && other_failures > 0 {
        assumptions.push(
            "a failure of another kind is another bug (--any-failure counts every failure)"
                .to_owned(),
        );
    }
    assumptions.extend(RaiseReport::new(state).and_then(|raised| raised.assumption_if_used()));
    assumptions
}

/// Describes the setting that is being tried, before the search.
pub(crate) fn describe_setting(state: &State) -> Option<String> {
    state.undecided_raise()?;
    let variant = state.trials.variant_plan(state.last_launched()?);
    let setting = variant.setting.filter(|setting| !setting.is_as_planned());
    Some(setting.map_or_else(
        || "reproducing the failure".to_owned(),
        |setting| format!("trying {setting}"),
    ))
}
