//! `diff`: what differs between the surroundings of two runs.

use super::error::CliError;
use super::exit::Exit;
use crate::policy;
use crate::state::State;
use crate::store::{self, Folder, default_root};
use crate::survey::{Compared, Difference, Group, Run, Side, differences};
use crate::term;
use clap::Args;

/// Show what differs between the surroundings of two runs, the most suspicious first
///
/// Compares the builds of the program and of its libraries, the packages of its language, the
/// environment, limits, kernel settings and machines. It ends with 0 when nothing differs that
/// may matter, and with 1 otherwise.
#[derive(Args)]
pub(super) struct Diff {
    /// A run: its folder, its name or the beginning or end of it, or `last`
    #[arg(value_name = "RUN")]
    left: String,
    /// Another one
    #[arg(value_name = "RUN")]
    right: String,
    /// Show everything: long lists, what hardly matters, and values that may be secrets
    #[arg(long)]
    all: bool,
    /// Print JSON: the two runs and every difference
    #[arg(long)]
    json: bool,
}

impl Diff {
    pub(super) fn execute(self) -> Result<Exit, CliError> {
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
        surveyed: !state.survey.0.is_empty(),
    }
}
