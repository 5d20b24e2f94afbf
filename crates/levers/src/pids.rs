//! `--pids`: a limit of the processes of a trial.

use super::simple::LEVER;
use super::total_limit::TotalLimit;
use super::{Lever, LeverHelp, ValueShape};
use provoke_sys::cgroup::SlotGroup;
use std::io;
use std::num::NonZeroU64;

const LIMIT: TotalLimit = TotalLimit {
    resource: "processes",
    controller: "pids",
    other_limit: "limit the processes of the user: --rlimit nproc=N",
};

/// A limit of the processes and threads that a trial has at once.
pub(super) static PIDS: Lever = Lever {
    name: "pids",
    about: "a limit of processes and threads",
    flag: Some(LeverHelp {
        value: "N",
        text: "Limit the processes and threads that a trial has at once

Above the limit, the kernel refuses to start another one.",
        heading: "Command and environment",
    }),
    shape: ValueShape::Count,
    parse: |typed| {
        let count = typed.parse::<NonZeroU64>();
        count
            .map(|count| count.to_string())
            .map_err(|_| format!("`{typed}` is not a number above 0"))
    },
    fact_title: Some("limit of processes and threads"),
    container_option: Some("pids-limit"),
    prepare: |_, value, trials| LIMIT.check(value, trials, SlotGroup::can_limit_processes),
    apply: |value, start| {
        start.total_limits.processes = Some(value.parse().map_err(io::Error::other)?);
        Ok(())
    },
    ..LEVER
};
