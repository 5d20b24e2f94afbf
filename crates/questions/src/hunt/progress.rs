//! Describes the progress of a hunt.

use super::memory::HuntMemory;
use provoke_model::{HoldPlan, VariantId};
use provoke_state::State;
use provoke_words as words;

/// Returns what was tried so far, and the best hold.
pub(super) fn describe_search(state: &State) -> Option<String> {
    let memory: &HuntMemory = state.learned()?;
    if let Some(examined) = &memory.held_trials.examined {
        let fresh = examined.fresh.of_all_trials();
        return Some(format!(
            "examines a hold: {} of {} failed",
            fresh.failures, fresh.trials
        ));
    }
    if memory.learning_trials == 0
        || state
            .open_holds()
            .any(|plan| matches!(plan, HoldPlan::Learn(_)))
    {
        let learns = state.open_holds().next().is_some() || memory.learning_trials > 0;
        let step = if learns {
            "learns the points that the program reaches"
        } else {
            "runs without holds"
        };
        return Some(step.to_owned());
    }
    let points = memory.held_trials.points.in_order().len() as u64;
    let held_tally = state.held_tally(VariantId(0));
    let (failures, trials) = (held_tally.failures, held_tally.finished_trials());
    let description = match memory.singles_left() {
        0 => "pairs of points".to_owned(),
        remaining => format!("{remaining} left"),
    };
    let points_text = words::format_count(points, "point");
    Some(format!(
        "{points_text}, {description}   held: {failures} of {trials} failed"
    ))
}
