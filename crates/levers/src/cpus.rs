//! The number of CPUs.

use super::LeverSearch;
use super::simple::{SEARCH, SimpleLever, no_obstacle, parse_integer, stored_number};
use provoke_sys::start_step::StartStep;

/// The greatest number of CPUs in a set of the C library.
const MAX_CPUS: u32 = 1024;

pub(super) static CPUS: SimpleLever = SimpleLever {
    name: "cpus",
    about: "the number of CPUs on which the processes of a trial run: `1`",
    parse: |typed| parse_integer(typed, 1, MAX_CPUS),
    apply: |count, start| {
        start
            .steps
            .push(StartStep::LimitCpus(stored_number(count)?));
        Ok(())
    },
    obstacle: no_obstacle,
    way_out: "leave the condition out",
    in_containers: "choose the CPUs of the container: --container cpuset-cpus=0",
    search: LeverSearch {
        family: "CPU",
        values: &["1"],
        cause: "CPUs: its threads or processes depend on running at the same time",
        ..SEARCH
    },
};
