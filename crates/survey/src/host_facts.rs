//! Finds the ways in which recorded facts divide the hosts of a run. Facts that divide them in the same way are one
//! division, because no trial can tell them apart.

use super::difference::{RunFacts, collect_facts};
use super::distinguishing::{DistinguishingFact, FactValues, distinguishing_facts_of, flags_apart};
use super::ranking::FactGroup;
use std::collections::BTreeSet;

/// The name of a host is not the reason for a failure.
const NAME: &str = "host.name";

/// The recorded facts of hosts.
pub struct HostFacts(Vec<FactValues>);

impl HostFacts {
    /// Collects the facts of each host.
    pub fn of_hosts(hosts: &[RunFacts<'_>]) -> Self {
        let surveyed = hosts.iter().all(|host| !host.survey.0.is_empty());
        let facts_of = |host: &RunFacts<'_>| {
            let mut facts = flags_apart(collect_facts(*host, surveyed));
            facts.retain(|(group, name), _| *group != FactGroup::Trifle && name != NAME);
            facts
        };
        Self(hosts.iter().map(facts_of).collect())
    }

    /// Returns each way in which a fact divides the hosts into those that have a value and the others. The first host is
    /// always one of the others.
    pub fn divisions(&self) -> Vec<Vec<bool>> {
        let names: BTreeSet<_> = self.0.iter().flat_map(|facts| facts.keys()).collect();
        let divisions: BTreeSet<Vec<bool>> = names
            .into_iter()
            .flat_map(|key| {
                let values: Vec<_> = self.0.iter().map(|facts| facts.get(key)).collect();
                let distinct: BTreeSet<_> = values.iter().copied().collect();
                let division = |value| -> Vec<bool> {
                    let first = values[0] == value;
                    values
                        .iter()
                        .map(|other| (*other == value) != first)
                        .collect()
                };
                distinct.into_iter().map(division).collect::<Vec<_>>()
            })
            .filter(|division| division.contains(&true))
            .collect();
        divisions.into_iter().collect()
    }

    /// Returns the facts that divide the hosts like this, the most suspicious first.
    pub fn facts_of_division(&self, is_failing: &[bool]) -> Vec<DistinguishingFact> {
        let hosts = self.0.iter().cloned().zip(is_failing.iter().copied());
        distinguishing_facts_of(&hosts.collect::<Vec<_>>())
    }
}
