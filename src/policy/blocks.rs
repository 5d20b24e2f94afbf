//! Orders variants in blocks: each variant once per block, in a random order.
//!
//! A change during the run, such as heat or other users, then affects all variants alike, and a
//! periodic change affects none of them more often than the others.

use crate::model::{TrialId, VariantId, trial_seed};
use crate::state::State;

/// So that the order of blocks has nothing in common with the seeds of trials.
const ORDER: u64 = 0x626c_6f63_6b73_2121;

/// Returns which of these variants is next: those that are furthest behind are in the present
/// block, and among them chance decides, the same on every look at the same state.
pub(super) fn next_in_block(
    state: &State,
    open: impl Iterator<Item = VariantId>,
) -> Option<VariantId> {
    open.min_by_key(|variant| {
        let block = state.launched(*variant);
        let of_block = trial_seed(state.plan.seed ^ ORDER, TrialId(block));
        let order = trial_seed(of_block, TrialId(u64::from(variant.0)));
        (block, order, *variant)
    })
}
