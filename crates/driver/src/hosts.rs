//! Records which hosts join the run and which are lost.

use super::LoopState;
use provoke_exec::{HostChange, StopUrgency};
use provoke_model::{Event, SlotId, StopCause, VariantId};
use provoke_state::HostState;
use std::time::Duration;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::Instant;

/// Time after the grace periods in which a host must end its trials if a signal stops the run.
const END_WITHIN: Duration = Duration::from_secs(10);

impl LoopState<'_, '_> {
    /// Records all changes that are known.
    pub(super) fn note_host_changes(&mut self) {
        while let Some(changes) = &mut self.host_changes
            && let Ok(change) = changes.try_recv()
        {
            self.note_host_change(change);
        }
    }

    /// Records a change. The slots of a host are free from its start on; those of a lost host are not used again.
    pub(super) fn note_host_change(&mut self, change: HostChange) {
        let time = self.working_time();
        match change {
            HostChange::Joined(joined) => {
                tracing::info!(target: "host", slots = joined.slots, "joined the run");
                self.free.extend(joined.slots());
                self.emit_event(&Event::HostJoined { joined, at: time });
            }
            HostChange::Missing { name, reason } => self.emit_event(&Event::HostMissing {
                name,
                why: reason,
                at: time,
            }),
            HostChange::Warning(text) => self.emit_warning(text),
            HostChange::Lost { host, reason } => {
                tracing::warn!(target: "host", id = host.0, "lost");
                self.emit_event(&Event::HostLost {
                    host,
                    why: reason,
                    at: time,
                });
                let hosts = &self.driver.state.hosts;
                let lost_slots = hosts.all().get(host.0 as usize);
                let lost_slots: Vec<SlotId> =
                    lost_slots.map_or_else(Vec::new, |host| host.joined.slots().collect());
                self.free.retain(|slot| !lost_slots.contains(slot));
            }
        }
    }

    /// Returns whether a slot can run further trials.
    pub(super) fn is_slot_up(&self, slot: SlotId) -> bool {
        let hosts = &self.driver.state.hosts;
        let Some(host) = hosts.of_slot(slot) else {
            return true;
        };
        let host = hosts.all().get(host.0 as usize);
        host.is_none_or(|host| host.lost.is_none())
    }

    /// Returns the free slot for the next trial of a variant. On hosts, it is one of the host that has run the variant least,
    /// so that a difference between hosts is not one between variants; `None` if the trial must wait for this host.
    pub(super) fn best_slot(&self, variant: VariantId) -> Option<SlotId> {
        let state = &*self.driver.state;
        let Some(plan) = &state.trials.hosts else {
            // The lowest free slot, because `{slot}` is below the number of parallel trials.
            return self.free.iter().copied().min();
        };
        let several = state.trials.variants.len() > 1;
        let excess_of = several.then(|| state.hosts.excess_of(variant));
        let excess = |host: &HostState| excess_of.as_ref().map_or(0.0, |excess_of| excess_of(host));
        let free_slots = self.free.iter().filter_map(|slot| {
            let host = state.hosts.get(state.hosts.of_slot(*slot)?)?;
            Some((excess(host), self.running_at(host), *slot))
        });
        let (least_excess, _, slot) =
            free_slots.min_by(|(a, a_running, a_slot), (b, b_running, b_slot)| {
                a.total_cmp(b)
                    .then((a_running, a_slot).cmp(&(b_running, b_slot)))
            })?;
        // A busier host may have run the variant less often. Only then is it worth waiting for.
        let at_once = u32::try_from(self.at_once).unwrap_or(u32::MAX);
        let tolerance = f64::from(plan.slots) * f64::from(at_once);
        let waits =
            |host: &HostState| self.running_at(host) > 0 && excess(host) + tolerance < least_excess;
        (!several || !state.hosts.up().any(waits)).then_some(slot)
    }

    /// Returns the number of busy slots of a host.
    fn running_at(&self, host: &HostState) -> usize {
        let first = host.joined.first_slot;
        let end = SlotId(first.0.saturating_add(host.joined.slots));
        self.under_way.range(first..end).count()
    }

    /// Returns the cause of a stop if every host was lost, and no other can join.
    pub(super) fn all_hosts_lost(&self) -> Option<StopCause> {
        let state = &*self.driver.state;
        let is_needed = state.trials.hosts.is_some() && !state.stage.is_decided();
        let is_any = state.hosts.up().next().is_some() || state.awaited_hosts() > 0;
        (is_needed && !is_any).then_some(StopCause::HostsLost)
    }

    /// Returns when trials on hosts are killed that have not ended after a signal: a host may not respond. A `conclude` hook
    /// may take longer.
    pub(super) fn time_to_kill_on_hosts(&self) -> Option<Instant> {
        let trials = &self.driver.state.trials;
        let variants = trials.variants.iter().map(|variant| &variant.hooks);
        let mut hooks = variants.chain([&trials.hooks]);
        if trials.hosts.is_none() || hooks.any(|hooks| hooks.conclude.is_some()) {
            return None;
        }
        let limits = [trials.settings.grace, trials.settings.leak_grace];
        let limit = limits
            .into_iter()
            .fold(END_WITHIN, Duration::saturating_add);
        Instant::now().checked_add(limit)
    }

    /// Returns whether no host is left for further trials, but some may still join.
    pub(super) fn waits_for_hosts(&self) -> bool {
        let state = &*self.driver.state;
        let is_over = state.stage.is_decided()
            || state.stage.is_budget_spent()
            || self.halt != StopUrgency::No;
        !is_over && state.hosts.up().next().is_none() && state.awaited_hosts() > 0
    }
}

/// Waits for the next change of the hosts.
pub(super) async fn next_change(
    changes: &mut Option<UnboundedReceiver<HostChange>>,
) -> Option<HostChange> {
    match changes {
        Some(changes) => changes.recv().await,
        None => std::future::pending().await,
    }
}
