//! The environment of trials: that of this machine, or of the hosts on which they ran.

use super::State;
use provoke_model::{Host, Survey};
use std::collections::{BTreeMap, BTreeSet};

/// Fact whose value is a list of words, of which hosts share some.
const FLAGS: &str = "cpu.flags";
/// Value of a fact that a host does not have.
const ABSENT: &str = "absent";

impl State {
    /// Returns the machine on which the trials ran, and further facts of its environment. Of several machines, a fact has all
    /// values that differ, a number is the smallest, and the processor has the flags that all have.
    pub fn trial_environment(&self) -> (Host, Survey) {
        let mut by_name = BTreeMap::new();
        for host in self.hosts.all() {
            if host.counts.values().any(|counts| counts.trials() > 0) {
                let joined = &host.joined;
                by_name.insert(&*joined.destination, (&joined.machine, &joined.survey));
            }
        }
        let counts = self
            .hosts
            .all()
            .iter()
            .flat_map(|host| host.counts.values());
        let on_hosts: u64 = counts.map(|counts| counts.trials()).sum();
        let counted: u64 = self
            .all_tallies()
            .map(|(_, tally)| tally.counted_trials())
            .sum();
        let mut machines: Vec<(&Host, &Survey)> = by_name.into_values().collect();
        if machines.is_empty() || on_hosts < counted {
            machines.push((&self.origin.host, &self.origin.survey));
        }
        merge(&machines)
    }
}

fn merge(machines: &[(&Host, &Survey)]) -> (Host, Survey) {
    let text = |get: fn(&Host) -> &str| join_distinct(machines.iter().map(|(host, _)| get(host)));
    let cpus = machines.iter().map(|(host, _)| host.cpus).min();
    let memory = machines.iter().map(|(host, _)| host.memory).min();
    let host = Host {
        name: text(|host| &host.name),
        kernel: text(|host| &host.kernel),
        arch: text(|host| &host.arch),
        cpu: text(|host| &host.cpu),
        cpus: cpus.unwrap_or_default(),
        memory: memory.unwrap_or_default(),
    };
    let names: BTreeSet<&String> = machines
        .iter()
        .flat_map(|(_, survey)| survey.0.keys())
        .collect();
    let mut survey = Survey::default();
    for name in names {
        let values = machines.iter().map(|(_, survey)| survey.get_fact(name));
        survey.set_fact(
            name.clone(),
            if name == FLAGS {
                common_words(values.map(Option::unwrap_or_default))
            } else {
                join_distinct(values.map(|value| value.unwrap_or(ABSENT)))
            },
        );
    }
    (host, survey)
}

/// Joins the distinct texts.
fn join_distinct<'a>(texts: impl Iterator<Item = &'a str>) -> String {
    let distinct: BTreeSet<&str> = texts.collect();
    distinct.into_iter().collect::<Vec<_>>().join(" or ")
}

/// Returns the words that all texts have, in the order of the first.
fn common_words<'a>(mut texts: impl Iterator<Item = &'a str>) -> String {
    let first = texts.next().unwrap_or_default();
    let others: Vec<BTreeSet<&str>> = texts.map(|text| text.split(' ').collect()).collect();
    let words = first.split(' ');
    let common = words.filter(|word| others.iter().all(|other| other.contains(word)));
    common.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_of_several_machines_are_merged() {
        let machine = |name: &str, flags: &str, cpus: u32| {
            let host = Host {
                name: name.to_owned(),
                kernel: "Linux 6".to_owned(),
                cpus,
                ..Host::default()
            };
            let mut survey = Survey::default();
            survey.set_fact(FLAGS, flags);
            survey.set_fact("library.libc.so.6", "2.36");
            survey.set_fact(format!("only.{name}"), "yes");
            (host, survey)
        };
        let machines = [
            machine("n1", "sse2 avx2 bmi2", 8),
            machine("n2", "sse2 bmi2", 4),
        ];
        let borrowed: Vec<_> = machines
            .iter()
            .map(|(host, survey)| (host, survey))
            .collect();
        let (host, survey) = merge(&borrowed);
        assert_eq!(
            (&*host.name, &*host.kernel, host.cpus),
            ("n1 or n2", "Linux 6", 4)
        );
        let facts: Vec<(&str, &str)> = survey
            .0
            .iter()
            .map(|(name, value)| (&**name, &**value))
            .collect();
        assert_eq!(
            facts,
            [
                (FLAGS, "sse2 bmi2"),
                ("library.libc.so.6", "2.36"),
                ("only.n1", "absent or yes"),
                ("only.n2", "absent or yes"),
            ]
        );
        assert_eq!(merge(&borrowed[..1]), machines[0]);
    }
}
