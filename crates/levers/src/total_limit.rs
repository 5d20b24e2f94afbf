//! Limits of all processes of a trial together.

use provoke_model::{ServiceOwner, TrialsPlan, VariantPlan};
use provoke_sys::cgroup::CgroupObstacle;
use provoke_words::diagnostic::Diagnostic;

/// A limit of all processes of a trial together.
pub(super) struct TotalLimit {
    /// The limited resource.
    pub(super) resource: &'static str,
    /// The controller of control groups, which is also the name of the lever.
    pub(super) controller: &'static str,
    /// A limit of single processes, as a way out.
    pub(super) other_limit: &'static str,
}

impl TotalLimit {
    /// Checks that the processes of trials can have the limit.
    pub(super) fn check(
        &self,
        value: &str,
        trials: &TrialsPlan,
        can_limit: impl FnOnce(u64) -> bool,
    ) -> Result<(), Diagnostic> {
        let runs_here =
            |variant: &VariantPlan| variant.actors.iter().all(|actor| actor.container.is_none());
        let Self {
            resource,
            controller,
            other_limit,
        } = self;
        let load = trials.load.as_ref();
        if load.is_some_and(|load| load.owner != ServiceOwner::Provoke) {
            return Err(Diagnostic::usage(format!(
                "cannot limit the {resource} of a service that provoke does not start"
            ))
            .with_hint(format!("leave out --{controller}")));
        }
        let is_possible = value.parse().is_ok_and(can_limit);
        if is_possible || !trials.variants.iter().any(runs_here) {
            return Ok(());
        }
        let obstacle = CgroupObstacle::find(controller);
        let reason = obstacle.describe(controller);
        let way_out = obstacle.way_out();
        let message = format!("cannot limit the {resource} of a trial: {reason}");
        Err(Diagnostic::could_not(message).with_hint(format!("{way_out}; or {other_limit}")))
    }
}
