//! Compares stored runs: their failure rates and their environments.

use super::error::ExperimentError;
use crate::report::{self, RunListing};
use crate::state::State;
use crate::store::{self, RunFolder, default_root};
use crate::survey::{
    ComparedRun, FactDifference, RunComparison, RunFacts, RunsWithDistinguishingFacts,
    chance_of_coincidence, find_differences, find_distinguishing_facts,
};

/// Compares two runs; shows values that may be secrets only if `show_secrets`.
pub fn compare_two_runs(
    left: &str,
    right: &str,
    show_secrets: bool,
) -> Result<RunComparison, ExperimentError> {
    let (left_run, right) = (read_state(left)?, read_state(right)?);
    let differences = find_differences(facts_of_run(&left_run), facts_of_run(&right)).into_iter();
    let differences: Vec<FactDifference> = differences
        .map(|difference| {
            if show_secrets {
                difference
            } else {
                difference.hide_secrets()
            }
        })
        .collect();
    let chance = report::chance_of_difference(&left_run, &right);
    Ok(RunComparison {
        format: RunComparison::FORMAT,
        left: summarize_run(&left_run),
        right: summarize_run(&right),
        p_value: chance.as_ref().ok().copied(),
        not_comparable: chance.err(),
        differences,
    })
}

/// Finds the facts that distinguish failing runs from passing ones.
pub fn compare_many_runs(names: &[String]) -> Result<RunsWithDistinguishingFacts, ExperimentError> {
    let states = names
        .iter()
        .map(|name| read_state(name))
        .collect::<Result<Vec<State>, _>>()?;
    let runs: Vec<ComparedRun> = states.iter().map(summarize_run).collect();
    if let Some(empty) = runs.iter().find(|run| run.trials == 0) {
        let message = format!("all trials of the run {} were inconclusive", empty.run);
        return Err(ExperimentError::usage(message).with_hint("leave it out"));
    }
    let failed = |run: &ComparedRun| run.failures > 0;
    let sides: Vec<_> = states
        .iter()
        .map(facts_of_run)
        .zip(runs.iter().map(failed))
        .collect();
    let failing = runs.iter().filter(|run| failed(run)).count() as u64;
    let passing = runs.len() as u64 - failing;
    Ok(RunsWithDistinguishingFacts {
        format: RunComparison::FORMAT,
        by: if failing > 0 && passing > 0 {
            find_distinguishing_facts(&sides)
        } else {
            Vec::new()
        },
        chance: chance_of_coincidence(failing, passing),
        runs,
    })
}

fn read_state(name: &str) -> Result<State, ExperimentError> {
    let folder = RunFolder::find_run(name, &default_root())?;
    Ok(store::read_run(&folder.journal_path(), |_, _| {})?)
}

fn facts_of_run(state: &State) -> RunFacts<'_> {
    RunFacts {
        plan: &state.plan,
        host: &state.host,
        survey: &state.survey,
    }
}

fn summarize_run(state: &State) -> ComparedRun {
    let (failures, trials) = state.all_tallies().fold((0, 0), |(k, n), (_, tally)| {
        (k + tally.failures, n + tally.counted_trials())
    });
    ComparedRun {
        run: state.run.clone(),
        failures,
        trials,
        answer: (!state.plan.question.is_rate()).then(|| RunListing::new(state).result),
        host: state.host.name.clone(),
        cpu: state.host.cpu.clone(),
        kernel: state.host.kernel.clone(),
        surveyed: !state.survey.0.is_empty(),
    }
}
