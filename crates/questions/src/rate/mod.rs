//! Answers how often a program fails.

mod cases;
mod plan;
mod policy;

pub use cases::{CaseBounds, case_bounds, compares_cases};
pub use policy::{RepeatPolicy, rate_bounds};

use super::{Policy, QuestionKind};
use provoke_model::Goal;

/// How often does it fail?
pub(super) struct RateKind;

impl QuestionKind for RateKind {
    fn only_measures(&self) -> bool {
        true
    }

    fn policy(&self, _: &Goal) -> &'static dyn Policy {
        &RepeatPolicy
    }
}
