//! The randomization of addresses.

use super::simple::{LEVER, SEARCH, parse_choice};
use super::{Lever, LeverSearch};
use provoke_sys::start_step::StartStep;

pub(super) static ASLR: Lever = Lever {
    name: "aslr",
    about: "`off` turns off the randomization of addresses",
    parse: |typed| parse_choice(typed, &["off"]),
    apply: |_, start| {
        start.steps.push(StartStep::FixAddresses);
        Ok(())
    },
    way_out: "a container must allow the call `personality`; in Docker: --security-opt seccomp=unconfined",
    instead_in_containers: Some("set it in the command: setarch -R COMMAND"),
    search: Some(LeverSearch {
        family: "addresses",
        values: &["off"],
        cause: "addresses: it depends on the random addresses of its memory",
        ..SEARCH
    }),
    ..LEVER
};
