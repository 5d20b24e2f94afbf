//! `diff`: shows the differences between two runs, or the facts that distinguish several.

use super::error::CliError;
use super::exit::Exit;
use crate::policy;
use crate::report;
use crate::state::State;
use crate::store::{self, RunFolder, default_root};
use crate::survey::{
    ComparedRun, FactDifference, FactGroup, RunComparison, RunFacts, RunsWithDistinguishingFacts,
    find_differences, find_distinguishing_facts,
};
use crate::term;
use clap::Args;

/// Show how the failure rates and the environments of runs differ
///
/// The most suspicious difference comes first. Fisher's exact test tells whether the failure rates may
/// differ by chance, if the runs were made under the same conditions.
///
/// Compares the builds of the program and of its libraries, the packages of its language, environment
/// variables, limits, kernel settings and machines. For three runs or more, for example from several
/// machines, it shows which facts distinguish failing runs from passing ones. Exits with 0 if there are
/// no relevant differences, and with 1 otherwise.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct DiffArgs {
    /// A run: its directory, its name, the start or end of the name, or `last`
    #[arg(value_name = "RUN")]
    left: String,
    /// The run to compare it with
    #[arg(value_name = "RUN")]
    right: String,
    /// More runs
    #[arg(value_name = "RUN")]
    more: Vec<String>,
    /// Show long lists, minor differences, and values that may be secrets
    #[arg(long)]
    all: bool,
    /// Print the runs and every difference as JSON
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  Compare the last run with an earlier one:
    provoke diff 20261122-035210-ecbc last
  Compare runs from several machines, copied to one directory:
    provoke diff runs/host1 runs/host2 runs/host3";

impl DiffArgs {
    pub(super) fn execute_command(self) -> Result<Exit, CliError> {
        if !self.more.is_empty() {
            return self.compare_many();
        }
        let (left, right) = (read_state(&self.left)?, read_state(&self.right)?);
        let found = find_differences(side_of_state(&left), side_of_state(&right)).into_iter();
        let found: Vec<FactDifference> = found
            .map(|one| if self.all { one } else { one.hide_secrets() })
            .collect();
        let matters = found.iter().any(|one| one.group != FactGroup::Trifle);
        let chance = report::chance_of_difference(&left, &right);
        let compared = RunComparison {
            format: RunComparison::FORMAT,
            left: run_of_state(&left),
            right: run_of_state(&right),
            p_value: chance.as_ref().ok().copied(),
            not_comparable: chance.err(),
            differences: found,
        };
        let printed = if self.json {
            term::print_result(&compared.to_json())
        } else {
            term::print_page(&term::format_differences(&compared, self.all))
        };
        printed.map_err(CliError::could_not)?;
        Ok(if matters { Exit::OtherWay } else { Exit::Hoped })
    }
}

impl DiffArgs {
    /// Compares failing with passing runs.
    fn compare_many(self) -> Result<Exit, CliError> {
        let names = [self.left, self.right].into_iter().chain(self.more);
        let states = names
            .map(|name| read_state(&name))
            .collect::<Result<Vec<State>, _>>()?;
        let runs: Vec<ComparedRun> = states.iter().map(run_of_state).collect();
        if let Some(empty) = runs.iter().find(|run| run.trials == 0) {
            let error = anyhow::anyhow!("all trials of the run {} were inconclusive", empty.run);
            return Err(CliError::usage(error).with_hint("leave it out"));
        }
        let failed = |run: &ComparedRun| run.failures > 0;
        let sides: Vec<_> = states
            .iter()
            .map(side_of_state)
            .zip(runs.iter().map(failed))
            .collect();
        let failing = runs.iter().filter(|run| failed(run)).count() as u64;
        let others = runs.len() as u64 - failing;
        let parted = RunsWithDistinguishingFacts {
            format: RunComparison::FORMAT,
            by: if failing > 0 && others > 0 {
                find_distinguishing_facts(&sides)
            } else {
                Vec::new()
            },
            chance: report::distinguishing::chance_of_coincidence(failing, others),
            runs,
        };
        let text = if self.json {
            parted.to_json()
        } else {
            term::format_distinguishing_facts(&parted)
        };
        term::print_result(&text).map_err(CliError::could_not)?;
        Ok(if parted.by.is_empty() {
            Exit::Hoped
        } else {
            Exit::OtherWay
        })
    }
}

fn read_state(name: &str) -> Result<State, CliError> {
    let folder = RunFolder::find_run(name, &default_root())?;
    Ok(store::read_run(
        &folder.journal_path(),
        policy::is_done,
        |_, _| {},
    )?)
}

fn side_of_state(state: &State) -> RunFacts<'_> {
    RunFacts {
        plan: &state.plan,
        host: &state.host,
        survey: &state.survey,
    }
}

fn run_of_state(state: &State) -> ComparedRun {
    let (failures, trials) = state.all_tallies().fold((0, 0), |(k, n), (_, tally)| {
        (k + tally.failures, n + tally.counted_trials())
    });
    ComparedRun {
        run: state.run.clone(),
        failures,
        trials,
        host: state.host.name.clone(),
        cpu: state.host.cpu.clone(),
        kernel: state.host.kernel.clone(),
        surveyed: !state.survey.0.is_empty(),
    }
}
