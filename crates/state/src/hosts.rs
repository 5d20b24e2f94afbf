//! The hosts on which trials run, and the trials on each.

use super::State;
use provoke_model::{HostId, HostPlan, JoinedHost, Outcome, SlotId, Trial, VariantId};
use std::collections::BTreeMap;

/// The hosts of a run; none if all slots are on this machine.
#[derive(Debug, Default)]
pub struct Hosts {
    all: Vec<HostState>,
    /// The variants of attempts that ended with the loss of their host.
    losses: Vec<VariantId>,
    /// Hosts that could not start, with the reasons, since the last interruption.
    missing: Vec<(String, String)>,
    /// The host of each slot: the one that joined last.
    of_slot: BTreeMap<SlotId, HostId>,
}

/// A host, and its trials.
#[derive(Debug)]
pub struct HostState {
    /// The host.
    pub joined: JoinedHost,
    /// Why it was lost.
    pub lost: Option<String>,
    /// Whether it belongs to the time before an interruption.
    left: bool,
    /// Trials that were launched here, by variant.
    launched: BTreeMap<VariantId, u64>,
    /// Counted trials, by variant.
    pub counts: BTreeMap<VariantId, HostCounts>,
    /// Attempts that were lost with the host.
    pub lost_trials: u64,
}

/// Counted trials of one variant on one host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostCounts {
    /// Trials that showed the bug.
    pub failures: u64,
    /// Trials that passed, or failed otherwise.
    pub other: u64,
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a run has fewer than 2^53 trials"
)]
fn to_f64(count: u64) -> f64 {
    count as f64
}

impl HostCounts {
    /// Returns the number of trials.
    pub fn trials(self) -> u64 {
        self.failures + self.other
    }
}

impl State {
    /// Returns the number of hosts that may still join.
    pub fn awaited_hosts(&self) -> usize {
        let planned = self.trials.hosts.as_ref().map_or(0, HostPlan::count);
        (planned as usize).saturating_sub(self.hosts.arrived())
    }
}

impl Hosts {
    /// Returns the number of hosts that joined.
    pub fn count(&self) -> u32 {
        u32::try_from(self.all.len()).unwrap_or(u32::MAX)
    }

    /// Returns the hosts in the order in which they joined.
    pub fn all(&self) -> &[HostState] {
        &self.all
    }

    /// Returns the hosts that run trials now.
    pub fn up(&self) -> impl Iterator<Item = &HostState> {
        let hosts = self.all.iter();
        hosts.filter(|host| host.lost.is_none() && !host.left)
    }

    /// Returns the hosts that could not start, with the reasons.
    pub fn missing(&self) -> &[(String, String)] {
        &self.missing
    }

    /// Returns the number of hosts that joined or could not start since the last interruption.
    fn arrived(&self) -> usize {
        let joined = self.all.iter().filter(|host| !host.left);
        joined.count() + self.missing.len()
    }

    /// Returns the variants of the attempts that ended with the loss of their host.
    pub fn losses(&self) -> &[VariantId] {
        &self.losses
    }

    /// Returns the number of attempts of a variant on all hosts.
    pub fn attempts_of(&self, variant: VariantId) -> u64 {
        let launched = self
            .all
            .iter()
            .filter_map(|host| host.launched.get(&variant));
        launched.sum()
    }

    /// Returns the host of a slot, unless the slot is on this machine.
    pub fn of_slot(&self, slot: SlotId) -> Option<HostId> {
        self.of_slot.get(&slot).copied()
    }

    /// Returns a host.
    pub fn get(&self, id: HostId) -> Option<&HostState> {
        self.all.get(id.0 as usize)
    }

    /// Returns a function that tells how many more trials of a variant a host runs than its part of all trials on the hosts
    /// that run trials now. If every host runs every variant equally often, that is 0.
    pub fn excess_of(&self, variant: VariantId) -> impl Fn(&HostState) -> f64 + use<> {
        let all = |host: &HostState| host.launched.values().sum::<u64>();
        let of_variant = move |host: &HostState| host.launched.get(&variant).copied().unwrap_or(0);
        let total: u64 = self.up().map(all).sum();
        let total_of_variant: u64 = self.up().map(of_variant).sum();
        move |host| {
            let part = to_f64(all(host)) / to_f64(total.max(1));
            to_f64(of_variant(host)) - to_f64(total_of_variant) * part
        }
    }

    pub(super) fn join(&mut self, joined: &JoinedHost) {
        let id = HostId(self.count());
        self.of_slot.extend(joined.slots().map(|slot| (slot, id)));
        self.all.push(HostState {
            joined: joined.clone(),
            lost: None,
            left: false,
            launched: BTreeMap::new(),
            counts: BTreeMap::new(),
            lost_trials: 0,
        });
    }

    /// Ends the time of all hosts: after an interruption, hosts join again.
    pub(super) fn leave(&mut self) {
        self.of_slot.clear();
        self.missing.clear();
        for host in &mut self.all {
            host.left = true;
        }
    }

    pub(super) fn miss(&mut self, name: &str, reason: &str) {
        self.missing.push((name.to_owned(), reason.to_owned()));
    }

    pub(super) fn lose(&mut self, id: HostId, reason: &str) {
        if let Some(host) = self.all.get_mut(id.0 as usize) {
            host.lost = Some(reason.to_owned());
        }
    }

    pub(super) fn add_launched(&mut self, trial: &Trial) {
        if let Some(host) = self.host_mut(self.of_slot(trial.slot)) {
            *host.launched.entry(trial.variant).or_default() += 1;
        }
    }

    /// Counts an attempt that was lost.
    pub(super) fn add_lost(&mut self, trial: &Trial) {
        let id = self.of_slot(trial.slot);
        if let Some(host) = self.host_mut(id) {
            host.lost_trials += 1;
            let is_host_lost = host.lost.is_some();
            self.losses.extend(is_host_lost.then_some(trial.variant));
        }
    }

    /// Counts a trial that ran on a host.
    pub(super) fn add_counted(&mut self, host: Option<HostId>, trial: &Trial, outcome: &Outcome) {
        let Some(host) = self.host_mut(host) else {
            return;
        };
        let counts = host.counts.entry(trial.variant).or_default();
        match outcome {
            Outcome::Fail(_) => counts.failures += 1,
            Outcome::Pass | Outcome::Other(_) => counts.other += 1,
            Outcome::Inconclusive(_) => {}
        }
    }

    fn host_mut(&mut self, id: Option<HostId>) -> Option<&mut HostState> {
        self.all.get_mut(id?.0 as usize)
    }
}
