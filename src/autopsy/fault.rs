//! What went wrong at an instruction. TEMPORARY: says the bare minimum.

use super::scene::Scene;
use crate::model::{Fault, Signal};

/// Explains a fault.
pub(super) fn explain(scene: &Scene<'_>) -> Fault {
    Fault {
        class: match (scene.signal, scene.address) {
            (11, Some(address)) if address < 1 << 16 => "null pointer".to_owned(),
            (signal, _) => Signal(signal).to_string(),
        },
        address: scene.address,
        sender: scene.sender,
        ..Fault::default()
    }
}
