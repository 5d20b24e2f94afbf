//! Reads the holds that a hunt has found, for the trials of another run.

use super::measured_variant::{BaselineFilter, measure_held};
use super::stored_runs::read_state;
use provoke_journal::{RunFolder, default_root};
use provoke_model::{HeldPlan, MeasuredBaseline};
use provoke_plan::Scenario;
use provoke_questions as questions;
use provoke_state::State;
use provoke_words::diagnostic::Diagnostic;

/// Returns the holds that a scenario names, if it names any.
pub(super) fn planned_holds(scenario: &Scenario) -> Result<Option<HeldPlan>, Diagnostic> {
    let Some(name) = &scenario.trials.held else {
        return Ok(None);
    };
    let read = RunFolder::find_run(name, &default_root())
        .and_then(|folder| folder.check_trust(scenario.trust))
        .and_then(|folder| read_state(&folder));
    let state = read.map_err(|error| {
        let message = format!("cannot read the hunt: {error}");
        Diagnostic::of_field("held", message, error.hint())
    })?;
    if let Some(held_plan) = state.trials.held {
        return Ok(Some(*held_plan));
    }
    match questions::found_hold(&state) {
        Some(found) => Ok(Some(HeldPlan {
            run: state.origin.run,
            holds: found.holds,
        })),
        None => Err(Diagnostic::of_field(
            "held",
            format!(
                "the run {} found no hold under which the program fails",
                state.origin.run
            ),
            "find one first: provoke hunt -- CMD",
        )),
    }
}

/// Returns the failures under the hold that a hunt has found; `None` if the run is not such a hunt.
pub(super) fn measure_hunt(state: &State, filter: &BaselineFilter) -> Option<MeasuredBaseline> {
    let found = questions::found_hold(state)?;
    let mut measured = measure_held(state, filter, &found.failure);
    (measured.failures, measured.trials) = (found.counts.failures, found.counts.trials);
    if let Some(conditions) = &mut measured.conditions {
        conditions.set_fact("held", state.origin.run.clone());
    }
    Some(measured)
}
