//! `--rlimit`: limits of every process, as `ulimit` sets them.

use super::amount::typed_amount;
use super::simple::LEVER;
use super::{Lever, LeverHelp, ValueShape, parse_bytes};
use provoke_model::{Resource, ResourceLimit, TrialConditions};
use std::collections::BTreeMap;

/// Names of the resources.
static NAMES: [&str; Resource::ALL.len()] = {
    let mut names = [""; Resource::ALL.len()];
    let mut index = 0;
    while index < names.len() {
        names[index] = Resource::ALL[index].1;
        index += 1;
    }
    names
};

/// Limits of every process of a trial. They are stored as `as=4294967296,nofile=64`, sorted by their names.
pub(super) static RESOURCE_LIMITS: Lever = Lever {
    name: "rlimit",
    about: "limits of every process, as `ulimit` sets them",
    flag: Some(LeverHelp {
        value: "NAME=N",
        text: "Limit a resource of every process: as=4G, nofile=64

core=4G also turns on the capture of cores.",
        heading: "Command and environment",
    }),
    shape: ValueShape::Table(&NAMES),
    parse: |typed| {
        let mut limits = BTreeMap::new();
        for limit in typed.split(',') {
            let (name, amount) = limit.split_once('=').ok_or("write NAME=N, such as as=4G")?;
            if !NAMES.contains(&name) {
                return Err(format!(
                    "`{name}` is not one of the limits {}",
                    NAMES.join(", ")
                ));
            }
            let amount = parse_bytes(amount)?;
            limits.insert(name, describe_amount(amount));
        }
        Ok(join_limits(&limits))
    },
    combine: |value, later| {
        let mut limits = split_limits(value);
        limits.extend(split_limits(later));
        join_limits(&limits)
    },
    typed: |value| {
        let mut limits = split_limits(value);
        for amount in limits.values_mut() {
            *amount = typed_amount(amount);
        }
        join_limits(&limits)
    },
    fact_name: Some("limits"),
    fact_title: Some("resource limits"),
    prepare: |_, _, _| Ok(()),
    apply: |value, start| {
        start.limits.extend(read_limits(value));
        Ok(())
    },
    ..LEVER
};

/// Returns the limits of every process.
pub fn resource_limits(conditions: &TrialConditions) -> Vec<ResourceLimit> {
    let value = conditions.get(RESOURCE_LIMITS.name);
    value.into_iter().flat_map(read_limits).collect()
}

/// Returns the limit for cores in a stored value, if there is one; it may be unlimited.
pub fn core_limit(conditions: &TrialConditions) -> Option<Option<u64>> {
    let limits = resource_limits(conditions).into_iter();
    let mut core = limits.filter(|limit| limit.resource == Resource::Core);
    core.next().map(|limit| limit.value)
}

/// Returns the conditions without the limit for cores, which belongs to their capture.
pub fn without_core(mut conditions: TrialConditions) -> TrialConditions {
    let name = RESOURCE_LIMITS.name;
    if let Some(value) = conditions.remove(name) {
        let mut limits = split_limits(&value);
        limits.remove("core");
        if !limits.is_empty() {
            conditions.set(name, join_limits(&limits));
        }
    }
    conditions
}

fn describe_amount(amount: Option<u64>) -> String {
    amount.map_or("unlimited".to_owned(), |amount| amount.to_string())
}

fn read_limits(value: &str) -> impl Iterator<Item = ResourceLimit> {
    split_limits(value)
        .into_iter()
        .filter_map(|(name, amount)| {
            let (resource, _) = Resource::ALL.iter().find(|(_, known)| *known == name)?;
            Some(ResourceLimit {
                resource: *resource,
                value: parse_bytes(&amount).ok()?,
            })
        })
}

fn split_limits(value: &str) -> BTreeMap<&str, String> {
    let limits = value.split(',').filter_map(|limit| limit.split_once('='));
    limits
        .map(|(name, amount)| (name, amount.to_owned()))
        .collect()
}

fn join_limits(limits: &BTreeMap<&str, String>) -> String {
    let limits = limits
        .iter()
        .map(|(name, amount)| format!("{name}={amount}"));
    limits.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_named_as_in_setrlimit() {
        for (resource, name) in Resource::ALL {
            let stored = RESOURCE_LIMITS.parse(&format!("{name}=7")).unwrap();
            let limits: Vec<ResourceLimit> = read_limits(&stored).collect();
            let value = Some(7);
            assert_eq!(limits, [ResourceLimit { resource, value }]);
        }
        for wrong in ["AS=1", "mem=1", "=1", "as", "as=x", ""] {
            assert!(RESOURCE_LIMITS.parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_later_limit_replaces_that_of_the_same_resource() {
        let earlier = RESOURCE_LIMITS.parse("nofile=64,as=4G").unwrap();
        assert_eq!(earlier, "as=4294967296,nofile=64");
        let later = RESOURCE_LIMITS.parse("nofile=unlimited,cpu=5").unwrap();
        let combined = (RESOURCE_LIMITS.combine)(&earlier, &later);
        assert_eq!(combined, "as=4294967296,cpu=5,nofile=unlimited");
    }

    #[test]
    fn the_limit_for_cores_is_taken_out() {
        let mut conditions = TrialConditions::default();
        conditions.set("rlimit", "as=1,core=unlimited".to_owned());
        assert_eq!(core_limit(&conditions), Some(None));
        let other = without_core(conditions);
        assert_eq!(other.get("rlimit"), Some("as=1"));
        assert_eq!(core_limit(&other), None);
    }
}
