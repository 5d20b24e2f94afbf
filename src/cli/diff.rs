//! `diff`: what differs between the surroundings of two runs, or parts many.

use super::error::CliError;
use super::exit::Exit;
use crate::policy;
use crate::report;
use crate::state::State;
use crate::store::{self, Folder, default_root};
use crate::survey::{Compared, Difference, Group, Parted, Run, Side, differences, partings};
use crate::term;
use clap::Args;

/// Show what differs between the surroundings of runs, the most suspicious first
///
/// Compares the builds of the program and of its libraries, the packages of its language, the
/// environment, limits, kernel settings and machines. Of three runs or more, from several machines for
/// instance, it shows what parts those that failed from those that did not. It ends with 0 when nothing
/// differs that may matter, and with 1 otherwise.
#[derive(Args)]
pub(super) struct Diff {
    /// A run: its folder, its name or the beginning or end of it, or `last`
    #[arg(value_name = "RUN")]
    left: String,
    /// Another one
    #[arg(value_name = "RUN")]
    right: String,
    /// More of them
    #[arg(value_name = "RUN")]
    more: Vec<String>,
    /// Show everything: long lists, what hardly matters, and values that may be secrets
    #[arg(long)]
    all: bool,
    /// Print JSON: the two runs and every difference
    #[arg(long)]
    json: bool,
}

impl Diff {
    pub(super) fn execute(self) -> Result<Exit, CliError> {
        if !self.more.is_empty() {
            return self.part();
        }
        let (left, right) = (read(&self.left)?, read(&self.right)?);
        let found = differences(side(&left), side(&right)).into_iter();
        let found: Vec<Difference> = found
            .map(|one| if self.all { one } else { one.discreet() })
            .collect();
        let matters = found.iter().any(|one| one.group != Group::Trifle);
        let compared = Compared {
            format: Compared::FORMAT,
            left: about(&left),
            right: about(&right),
            differences: found,
        };
        let text = if self.json {
            compared.json()
        } else {
            term::differences(&compared, self.all)
        };
        term::tell(&text).map_err(CliError::could_not)?;
        Ok(if matters { Exit::OtherWay } else { Exit::Hoped })
    }
}

impl Diff {
    /// Holds those that failed against the others.
    fn part(self) -> Result<Exit, CliError> {
        let names = [self.left, self.right].into_iter().chain(self.more);
        let states = names
            .map(|name| read(&name))
            .collect::<Result<Vec<State>, _>>()?;
        let runs: Vec<Run> = states.iter().map(about).collect();
        if let Some(empty) = runs.iter().find(|run| run.trials == 0) {
            let error =
                anyhow::anyhow!("no trial of the run {} counts: it says neither", empty.run);
            return Err(CliError::usage(error).hinted("leave it out"));
        }
        let failed = |run: &Run| run.failures > 0;
        let sides: Vec<_> = states
            .iter()
            .map(side)
            .zip(runs.iter().map(failed))
            .collect();
        let failing = runs.iter().filter(|run| failed(run)).count() as u64;
        let others = runs.len() as u64 - failing;
        let parted = Parted {
            format: Compared::FORMAT,
            by: if failing > 0 && others > 0 {
                partings(&sides)
            } else {
                Vec::new()
            },
            chance: report::partings::chance(failing, others),
            runs,
        };
        let text = if self.json {
            parted.json()
        } else {
            term::partings(&parted)
        };
        term::tell(&text).map_err(CliError::could_not)?;
        Ok(if parted.by.is_empty() {
            Exit::Hoped
        } else {
            Exit::OtherWay
        })
    }
}

fn read(name: &str) -> Result<State, CliError> {
    let folder = Folder::find(name, &default_root())?;
    Ok(store::read(&folder.journal(), policy::is_done, |_, _| {})?)
}

fn side(state: &State) -> Side<'_> {
    Side {
        plan: &state.plan,
        host: &state.host,
        survey: &state.survey,
    }
}

fn about(state: &State) -> Run {
    let (failures, trials) = state.tallies().fold((0, 0), |(k, n), (_, tally)| {
        (k + tally.failures, n + tally.trials())
    });
    Run {
        run: state.run.clone(),
        failures,
        trials,
        host: state.host.name.clone(),
        cpu: state.host.cpu.clone(),
        kernel: state.host.kernel.clone(),
        surveyed: !state.survey.0.is_empty(),
    }
}
