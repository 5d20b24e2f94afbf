//! Finds the variants of choices from the plan's space.

use super::State;
use provoke_model::{Subset, VariantChoice, VariantId};

impl State {
    /// The failing variant of a search: the bad end, or all items together.
    pub const FAILING: VariantId = VariantId(0);

    /// Returns the variant of a choice, if it was chosen.
    pub fn find_variant(&self, choice: &VariantChoice) -> Option<VariantId> {
        self.chosen.get(choice).copied()
    }

    /// Returns the index of a variant's candidate in the list.
    pub fn place_of_variant(&self, variant: VariantId) -> Option<usize> {
        match self.trials.variant_plan(variant).choice {
            Some(VariantChoice::Place(index)) => Some(index as usize),
            _ => None,
        }
    }

    /// Returns the variant of a candidate, if it was chosen.
    pub fn variant_at_place(&self, index: usize) -> Option<VariantId> {
        self.find_variant(&VariantChoice::Place(u32::try_from(index).ok()?))
    }

    /// Returns the items that a variant keeps.
    pub fn kept_set(&self, variant: VariantId) -> Option<Vec<usize>> {
        match &self.trials.variant_plan(variant).choice {
            Some(VariantChoice::Set(subset)) => Some(subset_indices(subset)),
            _ => None,
        }
    }
}

fn subset_indices(Subset(items): &Subset) -> Vec<usize> {
    items.iter().map(|index| *index as usize).collect()
}
