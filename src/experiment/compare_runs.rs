//! Compares stored runs: their failure rates and their environments.

use super::stored_runs::read_state;
use provoke_journal::{RunFolder, default_root};
use provoke_model::{Host, Survey};
use provoke_questions as questions;
use provoke_report as report;
use provoke_report::RunListing;
use provoke_state::State;
use provoke_survey::{
    ComparedRun, FactDifference, RunComparison, RunFacts, RunsWithDistinguishingFacts,
    SuiteDifference, TestCounts, chance_of_coincidence, compare_suites, find_differences,
    find_distinguishing_facts,
};
use provoke_words::diagnostic::Diagnostic;
use std::collections::BTreeMap;

/// Compares two runs; shows values that may be secrets only if `show_secrets`.
pub fn compare_two_runs(
    left: &str,
    right: &str,
    show_secrets: bool,
) -> Result<RunComparison, Diagnostic> {
    let (left, right) = (RunEnvironment::read(left)?, RunEnvironment::read(right)?);
    let differences = find_differences(left.facts(), right.facts()).into_iter();
    let differences: Vec<FactDifference> = differences
        .map(|difference| {
            if show_secrets {
                difference
            } else {
                difference.hide_secrets()
            }
        })
        .collect();
    let rates = report::test_rates(&left.state, &right.state);
    let test = rates.as_ref().ok();
    // The failures of a test are the same under any `--only`.
    let tests = report::check_conditions(&left.state, &right.state)
        .ok()
        .and_then(|()| compare_tests(&left.state, &right.state));
    Ok(RunComparison {
        format: RunComparison::FORMAT,
        left: left.summarize(),
        right: right.summarize(),
        p_value: test.map(|test| test.p_value),
        significant_failures: test.map_or([None; 2], |test| {
            test.significant_failures(RunComparison::SIGNIFICANT)
        }),
        design_effect: test.map_or(1.0, |test| test.design_effect),
        stopped: test.map_or_else(Vec::new, |test| test.stopped.clone()),
        failures: if tests.is_none() {
            report::compare_failures([&left.state, &right.state], test)
        } else {
            Vec::new()
        },
        tests,
        not_comparable: rates.err(),
        differences,
    })
}

/// Compares the tests of the suites of two runs, if both counted them.
fn compare_tests(left: &State, right: &State) -> Option<SuiteDifference> {
    let tests_of = |state: &State| {
        let (_, tally) = state.all_tallies().next()?;
        state.trials.cases.as_ref()?;
        let numbered = (0..).zip(&tally.suite.cases);
        let tests = numbered.filter_map(|(number, case)| {
            let counts = TestCounts {
                failures: case.failures(),
                trials: case.counted_trials(),
            };
            let name = state.case_names.name_of(number)?;
            (counts.trials > 0).then(|| (name.to_string(), counts))
        });
        Some(tests.collect::<BTreeMap<String, TestCounts>>())
    };
    Some(compare_suites(&tests_of(left)?, &tests_of(right)?))
}

/// Finds the facts that distinguish failing runs from passing ones.
pub fn compare_many_runs(names: &[String]) -> Result<RunsWithDistinguishingFacts, Diagnostic> {
    let environments = names
        .iter()
        .map(|name| RunEnvironment::read(name))
        .collect::<Result<Vec<RunEnvironment>, _>>()?;
    let runs: Vec<ComparedRun> = environments.iter().map(RunEnvironment::summarize).collect();
    if let Some(empty) = runs.iter().find(|run| run.trials == 0) {
        let message = format!("all trials of the run {} were inconclusive", empty.run);
        return Err(Diagnostic::usage(message).with_hint("leave it out"));
    }
    let failed = |run: &ComparedRun| run.failures > 0;
    let sides: Vec<_> = environments
        .iter()
        .map(RunEnvironment::facts)
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

/// A stored run, and the environment of its trials.
struct RunEnvironment {
    state: State,
    host: Host,
    survey: Survey,
}

impl RunEnvironment {
    fn read(name: &str) -> Result<Self, Diagnostic> {
        let folder = RunFolder::find_run(name, &default_root())?;
        let state = read_state(&folder)?;
        let (host, survey) = state.trial_environment();
        Ok(Self {
            state,
            host,
            survey,
        })
    }

    fn facts(&self) -> RunFacts<'_> {
        RunFacts {
            plan: &self.state.trials,
            host: &self.host,
            survey: &self.survey,
        }
    }

    fn summarize(&self) -> ComparedRun {
        let Self {
            state,
            host,
            survey,
        } = self;
        let (failures, trials) = state.all_tallies().fold((0, 0), |(k, n), (_, tally)| {
            (k + tally.failures, n + tally.counted_trials())
        });
        ComparedRun {
            run: state.origin.run.clone(),
            failures,
            trials,
            answer: (!questions::of(state).only_measures()).then(|| RunListing::new(state).result),
            host: host.name.clone(),
            cpu: host.cpu.clone(),
            kernel: host.kernel.clone(),
            surveyed: !survey.0.is_empty(),
        }
    }
}
