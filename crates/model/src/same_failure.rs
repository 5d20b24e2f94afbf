//! Decides whether two failures are the same failure.

use super::{EvidenceDepth, Failure, FailureKind, Signature, SignatureId};

/// The parts of a failure that identify it.
#[derive(Clone, Copy, Debug)]
pub struct FailureName<'a> {
    /// Its kind.
    pub kind: &'a FailureKind,
    /// Its signature.
    pub signature: &'a Signature,
}

impl<'a> FailureName<'a> {
    /// Returns whether two failures of a program, or of two builds of it, are the same failure. They end alike, and share
    /// a name from the best evidence that both have and that is the same in every build: a stack, else a message with its
    /// place or the last line, else the exit status.
    pub fn is_same(self, other: Self) -> bool {
        if self.kind.name() != other.kind.name() {
            return false;
        }
        let depth = match (self.portable_depth(), other.portable_depth()) {
            (own_depth, other_depth) if own_depth == other_depth => own_depth,
            // The stack of one of them was not captured, but both have a message.
            (EvidenceDepth::Stack, EvidenceDepth::Output)
                if self.has_name(EvidenceDepth::Output) =>
            {
                EvidenceDepth::Output
            }
            (EvidenceDepth::Output, EvidenceDepth::Stack)
                if other.has_name(EvidenceDepth::Output) =>
            {
                EvidenceDepth::Output
            }
            // A crash may destroy the message of a program. A program that exits writes its message.
            (EvidenceDepth::Output, _) | (_, EvidenceDepth::Output)
                if self.kind.ends_by_itself() =>
            {
                return false;
            }
            _ => EvidenceDepth::Status,
        };
        let mut other_names = other.signature.names_at(depth);
        other_names.any(|name| {
            self.signature
                .names_at(depth)
                .any(|own_name| own_name == name)
        })
    }

    /// Returns the names that identify the failure in every build.
    ///
    /// A line of the kernel's log identifies an instruction in one build only. Heap damage appears in many places, a call
    /// without a name has only its offset in a file, and the threads of a hang may be anywhere in their loop when their
    /// stacks are read. In these cases, any failure with that message, or else with that exit status, is the same: to miss
    /// the bug is worse than to take another failure for it.
    pub fn portable_names(self) -> impl Iterator<Item = SignatureId> + use<'a> {
        self.signature.names_at(self.portable_depth())
    }

    /// Returns the evidence of the best names that identify the failure in every build.
    pub fn portable_depth(self) -> EvidenceDepth {
        let varies =
            matches!(self.kind, FailureKind::Hang { .. }) || self.signature.family.is_some();
        if varies {
            EvidenceDepth::Status
        } else if self.signature.is_same_in_any_build() {
            self.signature.depth
        } else if self.has_name(EvidenceDepth::Output) {
            EvidenceDepth::Output
        } else {
            EvidenceDepth::Status
        }
    }

    fn has_name(self, depth: EvidenceDepth) -> bool {
        self.signature.names_at(depth).next().is_some()
    }
}

impl<'a> From<&'a Failure> for FailureName<'a> {
    fn from(failure: &'a Failure) -> Self {
        Self {
            kind: &failure.kind,
            signature: &failure.signature,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use EvidenceDepth::{Kernel, Output, Stack, Status};

    fn failure(kind: FailureKind, names: &[(EvidenceDepth, u32)]) -> Failure {
        let mut names = names.iter().map(|(depth, id)| (*depth, SignatureId(*id)));
        let (depth, id) = names.next().unwrap();
        Failure {
            kind,
            signature: Signature {
                id,
                title: String::new(),
                depth,
                also: names.collect(),
                placed: false,
                family: None,
                families: Vec::new(),
            },
            sites: Vec::new(),
            functions: Vec::new(),
        }
    }

    fn exit(code: i32, names: &[(EvidenceDepth, u32)]) -> Failure {
        failure(FailureKind::Exit { code }, names)
    }

    fn segv(names: &[(EvidenceDepth, u32)]) -> Failure {
        let evidence = super::super::SignalEvidence::WaitStatus { core: false };
        let signal = super::super::Signal::SEGV;
        failure(FailureKind::Signal { signal, evidence }, names)
    }

    fn is_same(first: &Failure, second: &Failure) -> bool {
        let [first, second] = [first, second].map(FailureName::from);
        assert_eq!(first.is_same(second), second.is_same(first));
        first.is_same(second)
    }

    #[test]
    fn programs_that_exit_with_different_messages_fail_differently() {
        let key_error = exit(1, &[(Output, 7), (Status, 1)]);
        assert!(is_same(&key_error, &exit(1, &[(Output, 7), (Status, 1)])));
        assert!(!is_same(&key_error, &exit(1, &[(Output, 8), (Status, 1)])));
        assert!(!is_same(&key_error, &exit(1, &[(Status, 1)])));
        assert!(!is_same(&key_error, &exit(2, &[(Output, 7), (Status, 2)])));
        let silent = exit(1, &[(Status, 1)]);
        assert!(is_same(&silent, &exit(1, &[(Status, 1)])));
        // The processes that died in the tree are part of the name.
        assert!(!is_same(&silent, &exit(1, &[(Status, 3)])));
    }

    #[test]
    fn a_captured_failure_is_recognized_by_its_message() {
        let message = exit(1, &[(Output, 7), (Status, 1)]);
        let captured = exit(1, &[(Stack, 9), (Output, 7), (Status, 1)]);
        assert!(is_same(&message, &captured));
        assert!(!is_same(
            &captured,
            &exit(1, &[(Stack, 8), (Output, 7), (Status, 1)])
        ));
    }

    #[test]
    fn several_failed_tests_share_a_name_with_each_of_them() {
        let both = exit(1, &[(Output, 7), (Output, 4), (Output, 5), (Status, 1)]);
        assert!(is_same(&both, &exit(1, &[(Output, 4), (Status, 1)])));
        assert!(!is_same(&both, &exit(1, &[(Output, 6), (Status, 1)])));
    }

    #[test]
    fn a_crash_without_its_message_or_its_line_in_the_log_is_the_same() {
        let crash = segv(&[(Kernel, 5), (Status, 1)]);
        assert!(is_same(&crash, &segv(&[(Kernel, 6), (Status, 1)])));
        assert!(is_same(&crash, &segv(&[(Status, 1)])));
        let with_message = segv(&[(Output, 7), (Status, 1)]);
        assert!(is_same(&with_message, &segv(&[(Status, 1)])));
        assert!(!is_same(&with_message, &segv(&[(Output, 8), (Status, 1)])));
    }

    #[test]
    fn hangs_and_heap_damage_are_the_same_wherever_they_are_seen() {
        let hang = |stack| {
            failure(
                FailureKind::Hang { stopped: false },
                &[(Stack, stack), (Status, 1)],
            )
        };
        assert!(is_same(&hang(8), &hang(9)));
        let damage = |message| {
            let mut failure = segv(&[(Output, message), (Status, 1)]);
            failure.signature.family = Some("heap".to_owned());
            failure
        };
        assert!(is_same(&damage(8), &damage(9)));
    }
}
