//! Settings of the evidence that a run keeps.

use super::parse_name;
use clap::Args;
use provoke_model::{CaptureMode, CoreSize, KeepRule};
use serde::{Deserialize, Serialize};

/// Which evidence is taken and kept.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case", default)]
#[command(next_help_heading = "Results")]
pub struct EvidenceSettings {
    /// Keep the output of failing trials, of all trials, or none [default: fail]
    #[arg(
        long, value_name = "fail|all|none", value_parser = parse_name::<KeepRule>(["fail", "all", "none"]),
        hide_possible_values = true, hide_short_help = true,
    )]
    pub keep: Option<KeepRule>,
    /// Keep all evidence of N trials per crash signature [default: 5]
    #[arg(long, value_name = "N", hide_short_help = true)]
    pub keep_per_sig: Option<u64>,
    /// When to dump cores [default: auto]
    ///
    /// `auto` dumps them in a few extra trials after the measurement, `on` in every trial, `off` never;
    /// `trace` follows every process with a tracer.
    #[arg(
        long, value_name = "auto|off|on|trace", value_parser = parse_name::<CaptureMode>(["auto", "off", "on", "trace"]),
        hide_possible_values = true, hide_short_help = true,
    )]
    pub capture: Option<CaptureMode>,
    /// Core contents: `light` omits the memory of huge processes [default: full]
    #[arg(
        long, value_name = "full|light", value_parser = parse_name::<CoreSize>(["full", "light"]),
        hide_possible_values = true, hide_short_help = true,
    )]
    pub cores: Option<CoreSize>,
}
