//! Creates the initial state of a search among load levels.

use crate::model::{Plan, Question};
use provoke_stats::ramp::Ramp;

/// Returns the state of the levels before the first trial.
pub(super) fn initial_ramp(plan: &Plan) -> Option<Ramp> {
    let Question::Ramp(asked) = &plan.question else {
        return None;
    };
    let levels = plan.variants.iter().map(|variant| variant.clients);
    let levels: Option<Vec<u32>> = levels.collect();
    Some(Ramp::new(&levels?, f64::from(asked.detect) / 1e6))
}
