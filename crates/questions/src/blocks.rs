//! Orders variants in blocks: each variant once per block, in a random order.
//!
//! A change during the run, such as heat or other users, then affects all variants alike, and a
//! periodic change affects none of them more often than the others.

use provoke_model::{TrialId, VariantId, trial_seed};
use provoke_state::State;

/// Makes the order of blocks independent of the seeds of trials.
const ORDER: u64 = 0x626c_6f63_6b73_2121;

/// Returns the next of these variants: the variants with the fewest trials form the present block, and a hash chooses
/// among them, the same for the same state.
pub(super) fn next_in_block(
    state: &State,
    open: impl Iterator<Item = VariantId>,
) -> Option<VariantId> {
    open.min_by_key(|variant| {
        let block = state.launched_trials(*variant);
        let of_block = trial_seed(state.trials.seed ^ ORDER, TrialId(block));
        let order = trial_seed(of_block, TrialId(u64::from(variant.0)));
        (block, order, *variant)
    })
}
