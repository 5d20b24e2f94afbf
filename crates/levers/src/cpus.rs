//! The number of CPUs.

use super::simple::{LEVER, SEARCH, parse_integer, stored_number};
use super::{Lever, LeverSearch};
use provoke_sys::start_step::StartStep;

/// The greatest number of CPUs in a set of the C library.
const MAX_CPUS: u32 = 1024;

pub(super) static CPUS: Lever = Lever {
    name: "cpus",
    about: "the number of CPUs on which the processes of a trial run: `1`",
    parse: |typed| parse_integer(typed, 1, MAX_CPUS),
    apply: |count, start| {
        start
            .steps
            .push(StartStep::LimitCpus(stored_number(count)?));
        Ok(())
    },
    instead_in_containers: Some("choose the CPUs of the container: --container cpuset-cpus=0"),
    search: Some(LeverSearch {
        family: "CPU",
        values: &["1"],
        cause: "CPUs: its threads or processes depend on running at the same time",
        ..SEARCH
    }),
    ..LEVER
};
