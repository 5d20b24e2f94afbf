//! Facts of an observation that the tally needs.

use provoke_model::{
    CaseRecord, HoldObservation, HostId, LoadObservation, Observation, Outcome, TotalUsage, Trial,
    TrialsPlan,
};
use std::time::Duration;

/// The facts of an observation that the tally needs.
#[derive(Clone, Debug)]
pub struct TrialFacts {
    /// The judgement.
    pub outcome: Outcome,
    /// Duration of its main processes.
    pub elapsed: Duration,
    /// Points that it reached, and threads that were held in it.
    pub holds: Option<Box<HoldObservation>>,
    pub(crate) leaked_processes: u64,
    pub(crate) unkillable: u64,
    pub(crate) has_refused_forks: bool,
    pub(crate) ended_in_grace: bool,
    pub(crate) helper_ended_early: bool,
    pub(crate) usage: Option<TotalUsage>,
    pub(crate) load: Option<Box<LoadObservation>>,
    /// The cases of the trial.
    pub cases: Option<Box<CaseRecord>>,
    /// The host on which it ran, if not this machine.
    pub(super) host: Option<HostId>,
}

impl TrialFacts {
    pub(super) fn new(
        plan: &TrialsPlan,
        trial: &Trial,
        observation: &Observation,
        outcome: Outcome,
    ) -> Self {
        use provoke_model::{ActorRole, Ending};
        let actors = &plan.variant_plan(trial.variant).actors;
        let helper_ended_early = observation.actors.iter().any(|actor| {
            let helper = actors
                .get(actor.actor as usize)
                .is_some_and(|plan| plan.role == ActorRole::Helper);
            helper && actor.ending != Ending::Stopped
        });
        Self {
            outcome,
            elapsed: observation.elapsed,
            holds: observation.holds.clone(),
            leaked_processes: observation.residue.process_count(),
            unkillable: observation.residue.unkillable.len() as u64,
            has_refused_forks: observation.refused_forks > 0,
            ended_in_grace: !observation.residue.ended_in_grace.is_zero(),
            helper_ended_early,
            usage: observation.around,
            load: observation.load.clone(),
            cases: observation.case_record.clone(),
            host: None,
        }
    }
}
