//! Samples for tests.

use provoke_model::{EvidenceDepth, Failure, FailureKind, Signature, SignatureId};

/// Returns the failure of a program that exits with this code, without a message.
pub(crate) fn exit(code: i32) -> Failure {
    Failure {
        kind: FailureKind::Exit { code },
        signature: Signature {
            id: SignatureId(code.unsigned_abs()),
            title: format!("exit {code}"),
            depth: EvidenceDepth::Status,
            also: Vec::new(),
            placed: false,
            family: None,
            families: Vec::new(),
        },
        sites: Vec::new(),
        functions: Vec::new(),
    }
}
