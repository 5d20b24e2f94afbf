//! Error of a scenario that cannot be made into a plan.

/// Why a scenario cannot be made into a plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct PlanError {
    /// The error.
    pub message: String,
    /// The field, as a path of keys and indices.
    pub position: Vec<String>,
    /// A hint.
    pub hint: String,
}

impl PlanError {
    /// Creates an error of a field at the top of a scenario.
    pub fn of_field(field: &str, what: impl Into<String>, hint: impl Into<String>) -> Self {
        refuse_at(what, &[field], hint)
    }
}

pub(super) fn refuse_at(
    what: impl Into<String>,
    at: &[&str],
    hint: impl Into<String>,
) -> PlanError {
    let position_parts = at.iter().map(ToString::to_string).collect();
    PlanError {
        message: what.into(),
        position: position_parts,
        hint: hint.into(),
    }
}
