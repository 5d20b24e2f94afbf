//! Answers how often a program fails.

mod cases;
mod max_rate;
mod plan;
mod policy;

pub use max_rate::MaxRateCheck;
pub use policy::RepeatPolicy;

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
