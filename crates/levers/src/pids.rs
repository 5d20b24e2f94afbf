//! `--pids`: a limit of the processes of a trial.

use super::total_limit::TotalLimit;
use super::{Lever, LeverHelp, TrialStart, ValueShape};
use provoke_model::TrialsPlan;
use provoke_sys::cgroup::SlotGroup;
use provoke_words::diagnostic::Diagnostic;
use std::io;
use std::num::NonZeroU64;

const LIMIT: TotalLimit = TotalLimit {
    resource: "processes",
    controller: "pids",
    other_limit: "limit the processes of the user: --rlimit nproc=N",
};

/// A limit of the processes and threads that a trial has at once.
pub(super) struct Pids;

impl Lever for Pids {
    fn name(&self) -> &'static str {
        "pids"
    }

    fn about(&self) -> &'static str {
        "a limit of processes and threads"
    }

    fn flag(&self) -> Option<LeverHelp> {
        Some(LeverHelp {
            value: "N",
            text: "Limit the processes and threads that a trial has at once

Above the limit, the kernel refuses to start another one.",
            heading: "Command and environment",
        })
    }

    fn shape(&self) -> ValueShape {
        ValueShape::Count
    }

    fn parse(&self, typed: &str) -> Result<String, String> {
        let count = typed.parse::<NonZeroU64>();
        count
            .map(|count| count.to_string())
            .map_err(|_| format!("`{typed}` is not a number above 0"))
    }

    fn fact_title(&self) -> &'static str {
        "limit of processes and threads"
    }

    fn container_option(&self) -> Option<&'static str> {
        Some("pids-limit")
    }

    fn prepare(&self, value: &str, trials: &mut TrialsPlan) -> Result<(), Diagnostic> {
        LIMIT.check(value, trials, SlotGroup::can_limit_processes)
    }

    fn apply(&self, value: &str, start: &mut TrialStart) -> io::Result<()> {
        start.total_limits.processes = Some(value.parse().map_err(io::Error::other)?);
        Ok(())
    }
}
