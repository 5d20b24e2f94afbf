//! Which failure it is.

use crate::model::{Depth, Kind, Observation, Signature, SignatureId, VariantPlan};

/// Returns which failure an observation shows.
pub fn signature(kind: &Kind, _variant: &VariantPlan, _seen: &Observation) -> Signature {
    let title = kind.name();
    let id = title.bytes().fold(0x811c_9dc5_u32, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    });
    Signature {
        id: SignatureId(id),
        title,
        depth: Depth::Status,
        also: Vec::new(),
        family: None,
    }
}
