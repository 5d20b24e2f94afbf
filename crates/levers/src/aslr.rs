//! The randomization of addresses.

use super::LeverSearch;
use super::simple::{SEARCH, SimpleLever, no_obstacle, parse_choice};
use provoke_sys::start_step::StartStep;

pub(super) static ASLR: SimpleLever = SimpleLever {
    name: "aslr",
    about: "`off` turns off the randomization of addresses",
    parse: |typed| parse_choice(typed, &["off"]),
    apply: |_, start| {
        start.steps.push(StartStep::FixAddresses);
        Ok(())
    },
    obstacle: no_obstacle,
    way_out: "a container must allow the call `personality`; in Docker: --security-opt seccomp=unconfined",
    in_containers: "set it in the command: setarch -R COMMAND",
    search: LeverSearch {
        family: "addresses",
        values: &["off"],
        cause: "addresses: it depends on the random addresses of its memory",
        ..SEARCH
    },
};
