//! Settings of the trials: their number, how many run in parallel, and their seeds.

use clap::Args;
use serde::{Deserialize, Serialize};
use std::num::NonZeroU32;

/// How often the command runs.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case", default)]
#[command(next_help_heading = "Trials")]
pub struct TrialSettings {
    /// Run this many trials of each variant [default: 100]
    ///
    /// Without a limit, a plain run ends after 100 trials or 10 minutes, whichever comes first.
    /// --max-fail and --width end a run, too. A search runs at most this many trials in all.
    #[arg(
        short = 'n', long, value_name = "N", short_alias = 'r',
        aliases = ["count", "times", "iterations", "repeat", "repeats", "loops"],
    )]
    pub runs: Option<u64>,
    /// Run this many trials in parallel [default: 1]
    ///
    /// Parallel trials share the machine, which changes their timing.
    #[arg(short, long, value_name = "N", aliases = ["parallel", "workers"])]
    pub jobs: Option<NonZeroU32>,
    /// Start this many copies of the command in each trial
    ///
    /// The copies belong to one trial: they add load or contention to the experiment.
    #[arg(long, value_name = "N", hide_short_help = true)]
    pub copies: Option<NonZeroU32>,
    /// Start N trials together, and the next N when all of them have ended
    #[arg(long, value_name = "N", hide_short_help = true)]
    pub wave: Option<NonZeroU32>,
    /// Run N trials first and do not count them
    #[arg(short, long, value_name = "N", hide_short_help = true)]
    pub warmup: Option<u64>,
    /// Hold threads in each trial as this hunt found; its trials are the baseline
    ///
    /// Instructions are found again in another build by the symbol of their function. A trial in which no thread reaches
    /// the point is inconclusive.
    #[arg(long, value_name = "RUN", hide_short_help = true)]
    pub held: Option<String>,
    /// Derive the seeds of all trials from this number [default: random]
    ///
    /// The number is reported in either case. A search chooses its next trial by the results so far, so with -j it may run other
    /// trials each time, depending on which trials end first.
    #[arg(long, value_name = "N", hide_short_help = true)]
    pub seed: Option<u64>,
}
