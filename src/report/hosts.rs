//! The trials on each host.

use crate::model::Host;
use crate::state::State;
use provoke_stats::clopper_pearson;
use schemars::JsonSchema;
use serde::Serialize;

/// A host on which trials ran, if they did not run on this machine.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct HostReport {
    /// Its name in the settings.
    pub name: String,
    /// The machine.
    pub machine: Host,
    /// Counted trials of all variants.
    pub trials: u64,
    /// Those that showed the bug.
    pub failures: u64,
    /// The interval of the failure rate on this host; null without a trial.
    pub interval: Option<[f64; 2]>,
    /// Attempts that were lost with the host; they ran again on another one.
    pub lost_attempts: u64,
    /// Why the host was lost; null if it was not.
    pub lost: Option<String>,
}

/// Returns the hosts in the order of the settings. A host that joined again after an interruption is one host.
pub(super) fn host_reports(state: &State) -> Vec<HostReport> {
    let mut reports: Vec<HostReport> = Vec::new();
    for host in state.hosts.all() {
        let name = &host.joined.destination;
        let index = reports.iter().position(|report| report.name == *name);
        let index = index.unwrap_or_else(|| {
            reports.push(HostReport {
                name: name.clone(),
                machine: host.joined.machine.clone(),
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
    let alpha = state.plan.alpha.to_probability();
    for report in &mut reports {
        let interval = clopper_pearson(report.failures, report.trials, alpha);
        report.interval = (report.trials > 0).then_some([interval.lo, interval.hi]);
    }
    reports
}
