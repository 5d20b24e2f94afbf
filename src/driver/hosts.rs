//! Records which hosts join the run and which are lost.

use super::LoopState;
use crate::exec::HostChange;
use crate::model::{Event, SlotId, StopCause, VariantId};
use crate::state::HostState;
use tokio::sync::mpsc::UnboundedReceiver;

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
                self.free.extend(joined.lanes());
                self.emit_event(&Event::HostJoined { joined, at: time });
            }
            HostChange::Lost { host, reason } => {
                self.emit_event(&Event::HostLost {
                    host,
                    why: reason,
                    at: time,
                });
                let hosts = &self.driver.state.hosts;
                let lost_lanes = hosts.all().get(host.0 as usize);
                let lost_lanes: Vec<SlotId> =
                    lost_lanes.map_or_else(Vec::new, |host| host.joined.lanes().collect());
                self.free.retain(|lane| !lost_lanes.contains(lane));
            }
        }
    }

    /// Returns whether a slot can run further trials.
    pub(super) fn is_lane_up(&self, lane: SlotId) -> bool {
        let hosts = &self.driver.state.hosts;
        let Some(host) = hosts.of_lane(lane) else {
            return true;
        };
        let host = hosts.all().get(host.0 as usize);
        host.is_none_or(|host| host.lost.is_none())
    }

    /// Returns the free slot for the next trial of a variant. On hosts, it is one of the host that has run the variant least,
    /// so that a difference between hosts is not one between variants; `None` if the trial must wait for this host.
    pub(super) fn best_lane(&self, variant: VariantId) -> Option<SlotId> {
        let state = &*self.driver.state;
        let Some(plan) = &state.plan.hosts else {
            // The lowest free slot, because `{slot}` is below the number of parallel trials.
            return self.free.iter().copied().min();
        };
        let excess = |host: &HostState| state.hosts.excess_of(host, variant);
        let free_lanes = self.free.iter().filter_map(|lane| {
            let host = state.hosts.get(state.hosts.of_lane(*lane)?)?;
            Some((excess(host), self.running_at(host), *lane))
        });
        let (least_excess, _, lane) =
            free_lanes.min_by(|(a, a_running, a_lane), (b, b_running, b_lane)| {
                a.total_cmp(b)
                    .then((a_running, a_lane).cmp(&(b_running, b_lane)))
            })?;
        // A busier host may have run the variant less often. Only then is it worth waiting for.
        let several = state.plan.variants.len() > 1;
        let tolerance = f64::from(plan.slots);
        let waits =
            |host: &HostState| self.running_at(host) > 0 && excess(host) + tolerance < least_excess;
        (!several || !state.hosts.up().any(waits)).then_some(lane)
    }

    /// Returns the number of trials that run on a host.
    fn running_at(&self, host: &HostState) -> usize {
        let lanes = host.joined.first_lane.0..host.joined.first_lane.0 + host.joined.slots;
        let running = self.under_way.values();
        running
            .filter(|running| lanes.contains(&running.trial.lane.0))
            .count()
    }

    /// Returns the cause of a stop if every host was lost.
    pub(super) fn all_hosts_lost(&self) -> Option<StopCause> {
        let hosts = &self.driver.state.hosts;
        let is_needed = self.driver.state.plan.hosts.is_some() && !self.driver.state.decided;
        (is_needed && hosts.up().next().is_none()).then_some(StopCause::HostsLost)
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
