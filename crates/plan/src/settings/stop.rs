//! Settings that end a trial or the run.

use crate::{Confidence, DurationValue, RateValue, TimeoutValue};
use clap::Args;
use serde::{Deserialize, Serialize};

/// When a trial and the run end.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case", default)]
#[command(next_help_heading = "When to stop")]
pub struct StopSettings {
    /// Treat a trial as hung after TIME [default: auto]
    ///
    /// A time such as 60s or 2m, or `auto`: 20 times the slowest passing trial and at least 10 s; until five
    /// trials have passed at least 1 minute, and until the first has passed 5 minutes. A trial in which a
    /// deadlock stops every thread ends earlier.
    #[arg(short, long, value_name = "TIME")]
    pub timeout: Option<TimeoutValue>,
    /// Wait this long between SIGTERM and SIGKILL for a hung trial [default: 5s]
    #[arg(long, value_name = "TIME", hide_short_help = true)]
    pub grace: Option<DurationValue>,
    /// Stop after this long, such as 30s, 10m or 8h
    ///
    /// Limits the time of all trials together. Trials that are running may finish; a service under
    /// load is stopped. A plain run without -n stops after 10 minutes.
    #[arg(short, long, value_name = "TIME")]
    pub duration: Option<DurationValue>,
    /// Stop at the first failure
    #[arg(short = 'x', long)]
    pub fail_fast: Option<bool>,
    /// Stop after K failures
    ///
    /// Three failures make a good baseline for `provoke confirm`.
    #[arg(long, value_name = "K", hide_short_help = true)]
    pub max_fail: Option<u64>,
    /// Stop when the confidence interval is narrower than W, such as 0.1 or 10%
    #[arg(long, value_name = "W", hide_short_help = true)]
    pub width: Option<RateValue>,
    /// Confidence of every interval and answer, in percent [default: 95]
    #[arg(long, value_name = "PERCENT", hide_short_help = true)]
    pub conf: Option<Confidence>,
    /// Stop if the first trials all fail in the same way; cannot be set in a file.
    #[arg(skip)]
    #[serde(skip)]
    pub if_alike: bool,
}
