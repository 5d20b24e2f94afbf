//! Limits of every process that programs often depend on: stack, open files and address space.

use super::amount::parse_bytes;
use super::simple::{LEVER, SEARCH, parse_integer, stored_number};
use super::{Lever, LeverSearch, TrialStart};
use provoke_model::{Resource, ResourceLimit};
use std::io;

const HARD_LIMIT: &str = "`ulimit -Ha` shows the hard limits, which only root can raise";
const IN_CONTAINERS: &str = "limit it in the container: --container ulimit=NAME=N";

fn limit(start: &mut TrialStart, resource: Resource, value: &str) -> io::Result<()> {
    let value = Some(stored_number(value)?);
    start.limits.push(ResourceLimit { resource, value });
    Ok(())
}

fn parse_size(typed: &str) -> Result<String, String> {
    match parse_bytes(typed)? {
        Some(bytes) => Ok(bytes.to_string()),
        None => Err("write a size such as `256K` or `1G`".to_owned()),
    }
}

pub(super) static STACK: Lever = Lever {
    name: "stack",
    about: "a limit of the stack of every process: `256K`",
    parse: parse_size,
    apply: |bytes, start| limit(start, Resource::Stack, bytes),
    way_out: HARD_LIMIT,
    instead_in_containers: Some(IN_CONTAINERS),
    search: Some(LeverSearch {
        values: &["256K"],
        ladder: &["8M", "4M", "2M", "1M", "512K", "256K"],
        cause: "stack: it needs more stack than the limit",
        cause_if_removed: Some("stack: it fails with more stack than the limit"),
        is_harsh: true,
        ..SEARCH
    }),
    ..LEVER
};

pub(super) static OPEN_FILES: Lever = Lever {
    name: "fds",
    about: "a limit of the file descriptors of every process: `40`",
    parse: |typed| parse_integer(typed, 3, u32::MAX),
    apply: |count, start| limit(start, Resource::Nofile, count),
    way_out: HARD_LIMIT,
    instead_in_containers: Some(IN_CONTAINERS),
    search: Some(LeverSearch {
        family: "file descriptors",
        values: &["40"],
        ladder: &["640", "320", "160", "80", "60", "40", "20"],
        cause: "file descriptors: it opens more files than the limit",
        cause_if_removed: Some("file descriptors: it fails with more files than the limit"),
        is_harsh: true,
        ..SEARCH
    }),
    ..LEVER
};

pub(super) static ADDRESS_SPACE: Lever = Lever {
    name: "address-space",
    about: "a limit of the address space of every process: `1G`",
    parse: parse_size,
    apply: |bytes, start| limit(start, Resource::As, bytes),
    way_out: HARD_LIMIT,
    instead_in_containers: Some("limit the memory of the container: --container memory=1g"),
    search: Some(LeverSearch {
        family: "memory",
        values: &["1G"],
        ladder: &["8G", "4G", "2G", "1G", "512M", "256M"],
        cause: "memory: it reserves more address space than the limit",
        cause_if_removed: Some("memory: it fails with more address space than the limit"),
        is_harsh: true,
        ..SEARCH
    }),
    ..LEVER
};
