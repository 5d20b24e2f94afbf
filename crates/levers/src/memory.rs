//! `--memory`: a limit of the memory of a trial.

use super::amount::typed_amount;
use super::simple::SEARCH;
use super::total_limit::TotalLimit;
use super::{Lever, LeverHelp, LeverSearch, TrialStart, ValueShape, parse_bytes};
use provoke_model::TrialsPlan;
use provoke_sys::cgroup::SlotGroup;
use provoke_words::diagnostic::Diagnostic;
use std::io;

/// Minimum limit: the slot, which is in the same cgroup, needs some of it.
const MIN_MEMORY: u64 = 8 << 20;

const LIMIT: TotalLimit = TotalLimit {
    resource: "memory",
    controller: "memory",
    other_limit: "limit the address space of each process: --rlimit as=SIZE",
};

/// A limit of the memory of all processes of a trial together. It is stored in bytes.
pub(super) struct Memory;

impl Lever for Memory {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn about(&self) -> &'static str {
        "a limit of the memory of all processes together"
    }

    fn flag(&self) -> Option<LeverHelp> {
        Some(LeverHelp {
            value: "SIZE",
            text: "Limit the memory of all processes of a trial together: 500M, 2G

Above the limit, the kernel kills one of them (outcome `oom`).",
            heading: "Command and environment",
        })
    }

    fn shape(&self) -> ValueShape {
        ValueShape::Amount
    }

    fn parse(&self, typed: &str) -> Result<String, String> {
        match parse_bytes(typed) {
            Ok(Some(bytes)) if bytes < MIN_MEMORY => {
                Err("a trial needs at least 8M of memory".to_owned())
            }
            Ok(Some(bytes)) => Ok(bytes.to_string()),
            _ => Err(format!("`{typed}` is not a size such as `500M` or `2G`")),
        }
    }

    fn typed(&self, value: &str) -> String {
        typed_amount(value)
    }

    fn fact_title(&self) -> &'static str {
        "memory limit"
    }

    fn fact(&self, value: &str) -> String {
        format!("{value} bytes")
    }

    fn container_option(&self) -> Option<&'static str> {
        Some("memory")
    }

    fn search(&self) -> Option<LeverSearch> {
        Some(LeverSearch {
            family: "memory",
            values: &["256M"],
            ladder: &["4G", "2G", "1G", "512M", "256M", "128M", "64M"],
            cause: "memory: it needs more memory than the limit",
            cause_if_removed: Some("memory: it fails if it has more memory than the limit"),
            is_harsh: true,
            ..SEARCH
        })
    }

    fn prepare(&self, value: &str, trials: &mut TrialsPlan) -> Result<(), Diagnostic> {
        LIMIT.check(value, trials, SlotGroup::can_limit_memory)
    }

    fn apply(&self, value: &str, start: &mut TrialStart) -> io::Result<()> {
        start.total_limits.memory = Some(value.parse().map_err(io::Error::other)?);
        Ok(())
    }
}
