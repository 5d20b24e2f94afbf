//! `--memory`: a limit of the memory of a trial.

use super::amount::typed_amount;
use super::simple::{LEVER, SEARCH};
use super::total_limit::TotalLimit;
use super::{Lever, LeverHelp, LeverSearch, ValueShape, parse_bytes};
use provoke_sys::cgroup::SlotGroup;
use std::io;

/// Minimum limit: the slot, which is in the same cgroup, needs some of it.
const MIN_MEMORY: u64 = 8 << 20;

const LIMIT: TotalLimit = TotalLimit {
    resource: "memory",
    controller: "memory",
    other_limit: "limit the address space of each process: --rlimit as=SIZE",
};

/// A limit of the memory of all processes of a trial together. It is stored in bytes.
pub(super) static MEMORY: Lever = Lever {
    name: "memory",
    about: "a limit of the memory of all processes together",
    flag: Some(LeverHelp {
        value: "SIZE",
        text: "Limit the memory of all processes of a trial together: 500M, 2G

Above the limit, the kernel kills one of them (outcome `oom`).",
        heading: "Command and environment",
    }),
    shape: ValueShape::Amount,
    parse: |typed| match parse_bytes(typed) {
        Ok(Some(bytes)) if bytes < MIN_MEMORY => {
            Err("a trial needs at least 8M of memory".to_owned())
        }
        Ok(Some(bytes)) => Ok(bytes.to_string()),
        _ => Err(format!("`{typed}` is not a size such as `500M` or `2G`")),
    },
    typed: |value| typed_amount(value),
    fact_title: Some("memory limit"),
    fact: |value| format!("{value} bytes"),
    container_option: Some("memory"),
    search: Some(LeverSearch {
        family: "memory",
        values: &["256M"],
        ladder: &["4G", "2G", "1G", "512M", "256M", "128M", "64M"],
        cause: "memory: it needs more memory than the limit",
        cause_if_removed: Some("memory: it fails if it has more memory than the limit"),
        is_harsh: true,
        ..SEARCH
    }),
    prepare: |_, value, trials| LIMIT.check(value, trials, SlotGroup::can_limit_memory),
    apply: |value, start| {
        start.total_limits.memory = Some(value.parse().map_err(io::Error::other)?);
        Ok(())
    },
    ..LEVER
};
