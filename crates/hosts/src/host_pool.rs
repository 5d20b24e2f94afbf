//! Hosts of a run that are ready, and the steps that further hosts do before their first trial.

use super::remote_host::RemoteHost;
use provoke_exec::HostChange;
use provoke_model::{Host, HostId, JoinedHost, Text, VariantId, VariantPlan};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex as Register};
use tokio::sync::mpsc;

/// A step that every host does before its first trial, in the same order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum HostStep {
    /// Add a variant to the plan.
    Learn(VariantId, Box<VariantPlan>),
    /// Prepare a variant.
    Make(VariantId),
    /// Run a hook for a variant, or for all.
    Hook(Option<VariantId>, Text),
}

/// The hosts of a run.
pub(super) struct HostPool {
    /// Hosts with a worker, by their number in the plan.
    hosts: BTreeMap<u32, Arc<RemoteHost>>,
    /// Steps of all hosts; `None` for a step that is no longer needed.
    steps: Vec<Option<HostStep>>,
    names: Vec<String>,
    /// Machines that joined, with their names and running kernels.
    machines: Vec<(String, (Host, String))>,
    next_id: HostId,
    changes: mpsc::UnboundedSender<HostChange>,
}

/// Whether a host has joined the run.
#[derive(Debug, Default)]
pub(super) enum HostStanding {
    /// It does the steps of the others.
    #[default]
    Starting,
    /// It has joined under this number.
    Joined(HostId),
    /// It was lost before it joined, for this reason.
    Lost(String),
}

impl HostPool {
    /// Creates a pool. `first_id` is the number of the first host that joins.
    pub(super) fn new(first_id: HostId, changes: mpsc::UnboundedSender<HostChange>) -> Self {
        Self {
            hosts: BTreeMap::new(),
            steps: Vec::new(),
            names: Vec::new(),
            machines: Vec::new(),
            next_id: first_id,
            changes,
        }
    }

    /// Returns a name that no other host has: a report adds the trials of hosts with the same name.
    pub(super) fn reserve_name(&mut self, name: &str) -> String {
        let numbered = (2..).map(|number| format!("{name} ({number})"));
        let mut names = std::iter::once(name.to_owned()).chain(numbered);
        let name = names.find(|name| !self.names.contains(name));
        let name = name.expect("endless names");
        self.names.push(name.clone());
        name
    }

    /// Returns a host by its number in the plan.
    pub(super) fn get(&self, index: u32) -> Option<&Arc<RemoteHost>> {
        self.hosts.get(&index)
    }

    /// Returns the hosts with a worker.
    pub(super) fn all(&self) -> Vec<Arc<RemoteHost>> {
        self.hosts.values().cloned().collect()
    }

    /// Adds a step, and returns the hosts that do it now. Others do it before they join.
    pub(super) fn add_step(&mut self, step: HostStep) -> Vec<Arc<RemoteHost>> {
        self.steps.push(Some(step));
        self.all()
    }

    /// Removes a step: it failed, or its result was removed.
    pub(super) fn remove_step(&mut self, step: &HostStep) {
        for known in &mut self.steps {
            if known.as_ref() == Some(step) {
                *known = None;
            }
        }
    }

    /// Returns whether hosts still do this step.
    pub(super) fn has_step(&self, step: &HostStep) -> bool {
        self.steps.iter().flatten().any(|known| known == step)
    }

    /// Returns the next step of a host that has done this number of steps, and adds to the number.
    pub(super) fn next_step(&self, done: &mut usize) -> Option<HostStep> {
        let left = self.steps.get(*done..).unwrap_or_default();
        let skipped = left.iter().position(Option::is_some);
        *done += skipped.map_or(left.len(), |skipped| skipped + 1);
        left.get(skipped?)?.clone()
    }

    /// Adds a host that did not join, so that it can be closed.
    pub(super) fn add_without_trials(&mut self, index: u32, host: Arc<RemoteHost>) {
        self.hosts.insert(index, host);
    }

    /// Lets a host join that has done all steps. Reports it before anything else about it. Returns an error with the reason if it
    /// was lost before.
    pub(super) fn join(
        &mut self,
        index: u32,
        host: Arc<RemoteHost>,
        standing: &Register<HostStanding>,
        joined: JoinedHost,
        boot_id: String,
    ) -> Result<(), String> {
        let mut standing = standing.lock().expect("no panic");
        if let HostStanding::Lost(reason) = &*standing {
            return Err(reason.clone());
        }
        *standing = HostStanding::Joined(self.next_id);
        self.next_id = HostId(self.next_id.0 + 1);
        self.hosts.insert(index, host);
        let name = joined.destination.clone();
        let machine = (joined.machine.clone(), boot_id);
        // The receiver is part of the executor.
        let _ = self.changes.send(HostChange::Joined(Box::new(joined)));
        if let Some((other, _)) = self.machines.iter().find(|(_, known)| *known == machine) {
            let text = format!(
                "the hosts `{other}` and `{name}` are the same machine, and their trials share its processors"
            );
            let _ = self.changes.send(HostChange::Warning(text));
        }
        self.machines.push((name, machine));
        Ok(())
    }

    /// Reports that a host cannot start.
    pub(super) fn report_missing(&self, name: String, reason: String) {
        let _ = self.changes.send(HostChange::Missing { name, reason });
    }

    /// Returns a function that reports the loss of a host.
    pub(super) fn loss_reporter(
        &self,
        standing: &Arc<Register<HostStanding>>,
    ) -> impl FnOnce(String) + Send + use<> {
        let (changes, standing) = (self.changes.clone(), Arc::clone(standing));
        move |reason| {
            let mut standing = standing.lock().expect("no panic");
            match *standing {
                // Nobody listens after the end of the run.
                HostStanding::Joined(host) => {
                    let _ = changes.send(HostChange::Lost { host, reason });
                }
                HostStanding::Starting => *standing = HostStanding::Lost(reason),
                HostStanding::Lost(_) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool() -> HostPool {
        HostPool::new(HostId(0), mpsc::unbounded_channel().0)
    }

    #[test]
    fn hosts_with_the_same_name_get_distinct_names() {
        let mut pool = pool();
        let names = ["n1", "n1", "n2", "n1"].map(|name| pool.reserve_name(name));
        assert_eq!(names, ["n1", "n1 (2)", "n2", "n1 (3)"]);
    }

    #[test]
    fn a_late_host_does_all_steps_but_removed_ones_in_order() {
        let mut pool = pool();
        let hook = |command: &str| HostStep::Hook(None, command.into());
        for step in [hook("a"), HostStep::Make(VariantId(1)), hook("b")] {
            pool.add_step(step);
        }
        pool.remove_step(&HostStep::Make(VariantId(1)));
        let mut done = 0;
        assert_eq!(pool.next_step(&mut done), Some(hook("a")));
        assert_eq!(pool.next_step(&mut done), Some(hook("b")));
        assert_eq!(pool.next_step(&mut done), None);
        // A step that was added meanwhile.
        pool.add_step(hook("c"));
        assert_eq!(pool.next_step(&mut done), Some(hook("c")));
        assert_eq!(pool.next_step(&mut done), None);
    }
}
