//! The trials on each host, and what distinguishes the hosts on which it fails more often.

use super::{HostLosses, Report};
use provoke_model::Host;
use provoke_questions::StopRule;
use provoke_state::State;
use provoke_stats::{
    HostTrials, holm, hosts_needed, property_p_value, real, smallest_property_p_value,
};
use provoke_survey::{DistinguishingFact, HostFacts, RunFacts, fact_lines};
use provoke_words as words;
use provoke_words::document::{Cell, Column, Place, RateMark, Table};
use serde::Serialize;

/// Facts of one kind that are named.
const FACTS: usize = 4;

/// A host on which trials ran, if they did not run on this machine.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct HostReport {
    /// Its name in the settings, or that of the node.
    pub name: String,
    /// The machine; null if the host could not start.
    pub machine: Option<Host>,
    /// Counted trials of all variants.
    pub trials: u64,
    /// Those that showed the bug.
    pub failures: u64,
    /// The interval of the failure rate on this host; null without a trial.
    pub interval: Option<[f64; 2]>,
    /// Attempts that were lost with the host; they ran again on another one.
    pub lost_attempts: u64,
    /// Why the host was lost, or could not start; null otherwise.
    pub lost: Option<String>,
}

/// The hosts on which it fails more often than on the others, and the facts that distinguish them.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct HostDifference {
    /// The facts that these hosts have and the others do not have.
    pub facts: Vec<DistinguishingFact>,
    /// The trials on these hosts.
    pub failing: HostTotals,
    /// The trials on the others.
    pub others: HostTotals,
    /// The probability of such a difference if the facts have no effect: a permutation test of the hosts, corrected for
    /// all divisions of the hosts by facts (Holm).
    pub p_value: f64,
    /// The difference is significant up to this probability.
    #[serde(skip)]
    pub alpha: f64,
    /// The smallest probability that so many hosts can show, with the same correction.
    pub smallest_p_value: f64,
    /// The number of hosts that can show a significant difference, if half of them have the facts; null if no number can.
    pub hosts_needed: Option<u64>,
}

impl HostDifference {
    /// Describes the facts, the trials on both sides, and what they prove.
    fn text_lines(&self) -> Vec<String> {
        let Self {
            failing, others, ..
        } = self;
        let verb = if others.failures == 0 {
            "It failed only"
        } else {
            "It failed more often"
        };
        let mut lines = vec![format!("{verb} on hosts where:")];
        for line in fact_lines(&self.facts, FACTS) {
            let note = line
                .note
                .map_or_else(String::new, |note| format!(" ({note})"));
            lines.push(format!("  {}{note}", line.text));
        }
        let p_value = words::p_value(self.p_value);
        let counts = format!(
            "{}, {} without these facts",
            failing.in_words(),
            others.in_words()
        );
        let hosts = failing.hosts + others.hosts;
        lines.push(if self.p_value <= self.alpha {
            format!("{counts}: {p_value}, significant")
        } else if self.smallest_p_value > self.alpha {
            let needed = self.hosts_needed.map_or_else(String::new, |needed| {
                format!("Use at least {needed} hosts, half of them with these facts, or change")
            });
            let needed = if needed.is_empty() { "Change" } else { &needed };
            format!(
                "{counts}: {p_value}, not significant; {hosts} hosts cannot show less than {}. {needed} the facts on one host",
                words::p_value(self.smallest_p_value),
            )
        } else {
            format!("{counts}: {p_value}, not significant: it may be chance")
        });
        lines
    }
}

/// The trials on several hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct HostTotals {
    /// Number of hosts.
    pub hosts: u64,
    /// Failing trials.
    pub failures: u64,
    /// Counted trials.
    pub trials: u64,
}

impl HostTotals {
    fn of_hosts<'a>(hosts: impl Iterator<Item = &'a HostReport>) -> Self {
        let empty = Self {
            hosts: 0,
            failures: 0,
            trials: 0,
        };
        hosts.fold(empty, |totals, host| Self {
            hosts: totals.hosts + 1,
            failures: totals.failures + host.failures,
            trials: totals.trials + host.trials,
        })
    }

    fn in_words(self) -> String {
        let hosts = words::format_count(self.hosts, "host");
        format!("{} of {} failed on {hosts}", self.failures, self.trials)
    }

    fn rate(self) -> f64 {
        real(self.failures) / real(self.trials.max(1))
    }
}

/// Returns the division of the hosts with the clearest difference, if all trials are of one variant, some failed, and any fact
/// divides the hosts. A difference that may be chance is only returned if one side never failed.
pub(super) fn host_difference(state: &State, reports: &[HostReport]) -> Option<HostDifference> {
    // Hosts that ran different variants differ for that reason.
    let tested = state
        .all_tallies()
        .filter(|(_, tally)| tally.counted_trials() > 0);
    if tested.count() != 1 {
        return None;
    }
    // A host without trials shows nothing.
    let reports: Vec<&HostReport> = reports.iter().filter(|host| host.trials > 0).collect();
    let joined = state.hosts.all().iter().map(|host| &host.joined);
    let latest = |name: &str| joined.clone().rfind(|joined| joined.destination == name);
    let facts: Option<Vec<RunFacts<'_>>> = reports
        .iter()
        .map(|report| {
            let joined = latest(&report.name)?;
            Some(RunFacts {
                plan: &state.trials,
                host: &joined.machine,
                survey: &joined.survey,
            })
        })
        .collect();
    let facts = HostFacts::of_hosts(&facts?);
    let divisions = facts.divisions();
    let p_values: Vec<f64> = divisions
        .iter()
        .map(|division| {
            let hosts = reports.iter().zip(division).map(|(host, has)| HostTrials {
                failures: host.failures,
                trials: host.trials,
                has_property: *has,
            });
            property_p_value(&hosts.collect::<Vec<_>>())
        })
        .collect();
    let corrected = holm(&p_values);
    let compared = divisions.into_iter().zip(corrected).map(|(division, p)| {
        let side = |with: bool| {
            let hosts = reports.iter().zip(&division);
            HostTotals::of_hosts(
                hosts
                    .filter(|(_, has)| **has == with)
                    .map(|(host, _)| *host),
            )
        };
        let (with, without) = (side(true), side(false));
        (division, p, with, without)
    });
    let divisions_tested = real(compared.len() as u64);
    let clearest = compared.min_by(|(_, p, a, b), (_, other_p, c, d)| {
        let difference = |a: &HostTotals, b: &HostTotals| (a.rate() - b.rate()).abs();
        p.total_cmp(other_p)
            .then(difference(c, d).total_cmp(&difference(a, b)))
    });
    let (division, p_value, with, without) = clearest?;
    let is_failing: Vec<bool> = division
        .iter()
        .map(|has| *has == (with.rate() > without.rate()))
        .collect();
    let (failing, others) = if with.rate() > without.rate() {
        (with, without)
    } else {
        (without, with)
    };
    let alpha = state.goal.alpha.to_probability();
    let is_clear = p_value <= alpha || others.failures == 0;
    let smallest = smallest_property_p_value(failing.hosts + others.hosts, failing.hosts);
    (failing.failures > 0 && is_clear).then(|| HostDifference {
        facts: facts.facts_of_division(&is_failing),
        failing,
        others,
        p_value,
        alpha,
        smallest_p_value: (smallest * divisions_tested).min(1.0),
        hosts_needed: hosts_needed(alpha / divisions_tested),
    })
}

/// Returns the hosts in the order in which they joined. A host that joined again after an interruption is one host.
pub(super) fn host_reports(state: &State) -> Vec<HostReport> {
    let mut reports: Vec<HostReport> = Vec::new();
    for host in state.hosts.all() {
        let name = &host.joined.destination;
        let index = reports.iter().position(|report| report.name == *name);
        let index = index.unwrap_or_else(|| {
            reports.push(HostReport {
                name: name.clone(),
                machine: Some(host.joined.machine.clone()),
                trials: 0,
                failures: 0,
                interval: None,
                lost_attempts: 0,
                lost: None,
            });
            reports.len() - 1
        });
        let report = &mut reports[index];
        report.trials += host
            .counts
            .values()
            .map(|counts| counts.trials())
            .sum::<u64>();
        report.failures += host
            .counts
            .values()
            .map(|counts| counts.failures)
            .sum::<u64>();
        report.lost_attempts += host.lost_trials;
        report.lost.clone_from(&host.lost);
    }
    for (name, reason) in state.hosts.missing() {
        reports.push(HostReport {
            name: name.clone(),
            machine: None,
            trials: 0,
            failures: 0,
            interval: None,
            lost_attempts: 0,
            lost: Some(reason.clone()),
        });
    }
    let alpha = state.goal.alpha.to_probability();
    for report in &mut reports {
        let interval = StopRule::PlannedN.interval(report.failures, report.trials, alpha);
        report.interval = (report.trials > 0).then_some(interval.ends());
    }
    reports
}

/// Describes what distinguishes the hosts on which it fails, and the variants with which hosts were lost.
pub fn host_lines(report: &Report) -> Vec<String> {
    let difference = report.host_difference.iter();
    let differences = difference.flat_map(HostDifference::text_lines);
    let losses = report.host_losses.iter().map(HostLosses::text);
    differences.chain(losses).collect()
}

/// Maximum length of the name of a host in a table.
const NAME: usize = 32;

/// Returns a table of the hosts.
pub fn host_table(report: &Report) -> Table {
    let columns = vec![
        Column::words("host"),
        Column::numbers("trials"),
        Column::numbers("failed"),
        Column::numbers(format!("{} %", report.confidence)),
        Column::rates(),
        Column::remarks(""),
    ];
    let rows = report.hosts.iter().map(|host| {
        let rate = host
            .interval
            .map(|interval| RateMark::of_share(host.failures, host.trials, interval));
        vec![
            Cell::text(words::shorten_text(&host.name, NAME)),
            Cell::text(host.trials.to_string()),
            Cell::text(host.failures.to_string()),
            Cell::text(
                host.interval
                    .map_or_else(String::new, words::format_interval),
            ),
            rate.map_or(Cell::Empty, Cell::Rate),
            Cell::text(describe_loss(host).unwrap_or_default()),
        ]
    });
    Table::new("Failure rate on each host", Place::Screen, columns).with_rows(rows)
}

/// Returns why a host ran no further trials.
fn describe_loss(host: &HostReport) -> Option<String> {
    let reason = host.lost.as_ref()?;
    let attempts = match host.lost_attempts {
        0 => String::new(),
        count => format!(" with {}", words::format_count(count, "attempt")),
    };
    let verb = match host.machine {
        Some(_) => "lost",
        None => "did not start",
    };
    Some(format!("{verb}{attempts}: {reason}"))
}
