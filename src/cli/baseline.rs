//! What was measured before: `3/30`, or a run.

use super::error::CliError;
use crate::policy::{Policy as _, Repeat};
use crate::store::{self, Folder, default_root};

/// Failures among trials, and how long a trial took.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Baseline {
    pub(super) failures: u64,
    pub(super) trials: u64,
    /// Seconds that half of the passing trials did not exceed.
    pub(super) seconds: Option<f64>,
}

impl Baseline {
    /// Reads `K/N`, or finds the run of this name.
    pub(super) fn read(text: &str) -> Result<Self, CliError> {
        let counts = text
            .split_once('/')
            .and_then(|(k, n)| Some((k.parse().ok()?, n.parse().ok()?)));
        if let Some((failures, trials)) = counts {
            if failures > trials || trials == 0 {
                let error =
                    anyhow::anyhow!("`{text}` is not a number of failures by a number of trials");
                return Err(
                    CliError::usage(error).hinted("write it as 3/30: 3 failures in 30 trials")
                );
            }
            return Ok(Self {
                failures,
                trials,
                seconds: None,
            });
        }
        let folder = Folder::find(text, &default_root())?;
        let state = store::read(&folder.journal(), |state| Repeat.is_done(state), |_, _| {})?;
        let (failures, trials) = state.tallies().fold((0, 0), |(k, n), (_, tally)| {
            (k + tally.failures, n + tally.trials())
        });
        let times = state
            .tallies()
            .find_map(|(_, tally)| tally.pass_times.quantile(0.5));
        Ok(Self {
            failures,
            trials,
            seconds: times.map(|time| time.as_secs_f64()),
        })
    }
}
