//! Settings that decide whether a trial passes or fails.

use super::OnlyRules;
use super::parse_name;
use crate::{Codes, DurationValue, Expectation, Pattern, RateValue};
use clap::Args;
use provoke_model::LeakRule;
use serde::{Deserialize, Serialize};

/// Which trials pass, and what result is expected.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case", default)]
#[command(next_help_heading = "Pass or fail")]
pub struct JudgeSettings {
    /// Exit codes that pass, such as 0,2 [default: 0]
    ///
    /// A list of codes and ranges: 0,2,10-19
    #[arg(short = 'i', long, value_name = "CODES", hide_short_help = true)]
    pub ok: Option<Codes>,
    /// Exit codes to discard: these trials are inconclusive [default: 125]
    #[arg(long, value_name = "CODES", hide_short_help = true)]
    pub skip: Option<Codes>,
    /// Fail the trial if a line of its output matches
    #[arg(long, value_name = "REGEX")]
    pub fail_if_out: Vec<Pattern>,
    /// Pass the trial despite its exit code if a line of its output matches
    #[arg(long, value_name = "REGEX", hide_short_help = true)]
    pub ok_if_out: Vec<Pattern>,
    #[command(flatten)]
    #[cfg_attr(test, schemars(description = OnlyRules::HELP))]
    pub only: OnlyRules,
    /// How to treat processes still running after a trial [default: fail]
    #[arg(
        long, value_name = "off|report|fail", value_parser = parse_name::<LeakRule>(["off", "report", "fail"]),
        hide_possible_values = true, hide_short_help = true,
    )]
    pub leaks: Option<LeakRule>,
    /// Pass a trial although a child process crashed, if the main process passed
    #[arg(long, hide_short_help = true)]
    pub ignore_child_crashes: Option<bool>,
    /// Wait this long for descendants of the main process before they count as leaked [default: 2s]
    #[arg(long, value_name = "TIME", hide_short_help = true)]
    pub leak_grace: Option<DurationValue>,
    /// Exit with 0 if no trial fails (`pass`), if any fails (`fail`), or however many fail (`any`)
    #[arg(
        long, value_name = "pass|fail|any", value_parser = parse_name::<Expectation>(["pass", "fail", "any"]),
        hide_possible_values = true, hide_short_help = true,
    )]
    pub expect: Option<Expectation>,
    /// Allow a failure rate of up to P, such as 2%
    ///
    /// Exit with 0 if the failure rate is at most P, with 1 if it is higher, and with 3 if the trials
    /// cannot decide.
    #[arg(long, value_name = "P")]
    pub max_rate: Option<RateValue>,
}
