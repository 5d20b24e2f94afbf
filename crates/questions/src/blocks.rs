//! Orders variants in blocks: each variant once per block, in a random order.
//!
//! A change during the run, such as heat or other users, then affects all variants alike, and a
//! periodic change affects none of them more often than the others.

use crate::Step;
use provoke_model::{TrialId, VariantId, trial_seed};
use provoke_state::State;

/// Makes the order of blocks independent of the seeds of trials.
const ORDER: u64 = 0x626c_6f63_6b73_2121;

/// Launches a trial of the next of these variants within the budget: the variants with the fewest trials form the present
/// block, and a hash chooses among them, the same for the same state.
pub(super) fn step_in_block(state: &State, open: impl Iterator<Item = VariantId>) -> Step {
    if state.stage.is_budget_spent() {
        return Step::wait_or_done(state);
    }
    let next = open.min_by_key(|variant| {
        let block = state.launched_trials(*variant);
        let of_block = trial_seed(state.trials.seed ^ ORDER, TrialId(block));
        let order = trial_seed(of_block, TrialId(u64::from(variant.0)));
        (block, order, *variant)
    });
    next.map_or(Step::Wait, Step::Launch)
}
