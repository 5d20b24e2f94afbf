//! Counts the failures under a setting that are the bug seen without it.

use super::reproduction::takes_any_failure;
use crate::state::{TriedOutcome, TriedSetting, TriedSettings};
use provoke_model::{EvidenceDepth, Failure, FailureKind, Plan, SignatureId};
use provoke_stats::raise::Sample;

/// Returns the trials of a setting that count: passes, and failures whose name also occurred under the conditions of the
/// plan. Until a failure occurs there, every failure counts.
pub(super) fn counted_sample(plan: &Plan, raise: &TriedSettings, setting: &TriedSetting) -> Sample {
    let natural = raise.natural_trials();
    let failures = natural
        .outcomes
        .iter()
        .filter_map(|(_, outcome)| match outcome {
            TriedOutcome::Failed(failure, _) => Some(&**failure),
            _ => None,
        });
    let bugs: Vec<&Failure> = failures.collect();
    let counts_any =
        takes_any_failure(plan) || setting.variant == natural.variant || bugs.is_empty();
    let is_bug = |failure: &Failure| counts_any || bugs.iter().any(|bug| is_same_bug(bug, failure));
    let runs = setting
        .outcomes
        .iter()
        .filter_map(|(batch, outcome)| match outcome {
            TriedOutcome::Passed => Some((*batch, false)),
            TriedOutcome::Failed(failure, _) => is_bug(failure).then_some((*batch, true)),
            TriedOutcome::Otherwise => None,
        });
    Sample {
        runs: runs.collect(),
        seconds: setting.time.as_secs_f64(),
    }
}

/// Returns whether two failures of the same program share a name from the best evidence that both have.
fn is_same_bug(bug: &Failure, failure: &Failure) -> bool {
    let signature = &bug.signature;
    let named = !matches!(bug.kind, FailureKind::Hang { .. })
        && signature.family.is_none()
        && matches!(
            signature.depth,
            EvidenceDepth::Output | EvidenceDepth::Kernel | EvidenceDepth::Stack
        );
    // The kernel's log drops lines, and a core may be missing.
    let may_lack = matches!(
        signature.depth,
        EvidenceDepth::Kernel | EvidenceDepth::Stack
    );
    let lacks = may_lack && failure.signature.names_at(signature.depth).next().is_none();
    let depth = if named && !lacks {
        signature.depth
    } else {
        EvidenceDepth::Status
    };
    let names: Vec<SignatureId> = signature.names_at(depth).collect();
    let is_same = failure
        .signature
        .names_at(depth)
        .any(|name| names.contains(&name));
    is_same && bug.kind.name() == failure.kind.name()
}

#[cfg(test)]
mod tests {
    use super::*;
    use provoke_model::Signature;

    fn failure(code: i32, depth: EvidenceDepth, id: u32, also: &[(EvidenceDepth, u32)]) -> Failure {
        Failure {
            kind: FailureKind::Exit { code },
            signature: Signature {
                id: SignatureId(id),
                title: String::new(),
                depth,
                also: also
                    .iter()
                    .map(|(depth, id)| (*depth, SignatureId(*id)))
                    .collect(),
                placed: false,
                family: None,
                families: Vec::new(),
            },
            sites: Vec::new(),
            functions: Vec::new(),
        }
    }

    #[test]
    fn a_failure_is_recognized_by_its_most_detailed_signature() {
        let status = [(EvidenceDepth::Status, 1)];
        let bug = failure(3, EvidenceDepth::Output, 7, &status);
        assert!(is_same_bug(
            &bug,
            &failure(3, EvidenceDepth::Output, 7, &status)
        ));
        // Another message, or no message.
        assert!(!is_same_bug(
            &bug,
            &failure(3, EvidenceDepth::Output, 8, &status)
        ));
        assert!(!is_same_bug(
            &bug,
            &failure(3, EvidenceDepth::Status, 1, &[])
        ));
        assert!(!is_same_bug(
            &bug,
            &failure(4, EvidenceDepth::Output, 7, &status)
        ));
        // One of them has more detailed evidence.
        let deeper = [(EvidenceDepth::Output, 7), (EvidenceDepth::Status, 1)];
        assert!(is_same_bug(
            &bug,
            &failure(3, EvidenceDepth::Stack, 9, &deeper)
        ));
    }

    #[test]
    fn without_a_detailed_signature_the_exit_status_is_compared() {
        let status = [(EvidenceDepth::Status, 1)];
        let bug = failure(3, EvidenceDepth::Status, 1, &[]);
        assert!(is_same_bug(
            &bug,
            &failure(3, EvidenceDepth::Output, 8, &status)
        ));
        assert!(!is_same_bug(
            &bug,
            &failure(3, EvidenceDepth::Status, 2, &[])
        ));
        // A line of the kernel's log, or a core, may be missing.
        let logged = failure(3, EvidenceDepth::Kernel, 7, &status);
        assert!(is_same_bug(
            &logged,
            &failure(3, EvidenceDepth::Status, 1, &[])
        ));
        assert!(!is_same_bug(
            &logged,
            &failure(3, EvidenceDepth::Kernel, 8, &status)
        ));
    }
}
