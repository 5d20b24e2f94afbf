//! The story of a crash, for people. TEMPORARY: says the bare minimum.

use crate::model::Autopsy;

/// Tells it.
pub fn story(autopsy: &Autopsy) -> String {
    format!("{autopsy:#?}\n")
}
