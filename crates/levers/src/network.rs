//! Conditions of the network and of the hostname, in namespaces of a trial.

use super::simple::{LEVER, Obstacle, SEARCH, parse_choice, service_obstacle};
use super::{Lever, LeverSearch, TrialStart, try_start};
use provoke_model::TrialsPlan;
use provoke_sys::start_step::{OwnNetwork, StartStep};

const NAMESPACES: &str = "run provoke as root, or allow user namespaces; in Docker: --privileged";
/// Bytes of the longest hostname.
const LONGEST_HOSTNAME: usize = 64;

pub(super) static NETWORK: Lever = Lever {
    name: "net",
    about: "the network: `own` has only the loopback interface, `slow` delays its packets by 100 ms, `none` has not even that; `host` is the usual one",
    parse: |typed| parse_choice(typed, &["none", "own", "slow", "host"]),
    apply: |value, start| {
        start.steps.push(match value {
            "none" => StartStep::EnterNetwork(OwnNetwork::Down),
            "own" => StartStep::EnterNetwork(OwnNetwork::Loopback),
            "slow" => StartStep::EnterNetwork(OwnNetwork::SlowLoopback),
            _ => StartStep::EnterNamespaces,
        });
        Ok(())
    },
    obstacle: network_obstacle,
    way_out: NAMESPACES,
    instead_in_containers: Some("use the network of the engine: --container network=none"),
    search: Some(LeverSearch {
        family: "network",
        values: &["own", "none", "slow"],
        sham: Some("host"),
        ladder: &["host", "own", "none"],
        cause: "network: it needs other machines, a loopback interface, or packets without delay",
        cause_if_removed: Some("network: other machines or their delay change its result"),
        is_harsh: true,
        ..SEARCH
    }),
    ..LEVER
};

/// Returns why a network has no effect on the trials of a plan, or why the kernel cannot make it slow.
fn network_obstacle(value: &str, trials: &TrialsPlan) -> Option<Obstacle> {
    let can_enter = |network| {
        let steps = vec![StartStep::EnterNetwork(network)];
        let start = TrialStart {
            steps,
            ..TrialStart::default()
        };
        try_start(&start).is_ok()
    };
    let lacks_delay =
        value == "slow" && can_enter(OwnNetwork::Loopback) && !can_enter(OwnNetwork::SlowLoopback);
    service_obstacle(value, trials).or_else(|| {
        lacks_delay.then(|| Obstacle {
            reason: "the kernel has no netem, which delays packets".to_owned(),
            way_out: "load the kernel module `sch_netem`",
        })
    })
}

pub(super) static IPV6: Lever = Lever {
    name: "ipv6",
    about: "`off` is a network with only a loopback interface without IPv6; `on` is the same with IPv6",
    parse: |typed| parse_choice(typed, &["off", "on"]),
    apply: |value, start| {
        let network = match value {
            "off" => OwnNetwork::LoopbackWithoutIpv6,
            _ => OwnNetwork::Loopback,
        };
        start.steps.push(StartStep::EnterNetwork(network));
        Ok(())
    },
    obstacle: service_obstacle,
    way_out: NAMESPACES,
    instead_in_containers: Some(
        "turn it off in the container: --container sysctl=net.ipv6.conf.all.disable_ipv6=1",
    ),
    search: Some(LeverSearch {
        family: "IPv6",
        values: &["off"],
        sham: Some("on"),
        cause: "IPv6: it needs addresses of IPv6",
        cause_if_removed: Some("IPv6: it fails where the machine has addresses of IPv6"),
        ..SEARCH
    }),
    ..LEVER
};

pub(super) static HOSTNAME: Lever = Lever {
    name: "hostname",
    about: "the hostname, in a namespace of its own",
    parse: |typed| {
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-._".contains(letter);
        if typed.is_empty() || typed.len() > LONGEST_HOSTNAME || !typed.chars().all(is_plain) {
            return Err(format!("`{typed}` is not a hostname such as `build-7`"));
        }
        Ok(typed.to_owned())
    },
    apply: |name, start| {
        start.steps.push(StartStep::SetHostname(name.to_owned()));
        Ok(())
    },
    way_out: NAMESPACES,
    instead_in_containers: Some("set it in the container: --container hostname=NAME"),
    search: Some(LeverSearch {
        values: &["unknown-host-7"],
        cause: "hostname: it resolves or compares the name of the machine",
        ..SEARCH
    }),
    ..LEVER
};
